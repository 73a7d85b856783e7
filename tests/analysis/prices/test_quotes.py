from __future__ import annotations

from datetime import date

import pytest

from analysis.prices import Quote, parse_quote
from analysis.prices.quotes import decode, read_quotes
from configs.errors import ConfigError

HEADER = "provider,gpu,currency,unit,price"


def quotes(text: str, encoding: str = "utf-8") -> list[Quote]:
    sheets = read_quotes(text.encode(encoding), "q.csv", "q")
    return [parse_quote(sheet.data, "q.csv", sheet.name, sheet.places) for sheet in sheets]


def message(text: str) -> str:
    with pytest.raises(ConfigError) as error:
        quotes(text)
    return str(error.value)


CHINESE = (
    "供应商,机型,币种,报价日期,计费单位,单价,折扣,每节点卡数,互联方式\n"
    "甲,A100 80G,人民币,2026年1月5日,卡时,￥２０~35,,,NVLink\n"
    "甲,A100 80G,人民币,2026年1月5日,整机/月,6-8万,8.5折,8,NVLink\n"
)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "gb18030", "utf-16"])
def test_chinese_headers_are_read_in_every_encoding(encoding: str) -> None:
    (quote,) = quotes(CHINESE, encoding)
    assert (quote.provider, quote.currency, quote.date) == ("甲", "CNY", date(2026, 1, 5))
    assert [tier.unit for tier in quote.tiers] == ["card_hour", "node_month"]
    assert quote.tiers[0].price == (20, 35)
    assert quote.tiers[1].paid == pytest.approx((51_000, 68_000))  # 60,000 and 80,000 x 0.85


def test_english_headers_are_read() -> None:
    (quote,) = quotes(f"{HEADER},Cards per node,Interconnect\nP,h100,USD,node-hour,98.32,8,NVLink\n")
    assert quote.tiers[0].price == (98.32, 98.32)
    assert (quote.tiers[0].unit, quote.tiers[0].cards_per_node) == ("node_hour", 8)


def test_latin_1_text_with_semicolons_and_decimal_commas_is_read() -> None:
    (quote,) = quotes("provider;gpu;currency;unit;price\nZürich Rechner;h100;EUR;gpu-hour;2,49\n", "cp1252")
    assert (quote.provider, quote.tiers[0].price) == ("Zürich Rechner", (2.49, 2.49))


def test_a_chinese_name_outside_the_old_character_set_is_read_by_its_header() -> None:
    assert "镕" in decode("供应商,单价\n朱镕,20\n".encode("gb18030"))


def test_an_ambiguous_cell_names_file_row_and_column() -> None:
    text = f"{HEADER}\nP,h100,EUR,gpu-hour,2\nP,h100,EUR,gpu-month,1.234\n"
    assert message(text).startswith("q.csv: row 3: price: '1.234' can be read two ways: 1.234 or 1234")


def test_a_clear_cell_of_the_column_settles_the_ambiguous_one() -> None:
    (quote,) = quotes('provider,gpu,currency,unit,price\nP,h100,EUR,gpu-hour,"2,49"\nP,h100,EUR,gpu-month,1.234\n')
    assert quote.tiers[1].price == (1234, 1234)


def test_a_decimal_comma_without_quotes_is_noticed_by_the_count_of_cells() -> None:
    assert "row 2: has 6 cells for 5 columns" in message(f"{HEADER}\nP,h100,EUR,gpu-hour,2,49\n")


def test_swapped_low_and_high_columns_are_named_as_the_file_calls_them() -> None:
    text = "供应商,机型,币种,单位,最低价,最高价\n甲,h100,CNY,卡时,35,20\n"
    assert message(text).startswith("q.csv: row 2: 最低价/最高价: [35.0, 20.0] has its ends swapped")


def test_a_low_end_without_a_high_end_is_refused() -> None:
    text = "provider,gpu,currency,unit,price low,price high\nP,h100,CNY,gpu hour,35,\n"
    assert "row 2: price high: is blank while the other end is not" in message(text)


@pytest.mark.parametrize("unit", ["hour", "gpu", "gpu-day", "per year", "", "卡", "小时"])
def test_a_unit_without_thing_and_period_is_refused(unit: str) -> None:
    assert f"q.csv: row 2: unit: '{unit}' names no unit" in message(f"{HEADER}\nP,h100,CNY,{unit},20\n")


@pytest.mark.parametrize(
    ("said", "unit"),
    [
        ("GPU-hour", "card_hour"),
        ("card_hour", "card_hour"),
        ("$/GPU/hr", "card_hour"),
        ("元/卡时", "card_hour"),
        ("卡·小时", "card_hour"),
        ("per instance per hour", "node_hour"),
        ("8卡整机/小时", "node_hour"),
        ("gpu month", "card_month"),
        ("元/卡/月", "card_month"),
        ("server, monthly", "node_month"),
        ("整机月", "node_month"),
    ],
)
def test_a_unit_is_read_in_the_words_people_use(said: str, unit: str) -> None:
    (quote,) = quotes(f'provider,gpu,currency,unit,price,cards per node\nP,h100,CNY,"{said}",20,8\n')
    assert quote.tiers[0].unit == unit


def test_unit_and_currency_can_stand_in_the_header_of_the_price() -> None:
    (quote,) = quotes("供应商,机型,单价(元/卡时)\n甲,h100,25\n")
    assert (quote.currency, quote.tiers[0].unit) == ("CNY", "card_hour")


