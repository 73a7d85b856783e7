"""Price sheets: one provider's tiers for one machine, checked, as frozen dataclasses. Plain data in, no file access.

A sheet never leaves a unit or a currency to be guessed: both are the two ways to be wrong by a factor.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from typing import Any

from analysis.prices.fields import Fields, Place, Range
from analysis.prices.numerals import tidy
from analysis.prices.plausible import doubtful_prices
from configs.errors import ConfigError, choose

UNITS = ("card_hour", "node_hour", "card_month", "node_month")
HOURS_PER_MONTH = 720.0  # thirty days; 672, 730 and 744 are in use too, so a sheet can state its own
STALE_DAYS = 365

SHEET_FIELDS = ("name", "provider", "region", "currency", "date", "machine", "hours_per_month", "notes", "tiers")
TIER_FIELDS = (
    *("name", "unit", "price", "discount", "free", "min_cards", "max_cards", "cards_per_node", "whole_nodes"),
    *("billing_unit_hours", "minimum_hours", "interconnect", "storage", "egress_price_gb", "setup_hours"),
    "interruptions_per_hour",
)
STORAGE_FIELDS = ("price_gb_month", "read_gbps", "write_gbps")


@dataclass(frozen=True)
class Tier:
    """One way to pay. Prices are in the quote's currency, per `unit`, low and high end, before the discount."""

    name: str
    unit: str
    price: Range | None  # None: not known, kept out of every ranking
    discount: Range = (1.0, 1.0)  # what is paid of the price: 0.85 is fifteen per cent off
    min_cards: int = 1
    max_cards: int | None = None  # how many are on offer
    cards_per_node: int | None = None
    whole_nodes: bool = False  # cards come in whole nodes; the ones not used are billed too
    billing_unit_hours: float = 1.0  # what time is rounded up to; 0 bills the exact time
    minimum_hours: float = 0.0
    interconnect: str = ""
    storage_price_gb_month: Range = (0.0, 0.0)
    read_gbps: float | None = None  # GB/s, powers of ten
    write_gbps: float | None = None
    egress_price_gb: Range = (0.0, 0.0)
    setup_hours: float = 0.0  # rented before the job can start
    interruptions_per_hour: float = 0.0  # expected, for each rented node; 0 for anything but spot
    notes: tuple[str, ...] = ()

    @property
    def by_node(self) -> bool:
        """Whether the price is for a node, not for a card."""
        return self.unit.startswith("node")

    @property
    def by_month(self) -> bool:
        return self.unit.endswith("month")

    @property
    def paid(self) -> Range | None:
        """What one unit costs after the discount, low and high."""
        return None if self.price is None else (self.price[0] * self.discount[0], self.price[1] * self.discount[1])

    def per_card_hour(self, hours_per_month: float) -> Range | None:
        """What a card-hour comes to when every card and hour is used: for comparison, never for billing."""
        if self.paid is None:
            return None
        share = (hours_per_month if self.by_month else 1.0) * ((self.cards_per_node or 1) if self.by_node else 1)
        return self.paid[0] / share, self.paid[1] / share


@dataclass(frozen=True)
class Quote:
    """One provider's tiers for one machine."""

    name: str
    provider: str
    currency: str
    machine: str
    tiers: tuple[Tier, ...]
    region: str = ""
    date: date | None = None
    hours_per_month: float = HOURS_PER_MONTH
    notes: tuple[str, ...] = ()


def parse_quote(
    data: Any, source: str, name: str, places: Sequence[Place] | None = None, today: date | None = None
) -> Quote:
    """Check one sheet given as plain data (what YAML or the CSV reader gives) and return it as a Quote.

    source: how messages call the file. places: for each tier, where a field of it stands; None: the YAML path.
    today: what the sheet's age is judged against; None skips that. Raises ConfigError naming file, field and value.
    """
    if not isinstance(data, Mapping):
        raise ConfigError(source, "is not a price sheet", f"a mapping with {', '.join(SHEET_FIELDS)}")
    at: Place = places[0] if places else lambda field: f"{source}: {field}"
    sheet = Fields(data, at)
    sheet.only(SHEET_FIELDS)
    tiers = data.get("tiers")
    if not isinstance(tiers, Sequence) or isinstance(tiers, str) or not tiers:
        raise ConfigError(at("tiers"), f"{tiers!r} is not a list of tiers", f"units: {', '.join(UNITS)}")
    hours = sheet.number("hours_per_month", HOURS_PER_MONTH)
    if not 600 <= hours <= 800:
        raise ConfigError(at("hours_per_month"), f"{hours:g} is not a month", "672 to 744; 720 is thirty days")
    currency = _currency(data.get("currency"), at("currency"))
    stated, notes = _date(data.get("date"), at("date"), today)
    if data.get("notes"):
        notes = (tidy(str(data["notes"])), *notes)
    parsed: list[Tier] = []
    for i, tier in enumerate(tiers):
        place = places[i] if places else _yaml_place(source, i)
        parsed.append(_tier(tier, place, currency, hours))
        if parsed[-1].name in {t.name for t in parsed[:-1]}:
            raise ConfigError(place("name"), f"{parsed[-1].name!r} is there twice", "a name of its own for each tier")
    machine = tidy(str(data.get("machine") or ""))
    if not machine:
        raise ConfigError(at("machine"), "is missing", "the name of a machine, such as a100_80g")
    doubts = doubtful_prices([tier.per_card_hour(hours) for tier in parsed], currency)
    return Quote(
        name=tidy(str(data.get("name") or name)),
        provider=tidy(str(data.get("provider") or name)),
        currency=currency,
        machine=machine,
        tiers=tuple(
            replace(tier, notes=(*tier.notes, doubt)) if doubt else tier
            for tier, doubt in zip(parsed, doubts, strict=True)
        ),
        region=tidy(str(data.get("region") or "")),
        date=stated,
        hours_per_month=hours,
        notes=notes,
    )


