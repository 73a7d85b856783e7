"""The storage benchmark on real ranks and a real file system: what it measures, and that nothing stays behind."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from benchmarks.registry import BENCHMARKS
from benchmarks.storage import fio, row
from benchmarks.storage.block_io import Transfer, file_system
from configs.cell import Cell
from configs.storage import TESTS
from launch.ranks.agent import run_ranks

MIB = 2**20
CALLS = [
    "benchmark=storage",
    "cards=2",
    "benchmark.storage.size_mib=2",
    "benchmark.storage.max_seconds=2",
    "seq_len=64",
]
CACHES = {"direct", "evicted", "cached", "fsync"}


@pytest.fixture
def measured(ranks_pool: Any, cell_of: Callable[..., Cell], tmp_path: Path) -> Callable[..., list[dict[str, Any]]]:
    def run(*overrides: str, path: Path = tmp_path) -> list[dict[str, Any]]:
        cell = cell_of(*CALLS, f"benchmark.storage.path={path}", *overrides)
        ended = ranks_pool.run(cell, BENCHMARKS["storage"])
        assert ended.error is None
        return list(ended.measurement["storage"])

    return run


def test_every_test_is_measured_by_our_own_loops(measured: Callable[..., Any], tmp_path: Path) -> None:
    rows = measured("benchmark.storage.fio=off")
    assert [row["test"] for row in rows] == list(TESTS)
    assert all(row.get("gbps", 0) > 0 for row in rows), rows
    blocks = [row for row in rows if row["test"] in ("write_fsync", "read_sequential", "read_random")]
    assert [(row["bytes"], row["tool"]) for row in blocks] == [(2 * 2 * MIB, "own loop")] * 3
    assert {row["cache"] for row in rows} <= CACHES
    assert {row["file_system"] for row in rows} == {file_system(tmp_path)}
    assert rows[-1]["tokens_per_s"] > 0
    assert list(tmp_path.glob(".cardscale-storage-*")) == []


def test_fio_measures_the_block_tests_where_it_is_installed(measured: Callable[..., Any]) -> None:
    if not fio.available():
        pytest.skip("fio is not installed")
    rows = measured("benchmark.storage.tests=[write_fsync,read_sequential,read_random]")
    assert [(row["tool"], row["bytes"]) for row in rows] == [("fio", 2 * 2 * MIB)] * 3
    assert rows[2]["iops"] > 0
    assert rows[2]["latency_p99_us"] >= rows[2]["latency_us"] > 0


def test_a_file_system_in_memory_is_said_to_be_no_disk(measured: Callable[..., Any]) -> None:
    shm = Path("/dev/shm")
    if not shm.is_dir() or file_system(shm) != "tmpfs":
        pytest.skip("/dev/shm is no tmpfs here")
    rows = measured("benchmark.storage.tests=[read_sequential]", "benchmark.storage.fio=off", path=shm)
    assert rows[0]["cache"] == "cached"
    assert rows[0]["note"] == "tmpfs is memory: this is no disk's speed"


def test_a_checkpoint_is_saved_before_it_is_loaded_even_when_only_the_load_is_asked_for(
    measured: Callable[..., Any],
) -> None:
    rows = measured("benchmark.storage.tests=[checkpoint_load]")
    assert [row["test"] for row in rows] == ["checkpoint_save", "checkpoint_load"]


def test_ranks_that_work_at_once_are_as_slow_together_as_the_slowest() -> None:
    """1 GB in 1 s and 1 GB in 4 s: 2 GB in 4 s."""
    found = row("write_fsync", [Transfer(10**9, 1.0, 1, "direct"), Transfer(10**9, 4.0, 1, "direct")])
    assert (found["bytes"], found["gbps"]) == (2 * 10**9, 0.5)
    assert (found["rank_gbps_min"], found["rank_gbps_max"]) == (0.25, 1.0)


def test_one_rank_that_read_from_memory_makes_the_row_cached() -> None:
    found = row("read_sequential", [Transfer(1, 1.0, 1, "evicted"), Transfer(1, 1.0, 1, "cached")])
    assert found["cache"] == "cached"


def test_operations_of_all_ranks_add_up() -> None:
    found = row("read_random", [Transfer(4096, 2.0, 100, "direct", latencies_us=[10.0, 30.0])] * 2)
    assert found["iops"] == 100
    assert found["latency_us"] == 20


def test_tokens_of_all_ranks_add_up() -> None:
    part = Transfer(4000, 2.0, 1, "evicted", facts={"tokens": 1000.0})
    assert row("data_loader", [part, part])["tokens_per_s"] == 1000


def test_a_failing_rank_is_the_rows_failure_and_holds_nobody_up(
    _warm: None, cell_of: Callable[..., Cell], tmp_path: Path
) -> None:
    """A fio that only fails stands first on the path."""
    broken = tmp_path / "bin" / "fio"
    broken.parent.mkdir()
    broken.write_text("#!/bin/sh\necho 'fio: engine not loadable' >&2\nexit 1\n")
    broken.chmod(0o755)
    tests = "benchmark.storage.tests=[read_sequential,data_loader]"
    cell = cell_of(*CALLS, f"benchmark.storage.path={tmp_path}", tests, f"+cluster.env.PATH={broken.parent}")
    ending = run_ranks(cell, tmp_path / "ranks", lambda beats: None)
    assert ending.measurement is not None, ending.error
    read, loaded = ending.measurement["storage"]
    assert read["failed"] == "rank 0: OSError: fio ended with 1: fio: engine not loadable"
    assert loaded["tokens_per_s"] > 0