def test_a_sign_of_another_currency_than_the_rows_is_refused() -> None:
    assert "q.csv: row 2: price: the price is in EUR; the row's currency is CNY" in message(
        f"{HEADER}\nP,h100,CNY,gpu-hour,€20\n"
    )


def test_a_dollar_sign_alone_does_not_say_whose_dollars() -> None:
    assert "row 2: currency: the currency can be USD or AUD" in message(
        "provider,gpu,unit,price\nP,h100,gpu-hour,$2.49\n"
    )


def test_a_row_without_any_currency_is_refused() -> None:
    assert "row 2: currency: the currency is not stated" in message("provider,gpu,unit,price\nP,h100,gpu-hour,2.49\n")


def test_two_currencies_become_two_quotes() -> None:
    text = f"{HEADER}\nP,h100,CNY,gpu-hour,20\nP,h100,USD,gpu-hour,2.5\n"
    assert [quote.currency for quote in quotes(text)] == ["CNY", "USD"]
    assert len({quote.name for quote in quotes(text)}) == 2


def test_a_blank_price_is_kept_as_unknown() -> None:
    assert quotes(f"{HEADER}\nP,h100,CNY,gpu-hour,n/a\n")[0].tiers[0].price is None


def test_a_zero_price_is_refused_with_its_row() -> None:
    assert message(f"{HEADER}\nP,h100,CNY,gpu-hour,0\n").startswith("q.csv: row 2: price: 0.0 is zero")


def test_a_negative_price_is_refused_with_its_row() -> None:
    assert "q.csv: row 2: price: -5.0 is negative" in message(f"{HEADER}\nP,h100,CNY,gpu-hour,-5\n")


def test_a_formula_is_no_number() -> None:
    assert "row 2: price: '=20*8' is not a number" in message(f"{HEADER}\nP,h100,CNY,gpu-hour,=20*8\n")


def test_a_date_that_can_be_two_days_is_refused() -> None:
    assert "row 2: date: '01/02/2026' can be two dates" in message(
        f"{HEADER},date\nP,h100,CNY,gpu-hour,20,01/02/2026\n"
    )


@pytest.mark.parametrize("text", ["2026-01-31", "2026/1/31", "31.01.2026", "31/01/2026", "1/31/2026", "20260131"])
def test_a_date_that_can_be_one_day_is_read(text: str) -> None:
    assert quotes(f"{HEADER},date\nP,h100,CNY,gpu-hour,20,{text}\n")[0].date == date(2026, 1, 31)


def test_a_day_that_the_calendar_lacks_is_refused() -> None:
    assert "not a date of the calendar" in message(f"{HEADER},date\nP,h100,CNY,gpu-hour,20,2026-02-30\n")


def test_a_node_price_in_a_card_column_is_flagged() -> None:
    (quote,) = quotes(f"{HEADER}\nP,a100,CNY,gpu-hour,20\nP,a100,CNY,gpu-hour,160\n")
    assert "is it the price of a node?" in quote.tiers[1].notes[0]


def test_a_discount_in_per_cent_can_be_read_two_ways() -> None:
    assert "row 2: discount: '15%' can be what is paid" in message(f"{HEADER},discount\nP,a100,CNY,gpu-hour,20,15%\n")


@pytest.mark.parametrize(("text", "paid"), [("8.5折", 0.85), ("85折", 0.85), ("7折", 0.7), ("10折", 1.0)])
def test_a_chinese_discount_says_what_is_paid(text: str, paid: float) -> None:
    (quote,) = quotes(f"{HEADER},折扣\nP,a100,CNY,gpu-hour,20,{text}\n")
    assert quote.tiers[0].discount == (paid, paid)


def test_columns_that_nobody_reads_are_noted() -> None:
    assert quotes(f"{HEADER},contact\nP,a100,CNY,gpu-hour,20,me\n")[0].notes[0] == "columns not used: contact"


def test_two_columns_of_one_meaning_are_refused() -> None:
    assert "columns 'price' and '单价' mean the same" in message(f"{HEADER},单价\nP,a100,CNY,gpu-hour,20,20\n")


def test_a_missing_price_column_is_refused() -> None:
    assert "q.csv: row 1: has no column for the price" in message("provider,gpu\nP,a100\n")


def test_a_missing_machine_is_refused_with_its_row() -> None:
    assert message(f"{HEADER}\nP,,CNY,gpu-hour,20\n").startswith("q.csv: row 2: gpu: is missing")


@pytest.mark.parametrize("text", ["", "\n\n", HEADER + "\n"])
def test_an_empty_file_is_refused(text: str) -> None:
    assert message(text).startswith("q.csv: ")


def test_an_unclosed_quote_is_one_line() -> None:
    assert message(f'{HEADER}\nP,h100,CNY,gpu-hour,"20\n').startswith("q.csv: cannot be read as CSV")


def test_rows_are_counted_as_a_spreadsheet_counts_them() -> None:
    assert "q.csv: row 4: price" in message(f"{HEADER}\nP,h100,CNY,gpu-hour,20\n\nP,h100,CNY,gpu-hour,x\n")


def test_a_line_break_in_a_text_cell_stays_out_of_messages_and_names() -> None:
    (quote,) = quotes(f'{HEADER}\n"P\nQ",h100,CNY,gpu-hour,20\n')
    assert quote.provider == "P Q"


def test_a_line_that_declares_the_separator_is_obeyed() -> None:
    (quote,) = quotes("sep=;\nprovider;gpu;currency;unit;price\nP;h100;EUR;gpu-hour;2,49\n")
    assert quote.tiers[0].price == (2.49, 2.49)
