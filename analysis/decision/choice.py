"""Which priced rows meet the constraints, which is best, and which are worth looking at. Vectorised over all rows."""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analysis.cost.billing import NEVER_HOURS
from configs.errors import ConfigError, choose

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]

CHEAPEST = "cheapest"
FASTEST = "fastest"
CHEAPEST_BEFORE_DEADLINE = "cheapest_before_deadline"
OBJECTIVES = (CHEAPEST, FASTEST, CHEAPEST_BEFORE_DEADLINE)
MAY_MISS, MAY_EXCEED, MEMORY_UNKNOWN = "may miss the deadline", "may exceed the budget", "memory is not known"
RANKED = ("total_cost_high", "total_cost_low", "finish_hours_high", "finish_hours_low")


@dataclass(frozen=True)
class Constraints:
    """What a choice must respect; None is no constraint. Money is in the currency of the priced rows."""

    deadline_hours: float | None = None  # from the start of the rental
    budget: float | None = None
    max_memory_share: float | None = None  # of the card; 0.9 is the "tight" line
    card_counts: tuple[int, ...] | None = None  # what is on offer
    modes: tuple[str, ...] | None = None
    model: str | None = None


def check(constraints: Constraints, objective: str) -> None:
    """Refuse a constraint that cannot be. Raises ConfigError."""
    choose("objective", objective, OBJECTIVES)
    if objective == CHEAPEST_BEFORE_DEADLINE and constraints.deadline_hours is None:
        raise ConfigError("workload.deadline_hours", f"is missing for objective={objective}", "hours above zero")
    names = {"deadline_hours": "workload.deadline_hours", "budget": "workload.budget"}
    for field in fields(constraints):
        value = getattr(constraints, field.name)
        if isinstance(value, (int, float)) and not 0 < value < np.inf:
            raise ConfigError(names.get(field.name, field.name), f"{value!r} is not possible", "above zero")
    if constraints.card_counts is not None and not constraints.card_counts:
        raise ConfigError("card_counts", "is empty", "at least one count")


def judge(rows: pd.DataFrame, constraints: Constraints) -> pd.DataFrame:
    """`rows` (a cost table) with `candidate`, `feasible`, `certain`, `excluded`, `risk` and `pareto`, on a fresh index.

    candidate: can be rented and has a cost, whatever it takes. feasible: meets deadline and budget as expected, at the
    throughput itself and the middle of the price range; certain: at the slow end and the high price too, with a known
    memory where a share of it is asked for. excluded: why a row is not feasible, risk: why a feasible one is not
    certain, in words.
    """
    rows = rows.reset_index(drop=True)
    finish, finish_high = (rows[name].to_numpy(dtype=float) for name in ("finish_hours", "finish_hours_high"))
    cost, cost_high = (rows[name].to_numpy(dtype=float) for name in ("total_cost_expected", "total_cost_high"))
    memory_share = rows["memory_share"].to_numpy(dtype=float)
    excluded = np.full(len(rows), "", dtype=object)

    def rule_out(where: Flags, why: str) -> None:
        excluded[where & (excluded == "")] = why

    rule_out(rows["tokens_per_s"].isna().to_numpy(), "no throughput")
    rule_out(~rows["tier_fits"].to_numpy(dtype=bool), "the tier has no price or too few cards")
    rule_out(finish_high >= NEVER_HOURS, "never ends: interrupted before it gets anywhere")
    other_card = rows["machine_matches"].to_numpy(dtype=float) == 0
    if not other_card[excluded == ""].all():
        rule_out(other_card, "measured on another card")
    if constraints.card_counts is not None:
        rule_out(~rows["cards"].isin(constraints.card_counts).to_numpy(), "not one of the card counts on offer")
    if constraints.modes is not None:
        rule_out(~rows["mode"].isin(constraints.modes).to_numpy(), "not one of the modes asked for")
    rule_out(memory_share > 1, "needs more memory than the card has")
    if constraints.max_memory_share is not None:
        rule_out(memory_share > constraints.max_memory_share, "memory is too tight")
    candidate = excluded == ""
    deadline = np.inf if constraints.deadline_hours is None else constraints.deadline_hours
    budget = np.inf if constraints.budget is None else constraints.budget
    slack = 1 + 1e-9  # a sum of hours that is the deadline but for float noise meets it
    late, dear = finish > deadline * slack, cost > budget * slack
    rule_out(late & dear, "misses the deadline and the budget")
    rule_out(late, "misses the deadline")
    rule_out(dear, "over the budget")
    feasible = excluded == ""
    rows["candidate"], rows["feasible"], rows["excluded"] = candidate, feasible, excluded
    rows["risk"] = _risks(
        feasible & (finish_high > deadline * slack),
        feasible & (cost_high > budget * slack),
        feasible & np.isnan(memory_share) & (constraints.max_memory_share is not None),
    )
    rows["certain"] = feasible & (rows["risk"] == "")
    rows["pareto"] = pareto_front(np.where(candidate, finish_high, np.nan), np.where(candidate, cost_high, np.nan))
    return rows


