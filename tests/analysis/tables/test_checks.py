from __future__ import annotations

from collections.abc import Callable

import pandas as pd
import pytest

from analysis.scaling.bands import band_table
from analysis.scaling.repeats import compare_modes, repeat_table
from analysis.tables import Estimate, Span
from analysis.tables.checks import bands_view, modes_view, p_text, repeats_view, significance
from analysis.text import sayer

EN = sayer("en")


def test_a_measured_speedup_stands_beside_its_rule_of_thumb(cells_of: Callable[..., pd.DataFrame]) -> None:
    # 4 cards data parallel: 2x to 3.6x; 8 cards: 7x or better.
    table = bands_view(band_table(cells_of((1, 100.0), (4, 300.0), (8, 500.0))), EN)
    four, eight = table.rows
    assert four.values[4] == Estimate(3.0, None, None)
    assert four.values[5:] == (Span(2.0, 3.6), "inside the band")
    assert eight.values[5:] == ("7 or more", "below")


def test_repeats_show_the_spread_between_runs_beside_that_within_one(cells_of: Callable[..., pd.DataFrame]) -> None:
    # 90, 100, 110: mean 100, standard deviation 10.
    cells = cells_of((1, 90.0), (1, 100.0), (1, 110.0), (2, 150.0), **{"throughput.step_time_s.cv": 0.02})
    rows = repeats_view(repeat_table(cells), EN, "en").rows
    assert len(rows) == 1
    assert rows[0].values[3:7] == (3, 100, pytest.approx(10.0), pytest.approx(2.0))


def test_two_modes_are_compared_at_the_same_count(cells_of: Callable[..., pd.DataFrame]) -> None:
    step = {"throughput.step_time_s.ci95_low": 0.99, "throughput.step_time_s.ci95_high": 1.01}
    cells = pd.concat([cells_of((4, 300.0), mode="ddp", **step), cells_of((4, 200.0), mode="fsdp", **step)])
    table = modes_view(compare_modes(cells), EN)
    assert table.groups[0].heading == "4 cards"
    row = table.rows[0].values
    assert row[:2] == ("ddp", "fsdp")
    assert isinstance(row[2], Estimate) and row[2].value == pytest.approx(1.5)
    assert row[3:] == ("< 0.001", "real in these runs")


def test_a_difference_without_any_spread_is_not_judged() -> None:
    assert significance(False, "", EN) == "not known"
    assert significance(False, "runs", EN) == "may be chance"


@pytest.mark.parametrize(("p", "text"), [(0.0004, "< 0.001"), (0.0312, "0.031"), (float("nan"), "")])
def test_a_probability_is_given_as_papers_give_it(p: float, text: str) -> None:
    assert p_text(p) == text
