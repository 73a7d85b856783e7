"""What a decision assumes because nobody stated it: said in its first sentence, where nobody can miss it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from analysis.decision.sentences import SENTENCES
from analysis.decision.wording import Row, say

Assumed = tuple[str, Mapping[str, str]]  # the key of a sentence, and what fills it in


def assumed_epoch(tokens: float, stated: float | None, per_epoch: bool = True) -> list[Assumed]:
    """What an epoch is taken to be. stated: workload.epoch_tokens. per_epoch: whether the records state a data set."""
    if stated is not None:
        return []
    return [("epoch_data_set" if per_epoch else "epoch_billion", {"tokens": f"{tokens:,.0f}"})]


def assumed_sheet(named: Sequence[str], default: str) -> list[Assumed]:
    """Whose prices these are where `prices=` names none."""
    return [] if named else [("default_sheet", {"sheet": default})]


def assumed_card(row: Row) -> list[Assumed]:
    """On which card a priced row was measured, where that is not the card of the quote or cannot be told."""
    names = {"machine": str(row["machine"]), "device": str(row["device"])}
    if row["machine_matches"] == 0:
        return [("other_card", names)]
    if math.isnan(row["machine_matches"]):
        return [("unknown_card" if row["device"] else "unnamed_card", names)]
    return []


def with_assumptions(reasons: Sequence[str], assumed: Sequence[Assumed], lang: str) -> tuple[list[str], list[str]]:
    """(`reasons` with what is assumed in the first of them, the assumptions one by one)."""
    worded = [say(lang, SENTENCES, key, **values) for key, values in assumed]
    if not worded or not reasons:
        return list(reasons), worded
    clause = say(lang, SENTENCES, "assumed", what=("; " if lang == "en" else "；").join(worded))
    return [reasons[0].removesuffix("." if lang == "en" else "。") + clause, *reasons[1:]], worded
