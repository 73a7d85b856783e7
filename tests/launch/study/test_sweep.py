"""Order, skipping and retrying of cells."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from configs.cell import Cell
from launch.study.sweep import in_order, must_run
from results.record import Record


def record(status: str) -> Record:
    return Record("s", "c", "finetune", status, "2026-01-01T00:00:00+00:00", 1.0, 0.1)


@pytest.mark.parametrize(
    ("status", "runs_under"),
    [
        ("ok", {"all"}),
        ("failed", {"failed", "oom", "all"}),
        ("timeout", {"failed", "oom", "all"}),
        ("interrupted", {"failed", "oom", "all"}),
        ("oom", {"oom", "all"}),
        ("infeasible", {"oom", "all"}),
    ],
)
def test_what_is_measured_again(status: str, runs_under: set[str]) -> None:
    assert {retry for retry in ("none", "failed", "oom", "all") if must_run(record(status), retry)} == runs_under


def test_what_has_no_record_is_always_measured() -> None:
    assert all(must_run(None, retry) for retry in ("none", "failed", "oom", "all"))


def test_fewer_cards_come_first(cell_of: Callable[..., Cell]) -> None:
    cells = [cell_of(f"mode={mode}", f"cards={cards}") for cards in (8, 1, 2) for mode in ("ddp", "pp")]
    assert [cell.cards for cell in in_order(cells)] == [1, 1, 2, 2, 8, 8]
