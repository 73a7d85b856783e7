"""Which of many complaints is the first cause."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from benchmarks.outcome import first_cause, make_record, status_of
from configs.cell import Cell
from results.record import Error, Record


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


def recorded(cell: Cell, **device: object) -> Record:
    rates = {"throughput": {"tokens_per_s": 100.0, "mfu": 0.4, "mfu_causal": 0.39}}
    return make_record("s", cell, "ok", "2026-01-01T00:00:00+00:00", 1.0, rates, device=device or None)


def test_the_named_cards_mfu_is_kept(cell_of: Callable[..., Cell]) -> None:
    assert recorded(cell_of("machine=h200"), name="NVIDIA H200").throughput["mfu"] == 0.4


def test_another_cards_peak_gives_no_mfu(cell_of: Callable[..., Cell]) -> None:
    throughput = recorded(cell_of("machine=h200"), name="NVIDIA H200 NVL").throughput
    assert (throughput["mfu"], throughput["mfu_causal"], throughput["tokens_per_s"]) == (None, None, 100)
    assert throughput["mfu_blank_because"] == "the card is NVIDIA H200 NVL, and the peak is that of machine=h200"


def test_a_card_that_is_not_known_is_taken_for_the_named_one(cell_of: Callable[..., Cell]) -> None:
    assert recorded(cell_of("machine=h200"), name=None).throughput["mfu"] == 0.4


@pytest.mark.parametrize(("in_hardware", "emulated"), [(True, False), (False, True), (None, None)])
def test_emulated_bf16_is_labelled(cell_of: Callable[..., Cell], in_hardware: bool | None, emulated: bool) -> None:
    record = recorded(cell_of("machine=h200", "recipe=full_bf16"), name="NVIDIA H200", bf16_in_hardware=in_hardware)
    assert record.workload["precision_emulated"] is emulated


def test_fp32_is_never_emulated(cell_of: Callable[..., Cell]) -> None:
    assert recorded(cell_of("machine=h200"), name="NVIDIA H200").workload["precision_emulated"] is False
