from __future__ import annotations

import math

import numpy as np
import pytest

from analysis.cost.billing import NEVER_HOURS, billed_hours, hours_with_interruptions, rented_cards, round_up


def test_float_noise_buys_no_hour() -> None:
    assert round_up(48.0000000000001, 1) == 48


def test_a_second_past_the_hour_buys_one() -> None:
    assert round_up(48 + 1 / 3600, 1) == 49


def test_a_unit_of_zero_bills_the_exact_time() -> None:
    assert round_up(1.234, 0) == 1.234


def test_the_minimum_term_is_rounded_to_units_too() -> None:
    assert billed_hours(1.0, 4.0, 6.0) == 8.0


def test_no_time_costs_nothing_whatever_the_minimum() -> None:
    assert billed_hours(0.0, 1.0, 24.0) == 0.0


def test_one_card_of_an_eight_card_node_rents_eight() -> None:
    assert rented_cards(1, 1, 8, True) == 8


def test_the_least_number_of_cards_is_rented() -> None:
    assert rented_cards(1, 4, np.nan, False) == 4


def test_checkpoints_lengthen_the_job_by_their_share() -> None:
    # 6 minutes every hour of work
    assert hours_with_interruptions(10, 0, 0.1, 1, 0) == pytest.approx(11)


def test_no_interruptions_and_no_checkpoints_leave_the_hours() -> None:
    assert hours_with_interruptions(10, 0, 0.1, 0, 1) == 10


def test_without_checkpoints_an_interruption_loses_everything() -> None:
    # Daly: M (e^(T/M) - 1) for T = M = 10 h
    assert hours_with_interruptions(10, 0.1, 0, 0, 0) == pytest.approx(10 * (math.e - 1))


def test_checkpoints_under_interruptions_follow_dalys_equation() -> None:
    # M = 10, R = 0.5, t = 1, d = 0.1, T = 10: M e^(R/M) (e^((t+d)/M) - 1) T/t
    expected = 10 * math.exp(0.05) * (math.exp(0.11) - 1) * 10
    assert hours_with_interruptions(10, 0.1, 0.1, 1, 0.5) == pytest.approx(expected)


def test_a_rare_interruption_changes_little() -> None:
    assert hours_with_interruptions(10, 1e-9, 0, 1, 0) == pytest.approx(10, rel=1e-6)


def test_a_job_that_is_interrupted_before_it_gets_anywhere_takes_a_finite_never() -> None:
    assert hours_with_interruptions(1e6, 1.0, 0, 0, 0) == NEVER_HOURS
