"""When warm-up ends, when measuring stops, and what a step's time is."""

from __future__ import annotations

import pytest

from benchmarks.meters.measure import _steady, _verdict
from configs.schema import Measure


@pytest.mark.parametrize(
    ("times", "steady"),
    [
        ([79.0], False),
        ([79.0, 0.6], True),
        ([79.0, 0.6, 0.115], False),
        ([0.6, 0.115, 0.106], False),
        ([0.115, 0.106, 0.108], True),
    ],
)
def test_warm_up_ends_when_the_step_time_is_steady(times: list[float], steady: bool) -> None:
    """A compile step of 79 s and the settling after it are no measurement."""
    least = 2 if len(times) == 2 else 3
    assert _steady(times, Measure(warmup_steps=least)) is steady


def test_warm_up_has_a_bound() -> None:
    assert _steady([1.0, 2.0, 1.0, 2.0], Measure(max_warmup_steps=4))


@pytest.mark.parametrize(
    ("times", "elapsed_s", "verdict"),
    [
        ([0.1] * 4, 1, ""),
        ([0.1] * 5, 1, "rel_ci"),
        ([0.1, 0.2, 0.3, 0.4, 0.5], 1, ""),
        ([0.1, 0.2, 0.3, 0.4, 0.5], 61, "max_seconds"),
        ([0.1, 0.2] * 25, 1, "max_steps"),
        ([500.0], 601, "max_seconds"),
    ],
)
def test_measuring_stops_for_the_first_reason_met(times: list[float], elapsed_s: float, verdict: str) -> None:
    assert _verdict(times, Measure(min_steps=5, max_steps=50, max_seconds=60, rel_ci=0.01), elapsed_s) == verdict