def _yaml_place(source: str, i: int) -> Place:
    return lambda field: f"{source}: tiers[{i}].{field}"


def _tier(data: Any, place: Place, currency: str, hours_per_month: float) -> Tier:
    if not isinstance(data, Mapping):
        raise ConfigError(place("unit"), f"{data!r} is not a tier", f"a mapping with {', '.join(TIER_FIELDS)}")
    fields = Fields(data, place, currency)
    fields.only(TIER_FIELDS)
    unit = choose(place("unit"), str(data.get("unit")), UNITS)
    if not isinstance(data.get("storage") or {}, Mapping):
        raise ConfigError(place("storage"), f"{data['storage']!r} is not a mapping", f"{', '.join(STORAGE_FIELDS)}")
    storage = Fields(data.get("storage") or {}, lambda field: place(f"storage.{field}"), currency)
    storage.only(STORAGE_FIELDS)
    price, notes = _price(fields)
    tier = Tier(
        name=tidy(str(data.get("name") or unit)),
        unit=unit,
        price=price,
        discount=_discount(fields),
        min_cards=fields.count("min_cards") or 1,
        max_cards=fields.count("max_cards"),
        cards_per_node=fields.count("cards_per_node"),
        billing_unit_hours=fields.number("billing_unit_hours", hours_per_month if unit.endswith("month") else 1.0),
        minimum_hours=fields.number("minimum_hours", 0.0),
        interconnect=tidy(str(data.get("interconnect") or "")),
        storage_price_gb_month=storage.range("price_gb_month") or (0.0, 0.0),
        read_gbps=storage.speed("read_gbps"),
        write_gbps=storage.speed("write_gbps"),
        egress_price_gb=fields.range("egress_price_gb") or (0.0, 0.0),
        setup_hours=fields.number("setup_hours", 0.0),
        interruptions_per_hour=fields.number("interruptions_per_hour", 0.0),
        notes=notes,
    )
    stated = fields.flag("whole_nodes")
    if (tier.by_node or stated) and tier.cards_per_node is None:
        raise ConfigError(place("cards_per_node"), f"is missing for a {unit}", "how many cards the node has")
    if tier.max_cards is not None and tier.max_cards < tier.min_cards:
        raise ConfigError(place("max_cards"), f"{tier.max_cards} is below min_cards {tier.min_cards}")
    sold_by_node = tier.cards_per_node is not None and tier.min_cards >= tier.cards_per_node
    return replace(tier, whole_nodes=tier.by_node or (sold_by_node if stated is None else stated))


def _price(tier: Fields) -> tuple[Range | None, tuple[str, ...]]:
    """(price, notes). Blank is unknown; zero has to be meant, because people write zero where they know no price."""
    free, price = bool(tier.flag("free")), tier.range("price")
    if price is None:
        return ((0.0, 0.0), ("free",)) if free else (None, ("price not stated: left out of the ranking",))
    if price[0] == 0 and not free:
        raise ConfigError(
            tier.place("price"), f"{tier.data['price']!r} is zero", "leave it blank if unknown, or say `free: true`"
        )
    if price[1] > 5 * price[0] > 0:
        return price, (f"price {price[0]:g} to {price[1]:g} is an unusually wide range: check it",)
    return price, ()


def _discount(tier: Fields) -> Range:
    discount = tier.range("discount") or (1.0, 1.0)
    if discount[0] <= 0 or discount[1] > 1:
        allowed = "above 0, at most 1: 0.85 pays 85 % of the price (85 折)"
        raise ConfigError(tier.place("discount"), f"{tier.data['discount']!r} is not a factor", allowed)
    return discount


def _currency(value: Any, where: str) -> str:
    code = tidy(str(value or "")).upper()
    if not re.fullmatch(r"[A-Z]{3}", code):
        raise ConfigError(where, f"{value!r} is not a currency", "its three letters, such as CNY, USD or EUR")
    return code


def _date(value: Any, where: str, today: date | None) -> tuple[date | None, tuple[str, ...]]:
    """(date, what to say about it). YAML gives dates and times, a spreadsheet text."""
    if value is None or value == "":
        return None, ("the sheet has no date: ask whether the prices still hold",)
    if not isinstance(value, date):
        try:
            value = date.fromisoformat(str(value))
        except ValueError:
            raise ConfigError(where, f"{value!r} is not a date", "year-month-day, such as 2026-01-31") from None
    stated = date(value.year, value.month, value.day)
    if today is None:
        return stated, ()
    if stated > today:
        return stated, (f"the sheet is dated {stated}, in the future: check it",)
    age = (today - stated).days
    return stated, ((f"the prices are of {stated}, {age} days old: ask again",) if age > STALE_DAYS else ())
