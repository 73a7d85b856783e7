"""The decision: which cell at which tier for a workload, a deadline and a budget, with reasons and runners-up.

Only what is expected to meet the constraints is chosen. Options are compared at the high end of their cost and time:
what they may come to. A prediction's wide interval counts
against it that way; it is never taken for a measurement, and a decision that rests on one says so.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from analysis.decision import reasons
from analysis.decision.assumed import Assumed, assumed_card, with_assumptions
from analysis.decision.choice import CHEAPEST, FASTEST, Constraints, best, check, judge, ranking, ranking_keys
from analysis.decision.counts import Counts, counts_for_deadline
from analysis.decision.deadline import CardsForDeadline, cards_for_deadline
from analysis.decision.infeasible import infeasible_reasons
from analysis.decision.json import cell_json, cells_json
from analysis.decision.sensitivity import PriceFlip, Scenario, price_flips, scenarios
from analysis.decision.wording import row_at
from analysis.prices import Quote
from configs.errors import ConfigError

__all__ = ["CardsForDeadline", "Constraints", "Decision", "cards_for_deadline", "decide"]


@dataclass(frozen=True)
class Decision:
    """cells: every priced row with candidate, feasible, certain, excluded, pareto. Indices are into it.

    chosen: None where nothing is expected to meet the constraints; then the alternatives are the nearest to it.
    certain: they hold at the bad ends of the price and throughput intervals too.
    """

    objective: str
    constraints: Constraints
    cells: pd.DataFrame
    chosen: int | None
    alternatives: tuple[tuple[str, int], ...]  # (role, index)
    reasons: tuple[str, ...]
    counts: Counts | None
    scenarios: tuple[Scenario, ...]
    price_flips: tuple[PriceFlip, ...]
    assumptions: tuple[str, ...] = ()  # what nobody stated; the first reason says it too

    @property
    def certain(self) -> bool:
        return self.chosen is not None and bool(self.cells.at[self.chosen, "certain"])

    @property
    def one_card_is_enough(self) -> bool:
        """Whether one card certainly meets every constraint, whatever was chosen."""
        return bool((self.cells["certain"] & (self.cells["cards"] == 1)).any())

    @property
    def pareto(self) -> pd.DataFrame:
        """The rows that nothing beats in both time and money, the fastest first."""
        front = self.cells[self.cells["pareto"]]
        return front.sort_values(["finish_hours_high", "total_cost_high"], kind="stable")

    @property
    def quotes(self) -> pd.DataFrame:
        """The best row of each quote for this job, the best quote first; feasible ones before the others."""
        among = self.cells[self.cells["candidate"]]
        ranked = among.iloc[ranking(ranking_keys(among), self.objective)]
        return ranked.sort_values(["certain", "feasible"], ascending=False, kind="stable").drop_duplicates("quote")

    def to_json(self) -> dict[str, Any]:
        """JSON-able: `decision`, `alternatives`, `cells` and what led to them; blank is None."""
        decision: dict[str, Any] = {
            "feasible": self.chosen is not None,
            "certain": self.certain,
            "objective": self.objective,
            "constraints": asdict(self.constraints),
            "one_card_is_enough": self.one_card_is_enough,
            "assumptions": list(self.assumptions),
            "reasons": list(self.reasons),
            "cards_for_deadline": _counts_json(self.counts),
        }
        chosen = {"cards": None, "mode": None, "tier": None} if self.chosen is None else self._row(self.chosen)
        return {
            "decision": {**chosen, **decision},
            "alternatives": [{"role": role, **self._row(index)} for role, index in self.alternatives],
            "quotes": cells_json(self.quotes),
            "pareto": cells_json(self.pareto),
            "sensitivity": {
                "scenarios": [
                    {
                        "assumption": scenario.assumption,
                        "same": scenario.same,
                        "choice": None if scenario.row is None else self._row(scenario.row),
                    }
                    for scenario in self.scenarios
                ],
                "price_flips": [
                    {"price_below": flip.price, "quoted": {"low": flip.quoted_low, "high": flip.quoted_high}}
                    | self._row(flip.row)
                    for flip in self.price_flips
                ],
            },
            "cells": cells_json(self.cells),
        }

    def _row(self, index: int) -> dict[str, Any]:
        return cell_json(self.cells, index)


def decide(
    cost_rows: pd.DataFrame,
    constraints: Constraints | None = None,
    objective: str = CHEAPEST,
    quotes: Sequence[Quote] = (),
    lang: str = "en",
    assumed: Sequence[Assumed] = (),
) -> Decision:
    """Choose among the rows of `cost_table`: the cheapest or the fastest that meets the constraints.

    An option that meets them at the bad ends of its intervals goes before one that may not. quotes: the sheets, for
    the hourly-against-monthly sentence. lang: of the reasons, en or zh. assumed: what the
    caller assumes; which card was measured is added here.
    Raises ConfigError on impossible constraints, on several models, or on several currencies among what can be chosen.
    """
    constraints = constraints or Constraints()
    check(constraints, objective)
    rows = judge(_one_model(cost_rows, constraints.model), constraints)
    currencies = sorted(rows.loc[rows["candidate"], "currency"].unique())
    if len(currencies) > 1:
        what = f"{' and '.join(currencies)} cannot be ranked together"
        rate = "decide.currency=CNY and decide.rates=[{from: USD, to: CNY, rate: R, date: D}]"
        raise ConfigError("prices", what, f"sheets of one currency, or {rate}")
    keys = ranking_keys(rows)
    chosen = best(keys, objective)
    if chosen is None:
        why, nearest = infeasible_reasons(rows, constraints, lang)
        counts = _counts(rows, nearest[0][1] if nearest else None, constraints)
        why += reasons.count_reasons(counts, lang)
        card = assumed_card(row_at(rows, nearest[0][1])) if nearest else []
        why, assumptions = with_assumptions(why, [*assumed, *card], lang)
        nothing = Decision(objective, constraints, rows, None, tuple(nearest), tuple(why), counts, (), ())
        return replace(nothing, assumptions=tuple(assumptions))
    others = _alternatives(rows, keys, chosen, objective)
    counts = _counts(rows, chosen, constraints)
    corners = scenarios(rows, chosen, constraints, objective)
    flips = [] if objective == FASTEST else price_flips(rows, chosen)
    why = [
        *reasons.choice_reasons(rows, chosen, constraints, lang),
        *reasons.count_reasons(counts, lang),
        *reasons.comparison_reasons(rows, chosen, others, lang),
        *reasons.break_even_reasons(row_at(rows, chosen), quotes, lang),
        *reasons.sensitivity_reasons(rows, corners, flips, lang),
    ]
    why, assumptions = with_assumptions(why, [*assumed, *assumed_card(row_at(rows, chosen))], lang)
    made = Decision(
        objective, constraints, rows, chosen, tuple(others), tuple(why), counts, tuple(corners), tuple(flips)
    )
    return replace(made, assumptions=tuple(assumptions))


def _one_model(rows: pd.DataFrame, model: str | None) -> pd.DataFrame:
    """The rows of one workload; two models' costs are no alternatives to each other."""
    if model is not None:
        if model not in set(rows["model"]):
            known = ", ".join(sorted(filter(None, rows["model"].unique())))
            raise ConfigError("decide.model", f"{model!r} is not in the study", f"there are: {known}")
        return rows[rows["model"] == model]
    ran = sorted(rows.loc[rows["tokens_per_s"].notna(), "model"].unique())
    if len(ran) > 1:
        named = ", ".join(name or "(no name)" for name in ran)
        raise ConfigError("decide.model", f"the cells are of {named}", "name one of them")
    return rows[rows["model"].isin([*ran, ""])] if ran else rows


