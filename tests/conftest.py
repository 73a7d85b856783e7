"""Shared by all tests: real ranks from one warm fork server, and the command line as a person calls it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from configs.cell import Cell, resolve
from configs.compose import compose_config

os.environ.setdefault("OMP_NUM_THREADS", "1")

# Six steps of a two-head-per-rank Llama: enough to train on, small enough for eight ranks on two cores.
TINY = ("seq_len=16", "measure.warmup_steps=1", "measure.max_warmup_steps=1", "measure.rel_ci=0")


@pytest.fixture(scope="session")
def _warm() -> None:
    from launch.agent import warm_up

    warm_up()


@pytest.fixture
def run_cell(_warm: None, tmp_path: Path) -> Callable[..., object]:
    """run_cell("mode=tp", "cards=4", steps=5) measures that cell on real ranks; returns how the ranks ended."""
    from launch.agent import Ending, run_ranks

    def run(*overrides: str, steps: int = 5) -> Ending:
        cell = make_cell(*TINY, f"measure.min_steps={steps - 1}", f"measure.max_steps={steps - 1}", *overrides)
        return run_ranks(cell, tmp_path / cell.cell_id, lambda beats: None)

    return run


def make_cell(*overrides: str) -> Cell:
    return resolve(compose_config(list(overrides)))


@pytest.fixture
def cell_of() -> Callable[..., Cell]:
    """cell_of("mode=tp", "cards=4") composes and checks a cell."""
    return make_cell


@pytest.fixture
def cardscale(tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """The console script, run in an empty folder."""
    script = Path(sys.executable).parent / "cardscale"

    def call(*words: str, cwd: Path = tmp_path, **variables: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [str(script), *words],
            cwd=cwd,
            env={**os.environ, "COLUMNS": "120", **variables},
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )

    return call
