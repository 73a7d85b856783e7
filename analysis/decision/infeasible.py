"""What to say where nothing is expected to meet the constraints: what comes closest, and what would have to change."""

from __future__ import annotations

import math
from collections.abc import Callable

import pandas as pd

from analysis.decision.choice import CHEAPEST, FASTEST, Constraints, first, ranking_keys
from analysis.decision.sentences import SENTENCES
from analysis.decision.wording import Row, epochs, hours, money, option, row_at, say, span, total

Nearest = list[tuple[str, int]]  # (role, index)
TOO_LARGE = ("memory is too tight", "needs more memory than the card has")


def infeasible_reasons(rows: pd.DataFrame, limits: Constraints, lang: str) -> tuple[list[str], Nearest]:
    """Why no row of `rows` (from `judge`) is feasible, what would have to change, and the rows nearest to it."""
    priced = rows[rows["candidate"]]
    if priced.empty:
        return _nothing_priced(rows, limits, lang), []
    expected = priced.assign(finish_hours_high=priced["finish_hours"], total_cost_high=priced["total_cost_expected"])
    keys = ranking_keys(expected)
    in_time = keys[priced["excluded"] == "over the budget"]
    in_budget = keys[priced["excluded"] == "misses the deadline"]
    if len(in_time) and len(in_budget):
        return _not_together(priced, first(in_time, CHEAPEST), first(in_budget, FASTEST), lang)
    reasons: list[str] = []
    nearest: Nearest = []
    measured = keys[keys["measured"].to_numpy(dtype=bool)]
    for limit, among, role, objective, sentences in (
        (limits.deadline_hours, in_time, "fastest", FASTEST, _too_late),
        (limits.budget, in_budget, "cheapest", CHEAPEST, _too_dear),
    ):
        if limit is None or len(among):
            continue
        closest = first(keys, objective)
        nearest.append((role, closest))
        reasons += sentences(row_at(priced, closest), limit, lang)
        if (
            len(measured)
            and not priced.at[closest, "measured"]
            and not any(known == "measured" for known, _ in nearest)
        ):
            nearest.append(("measured", first(measured, objective)))
            reasons.append(_closest_measured(row_at(priced, nearest[-1][1]), lang))
    return reasons, nearest


def _nothing_priced(rows: pd.DataFrame, limits: Constraints, lang: str) -> list[str]:
    why = rows.groupby("excluded").size()  # in the order of the words, whatever the order of the rows
    listed = ", ".join(f"{reason} ({count})" for reason, count in why.items()) or "no cells and tiers were given"
    reasons = [say(lang, SENTENCES, "no_candidate", why=listed)]
    tight = rows.loc[rows["excluded"].isin(TOO_LARGE), "memory_share"]
    if len(tight):
        row, allowed = row_at(rows, int(tight.index[int(tight.to_numpy(dtype=float).argmin())])), 1.0
        if limits.max_memory_share is not None:
            allowed = min(limits.max_memory_share, allowed)
        said = {"option": option(row, lang), "share": f"{tight.min():.0%}", "limit": f"{allowed:.0%}"}
        reasons.append(say(lang, SENTENCES, "no_memory", **said))
    return reasons


def _too_late(row: Row, deadline: float, lang: str) -> list[str]:
    finish = row["finish_hours"]
    times = span(row["finish_hours_low"], row["finish_hours_high"], lambda value: hours(value, lang), lang)
    late = {"finish": hours(finish, lang), "between": times, "late": hours(finish - deadline, lang)}
    reasons = [say(lang, SENTENCES, "no_deadline", deadline=hours(deadline, lang), option=option(row, lang), **late)]
    ways = [_longer(finish, row["finish_hours_high"], lambda value: hours(value, lang), "change_deadline", lang)]
    work, time = finish - row["setup_hours"], deadline - row["setup_hours"]
    if time > 0:
        ways.append(say(lang, SENTENCES, "change_throughput", factor=f"{_rounded_up(work / time):.2f}"))
        fewer = math.floor(round(row["epochs"] * time / work, 9))
        if 1 <= fewer < row["epochs"]:
            fewer_of = {"fewer": epochs(fewer, lang), "epochs": f"{row['epochs']:g}"}
            ways.append(say(lang, SENTENCES, "change_epochs", **fewer_of))
    return [*reasons, _ways(ways, lang)]


def _too_dear(row: Row, budget: float, lang: str) -> list[str]:
    currency, cost = row["currency"], row["total_cost_expected"]

    def worded(value: float) -> str:
        return money(value, value, currency, lang)

    between = span(row["total_cost_low"], row["total_cost_high"], worded, lang)
    said = {"option": option(row, lang), "cost": worded(cost), "between": between, "over": worded(cost - budget)}
    reasons = [say(lang, SENTENCES, "no_budget", budget=worded(budget), **said)]
    ways = [_longer(cost, row["total_cost_high"], worded, "change_budget", lang)]
    cards_cost = row["cards_cost_expected"]
    if cards_cost > cost - budget:
        price = (row["price_low"] + row["price_high"]) / 2 * (1 - (cost - budget) / cards_cost)
        quoted = money(row["price_low"], row["price_high"], currency, lang)
        unit = str(row["unit"]).replace("_", "-")
        ways.append(say(lang, SENTENCES, "change_price", price=worded(price), unit=unit, quoted=quoted))
    return [*reasons, _ways(ways, lang)]


def _closest_measured(row: Row, lang: str) -> str:
    said = {"option": option(row, lang), "finish": hours(row["finish_hours"], lang), "cost": total(row, lang)}
    return say(lang, SENTENCES, "closest_measured", **said)


def _not_together(rows: pd.DataFrame, in_time: int, in_budget: int, lang: str) -> tuple[list[str], Nearest]:
    cheapest, fastest = row_at(rows, in_time), row_at(rows, in_budget)
    said = {"in_time": option(cheapest, lang), "cost": total(cheapest, lang), "in_budget": option(fastest, lang)}
    finish = hours(fastest["finish_hours"], lang)
    amount = money(cheapest["total_cost_expected"], cheapest["total_cost_expected"], cheapest["currency"], lang)
    reasons = [
        say(lang, SENTENCES, "no_both", finish=finish, **said),
        say(lang, SENTENCES, "change_either", budget=amount, deadline=finish),
    ]
    return reasons, [("cheapest_in_time", in_time), ("fastest_in_budget", in_budget)]


def _longer(expected: float, sure: float, worded: Callable[[float], str], key: str, lang: str) -> str:
    """A limit that would do: as expected, and to be sure where that is more."""
    sure_too = say(lang, SENTENCES, "to_be_sure", sure=worded(sure)) if worded(sure) != worded(expected) else ""
    return say(lang, SENTENCES, key, limit=worded(expected), sure=sure_too)


def _ways(ways: list[str], lang: str) -> str:
    return say(lang, SENTENCES, "change", ways=("; or " if lang == "en" else "；或").join(ways))


def _rounded_up(factor: float) -> float:
    return math.ceil(round(factor * 100, 6)) / 100
