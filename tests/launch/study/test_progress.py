"""What the live line says."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from configs.schema import Measure
from launch.study.progress import Progress, describe, outcome, seconds_left
from results.record import Error, Record

MEASURE = Measure(min_steps=5, max_steps=50, max_seconds=60, max_warmup_steps=10)


def beat(phase: str, step: int, **facts: float) -> dict[str, object]:
    return {"rank": 0, "time": 1.0, "phase": phase, "step": step, **facts}


def test_the_line_shows_the_rank_that_is_furthest_behind() -> None:
    beats = [beat("measure", 7, tokens_per_s=900.0), beat("measure", 5, tokens_per_s=1234.0)]
    assert describe(beats) == "measure step 5, 1,234 tokens/s"


@pytest.mark.parametrize(
    ("phase", "step", "step_s", "left"),
    [
        ("measure", 10, 1.0, 40.0),  # 40 of 50 steps come before the 50 s that are left
        ("measure", 10, 4.0, 20.0),  # 60 s less 40 s
        ("measure", 2, 30.0, 90.0),  # three steps are due whatever they take
        ("warmup", 4, 2.0, 72.0),  # six more to warm up, then 60 s
    ],
)
def test_what_is_left_follows_from_the_bounds(phase: str, step: int, step_s: float, left: float) -> None:
    assert seconds_left([beat(phase, step, step_s=step_s)], MEASURE) == left


def test_before_the_first_step_nothing_is_promised() -> None:
    assert seconds_left([beat("built", 0)], MEASURE) is None


def test_without_a_terminal_each_cell_is_a_plain_line(cell_of: object) -> None:
    written = io.StringIO()
    record = Record("s", "c", "finetune", "failed", "", 2.0, 0.1, error=Error("ValueError", "no\nluck", rank=3))
    with Progress(16, Console(file=written, width=200)) as progress:
        progress.begin(4, cell_of("mode=pp", "cards=8"))  # type: ignore[operator]
        progress.end(record)
    assert written.getvalue() == "  [4/16] tiny-pp-8  failed  rank 3: ValueError: no luck  2.0 s\n"


def test_a_good_cell_shows_its_rate() -> None:
    assert (
        outcome(Record("s", "c", "finetune", "ok", "", 1.0, 0.1, throughput={"tokens_per_s": 4321.4}))
        == "4,321 tokens/s"
    )
