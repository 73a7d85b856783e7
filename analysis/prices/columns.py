"""Settles the number cells of a sheet of quotes column by column: the clear cells show how the others are meant."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

from analysis.prices.numerals import Numeral, column_mark, is_unknown, read_range, settle, tidy
from configs.errors import ConfigError

MONEY_FIELDS = ("price", "price_low", "price_high")  # typed by one person: they show each other's decimal mark
NUMBER_FIELDS = (
    *("discount", "discount_low", "discount_high", "min_cards", "max_cards", "cards_per_node", "billing_unit_hours"),
    *("minimum_hours", "storage_price_gb_month", "read_gbps", "write_gbps", "egress_price_gb", "setup_hours"),
    *("interruptions_per_hour", "hours_per_month"),
)
Sign = tuple[tuple[str, ...], str]  # (the currencies that a cell's sign can mean, where the cell stands)


def settle_numbers(records: Sequence[dict[str, Any]], where: Callable[[int, str], str]) -> list[list[Sign]]:
    """Replace the text of number cells by a number, [low, high], or None where unknown; return each row's signs.

    where: (index of the record, field) -> where the cell stands. Raises ConfigError on a cell that is no number, or
    that can be read two ways with no clear cell in its column to tell.
    """
    signs: list[list[Sign]] = [[] for _ in records]
    for group in (MONEY_FIELDS, *((field,) for field in NUMBER_FIELDS)):
        cells = [
            (i, field)
            for i, record in enumerate(records)
            for field in group
            if field in record and not is_unknown(record[field])
        ]
        read: dict[tuple[int, str], tuple[Numeral, Numeral]] = {}
        divisors: dict[tuple[int, str], float] = {}
        for i, field in cells:
            text, divisors[i, field] = _without_fold(records[i][field], field, where(i, field))
            read[i, field] = read_range(text, where(i, field))
        mark = column_mark(numeral for ends in read.values() for numeral in ends)
        for i, record in enumerate(records):
            for field in group:
                if field in record and (i, field) not in read:
                    record[field] = None
        for (i, field), ends in read.items():
            low, high = (settle(numeral, where(i, field), mark) / divisors[i, field] for numeral in ends)
            records[i][field] = low if ends[0] is ends[1] else [low, high]
            if field in MONEY_FIELDS:
                signs[i] += [(numeral.currencies, where(i, field)) for numeral in ends if numeral.currencies]
    return signs


def join_ends(record: dict[str, Any], field: str, where: Callable[[str], str]) -> None:
    """Make one [low, high] field of the two columns `field`_low and `field`_high."""
    low, high = record.pop(f"{field}_low", None), record.pop(f"{field}_high", None)
    if low is None and high is None:
        return
    for end, value in (("low", low), ("high", high)):
        if not isinstance(value, float):
            what = "is blank while the other end is not" if value is None else f"{value} is a range"
            raise ConfigError(where(f"{field}_{end}"), what, "one number for each end, or neither")
    record[field] = [low, high]


def _without_fold(text: str, field: str, where: str) -> tuple[str, float]:
    """(text, divisor) of a cell; only discounts have one: 8.5 折 and 85 折 both pay 0.85 of the price."""
    text = tidy(text)
    if not field.startswith("discount"):
        return text, 1.0
    if "%" in text:
        raise ConfigError(where, f"{text!r} can be what is paid or what is taken off", "the factor paid, such as 0.85")
    if "折" not in text:
        return text, 1.0
    bare = text.replace("折", "")
    in_hundredths = any(float(whole) > 10 for whole in re.findall(r"(?<![\d.,])\d+", bare))
    return bare, 100.0 if in_hundredths else 10.0
