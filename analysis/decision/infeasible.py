"""What to say where nothing meets the constraints: by how much, and what comes nearest."""

from __future__ import annotations

import pandas as pd

from analysis.decision.choice import CHEAPEST, FASTEST, Constraints, first, ranking_keys
from analysis.decision.sentences import SENTENCES
from analysis.decision.wording import hours, money, option, row_at, say, total

Nearest = list[tuple[str, int]]  # (role, index)


def infeasible_reasons(rows: pd.DataFrame, limits: Constraints, lang: str) -> tuple[list[str], Nearest]:
    """Why no row of `rows` (from `judge`) is feasible, and the rows nearest to it."""
    priced = rows[rows["candidate"]]
    if priced.empty:
        why = rows.groupby("excluded").size()  # in the order of the words, whatever the order of the rows
        listed = ", ".join(f"{reason} ({count})" for reason, count in why.items()) or "no cells and tiers were given"
        return [say(lang, SENTENCES, "no_candidate", why=listed)], []
    at_best = priced.assign(finish_hours_high=priced["finish_hours_low"], total_cost_high=priced["total_cost_low"])
    at_best = ranking_keys(at_best)
    in_time = at_best[priced["excluded"] == "over the budget"]
    in_budget = at_best[priced["excluded"] == "misses the deadline"]
    if len(in_time) and len(in_budget):
        return _not_together(priced, first(in_time, CHEAPEST), first(in_budget, FASTEST), lang)
    reasons: list[str] = []
    nearest: Nearest = []
    if in_time.empty and limits.deadline_hours is not None:
        nearest.append(("fastest", first(at_best, FASTEST)))
        reasons.append(_too_late(priced, nearest[-1][1], limits.deadline_hours, lang))
    if in_budget.empty and limits.budget is not None:
        nearest.append(("cheapest", first(at_best, CHEAPEST)))
        reasons.append(_too_dear(priced, nearest[-1][1], limits.budget, lang))
    return reasons, nearest


def _too_late(rows: pd.DataFrame, fastest: int, deadline: float, lang: str) -> str:
    row = row_at(rows, fastest)
    finish, late = row["finish_hours_low"], row["finish_hours_low"] - deadline
    said = {"option": option(row, lang), "finish": hours(finish, lang), "late": hours(late, lang)}
    return say(lang, SENTENCES, "no_deadline", deadline=hours(deadline, lang), **said)


def _too_dear(rows: pd.DataFrame, cheapest: int, budget: float, lang: str) -> str:
    row = row_at(rows, cheapest)
    over, currency = row["total_cost_low"] - budget, row["currency"]
    said = {"option": option(row, lang), "cost": total(row, lang), "over": money(over, over, currency, lang)}
    return say(lang, SENTENCES, "no_budget", budget=money(budget, budget, currency, lang), **said)


def _not_together(rows: pd.DataFrame, in_time: int, in_budget: int, lang: str) -> tuple[list[str], Nearest]:
    cheapest, fastest = row_at(rows, in_time), row_at(rows, in_budget)
    said = {"in_time": option(cheapest, lang), "cost": total(cheapest, lang), "in_budget": option(fastest, lang)}
    sentence = say(lang, SENTENCES, "no_both", finish=hours(fastest["finish_hours"], lang), **said)
    return [sentence], [("cheapest_in_time", in_time), ("fastest_in_budget", in_budget)]
