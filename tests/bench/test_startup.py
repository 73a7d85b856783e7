"""Warm start of an 8-rank cell against a cold torchrun of the same cell, side by side in one run.

Start-up is rented time: from the launcher's call to every rank being past its first collective. The median of each is
compared and the ratio printed.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import time
from pathlib import Path

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from configs.cell import resolve
from configs.compose import compose_config

RANKS = 8
_seconds: dict[str, list[float]] = {}


def first_collective_s(folder: Path, started: float) -> float:
    """From `started` to the last rank's first finished collective, which ends its first warm-up step."""
    stamps = [json.loads(path.read_text())["started"] for path in folder.glob("rank*.heartbeat")]
    assert len(stamps) == RANKS
    return max(stamps) - started


@pytest.mark.bench
@pytest.mark.benchmark(group=f"start-up of {RANKS} ranks to their first collective")
def test_warm_ranks(benchmark: BenchmarkFixture, tmp_path: Path) -> None:
    from launch.ranks.agent import run_ranks, warm_up

    warm_up()
    cell = resolve(compose_config([f"cards={RANKS}", *_QUICK]))
    run_ranks(cell, tmp_path / "first", lambda beats: None)  # the fork server is up once this has returned

    def start() -> None:
        began = time.time()
        ending = run_ranks(cell, tmp_path / "warm", lambda beats: None)
        assert ending.error is None
        _seconds.setdefault("warm", []).append(first_collective_s(tmp_path / "warm", began))

    benchmark.pedantic(start, rounds=5)


@pytest.mark.bench
@pytest.mark.benchmark(group=f"start-up of {RANKS} ranks to their first collective")
def test_cold_torchrun(benchmark: BenchmarkFixture, tmp_path: Path) -> None:
    command = [str(Path(sys.executable).parent / "torchrun"), "--standalone", f"--nproc-per-node={RANKS}"]
    command += ["-m", "benchmarks.finetune", "study=cold", *_QUICK]

    def start() -> None:
        began = time.time()
        subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)
        folder = next(tmp_path.glob("results/runs/cold/cells/*/ranks"))
        _seconds.setdefault("cold", []).append(first_collective_s(folder, began))

    benchmark.pedantic(start, rounds=2)
    warm, cold = (statistics.median(_seconds[kind]) for kind in ("warm", "cold"))
    print(f"\nstart to first collective, {RANKS} ranks: warm {warm:.2f} s, cold {cold:.2f} s, {cold / warm:.1f} times")


_QUICK = ("seq_len=16", "measure.min_steps=1", "measure.max_steps=1", "measure.warmup_steps=1")
