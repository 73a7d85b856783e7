from __future__ import annotations

from collections.abc import Callable

import pytest

from analysis.cost.breakeven import (
    break_even_hours,
    hourly_against_monthly,
    node_break_even,
    nodes_against_cards,
)
from analysis.prices import Quote
from configs.errors import ConfigError

Quotes = Callable[..., Quote]


def test_one_a100_breaks_even_at_400_hours_at_the_low_ends_and_343_at_the_high_ends(article: Quote) -> None:
    hourly, _, monthly, _ = article.tiers
    pair = break_even_hours(hourly, monthly, 720)
    assert pair.hours_at_low_ends == pytest.approx(8000 / 20)
    assert pair.hours_at_high_ends == pytest.approx(343, abs=0.5)  # 12,000 / 35


def test_a_full_month_saves_44_to_52_per_cent(article: Quote) -> None:
    hourly, _, monthly, _ = article.tiers
    pair = break_even_hours(hourly, monthly, 720)
    assert pair.saving_at_low_ends == pytest.approx(0.44, abs=0.005)
    assert pair.saving_at_high_ends == pytest.approx(0.52, abs=0.005)


def test_1460_a_month_against_2_an_hour_break_even_at_730_hours(quote_of: Quotes) -> None:
    quote = quote_of(
        {"name": "hour", "unit": "card_hour", "price": 2},
        {"name": "month", "unit": "card_month", "price": 1460},
        hours_per_month=730,
    )
    pair = break_even_hours(*quote.tiers, quote.hours_per_month)
    assert pair.hours_at_low_ends == 730
    assert pair.saving_at_low_ends == pytest.approx(0)


def test_a_node_hour_beats_single_cards_from_six_cards_at_the_low_ends(article: Quote) -> None:
    hourly, node, _, _ = article.tiers
    pair = node_break_even(node, hourly)
    assert pair.cards_at_low_ends == 6  # 8 x 0.70 = 5.6 card prices
    assert pair.cards_at_high_ends == 7  # 8 x 0.85 = 6.8


def test_a_node_that_is_dearer_than_all_its_cards_never_breaks_even(quote_of: Quotes) -> None:
    quote = quote_of(
        {"name": "node", "unit": "node_hour", "price": 200, "cards_per_node": 8},
        {"name": "card", "unit": "card_hour", "price": 20},
    )
    assert node_break_even(*quote.tiers).cards_at_low_ends is None


def test_only_tiers_of_the_same_bundle_are_paired(article: Quote) -> None:
    pairs = [(pair.hourly, pair.monthly) for _, pair in hourly_against_monthly([article])]
    assert pairs == [("hourly", "monthly"), ("hourly_node", "monthly_node")]


def test_nodes_are_paired_with_cards_of_the_same_period(article: Quote) -> None:
    pairs = [(pair.node, pair.single) for _, pair in nodes_against_cards([article])]
    assert pairs == [("hourly_node", "hourly"), ("monthly_node", "monthly")]


def test_an_unknown_price_has_no_break_even(quote_of: Quotes) -> None:
    quote = quote_of({"name": "h", "unit": "card_hour", "price": None}, {"name": "m", "unit": "card_month", "price": 1})
    assert hourly_against_monthly([quote]) == []
    with pytest.raises(ConfigError, match="the price of h is not known"):
        break_even_hours(*quote.tiers, 720)
