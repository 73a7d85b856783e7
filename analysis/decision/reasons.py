"""Why a decision is what it is, in sentences, each with its numbers; their wording is `analysis.decision.sentences`."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from analysis.cost.breakeven import hourly_against_monthly
from analysis.cost.notes import TIGHT_MEMORY_SHARE
from analysis.decision.choice import (
    CHEAPEST,
    MAY_EXCEED,
    MAY_MISS,
    MEMORY_UNKNOWN,
    Constraints,
    best,
    first,
    ranking_keys,
)
from analysis.decision.counts import CountEstimate, Counts
from analysis.decision.sensitivity import CORNERS, PriceFlip, Scenario
from analysis.decision.sentences import ASSUMPTIONS_ZH, SENTENCES
from analysis.decision.wording import Row, cards, difference, epochs, hours, money, option, row_at, say, total
from analysis.prices import Quote


def choice_reasons(rows: pd.DataFrame, chosen: int, limits: Constraints, lang: str) -> list[str]:
    """What the chosen row is, how it stands to the constraints, whether one card would do. rows: from `judge`."""
    row = row_at(rows, chosen)
    per_epoch = money(row["cost_per_epoch_low"], row["cost_per_epoch_high"], row["currency"], lang)
    finish = hours(row["finish_hours"], lang)
    known = {"epochs": epochs(row["epochs"], lang), "finish": finish, "cost": total(row, lang), "per_epoch": per_epoch}
    known["risks"] = _risks(row, limits, lang)
    reasons = [say(lang, SENTENCES, "rent", option=option(row, lang), **known), *_one_card(rows, chosen, limits, lang)]
    reasons += _against_deadline(row, limits, lang) + _against_budget(row, limits, lang)
    if row["memory_share"] > TIGHT_MEMORY_SHARE:
        reasons.append(say(lang, SENTENCES, "memory_tight", share=f"{row['memory_share']:.0%}"))
    if row["idle_cards"] > 0:
        counts = {"idle": f"{row['idle_cards']:g}", "rented": f"{row['rented_cards']:g}"}
        reasons.append(say(lang, SENTENCES, "idle", **counts))
    if not row["measured"]:
        reasons.append(say(lang, SENTENCES, "predicted"))
    return reasons


def _risks(row: Row, limits: Constraints, lang: str) -> str:
    """What may go wrong at the bad ends, to go into the sentence that recommends the row."""
    risks = []
    if limits.deadline_hours is not None and MAY_MISS in row["risk"]:
        slow = {"deadline": hours(limits.deadline_hours, lang), "slow": hours(row["finish_hours_high"], lang)}
        risks.append(say(lang, SENTENCES, "may_miss", **slow))
    if limits.budget is not None and MAY_EXCEED in row["risk"]:
        ends = (money(amount, amount, row["currency"], lang) for amount in (limits.budget, row["total_cost_high"]))
        risks.append(say(lang, SENTENCES, "may_exceed", **dict(zip(("budget", "dear"), ends, strict=True))))
    if limits.max_memory_share is not None and MEMORY_UNKNOWN in row["risk"]:
        risks.append(say(lang, SENTENCES, "memory_unknown", share=f"{limits.max_memory_share:.0%}"))
    return "".join(risks)


def _against_deadline(row: Row, limits: Constraints, lang: str) -> list[str]:
    if limits.deadline_hours is None or MAY_MISS in row["risk"]:
        return []
    slack = max(limits.deadline_hours - row["finish_hours_high"], 0.0)
    said = {"deadline": hours(limits.deadline_hours, lang), "slack": hours(slack, lang)}
    return [say(lang, SENTENCES, "deadline", **said)]


def _against_budget(row: Row, limits: Constraints, lang: str) -> list[str]:
    if limits.budget is None or MAY_EXCEED in row["risk"]:
        return []
    amounts = limits.budget, max(limits.budget - row["total_cost_high"], 0.0)
    budget, slack = (money(amount, amount, row["currency"], lang) for amount in amounts)
    return [say(lang, SENTENCES, "budget", budget=budget, slack=slack)]


def _one_card(rows: pd.DataFrame, chosen: int, limits: Constraints, lang: str) -> list[str]:
    row, single = row_at(rows, chosen), rows[rows["cards"] == 1]
    if row["cards"] == 1:
        why = say(lang, SENTENCES, "one_meets", finish=hours(row["finish_hours"], lang), cost=total(row, lang))
        return [say(lang, SENTENCES, "one_enough", why=why)] if row["certain"] else []
    if single.empty:
        return []
    if not single["candidate"].any():
        failed = single[single["tokens_per_s"].isna()]["status"].drop_duplicates().sort_values()
        return [say(lang, SENTENCES, "one_unmeasured", status=", ".join(failed))] if len(failed) else []
    enough = best(ranking_keys(single), CHEAPEST)
    if enough is not None and rows.at[enough, "certain"]:
        one = row_at(rows, enough)
        said = {"option": option(one, lang), "finish": hours(one["finish_hours"], lang), "cost": total(one, lang)}
        compared = {"chosen": cards(row["cards"], lang), "difference": difference(row, one, lang)}
        return [say(lang, SENTENCES, "one_also", **said, **compared)]
    if enough is not None:
        one = row_at(rows, enough)
        said = {"option": option(one, lang), "finish": hours(one["finish_hours"], lang), "cost": total(one, lang)}
        return [say(lang, SENTENCES, "one_maybe", **said, risks=_risks(one, limits, lang))]
    priced = single[single["candidate"]]
    one = row_at(priced, first(ranking_keys(priced), CHEAPEST))
    faults = []
    if limits.deadline_hours is not None and one["finish_hours"] > limits.deadline_hours:
        late = hours(one["finish_hours"] - limits.deadline_hours, lang)
        faults.append(say(lang, SENTENCES, "one_late", late=late))
    if limits.budget is not None and one["total_cost_expected"] > limits.budget:
        over = one["total_cost_expected"] - limits.budget
        faults.append(say(lang, SENTENCES, "one_dear", over=money(over, over, one["currency"], lang)))
    said = {"option": option(one, lang), "finish": hours(one["finish_hours"], lang), "cost": total(one, lang)}
    return [say(lang, SENTENCES, "one_not", **said, why=(" and " if lang == "en" else "，").join(faults))]


def count_reasons(counts: Counts | None, lang: str) -> list[str]:
    """The ideal count for the deadline, and the count at each efficiency seen."""
    if counts is None:
        return []
    any_plan = counts.estimates[0].plan
    known = {"work": hours(any_plan.work_hours, lang), "deadline": hours(any_plan.deadline_hours, lang)}
    base = cards(1, lang) if counts.base_cards == 1 else _relative(counts.base_cards, lang)
    ideal = say(lang, SENTENCES, "ideal", base=base, ideal=f"{any_plan.ideal:.2f}", **known)
    return [ideal, *(_real(estimate, counts.most_cards, lang) for estimate in counts.estimates)]


def _relative(base_cards: int, lang: str) -> str:
    return f"one card (as a share of {base_cards})" if lang == "en" else f"单卡（按 {base_cards} 卡折算）"


def _real(estimate: CountEstimate, most_cards: int, lang: str) -> str:
    how = {"en": ("predicted", "measured"), "zh": ("预测", "实测")}[lang][estimate.measured]
    seen = {"mode": estimate.mode, "cards": cards(estimate.cards, lang), "how": how}
    basis = say(lang, SENTENCES, "seen", **seen) if estimate.mode else say(lang, SENTENCES, "rule")
    known = {"efficiency": f"{estimate.plan.efficiency:.0%}", "basis": basis, "cards": cards(estimate.plan.cards, lang)}
    key = "real_beyond" if estimate.mode and estimate.plan.cards > most_cards else "real"
    return say(lang, SENTENCES, key, most=cards(most_cards, lang), **known)


def comparison_reasons(rows: pd.DataFrame, chosen: int, others: Sequence[tuple[str, int]], lang: str) -> list[str]:
    """The runner-up, and a quote that looks cheaper by the card-hour but is not for this job."""
    row, reasons = row_at(rows, chosen), []
    for other in (row_at(rows, index) for role, index in others if role == "runner_up"):
        said = {"option": option(other, lang), "difference": difference(other, row, lang)}
        reasons.append(say(lang, SENTENCES, "runner_up", **said))
    rate = rows["cards_cost_high"] / rows["rented_cards"] / rows["billed_hours_high"]
    elsewhere = rows[rows["candidate"] & (rows["quote"] != row["quote"]) & (rate < rate[chosen] * 0.999)]
    if len(elsewhere):
        cheapest = first(ranking_keys(elsewhere), CHEAPEST)
        other = row_at(elsewhere, cheapest)
        if other["total_cost_high"] > row["total_cost_high"]:
            theirs, ours = float(rate[cheapest]), float(rate[chosen])
            rates = {"other_rate": money(theirs, theirs, row["currency"], lang)}
            said = {"other": option(other, lang), "rate": money(ours, ours, row["currency"], lang)}
            reasons.append(say(lang, SENTENCES, "quote_order", other_cost=total(other, lang), **said, **rates))
    return reasons


def break_even_reasons(row: Row, quotes: Sequence[Quote], lang: str) -> list[str]:
    """Hourly against monthly for the quote of the chosen row."""
    used = hours(row["finish_hours"], lang)
    return [
        say(
            lang,
            SENTENCES,
            "break_even",
            quote=quote.name,
            monthly=pair.monthly,
            hourly=pair.hourly,
            low=f"{pair.hours_at_low_ends:.0f}",
            high=f"{pair.hours_at_high_ends:.0f}",
            month=f"{pair.hours_per_month:g}",
            used=used,
        )
        for quote, pair in hourly_against_monthly(quotes)
        if quote.name == row["quote"] and row["tier"] in (pair.hourly, pair.monthly)
    ]


def sensitivity_reasons(
    rows: pd.DataFrame, found: Sequence[Scenario], flips: Sequence[PriceFlip], lang: str
) -> list[str]:
    """Which assumption changes the choice, or that none does."""
    reasons = [] if not all(scenario.same for scenario in found) else [say(lang, SENTENCES, "stable")]
    for i, scenario in enumerate(found):
        assumption = CORNERS[i][0] if lang == "en" else ASSUMPTIONS_ZH[i]
        if scenario.row is None:
            reasons.append(say(lang, SENTENCES, "flip_none", assumption=assumption))
        elif not scenario.same:
            row = row_at(rows, scenario.row)
            cost = money(row[CORNERS[i][1]], row[CORNERS[i][1]], row["currency"], lang)
            said = {"assumption": assumption, "option": option(row, lang), "cost": cost}
            reasons.append(say(lang, SENTENCES, "flip", **said))
    for flip in flips:
        row = row_at(rows, flip.row)
        price = money(flip.price, flip.price, row["currency"], lang)
        quoted = money(flip.quoted_low, flip.quoted_high, row["currency"], lang)
        said = {"option": option(row, lang), "tier": f"{row['quote']} {row['tier']}", "price": price, "quoted": quoted}
        reasons.append(say(lang, SENTENCES, "price_flip", **said))
    return reasons
