from __future__ import annotations

import pytest

from analysis.prices.plausible import doubtful_prices


def test_the_articles_tiers_are_all_plausible() -> None:
    # CNY a card-hour: hourly, node at its discount, monthly / 720 h, monthly node / 8 cards / 720 h
    tiers = [(20, 35), (14, 29.75), (11.1, 16.7), (10.4, 13.9)]
    assert doubtful_prices(tiers, "CNY") == ["", "", "", ""]


@pytest.mark.parametrize(("price", "currency"), [(280.0, "CNY"), (98.32, "USD")])
def test_a_node_price_as_a_card_hour_is_doubtful(price: float, currency: str) -> None:
    assert "is it the price of a node?" in doubtful_prices([(price, price)], currency)[0]


def test_an_hours_price_called_a_months_is_doubtful() -> None:
    assert "called a month's" in doubtful_prices([(2 / 720, 2 / 720)], "USD")[0]


def test_a_tier_at_eight_times_the_others_is_doubtful_in_any_currency() -> None:
    doubts = doubtful_prices([(1.99, 1.99), (15.92, 15.92)], "XYZ")
    assert doubts[0] == ""
    assert "8.0 times the sheet's other tiers" in doubts[1]


def test_an_unknown_price_is_not_doubted() -> None:
    assert doubtful_prices([None, (2, 2)], "USD") == ["", ""]
