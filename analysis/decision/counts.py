"""How many cards a deadline asks for: ideal, and at the efficiencies that the study shows (or the rule of thumb)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from analysis.decision.deadline import CardsForDeadline, cards_for_deadline

# 2x to 3.6x on four data-parallel cards: https://idctop.com/article/573547.html
RULE_OF_THUMB = (3.6 / 4, 2.0 / 4)


@dataclass(frozen=True)
class CountEstimate:
    """One efficiency and the count it asks for. mode and cards: where it was seen; mode "" is the rule of thumb."""

    mode: str
    cards: int
    measured: bool
    plan: CardsForDeadline


@dataclass(frozen=True)
class Counts:
    """base_cards: what one "card" of the estimates is relative to (1, or the fewest cards that were measured)."""

    base_cards: int
    most_cards: int  # the largest count with a throughput: beyond it an efficiency is a guess
    base_epoch_hours: float
    estimates: tuple[CountEstimate, ...]  # the most efficient first


def counts_for_deadline(rows: pd.DataFrame, epochs: float, deadline_hours: float) -> Counts | None:
    """Ideal and real counts from the cells of one tier (`rows`: one row a cell). None without any throughput.

    Efficiency is relative to the fewest cards that have a throughput, measured ones before predicted ones. Its highest
    and lowest values over the modes give the bounds; without a second count the article's 90 % and 50 % do.
    """
    known = rows[rows["tokens_per_s"] > 0]
    if known.empty:
        return None
    fewest = known[known["cards"] == known["cards"].min()]
    base = fewest.sort_values(["measured", "tokens_per_s"], ascending=False).iloc[0]
    base_cards, base_hours = int(base["cards"]), float(base["epoch_hours"])

    def plan(efficiency: float) -> CardsForDeadline:
        return cards_for_deadline(base_hours * base_cards, epochs, deadline_hours, efficiency)

    several = known[known["cards"] > base_cards]
    several = several[several["measured"]] if several["measured"].any() else several
    if several.empty:
        return Counts(
            base_cards, base_cards, base_hours, tuple(CountEstimate("", 4, False, plan(e)) for e in RULE_OF_THUMB)
        )
    efficiency = several["tokens_per_s"] / base["tokens_per_s"] * base_cards / several["cards"]
    names = [pd.factorize(several["mode"], sort=True)[0], several["cards"].to_numpy(dtype=float)]
    order = np.lexsort((~several["measured"].to_numpy(dtype=bool), *names, -efficiency.to_numpy(dtype=float).round(9)))
    ends = [order[0]] if len(order) == 1 else [order[0], order[-1]]
    return Counts(
        base_cards,
        int(several["cards"].max()),
        base_hours,
        tuple(
            CountEstimate(str(row["mode"]), int(row["cards"]), bool(row["measured"]), plan(float(efficiency.iloc[i])))
            for i, row in ((i, several.iloc[i]) for i in ends)
        ),
    )
