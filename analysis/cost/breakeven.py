"""Where one way to pay overtakes another: hourly against monthly in hours of use, a whole node against single cards."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from analysis.prices import Quote, Tier
from configs.errors import ConfigError


@dataclass(frozen=True)
class BreakEven:
    """Monthly is cheaper above so many hours of use a month. The ends compare low with low, high with high price."""

    hourly: str
    monthly: str
    hours_at_low_ends: float
    hours_at_high_ends: float
    saving_at_low_ends: float  # share saved by paying monthly when the whole month is used
    saving_at_high_ends: float
    hours_per_month: float


@dataclass(frozen=True)
class NodeBreakEven:
    """A whole node is cheaper than single cards from so many cards of it upwards; None: not even when all are used."""

    node: str
    single: str
    cards_at_low_ends: int | None
    cards_at_high_ends: int | None
    cards_per_node: int


def break_even_hours(hourly: Tier, monthly: Tier, hours_per_month: float) -> BreakEven:
    """Hours of use a month from which `monthly` costs less than `hourly`, for as many cards.

    Raises ConfigError where a price is not known, or the two do not sell the same number of cards.
    """
    if hourly.by_month or not monthly.by_month:
        raise ConfigError("break-even", f"{hourly.name} against {monthly.name}", "an hourly and a monthly tier")
    hour, month = (_for_cards(tier, _bundle(monthly)) for tier in (hourly, monthly))
    if not (hour[0] > 0 and hour[1] > 0):
        raise ConfigError("break-even", f"{hourly.name} is free", "a price above zero")
    return BreakEven(
        hourly=hourly.name,
        monthly=monthly.name,
        hours_at_low_ends=month[0] / hour[0],
        hours_at_high_ends=month[1] / hour[1],
        saving_at_low_ends=1 - month[0] / (hour[0] * hours_per_month),
        saving_at_high_ends=1 - month[1] / (hour[1] * hours_per_month),
        hours_per_month=hours_per_month,
    )


def node_break_even(node: Tier, single: Tier) -> NodeBreakEven:
    """From how many used cards of one node the whole node costs less than as many single cards, by the same period."""
    if node.by_month != single.by_month or not node.whole_nodes or single.whole_nodes:
        raise ConfigError("break-even", f"{node.name} against {single.name}", "a node and a card tier of one period")
    size = _bundle(node)
    whole, one = _for_cards(node, size), _for_cards(single, 1)
    counts = [math.floor(round(whole[end] / one[end], 9)) + 1 if one[end] else size + 1 for end in (0, 1)]
    low, high = (count if count <= size else None for count in counts)
    return NodeBreakEven(node.name, single.name, low, high, size)


def hourly_against_monthly(quotes: Iterable[Quote]) -> list[tuple[Quote, BreakEven]]:
    """Every pair of an hourly and a monthly tier that sell the same bundle of cards, quote by quote."""
    return [
        (quote, break_even_hours(hourly, monthly, quote.hours_per_month))
        for quote in quotes
        for hourly in quote.tiers
        for monthly in quote.tiers
        if not hourly.by_month and monthly.by_month and hourly.paid and monthly.paid
        if _bundle(hourly) == _bundle(monthly) and hourly.paid[0] > 0
    ]


def nodes_against_cards(quotes: Iterable[Quote]) -> list[tuple[Quote, NodeBreakEven]]:
    """Every pair of a whole-node and a single-card tier of one period, quote by quote."""
    return [
        (quote, node_break_even(node, single))
        for quote in quotes
        for node in quote.tiers
        for single in quote.tiers
        if node.whole_nodes and not single.whole_nodes and node.by_month == single.by_month
        if node.paid and single.paid
    ]


def _bundle(tier: Tier) -> int:
    """The smallest number of cards that the tier sells."""
    return (tier.cards_per_node or 1) if tier.whole_nodes else 1


def _for_cards(tier: Tier, cards: int) -> tuple[float, float]:
    if tier.paid is None:
        raise ConfigError("break-even", f"the price of {tier.name} is not known")
    units = math.ceil(cards / _bundle(tier)) if tier.by_node else math.ceil(cards / _bundle(tier)) * _bundle(tier)
    return tier.paid[0] * units, tier.paid[1] * units
