"""Which assumption flips the decision: all prices or the throughput at the other end, or one tier's own price."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from analysis.decision.choice import Constraints, first, ranking_keys
from analysis.decision.wording import row_at

# (what is assumed, the cost column, the hours column)
CORNERS = (
    ("every price at its low end, throughput at its high end", "total_cost_low", "finish_hours_low"),
    ("every price at its low end, throughput at its low end", "total_cost_low_price_slow", "finish_hours_high"),
    ("every price at its high end, throughput at its high end", "total_cost_high_price_fast", "finish_hours_low"),
    ("every price at its high end, throughput at its low end", "total_cost_high", "finish_hours_high"),
)
TIERS_LOOKED_AT = 5


@dataclass(frozen=True)
class Scenario:
    """What would be chosen under one assumption. row: index of that choice, None where nothing would be feasible."""

    assumption: str
    row: int | None
    same: bool  # the choice has the same cards, mode, quote and tier


@dataclass(frozen=True)
class PriceFlip:
    """Row `row` would be chosen if its tier cost less than `price` for one unit; quoted from low to high."""

    row: int
    price: float
    quoted_low: float
    quoted_high: float


def scenarios(rows: pd.DataFrame, chosen: int | None, constraints: Constraints, objective: str) -> list[Scenario]:
    """The choice at each corner of the price and throughput intervals, against the row `chosen`. rows: from `judge`."""
    candidate = rows["candidate"].to_numpy(dtype=bool)
    keys = ranking_keys(rows)[candidate]
    deadline = np.inf if constraints.deadline_hours is None else constraints.deadline_hours * (1 + 1e-9)
    budget = np.inf if constraints.budget is None else constraints.budget * (1 + 1e-9)
    found = []
    for assumption, cost, hours in CORNERS:
        money, time = (rows[column].to_numpy(dtype=float)[candidate] for column in (cost, hours))
        corner = keys.assign(total_cost_high=money, total_cost_low=money, finish_hours_high=time, finish_hours_low=time)
        corner = corner[(money <= budget) & (time <= deadline)]
        row = first(corner, objective) if len(corner) else None
        found.append(Scenario(assumption, row, _same(rows, row, chosen)))
    return found


def price_flips(rows: pd.DataFrame, chosen: int) -> list[PriceFlip]:
    """Tiers that would beat the chosen row at its high end if quoted at some price inside their own range.

    One row a tier: the one that needs the smallest concession. Only rows that certainly meet the constraints.
    """
    mine = row_at(rows, chosen)
    names = ["quote", "tier", "cards", "mode", "cell_id"]
    columns = [*names, "total_cost_high", "cards_cost_high", "price_low", "price_high"]
    others = rows.loc[rows["certain"] & ((rows["quote"] != mine["quote"]) | (rows["tier"] != mine["tier"])), columns]
    rest = others["total_cost_high"] - others["cards_cost_high"]
    room = mine["total_cost_high"] - rest
    price = others["price_high"] * room / others["cards_cost_high"].where(others["cards_cost_high"] > 0)
    inside = (price >= others["price_low"]) & (price < others["price_high"]) & (price > 0)
    concession = (1 - price / others["price_high"]).round(9)
    ranked = others.assign(concession=concession)[inside].sort_values(["concession", *names])
    first_of_tier = ranked.drop_duplicates(["quote", "tier"]).index[:TIERS_LOOKED_AT]
    quoted = others.loc[first_of_tier, ["price_low", "price_high"]].to_numpy(dtype=float)
    return [
        PriceFlip(int(row), float(price[row]), float(low), float(high))
        for row, (low, high) in zip(first_of_tier, quoted, strict=True)
    ]


def _same(rows: pd.DataFrame, one: int | None, other: int | None) -> bool:
    if one is None or other is None:
        return one is other
    mine, theirs = row_at(rows, one), row_at(rows, other)
    return all(mine[key] == theirs[key] for key in ("cards", "mode", "quote", "tier"))
