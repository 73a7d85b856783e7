"""Flags prices that look like another unit's: a node's price in a card's column, an hour's price called a month's.

Only flags: a strange price can be true, and the person who has the quote knows.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

Range = tuple[float, float]

# What a card-hour of a data-centre card plausibly costs. The low end is far below spot prices of old cards, the high
# end above list prices of the newest; a node of eight cards called one card lands above it. Judgement, not a source.
CARD_HOUR_BAND: dict[str, Range] = {
    "CNY": (0.3, 150.0),
    "USD": (0.04, 20.0),
    "EUR": (0.04, 20.0),
    "GBP": (0.04, 16.0),
    "HKD": (0.3, 160.0),
    "JPY": (6.0, 3000.0),
}
TIMES_THE_OTHERS = 3.0  # tiers of one machine differ by discounts and terms, not by this much


def doubtful_prices(per_card_hour: Sequence[Range | None], currency: str) -> list[str]:
    """For each tier of one machine what is strange about its price, or "".

    per_card_hour: low and high price of a card and hour when all are used; None where it is not known.
    """
    middles = [None if price is None else (price[0] + price[1]) / 2 for price in per_card_hour]
    band = CARD_HOUR_BAND.get(currency)
    return [_doubt(i, middles, band, currency) for i in range(len(middles))]


def _doubt(i: int, middles: Sequence[float | None], band: Range | None, currency: str) -> str:
    price = middles[i]
    if not price:
        return ""  # unknown, or marked as free
    hint = ""
    if band and price > band[1]:
        hint = "is it the price of a node?"
    elif band and price < band[0]:
        hint = "is it the price of an hour called a month's, or of a share of a card?"
    if hint:
        return f"{price:.4g} {currency} a card-hour is implausible: {hint}"
    others = [p for j, p in enumerate(middles) if j != i and p]
    if others and price > TIMES_THE_OTHERS * median(others):
        times = price / median(others)
        return f"{price:.4g} {currency} a card-hour is {times:.1f} times the sheet's other tiers: is it a node's price?"
    return ""
