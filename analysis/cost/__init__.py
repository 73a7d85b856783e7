"""What a job costs: every cell at every tier, low and high. Pure and vectorised over cells x tiers.

Hours of the rental = setup and debugging + computing (with checkpoints, interruptions) / (1 - idle share). They are
billed in the tier's units for the cards rented, idle ones included; storage, egress and people's hours are added.
The low end takes the low price and the fast end of the throughput, the high end the high price and the slow end.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analysis.cost.billing import billed_hours, hours_with_interruptions, rented_cards
from analysis.cost.cells import costed_cells, machine_matches, memory_shares
from analysis.cost.notes import pair_notes
from analysis.cost.tiers import TierArrays, tier_arrays
from analysis.predict.interconnect import link_factors
from analysis.prices import Quote
from analysis.prices.currency import ExchangeRate
from configs.errors import ConfigError
from configs.schema import Costs

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Rental:
    """What each cell rents at each tier; arrays of shape (cells, tiers)."""

    cards: Floats  # used
    rented: Floats
    nodes: Floats  # servers that the tier gives; 1 where it does not say how many cards one has
    billed_things: Floats  # nodes where the price is for a node, else cards


def cost_table(
    cells: pd.DataFrame,
    quotes: Sequence[Quote],
    epoch_tokens: float,
    epochs: float = 1.0,
    costs: Costs | None = None,
    rates: Sequence[ExchangeRate] = (),
    currency: str | None = None,
    card_names: Mapping[str, Iterable[str]] | None = None,
    card_memory: Mapping[str, float] | None = None,
) -> pd.DataFrame:
    """One row a cell x tier, cells in their order, tiers in theirs.

    cells: a study's frame, or predicted rows in the same columns. epoch_tokens: target tokens of one epoch.
    currency: convert all money to it at `rates`; None leaves each quote in its own. card_names: machine -> what drivers
    call its card, to tell a measurement that was made on another card.

    Money is in `currency`; `price_*` is for one `unit` after the discount, `cards_cost_*` the cards' part of the total.
    `cost_per_epoch_*` is an epoch run as a job of its own, `total_cost_*` the whole job; both are billed in the
    tier's units, with all hidden costs. `pure_*` is the same to the exact minute. `finish_hours` counts from the
    start of the rental; `setup_hours` of them come before the work. `total_cost_expected` takes the middle of the
    price range and the throughput itself, `cards_cost_expected` is the cards' part of it. `total_cost_low_price_slow`
    and `total_cost_high_price_fast` are the two corners between total_cost_low and total_cost_high. `measured` is
    false where the throughput was predicted, or carried over to other links. `tier_fits` is false where the tier has
    no known price or too few cards.
    Raises ConfigError on impossible hidden costs, or on money that would have to be converted without a rate.
    """
    costs = costs or Costs()
    check_costs(costs)
    for name, value in (("workload.epoch_tokens", epoch_tokens), ("workload.epochs", epochs)):
        if not 0 < value < np.inf:
            raise ConfigError(name, f"{value!r} is not a positive number")
    rows, tiers = costed_cells(cells), tier_arrays(quotes, costs, rates, currency)
    rental = _rental(rows, tiers)
    low, high, border_unknown = link_factors(rows, tiers, rental.nodes)
    speed = {
        "high": rows["tokens_per_s_low"].to_numpy(dtype=float)[:, None] * low,
        "": rows["tokens_per_s"].to_numpy(dtype=float)[:, None] * np.sqrt(low * high),
        "low": rows["tokens_per_s_high"].to_numpy(dtype=float)[:, None] * high,
    }  # by the end of the *hours* that it gives: slow cards make the high end
    reading = costs.dataset_gb * tiers.read_hours_per_gb
    epoch = {end: np.maximum(epoch_tokens / tokens_per_s / 3600, reading) for end, tokens_per_s in speed.items()}
    whole = {end: _rental_hours(hours * epochs, rental, tiers, costs) for end, hours in epoch.items()}
    single = {end: _rental_hours(hours, rental, tiers, costs) for end, hours in epoch.items()}

    def money(hours: Floats, price: str, billed: bool = True) -> Floats:
        return _money(hours, rental, tiers, costs, price, billed)

    def cards_money(hours: Floats, price: str) -> Floats:
        return _cards_money(hours, rental, tiers, price, billed=True)

    machines = [quote.machine for quote in tiers.quotes]
    match = machine_matches(rows["device"].to_numpy(), machines, card_names or {})
    memory_share = memory_shares(rows, machines, match, card_memory or {})
    known = ~np.isnan(tiers.price_low) & (rental.cards <= tiers.max_cards)
    columns: dict[str, Floats] = {
        "cards": rental.cards,
        "rented_cards": rental.rented,
        "idle_cards": rental.rented - rental.cards,
        "rented_nodes": rental.nodes,
        "tokens_per_s": speed[""],
        "tokens_per_s_low": speed["high"],
        "tokens_per_s_high": speed["low"],
        **_ends("epoch_hours", epoch),
        **_ends("finish_hours", whole),
        **_ends("billed_hours", {end: _billed(hours, tiers) for end, hours in whole.items()}),
    }
    for end in ("low", "high"):
        columns[f"cost_per_epoch_{end}"] = money(single[end], end)
        columns[f"pure_cost_per_epoch_{end}"] = money(single[end], end, billed=False)
        columns[f"total_cost_{end}"] = money(whole[end], end)
        columns[f"pure_total_cost_{end}"] = money(whole[end], end, billed=False)
        columns[f"cards_cost_{end}"] = cards_money(whole[end], end)
        columns[f"price_{end}"] = getattr(tiers, f"price_{end}") * tiers.unit_hours
        columns[f"cost_per_billion_tokens_{end}"] = columns[f"total_cost_{end}"] / (epoch_tokens * epochs / 1e9)
    for name, ends in (("total_cost", money), ("cards_cost", cards_money)):
        columns[f"{name}_expected"] = (ends(whole[""], "low") + ends(whole[""], "high")) / 2
    columns["setup_hours"] = _people_hours(rental, tiers, costs)
    columns["total_cost_low_price_slow"] = money(whole["high"], "low")
    columns["total_cost_high_price_fast"] = money(whole["low"], "high")
    adjusted = (low != 1) | (high != 1)
    table = _labels(rows, tiers)
    for name, values in columns.items():
        table[name] = np.broadcast_to(values, adjusted.shape).reshape(-1)
    table["epochs"] = epochs
    table["measured"] = (rows["measured"].to_numpy(dtype=bool)[:, None] & ~adjusted).reshape(-1)
    table["machine_matches"] = match.reshape(-1)
    table["memory_share"] = memory_share.reshape(-1)
    table["tier_fits"] = np.broadcast_to(known, adjusted.shape).reshape(-1)
    idle = rental.rented - rental.cards
    table["notes"] = pair_notes(rows, tiers, idle, adjusted, border_unknown, match, memory_share).reshape(-1)
    return table


def check_costs(costs: Costs) -> None:
    """Refuse hidden costs that cannot be: negative ones, an idle share of one or more."""
    for field in fields(costs):
        value = getattr(costs, field.name)
        if isinstance(value, (int, float)) and not 0 <= value < np.inf:
            raise ConfigError(f"costs.{field.name}", f"{value!r} is not possible", "zero or more")
    if costs.idle_share >= 1:
        raise ConfigError("costs.idle_share", f"{costs.idle_share:g} leaves no time to work", "0 to below 1")


def _rental(rows: pd.DataFrame, tiers: TierArrays) -> Rental:
    cards = np.broadcast_to(rows["cards"].to_numpy(dtype=float)[:, None], (len(rows), len(tiers)))
    rented = rented_cards(cards, tiers.min_cards, tiers.cards_per_node, tiers.whole_nodes)
    nodes = np.where(np.isnan(tiers.cards_per_node), 1.0, np.ceil(rented / tiers.cards_per_node))
    return Rental(cards, rented, nodes, np.where(tiers.by_node, nodes, rented))


def _people_hours(rental: Rental, tiers: TierArrays, costs: Costs) -> Floats:
    """Rented hours in which somebody sets up and debugs."""
    return tiers.setup_hours + np.where(rental.cards > 1, costs.debug_hours, 0.0)


def _rental_hours(work_hours: Floats, rental: Rental, tiers: TierArrays, costs: Costs) -> Floats:
    checkpoint = np.maximum(costs.checkpoint_s / 3600, costs.checkpoint_gb * tiers.write_hours_per_gb)
    interruptions = tiers.interruptions_per_hour * rental.nodes
    interval = costs.checkpoint_interval_hours
    job = hours_with_interruptions(work_hours, interruptions, checkpoint, interval, costs.restart_hours)
    return _people_hours(rental, tiers, costs) + job / (1 - costs.idle_share)


def _billed(hours: Floats, tiers: TierArrays) -> Floats:
    return billed_hours(hours, tiers.billing_unit_hours, tiers.minimum_hours)


def _money(hours: Floats, rental: Rental, tiers: TierArrays, costs: Costs, price: str, billed: bool) -> Floats:
    """Money for a rental of `hours` at the `price` end; billed: in the tier's units, else to the exact minute."""
    storage, egress = getattr(tiers, f"storage_{price}"), getattr(tiers, f"egress_{price}")
    months = hours / tiers.month_hours if costs.storage_months is None else costs.storage_months
    extras = costs.storage_gb * months * storage + costs.egress_gb * egress
    people = _people_hours(rental, tiers, costs) * tiers.person
    money: Floats = _cards_money(hours, rental, tiers, price, billed) + extras + people
    return money


