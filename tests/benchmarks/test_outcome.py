"""Which of many complaints is the first cause."""

from __future__ import annotations

import pytest

from benchmarks.outcome import first_cause, make_record, status_of
from configs.cell import Cell
from results.record import Error


def account(rank: int, kind: str, message: str, time: float) -> dict[str, object]:
    return {"rank": rank, "kind": kind, "message": message, "time": time, "traceback": ""}


def test_a_peers_disappearance_is_not_the_cause_though_it_is_noticed_first() -> None:
    error = first_cause(
        [
            account(0, "RuntimeError", "[gloo] Connection closed by peer [127.0.0.1]:43", 10.0),
            account(1, "SIGKILL", "rank 1 (process 7) ended without a word", 11.0),
            account(2, "DistBackendError", "Watchdog caught collective operation timeout", 9.0),
        ]
    )
    assert error is not None
    assert (error.rank, error.kind) == (1, "SIGKILL")


def test_among_real_causes_the_earliest_counts() -> None:
    error = first_cause([account(3, "ValueError", "later", 5.0), account(2, "KeyError", "first", 4.0)])
    assert error is not None
    assert error.rank == 2


def test_where_all_blame_each_other_the_earliest_is_reported() -> None:
    error = first_cause([account(0, "RuntimeError", "timed out", 5.0), account(1, "RuntimeError", "timed out", 4.0)])
    assert error is not None
    assert error.rank == 1


def test_without_accounts_there_is_no_cause() -> None:
    assert first_cause([]) is None


@pytest.mark.parametrize(
    ("kind", "message", "status"),
    [
        ("OutOfMemoryError", "CUDA out of memory. Tried to allocate 2 GiB", "oom"),
        ("RuntimeError", "[enforce fail at alloc_cpu.cpp:114] DefaultCPUAllocator: can't allocate memory", "oom"),
        ("MemoryError", "", "oom"),
        ("SIGKILL", "rank 1 (process 7) ended without a word", "failed"),
        ("exit code 137", "rank 1 ended without a word", "failed"),
    ],
)
def test_only_an_allocators_own_words_are_out_of_memory(kind: str, message: str, status: str) -> None:
    assert status_of(Error(kind, message)) == status


def test_card_hours_are_cards_times_time(cell_of: object) -> None:
    cell: Cell = cell_of("mode=ddp", "cards=8")  # type: ignore[operator]
    record = make_record("s", cell, "failed", "2026-01-01T00:00:00+00:00", 450.0, error=Error("x", "y"))
    assert record.card_hours == 1.0
    assert record.parallel["dp"] == 8
    assert record.workload["global_batch_tokens"] == 2048
