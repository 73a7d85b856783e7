"""When a cell is overdue, and whom the watch blames."""

from __future__ import annotations

from collections.abc import Callable

from configs.cell import Cell
from launch.ranks.watch import overdue

CellOf = Callable[..., Cell]


def beat(rank: int, phase: str, step: int, time: float) -> dict[str, object]:
    return {"rank": rank, "pid": 1, "phase": phase, "step": step, "time": time}


def test_a_moving_cell_is_left_alone(cell_of: CellOf) -> None:
    cell = cell_of("measure.step_timeout_s=30")
    assert overdue(cell, [beat(0, "measure", 3, 95.0), beat(1, "measure", 3, 96.0)], started=0.0, now=100.0) is None


def test_the_rank_that_has_been_silent_longest_is_blamed(cell_of: CellOf) -> None:
    cell = cell_of("measure.step_timeout_s=30")
    error = overdue(cell, [beat(0, "measure", 4, 60.0), beat(1, "measure", 3, 50.0)], started=0.0, now=100.0)
    assert error is not None
    assert error.rank == 1
    assert "rank 1 has not moved for 50 s in phase measure, step 3" in error.message


def test_starting_has_a_limit_of_its_own(cell_of: CellOf) -> None:
    cell = cell_of("measure.step_timeout_s=5", "measure.start_timeout_s=60")
    assert overdue(cell, [beat(0, "start", 0, 50.0)], started=0.0, now=100.0) is None
    assert overdue(cell, [beat(0, "start", 0, 30.0)], started=0.0, now=100.0) is not None


def test_ranks_that_never_come_up_are_overdue(cell_of: CellOf) -> None:
    error = overdue(cell_of("measure.start_timeout_s=60"), [], started=0.0, now=100.0)
    assert error is not None
    assert "no rank came up in 100 s" in error.message


def test_ranks_that_are_done_are_never_overdue(cell_of: CellOf) -> None:
    assert overdue(cell_of("measure.step_timeout_s=5"), [beat(0, "done", 9, 1.0)], started=0.0, now=1e6) is None
