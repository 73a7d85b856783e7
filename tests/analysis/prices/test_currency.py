from __future__ import annotations

from datetime import date

import pytest

from analysis.prices.currency import ExchangeRate, exchange, parse_rates
from configs.errors import ConfigError

RATES = (ExchangeRate("USD", "CNY", 7.0, date(2026, 1, 5)),)


def test_a_stated_rate_is_used_and_named_with_its_date() -> None:
    assert exchange(RATES, "USD", "CNY") == (7.0, "converted at 1 USD = 7 CNY of 2026-01-05")


def test_a_rate_serves_the_other_way_round() -> None:
    assert exchange(RATES, "CNY", "USD")[0] == pytest.approx(1 / 7)


def test_one_currency_needs_no_rate() -> None:
    assert exchange((), "CNY", "CNY") == (1.0, "")


def test_without_a_stated_rate_there_is_no_conversion() -> None:
    with pytest.raises(ConfigError, match="rates: EUR and CNY cannot be compared"):
        exchange(RATES, "EUR", "CNY")


def test_two_rates_that_contradict_each_other_are_refused() -> None:
    with pytest.raises(ConfigError, match="USD to CNY has two rates"):
        exchange((*RATES, ExchangeRate("CNY", "USD", 0.2)), "USD", "CNY")


def test_a_rate_without_a_date_says_so() -> None:
    assert "without a date" in exchange((ExchangeRate("USD", "CNY", 7.0),), "USD", "CNY")[1]


def test_rates_are_read_from_plain_data() -> None:
    assert parse_rates([{"from": "usd", "to": "CNY", "rate": 7, "date": "2026-01-05"}]) == RATES


@pytest.mark.parametrize(
    ("row", "field"),
    [
        ({"from": "USD", "to": "CNY", "rate": 0}, r"rates\[0\].rate"),
        ({"from": "USD", "to": "CNY"}, r"rates\[0\].rate"),
        ({"from": "$", "to": "CNY", "rate": 7}, r"rates\[0\].from"),
        ({"from": "USD", "to": "CNY", "rate": 7, "date": "soon"}, r"rates\[0\].date"),
        ({"from": "USD", "to": "CNY", "rat": 7}, "did you mean rate"),
    ],
)
def test_a_rate_with_something_wrong_names_its_field(row: dict[str, object], field: str) -> None:
    with pytest.raises(ConfigError, match=field):
        parse_rates([row])
