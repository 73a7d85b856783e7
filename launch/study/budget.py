"""What a sweep has spent, what it will have spent at its end, and how long it may go on. Computed from the records."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from analysis.cost.billing import billed_hours, rented_cards
from analysis.cost.tiers import TierArrays, tier_arrays
from analysis.prices import Quote
from configs.cell import Cell
from configs.errors import ConfigError, choose
from configs.schema import Budget, Costs
from results.record import Record

START_S = 20.0  # what a first cell is thought to take besides its measuring


@dataclass(frozen=True)
class Spent:
    """Card-hours of a study so far, from its records. failed: cells and attempts that gave no measurement."""

    used: float = 0.0
    idle: float = 0.0
    failed: float = 0.0

    @property
    def card_hours(self) -> float:
        """All that was paid for."""
        return self.used + self.idle


@dataclass(frozen=True)
class Tariff:
    """One tier's price for `cards` cards that are rented together."""

    tiers: TierArrays
    index: int
    cards: int

    @property
    def currency(self) -> str:
        return self.tiers.currency[self.index]

    def money(self, card_hours: float) -> tuple[float, float]:
        """Low and high money for so many card-hours of these cards as one rental, rounded up as the tier bills."""
        hours = float(billed_hours(card_hours / self.cards, *self._terms()))
        low, high = self.tiers.price_low[self.index], self.tiers.price_high[self.index]
        return hours * self._things() * float(low), hours * self._things() * float(high)

    def card_hours(self, money: float) -> float:
        """The most card-hours whose invoice at the high price is within `money`."""
        unit, minimum = self._terms()
        hours = money / (self._things() * float(self.tiers.price_high[self.index]))
        if unit > 0:
            hours = math.floor(round(hours / unit, 9)) * unit
        return hours * self.cards if hours >= minimum else 0.0

    def _terms(self) -> tuple[float, float]:
        return float(self.tiers.billing_unit_hours[self.index]), float(self.tiers.minimum_hours[self.index])

    def _things(self) -> float:
        """Billed things: nodes where the price is for a node, else cards."""
        tiers, i = self.tiers, self.index
        rented = float(rented_cards(self.cards, tiers.min_cards[i], tiers.cards_per_node[i], tiers.whole_nodes[i]))
        return math.ceil(rented / tiers.cards_per_node[i]) if tiers.by_node[i] else rented


def find_tariff(budget: Budget, quotes: Sequence[Quote], cards: int) -> Tariff | None:
    """The tier that `budget` names among `quotes`; None where it names none.

    Raises ConfigError for an unknown tier, one without a price, or money to be kept without a tier.
    """
    names = [tier.name for quote in quotes for tier in quote.tiers]
    if budget.tier is None:
        if budget.money is not None:
            raise ConfigError("budget.money", "needs a tier", f"budget.tier, one of: {', '.join(names)}")
        return None
    choose("budget.tier", budget.tier, names)
    tiers = tier_arrays(quotes, Costs())
    index = names.index(budget.tier)
    if not tiers.price_high[index] > 0:
        raise ConfigError("budget.tier", f"{budget.tier} has no known price")
    return Tariff(tiers, index, cards)


def check_budget(budget: Budget) -> None:
    """Refuse bounds that are no amounts."""
    for name in ("card_hours", "money", "minutes", "cards"):
        value = getattr(budget, name)
        if value is not None and not 0 < value < math.inf:
            raise ConfigError(f"budget.{name}", f"{value!r} is not an amount", "a positive number, or null")


def spent(records: Iterable[Record]) -> Spent:
    """Add up what the records say. A cell measured again keeps what its earlier attempts took."""
    used = idle = failed = 0.0
    for record in records:
        earlier = record.spending.get("earlier_card_hours") or 0.0
        wasted = record.spending.get("idle_card_hours") or 0.0
        used += record.card_hours + earlier
        idle += wasted
        failed += earlier + (record.card_hours + wasted if record.error is not None else 0.0)
    return Spent(used, idle, failed)


def expected_s(cell: Cell, records: Iterable[Record]) -> float:
    """Seconds that `cell` will take: as its benchmark's measured cells took, else its own bound and a start."""
    walls = [record.wall_s for record in records if record.status == "ok" and record.benchmark == cell.benchmark.name]
    return statistics.median(walls) if walls else cell.measure.max_seconds + START_S


def seconds_left(budget: Budget, tariff: Tariff | None, so_far: Spent, cards: int, started: float) -> float:
    """How long the sweep may go on, in seconds of `cards` rented cards; infinite without a bound.

    started: time.time() at which the command began, which `budget.minutes` counts from.
    """
    left = math.inf
    if budget.minutes is not None:
        left = min(left, started + budget.minutes * 60 - time.time())
    if budget.card_hours is not None:
        left = min(left, (budget.card_hours - so_far.card_hours) / cards * 3600)
    if budget.money is not None and tariff is not None:
        left = min(left, (tariff.card_hours(budget.money) - so_far.card_hours) / cards * 3600)
    return left


def meter(so_far: Spent, expected_card_hours: float, tariff: Tariff | None) -> str:
    """The rental meter as a phrase: spent, of that lost and idle, expected at the end."""
    parts = [f"spent {_amount(so_far.card_hours, tariff)}"]
    if so_far.failed > 0:
        parts.append(f"{so_far.failed:.2f} lost to failed or cut cells")
    if so_far.idle > 0:
        parts.append(f"{so_far.idle:.2f} idle")
    if expected_card_hours > so_far.card_hours:
        parts.append(f"expected at the end {_amount(expected_card_hours, tariff)}")
    return ", ".join(parts)


def _amount(card_hours: float, tariff: Tariff | None) -> str:
    text = f"{card_hours:.2f} card-hours"
    if tariff is None:
        return text
    low, high = tariff.money(card_hours)
    money = f"{low:,.2f}" if low == high else f"{low:,.2f} to {high:,.2f}"
    return f"{text} ({money} {tariff.currency})"
