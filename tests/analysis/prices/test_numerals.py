from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from analysis.prices.numerals import column_mark, is_unknown, read_numeral, read_range, settle
from configs.errors import ConfigError


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("2,49", 2.49),
        ("20,00", 20.0),
        ("1.234,56", 1234.56),
        ("1,234.56", 1234.56),
        ("1 234,56", 1234.56),
        ("1\u00a0234,56", 1234.56),
        ("1'234.50", 1234.50),
        ("1,234,567", 1_234_567),
        ("1.355,90", 1355.90),
        ("0.123", 0.123),
        ("0,5", 0.5),
        ("２０", 20),
        ("１，２３４．５６", 1234.56),
        ("￥35", 35),
        ("35元", 35),
        ("$2.49", 2.49),
        ("1.234,56 €", 1234.56),
        ("EUR 20", 20),
        ("20 USD", 20),
        ("1.2万", 12_000),
    ],
)
def test_a_cell_that_can_be_read_one_way_is_read(text: str, value: float) -> None:
    assert settle(read_numeral(text, "here"), "here") == value


@pytest.mark.parametrize("text", ["1.234", "1,234", "12.345", "8,000"])
def test_a_cell_that_can_be_read_two_ways_is_an_error(text: str) -> None:
    with pytest.raises(ConfigError, match=r"here: .* can be read two ways"):
        settle(read_numeral(text, "here"), "here")


def test_a_clear_cell_of_the_column_settles_an_ambiguous_one() -> None:
    clear, ambiguous = read_numeral("2,49", "a"), read_numeral("1.234", "b")
    assert settle(ambiguous, "b", column_mark([clear, ambiguous])) == 1234


def test_a_column_that_contradicts_itself_settles_nothing() -> None:
    assert column_mark([read_numeral("2,49", "a"), read_numeral("2.49", "b")]) is None


@pytest.mark.parametrize("text", ["=20*0.8", "cheap", "1.2.3,4", "1,23,4", "20 per hour", "1e3", ".", "12345.678.9"])
def test_what_is_no_number_is_an_error(text: str) -> None:
    with pytest.raises(ConfigError, match="here: "):
        settle(read_numeral(text, "here"), "here")


@pytest.mark.parametrize("text", ["20-35", "20~35", "20～35", "20 – 35", "20至35", "20 to 35", "¥20-¥35", "20-35元"])
def test_a_range_is_read_in_every_common_form(text: str) -> None:
    low, high = read_range(text, "here")
    assert (low.value(), high.value()) == (20, 35)


def test_a_range_counted_in_ten_thousands_counts_both_ends() -> None:
    low, high = read_range("6-8万", "here")
    assert (low.value(), high.value()) == (60_000, 80_000)


def test_a_negative_number_is_not_a_range() -> None:
    low, high = read_range("-5", "here")
    assert low is high
    assert low.value() == -5


def test_a_yen_sign_can_be_yuan_or_yen() -> None:
    assert read_numeral("¥20", "here").currencies == ("CNY", "JPY")


@pytest.mark.parametrize("text", ["", " ", "-", "n/a", "N/A", "面议", "TBD"])
def test_a_cell_that_says_unknown_is_unknown(text: str) -> None:
    assert is_unknown(text)


def test_zero_is_not_unknown() -> None:
    assert not is_unknown("0")


@given(st.decimals(min_value=0, max_value=10**8, places=2), st.sampled_from([",.", ".,", " ,", " .", "'."]))
@settings(deadline=None)
def test_money_with_cents_reads_back_whatever_the_separators(value: object, separators: str) -> None:
    thousands, mark = separators
    text = f"{value:,.2f}".replace(",", "T").replace(".", mark).replace("T", thousands)
    assert settle(read_numeral(text, "here"), "here") == float(str(value))
