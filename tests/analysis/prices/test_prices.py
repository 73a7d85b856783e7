from __future__ import annotations

from collections.abc import Callable
from datetime import date
from typing import Any

import pytest

from analysis.prices import Quote, parse_quote
from configs.errors import ConfigError

HOURLY = {"name": "hourly", "unit": "card_hour", "price": [20, 35]}
SHEET: dict[str, Any] = {"provider": "P", "currency": "CNY", "machine": "a100_80g", "date": "2026-01-31"}


def message_for(tier: dict[str, Any] | None = None, **sheet: Any) -> str:
    """The one line that a sheet with one bad thing in it gives."""
    data = {**SHEET, "tiers": [HOURLY, {"name": "second", "unit": "card_hour", "price": 20, **(tier or {})}], **sheet}
    with pytest.raises(ConfigError) as error:
        parse_quote(data, "prices/p.yaml", "p")
    return str(error.value)


def test_a_swapped_range_names_file_tier_and_value() -> None:
    message = message_for({"price": [12000, 8000]})
    assert message == "prices/p.yaml: tiers[1].price: [12000, 8000] has its ends swapped; [low, high]"


def test_a_negative_price_is_refused() -> None:
    assert "tiers[1].price: [-20, 35] is negative" in message_for({"price": [-20, 35]})


def test_an_unknown_unit_lists_the_known_ones() -> None:
    message = message_for({"unit": "gpu_hour"})
    assert "tiers[1].unit: 'gpu_hour' is unknown" in message
    assert "card_hour, node_hour, card_month, node_month" in message


def test_a_missing_period_is_refused_rather_than_guessed() -> None:
    assert "tiers[1].unit" in message_for({"unit": None})


def test_a_zero_price_is_refused_because_people_write_it_for_unknown() -> None:
    assert "tiers[1].price: 0 is zero; leave it blank if unknown" in message_for({"price": 0})


def test_a_zero_price_marked_free_is_accepted(quote_of: Callable[..., Quote]) -> None:
    assert quote_of({"unit": "card_hour", "price": 0, "free": True}).tiers[0].price == (0, 0)


@pytest.mark.parametrize("blank", [None, "", "n/a", "-", "面议"])
def test_a_blank_price_is_unknown_and_noted(blank: str | None, quote_of: Callable[..., Quote]) -> None:
    tier = quote_of({"unit": "card_hour", "price": blank}).tiers[0]
    assert tier.price is None
    assert "left out of the ranking" in tier.notes[0]


def test_a_price_that_is_no_number_is_refused() -> None:
    assert "tiers[1].price: 'cheap' is not a number" in message_for({"price": "cheap"})


def test_a_price_with_a_decimal_comma_is_read(quote_of: Callable[..., Quote]) -> None:
    assert quote_of({"unit": "card_hour", "price": "2,49"}).tiers[0].price == (2.49, 2.49)


def test_an_ambiguous_price_is_refused_with_both_readings() -> None:
    assert "'1.234' can be read two ways: 1.234 or 1234" in message_for({"price": "1.234"})


def test_a_price_in_another_currency_than_the_sheet_is_refused() -> None:
    assert "'$20' is in USD" in message_for({"price": "$20"})


def test_a_node_price_needs_the_number_of_cards() -> None:
    assert "tiers[1].cards_per_node: is missing for a node_hour" in message_for({"unit": "node_hour"})


def test_a_discount_in_per_cent_is_refused() -> None:
    assert "tiers[1].discount: 15 is not a factor" in message_for({"discount": 15})


def test_a_misspelt_field_is_named_with_the_nearest_one() -> None:
    assert "did you mean discount?" in message_for({"discuont": 0.8})


def test_the_same_tier_name_twice_is_refused() -> None:
    assert "tiers[1].name: 'hourly' is there twice" in message_for({"name": "hourly"})


@pytest.mark.parametrize("currency", [None, "", "¥", "yuan"])
def test_a_currency_is_three_letters(currency: str | None) -> None:
    assert "prices/p.yaml: currency:" in message_for(currency=currency)


def test_a_month_of_730_hours_is_taken_from_the_sheet(quote_of: Callable[..., Quote]) -> None:
    quote = quote_of({"unit": "card_month", "price": 1460}, hours_per_month=730)
    assert quote.tiers[0].per_card_hour(quote.hours_per_month) == (2.0, 2.0)  # 1460 / 730


def test_a_month_of_one_hour_is_refused() -> None:
    assert "hours_per_month: 1 is not a month" in message_for(hours_per_month=1)


def test_a_sheet_without_a_date_says_so(quote_of: Callable[..., Quote]) -> None:
    assert "has no date" in quote_of(HOURLY, date=None).notes[0]


def test_prices_two_years_old_are_flagged_with_their_age() -> None:
    quote = parse_quote({**SHEET, "tiers": [HOURLY]}, "p.yaml", "p", today=date(2028, 1, 31))
    assert quote.notes == ("the prices are of 2026-01-31, 730 days old: ask again",)


def test_a_date_in_the_future_is_flagged() -> None:
    quote = parse_quote({**SHEET, "tiers": [HOURLY]}, "p.yaml", "p", today=date(2025, 1, 31))
    assert "in the future" in quote.notes[0]


def test_a_date_that_is_none_is_refused() -> None:
    assert "prices/p.yaml: date: '31.01.26' is not a date" in message_for(date="31.01.26")


def test_a_month_is_billed_whole_unless_the_sheet_says_otherwise(quote_of: Callable[..., Quote]) -> None:
    assert quote_of({"unit": "card_month", "price": 8000}).tiers[0].billing_unit_hours == 720


def test_an_hour_is_billed_whole_unless_the_sheet_says_otherwise(quote_of: Callable[..., Quote]) -> None:
    assert quote_of({"unit": "card_hour", "price": 20}).tiers[0].billing_unit_hours == 1


def test_a_card_price_with_a_node_as_its_least_comes_in_whole_nodes(quote_of: Callable[..., Quote]) -> None:
    tier = {"unit": "card_hour", "price": 20, "min_cards": 8, "cards_per_node": 8}
    assert quote_of(tier).tiers[0].whole_nodes


def test_cards_of_a_node_sold_singly_do_not_come_in_whole_nodes(quote_of: Callable[..., Quote]) -> None:
    assert not quote_of({"unit": "card_hour", "price": 20, "cards_per_node": 8}).tiers[0].whole_nodes


def test_an_eight_card_node_costs_the_card_price_times_eight_times_the_discount(article: Quote) -> None:
    low, high = article.tiers[1].paid or (0.0, 0.0)
    assert (8 * low, 8 * high) == (pytest.approx(8 * 20 * 0.70), pytest.approx(8 * 35 * 0.85))
