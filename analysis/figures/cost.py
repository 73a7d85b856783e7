"""Money as figures: cost of an epoch over the count of cards for each tier, and the front of time against money."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from analysis.decision import Decision
from analysis.figures import Curve, Figure, Guide, at_most
from analysis.tables import number, plain
from analysis.text import Say

MOST_POINTS = 1000  # of time against money in one figure: more hide each other
VAGUE = 20  # a prediction whose cost spans more than this factor says too little to draw


def cost_figure(costs: pd.DataFrame, per_epoch: bool, say: Say) -> Figure | None:
    """For each tier the cost of an epoch in the cheapest mode of each count, low to high; None without priced cells.

    One currency: that of most rows. Other currencies are left out, because an axis has one unit.
    """
    priced = costs[costs["cost_per_epoch_high"].notna() & costs["tier_fits"] & costs["measured"]]
    if priced.empty:
        return None
    currency = priced["currency"].mode().iloc[0]
    models = priced["model"].unique()
    rows = priced[(priced["currency"] == currency) & (priced["model"] == models[0])]
    several = rows["quote"].nunique() > 1
    curves, best = [], []
    for style, ((quote, tier), part) in enumerate(rows.groupby(["quote", "tier"], sort=False)):
        cheapest = part.sort_values("cost_per_epoch_high", kind="stable").drop_duplicates("cards").sort_values("cards")
        low, high = cheapest["cost_per_epoch_low"], cheapest["cost_per_epoch_high"]
        curves.append(
            Curve(
                name=plain(f"{quote} {tier}" if several else tier).replace("_", " "),
                x=tuple(float(count) for count in cheapest["cards"]),
                y=tuple(number(value) for value in (low * high) ** 0.5),
                low=tuple(map(number, low)),
                high=tuple(map(number, high)),
                style=style,
                labels=tuple(map(plain, cheapest["mode"])),
            )
        )
        best.append(-float(high.min()))
    note = say("figure.cost_note")
    if len(models) > 1:
        note += f" {say('figure.one_model', model=plain(models[0]))}"
    figure = Figure(
        name="cost",
        title=say("figure.cost" if per_epoch else "figure.cost_billion"),
        x_label=say("figure.cards"),
        y_label=say("figure.money_axis", currency=currency),
        curves=tuple(curves),
        x_log=2,
        y_log=True,
        note=note,
    )
    return at_most(figure, say, best)


def pareto_figure(decision: Decision, number_of: int, say: Say) -> Figure | None:
    """Total cost against the time to finish, each tier a curve of points, and the front that nothing beats."""
    rows = decision.cells[decision.cells["candidate"]]
    vague = ~rows["measured"] & (rows["total_cost_high"] > VAGUE * rows["total_cost_low"])
    rows = rows[~vague]
    if rows.empty:
        return None
    several = rows["quote"].nunique() > 1
    total, rows = len(rows), rows[_nearest(rows)]
    curves, best = [], []
    for style, ((quote, tier), tiered) in enumerate(rows.groupby(["quote", "tier"], sort=False)):
        for measured, part in tiered.groupby("measured", sort=True):
            part = part.sort_values("finish_hours", kind="stable")
            labels = (f"{row.mode}, {row.cards:g}" for row in part.itertuples())
            curves.append(
                Curve(
                    name=plain(f"{quote} {tier}" if several else tier).replace("_", " "),
                    x=tuple(float(hours) for hours in part["finish_hours"]),
                    y=tuple(map(number, (part["total_cost_low"] * part["total_cost_high"]) ** 0.5)),
                    low=tuple(map(number, part["total_cost_low"])),
                    high=tuple(map(number, part["total_cost_high"])),
                    style=style,
                    predicted=not measured,
                    labels=tuple(plain(label) for label in labels),
                )
            )
        best.append(-float(tiered["total_cost_high"].min()))
    front = decision.pareto
    guides = (Guide(say("figure.front"), tuple(front["finish_hours_high"]), tuple(front["total_cost_high"])),)
    notes = [say("figure.pareto_note")]
    notes += [say("figure.vague", count=vague.sum())] if vague.any() else []
    notes += [say("figure.nearest", shown=len(rows), total=total)] if total > len(rows) else []
    figure = Figure(
        name=f"pareto{number_of or ''}",
        title=say("figure.pareto"),
        x_label=say("figure.hours_axis"),
        y_label=say("figure.total_axis", currency=plain(rows["currency"].iloc[0])),
        curves=tuple(curves),
        guides=guides if len(front) > 1 else (),
        kind="points",
        x_log=10,
        y_log=True,
        note=" ".join(notes),
    )
    return at_most(figure, say, best)


def _nearest(rows: pd.DataFrame) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Which `MOST_POINTS` rows cost least beside the cheapest that is as fast, high ends against high ends."""
    hours, cost = (rows[name].to_numpy(dtype=float) for name in ("finish_hours_high", "total_cost_high"))
    by_time = np.lexsort((cost, hours))
    cheapest = np.empty_like(cost)
    cheapest[by_time] = np.fmin.accumulate(cost[by_time])
    kept = np.zeros(len(rows), dtype=bool)
    kept[np.argsort(cost / cheapest, kind="stable")[:MOST_POINTS]] = True
    return kept
