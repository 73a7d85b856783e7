"""Shared by all tests: real ranks from one warm fork server, and the command line as a person calls it."""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from configs.cell import Cell, resolve
from configs.compose import compose_config
from tests.warm_cli import WarmCli

os.environ.setdefault("OMP_NUM_THREADS", "1")

# Six steps of a two-head-per-rank Llama: enough to train on, small enough for eight ranks on two cores.
TINY = ("seq_len=16", "measure.warmup_steps=1", "measure.max_warmup_steps=1", "measure.rel_ci=0")


@pytest.fixture(scope="session")
def _warm() -> None:
    from launch.ranks.agent import warm_up

    warm_up()


@pytest.fixture
def run_cell(_warm: None, tmp_path: Path) -> Callable[..., object]:
    """run_cell("mode=tp", "cards=4", steps=5) measures that cell on real ranks; returns how the ranks ended."""
    from launch.ranks.agent import Ending, run_ranks

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


@pytest.fixture(scope="session")
def warm_cli() -> Iterator[WarmCli]:
    cli = WarmCli()
    yield cli
    cli.close()


@pytest.fixture
def cardscale(tmp_path: Path, warm_cli: WarmCli) -> Callable[..., subprocess.CompletedProcess[str]]:
    """The command line, run in an empty folder: through the console script itself where a process's start matters.

    That is `run`, which starts ranks, and `doctor`, which loads the driver's library from the environment's path.
    """
    script = Path(sys.executable).parent / "cardscale"

    def call(*words: str, cwd: Path = tmp_path, **variables: str) -> subprocess.CompletedProcess[str]:
        environment = {**os.environ, "COLUMNS": "120", **variables}
        if words and words[0] not in ("run", "doctor"):
            return warm_cli.call(list(words), cwd, environment)
        return subprocess.run(
            [str(script), *words],
            cwd=cwd,
            env=environment,
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )

    return call


@pytest.fixture(scope="session")
def nvml_stub(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a libnvidia-ml.so.1 compiled from nvml_stub.c: the real bindings talk to cards of our making."""
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None or sys.platform != "linux":
        pytest.skip("no C compiler to build a stub NVML with")
    folder = tmp_path_factory.mktemp("nvml")
    source = Path(__file__).parent / "nvml_stub.c"
    name = "libnvidia-ml.so.1"
    flags = ["-shared", "-fPIC", "-Wall", "-Werror", f"-Wl,-soname,{name}"]
    subprocess.run([compiler, *flags, str(source), "-o", str(folder / name)], check=True)
    return folder


@pytest.fixture
def fake_cards(nvml_stub: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """fake_cards({"uuid": ..., ...}, system={"driver": ...}) makes this machine's cards; call again to change them.

    A field that is left out is "not supported"; "!15" answers with NVML's error 15. {"kind": "slice"} is a MIG slice.
    """
    ctypes.CDLL(str(nvml_stub / "libnvidia-ml.so.1"))  # loaded under its own name, so the bindings' load finds it
    machine = tmp_path / "machine.tsv"
    monkeypatch.setenv("FAKE_NVML", str(machine))  # read by the library through getenv; without it it has no driver

    def make(*cards: dict[str, object], system: dict[str, object] | None = None) -> None:
        lines = [{"kind": "system", "driver": "550.54.15", "cuda": 12040, **(system or {})}]
        lines += [{"kind": "card", **card} for card in cards]
        texts = ["\t".join([str(line.pop("kind")), *(f"{k}={v}" for k, v in line.items())]) for line in lines]
        draft = machine.with_suffix(".new")
        draft.write_text("\n".join(texts) + "\n")
        draft.replace(machine)  # a sampler may be reading

    make()
    return make
