"""Cells that go wrong on purpose, run on real ranks."""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest
from rich.console import Console

from configs.cell import Cell, resolve
from configs.compose import compose_config
from launch.ranks.agent import Ending, run_ranks
from launch.study.progress import Progress
from launch.study.sweep import Summary, Terms, sweep

FAULTS = "tests.launch.faults"
Strike = Callable[..., Ending]


def fault_cell(name: str, *overrides: str) -> Cell:
    """A cell whose benchmark is the fault `name`, or an ordinary benchmark's name."""
    return resolve(compose_config([f"benchmark.name={FAULTS}:{name}", "measure.step_timeout_s=60", *overrides]))


@pytest.fixture
def strike(_warm: None, tmp_path: Path) -> Strike:
    """strike("killed", "cards=4") runs that cell; returns how it ended, after checking that no rank is left."""

    def run(name: str, *overrides: str, **options: object) -> Ending:
        cell = fault_cell(name, *(overrides or ("cards=2",)))
        before = ranks_alive()
        ending = run_ranks(cell, tmp_path / "ranks", lambda beats: None, **options)  # type: ignore[arg-type]
        assert [pid for pid in ranks_alive() if pid not in before] == []
        return ending

    return run


def ranks_alive() -> list[int]:
    """Ranks of this process that are still there: what its fork server started, and their children."""
    servers = [child for child in psutil.Process().children() if "forkserver" in " ".join(child.cmdline())]
    return [child.pid for server in servers for child in server.children(recursive=True)]


@pytest.fixture
def run_sweep(_warm: None, tmp_path: Path) -> Callable[..., Summary]:
    """run_sweep(cells, terms) measures into the study `tmp_path / "s"`."""

    def run(cells: list[Cell], terms: Terms | None = None, folder: Path | None = None) -> Summary:
        study = folder or tmp_path / "s"
        study.mkdir(exist_ok=True)
        with Progress(len(cells), Console(stderr=True)) as progress:
            return sweep(study, cells, terms or Terms(cards=max(cell.cards for cell in cells)), progress)

    return run


@pytest.fixture
def marked() -> Iterator[str]:
    """A variable's value that marks all processes of a launcher; none may be left at the end."""
    mark = uuid.uuid4().hex
    yield mark
    assert processes_with(mark) == []


def processes_with(mark: str) -> list[int]:
    """Processes that were started with `mark` in their environment, forked ones included."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            if mark.encode() in (path / "environ").read_bytes() and int(path.name) != os.getpid():
                found.append(int(path.name))
        except OSError:  # it has just ended
            continue
    return found
