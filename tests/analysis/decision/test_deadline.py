from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from analysis.decision.deadline import cards_for_deadline
from configs.errors import ConfigError


def test_ten_epochs_of_ten_hours_in_a_day_are_4_17_ideal_cards() -> None:
    assert cards_for_deadline(10, 10, 24).ideal == pytest.approx(4.17, abs=0.01)


@pytest.mark.parametrize(("efficiency", "cards"), [(0.9, 5), (0.5, 9)])
def test_ten_epochs_in_a_day_need_the_articles_counts(efficiency: float, cards: int) -> None:
    assert cards_for_deadline(10, 10, 24, efficiency).cards == cards


def test_the_count_is_above_the_ideal_one_even_where_that_is_whole() -> None:
    assert cards_for_deadline(10, 10, 25).cards == 5  # 4.0 ideal, and one as margin


def test_a_job_that_one_card_finishes_in_time_needs_one_card_at_any_efficiency() -> None:
    assert cards_for_deadline(10, 1, 11, efficiency=0.3).cards == 1


def test_the_hours_at_the_count_are_stated() -> None:
    assert cards_for_deadline(10, 10, 24, 0.5).hours == pytest.approx(100 / 4.5)


@pytest.mark.parametrize("bad", [0.0, -1.0, float("nan"), float("inf")])
def test_a_deadline_that_is_no_time_is_refused(bad: float) -> None:
    with pytest.raises(ConfigError, match=r"workload.deadline_hours"):
        cards_for_deadline(10, 10, bad)


@given(st.floats(0.1, 100), st.integers(1, 50), st.floats(1, 1000), st.floats(0.1, 1.0))
@settings(deadline=None)
def test_the_count_meets_the_deadline_at_its_efficiency(
    epoch_hours: float, epochs: int, deadline_hours: float, efficiency: float
) -> None:
    plan = cards_for_deadline(epoch_hours, epochs, deadline_hours, efficiency)
    assert plan.hours <= deadline_hours * (1 + 1e-6)


@given(st.floats(0.1, 100), st.floats(1, 1000), st.floats(0.1, 1.0), st.floats(1.0, 3.0))
@settings(deadline=None)
def test_a_longer_deadline_never_needs_more_cards(hours: float, deadline: float, efficiency: float, by: float) -> None:
    more_time = cards_for_deadline(hours, 1, deadline * by, efficiency)
    assert more_time.cards <= cards_for_deadline(hours, 1, deadline, efficiency).cards