def _cards_money(hours: Floats, rental: Rental, tiers: TierArrays, price: str, billed: bool) -> Floats:
    """The part of it that is for the cards."""
    hourly: Floats = getattr(tiers, f"price_{price}")
    money: Floats = (_billed(hours, tiers) if billed else hours) * rental.billed_things * hourly
    return money


def _ends(name: str, values: Mapping[str, Floats]) -> dict[str, Floats]:
    return {f"{name}_{end}" if end else name: value for end, value in values.items()}


def _labels(rows: pd.DataFrame, tiers: TierArrays) -> pd.DataFrame:
    """The columns that say which cell and which tier a row is."""
    n, m = len(rows), len(tiers)
    by_tier = {
        "quote": [q.name for q in tiers.quotes],
        "provider": [q.provider for q in tiers.quotes],
        "machine": [q.machine for q in tiers.quotes],
        "tier": [t.name for t in tiers.tiers],
        "unit": [t.unit for t in tiers.tiers],
        "currency": tiers.currency,
        "price_date": [q.date.isoformat() if q.date else "" for q in tiers.quotes],
        "interconnect": [t.interconnect for t in tiers.tiers],
    }
    table = {name: np.tile(np.array(values, dtype=object), n) for name, values in by_tier.items()}
    for name in ("cell_id", "model", "mode", "status", "device"):
        table[name] = np.repeat(rows[name].to_numpy(dtype=object), m)
    table["hours_per_month"] = np.tile(tiers.month_hours, n)
    return pd.DataFrame(table)