def _risks(late: Flags, dear: Flags, memory_unknown: Flags) -> NDArray[np.object_]:
    """What may go wrong with each row, joined by ", "."""
    risk = np.full(len(late), "", dtype=object)
    for where, what in ((late, MAY_MISS), (dear, MAY_EXCEED), (memory_unknown, MEMORY_UNKNOWN)):
        risk[where] = np.where(risk[where] == "", what, risk[where] + ", " + what)
    return risk


def pareto_front(hours: Floats, cost: Floats) -> Flags:
    """Which rows no other row beats in one of time and money without losing in the other; NaN rows never."""
    front = np.zeros(len(hours), dtype=bool)
    known = np.flatnonzero(~(np.isnan(hours) | np.isnan(cost)))
    if not len(known):
        return front
    order = known[np.lexsort((cost[known], hours[known]))]
    best_before = np.concatenate(([np.inf], np.minimum.accumulate(cost[order])[:-1]))
    front[order] = cost[order] < best_before
    same = pd.MultiIndex.from_arrays([hours, cost])
    return np.asarray(same.isin(same[front]))  # rows of the same time and money stand or fall together


def ranking_keys(rows: pd.DataFrame) -> pd.DataFrame:
    """What ranking looks at, on the same index: money, hours, flags, and `tie`, an order of the names.

    Names are put in order once, here; masks of this slim frame are then cheap however many rows there are.
    """
    names = [pd.factorize(rows[column], sort=True)[0] for column in ("mode", "quote", "tier", "cell_id")]
    tie = np.empty(len(rows), dtype=np.int64)
    tie[np.lexsort(tuple(reversed(names)))] = np.arange(len(rows))
    return rows[[*RANKED, "cards", "measured", "feasible", "certain"]].assign(tie=tie)


def _criteria(keys: pd.DataFrame, objective: str) -> list[NDArray[np.generic]]:
    """What is compared, the most important first; smaller is better.

    Money and hours count at their high ends: what it may come to. Ties go to fewer cards, to what was measured, then to
    names, so that the order of the rows does not matter.
    """
    values = [np.round(keys[column].to_numpy(dtype=float), 6) for column in RANKED]
    money, hours = values[:2], values[2:]
    unmeasured = ~keys["measured"].to_numpy(dtype=bool)
    last = [keys["cards"].to_numpy(dtype=float), unmeasured, keys["tie"].to_numpy()]
    return [*hours, *money, *last] if objective == FASTEST else [*money, *hours, *last]


def ranking(keys: pd.DataFrame, objective: str) -> NDArray[np.intp]:
    """Positions of the rows from best to worst."""
    return np.lexsort(tuple(reversed(_criteria(keys, objective))))


def first(keys: pd.DataFrame, objective: str) -> int:
    """Index of the best of the rows, which are not none and have no blanks. Linear, where `ranking` sorts."""
    left = np.arange(len(keys))
    for values in _criteria(keys, objective):
        compared = values[left]
        left = left[compared == compared.min()]
    return int(keys.index[left[0]])


def best(keys: pd.DataFrame, objective: str) -> int | None:
    """Index of the best feasible row: a certain one where there is any, else the best of the possible ones."""
    for group in ("certain", "feasible"):
        among = keys[keys[group].to_numpy(dtype=bool)]
        if len(among):
            return first(among, objective)
    return None