def _counts(rows: pd.DataFrame, like: int | None, constraints: Constraints) -> Counts | None:
    """Counts from the cells as the tier of row `like` would run them: one row a cell, on one kind of links."""
    if constraints.deadline_hours is None or like is None:
        return None
    row = row_at(rows, like)
    same_tier = (rows["quote"] == row["quote"]) & (rows["tier"] == row["tier"])
    return counts_for_deadline(rows[same_tier], row["epochs"], constraints.deadline_hours)


def _alternatives(rows: pd.DataFrame, keys: pd.DataFrame, chosen: int, objective: str) -> list[tuple[str, int]]:
    """(role, index) of what else is worth a look, each row once: the runner-up first."""
    mine = row_at(rows, chosen)
    other = {name: (rows[name] != mine[name]).to_numpy(dtype=bool) for name in ("cards", "mode", "quote", "tier")}
    everything = np.ones(len(rows), dtype=bool)
    groups = (
        ("runner_up", other["cards"] | other["mode"] | other["quote"] | other["tier"], objective),
        ("fastest", everything, FASTEST),
        ("cheapest", everything, CHEAPEST),
        ("measured", everything & rows["measured"].to_numpy(dtype=bool) & (not mine["measured"]), objective),
        ("one_card", rows["cards"].to_numpy() == 1, objective),
        ("other_mode", other["mode"], objective),
        ("other_quote", other["quote"], objective),
    )
    found: list[tuple[str, int]] = []
    for role, among, by in groups:
        index = best(keys[among], by)
        if index is not None and index != chosen and index not in {known for _, known in found}:
            found.append((role, index))
    return found


def _counts_json(counts: Counts | None) -> dict[str, Any] | None:
    if counts is None:
        return None
    first = counts.estimates[0].plan
    return {
        "relative_to_cards": counts.base_cards,
        "work_hours": first.work_hours,
        "deadline_hours": first.deadline_hours,
        "ideal": first.ideal,
        "estimates": [
            {
                "efficiency": estimate.plan.efficiency,
                "cards": estimate.plan.cards,
                "basis": f"{estimate.mode} on {estimate.cards}" if estimate.mode else "rule of thumb",
                "measured": estimate.measured,
            }
            for estimate in counts.estimates
        ],
    }
