"""The tiers of several quotes as arrays, one entry a tier, so that costing can run over cells x tiers at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from analysis.prices import Quote, Tier
from analysis.prices.currency import ExchangeRate, exchange
from configs.errors import ConfigError
from configs.schema import Costs

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]


@dataclass(frozen=True)
class TierArrays:
    """Arrays of shape (tiers,). Money is for one hour of one billed thing (a card or a node), in `currency`."""

    quotes: tuple[Quote, ...]
    tiers: tuple[Tier, ...]
    currency: tuple[str, ...]
    notes: tuple[str, ...]
    price_low: Floats  # for one billed thing and hour; NaN where the price is not known
    price_high: Floats
    by_node: Flags
    min_cards: Floats
    max_cards: Floats  # infinite where the sheet does not limit it
    cards_per_node: Floats  # NaN where not stated
    whole_nodes: Flags
    billing_unit_hours: Floats
    minimum_hours: Floats
    month_hours: Floats
    unit_hours: Floats  # the hours of one priced unit: 1, or those of a month
    storage_low: Floats  # for a GB and month
    storage_high: Floats
    egress_low: Floats  # for a GB
    egress_high: Floats
    person: Floats  # for an hour
    read_hours_per_gb: Floats  # 0 where the speed is not stated
    write_hours_per_gb: Floats
    setup_hours: Floats
    interruptions_per_hour: Floats

    def __len__(self) -> int:
        return len(self.tiers)


def tier_arrays(
    quotes: Sequence[Quote], costs: Costs, rates: Sequence[ExchangeRate] = (), currency: str | None = None
) -> TierArrays:
    """Spread `quotes` over arrays, their money converted to `currency` (None: each quote keeps its own).

    Raises ConfigError where a conversion has no stated rate, or where the currency of people's hours is open.
    """
    pairs = [(quote, tier) for quote in quotes for tier in quote.tiers]
    exchanged = {quote.currency: exchange(rates, quote.currency, currency or quote.currency) for quote in quotes}
    factor = np.array([exchanged[quote.currency][0] for quote, _ in pairs], dtype=float)
    hours = np.array([quote.hours_per_month if tier.by_month else 1.0 for quote, tier in pairs])
    price = np.array([tier.paid or (np.nan, np.nan) for _, tier in pairs], dtype=float).reshape(-1, 2)
    storage = np.array([tier.storage_price_gb_month for _, tier in pairs], dtype=float).reshape(-1, 2)
    egress = np.array([tier.egress_price_gb for _, tier in pairs], dtype=float).reshape(-1, 2)

    def of(*values: float | None, missing: float = np.nan) -> Floats:
        return np.array([missing if value is None else value for value in values], dtype=float)

    tiers = [tier for _, tier in pairs]
    return TierArrays(
        quotes=tuple(quote for quote, _ in pairs),
        tiers=tuple(tiers),
        currency=tuple(currency or quote.currency for quote, _ in pairs),
        notes=tuple(
            "; ".join(note for note in (*quote.notes, *tier.notes, exchanged[quote.currency][1]) if note)
            for quote, tier in pairs
        ),
        price_low=price[:, 0] * factor / hours,
        price_high=price[:, 1] * factor / hours,
        by_node=np.array([tier.by_node for tier in tiers], dtype=bool),
        min_cards=of(*(tier.min_cards for tier in tiers)),
        max_cards=of(*(tier.max_cards for tier in tiers), missing=np.inf),
        cards_per_node=of(*(tier.cards_per_node for tier in tiers)),
        whole_nodes=np.array([tier.whole_nodes for tier in tiers], dtype=bool),
        billing_unit_hours=of(*(tier.billing_unit_hours for tier in tiers)),
        minimum_hours=of(*(tier.minimum_hours for tier in tiers)),
        unit_hours=hours,
        month_hours=of(*(quote.hours_per_month for quote, _ in pairs)),
        storage_low=storage[:, 0] * factor,
        storage_high=storage[:, 1] * factor,
        egress_low=egress[:, 0] * factor,
        egress_high=egress[:, 1] * factor,
        person=of(*(_person_rate(costs, quote, quotes, rates) for quote, _ in pairs)) * factor,
        read_hours_per_gb=of(*(1 / tier.read_gbps / 3600 if tier.read_gbps else 0.0 for tier in tiers)),
        write_hours_per_gb=of(*(1 / tier.write_gbps / 3600 if tier.write_gbps else 0.0 for tier in tiers)),
        setup_hours=of(*(tier.setup_hours for tier in tiers)),
        interruptions_per_hour=of(*(tier.interruptions_per_hour for tier in tiers)),
    )


def _person_rate(costs: Costs, quote: Quote, quotes: Sequence[Quote], rates: Sequence[ExchangeRate]) -> float:
    """What an hour of a person costs in the quote's currency."""
    if not costs.person_rate:
        return 0.0
    if costs.person_currency is not None:
        return costs.person_rate * exchange(rates, costs.person_currency.upper(), quote.currency)[0]
    currencies = sorted({q.currency for q in quotes})
    if len(currencies) > 1:
        raise ConfigError("costs.person_currency", "is open", f"one of {', '.join(currencies)}: the quotes differ")
    return costs.person_rate
