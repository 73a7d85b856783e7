"""What the measured speedups are held against: rules of thumb, repeats of the same cell, one mode against another."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from analysis.scaling.bands import ABOVE, BELOW, INSIDE
from analysis.tables import Column, Estimate, Footnotes, Group, Row, Span, Table, number, plain
from analysis.tables.scaling import cards_phrase
from analysis.text import Say, remark

VERDICTS = {INSIDE: "inside", BELOW: "below", ABOVE: "above"}
WHATS = {"speedup": "speedup", "efficiency": "efficiency", "throughput on NVLink over PCIe": "links"}


def bands_view(bands: pd.DataFrame, say: Say) -> Table:
    """`band_table`: each measured figure beside the rule of thumb for it. An efficiency is a share, as in the rule."""
    columns = (
        Column("model", say("bands.model"), rank=1),
        Column("mode", say("cost.mode")),
        Column("cards", say("cost.cards"), form="count"),
        Column("what", say("bands.what")),
        Column("measured", say("bands.measured"), "[95 %]", "decimals"),
        Column("band", say("bands.band"), form="decimals"),
        Column("verdict", say("bands.verdict")),
    )
    rows = []
    for row in bands.to_dict("records"):
        what = say(f"bands.{WHATS.get(row['what'], 'speedup')}")
        measured = Estimate(*(number(row[end]) for end in ("measured", "low", "high")))
        verdict = say(f"bands.{VERDICTS[row['verdict']]}") if row["verdict"] in VERDICTS else ""
        values = (
            plain(row["model"]),
            plain(row["mode"]),
            number(row["cards"]),
            what,
            measured,
            _band(row, say),
            verdict,
        )
        rows.append(Row(values, ("",) * len(values)))
    return Table("bands", say("bands.title"), columns, (Group("", tuple(rows)),), (say("bands.source"),), stub=3)


def _band(row: dict[Any, Any], say: Say) -> Span | str:
    """`7 or better` has one end; `2 to 3.6` has two."""
    text = str(row["band"])
    if text.endswith(" or better"):
        return say("bands.at_least", low=text.removesuffix(" or better"))
    low, _, high = text.partition(" to ")
    return Span(float(low), float(high))


def repeats_view(repeats: pd.DataFrame, say: Say, lang: str) -> Table:
    """`repeat_table`, the cells that ran more than once: spread between runs beside that within one."""
    columns = (
        Column("model", say("bands.model"), rank=1),
        Column("mode", say("cost.mode")),
        Column("cards", say("cost.cards"), form="count"),
        Column("runs", say("repeats.runs"), form="count"),
        Column("tokens_per_s", say("scaling.tokens"), form="number"),
        Column("between_cv", say("repeats.between"), "%", "decimals"),
        Column("within_cv", say("repeats.within"), "%", "decimals"),
        Column("flag", say("scaling.marks")),
    )
    footnotes = Footnotes()
    rows = []
    for row in repeats[repeats["runs"] > 1].to_dict("records"):
        values = (
            plain(row["model"]),
            plain(row["mode"]),
            number(row["cards"]),
            number(row["runs"]),
            number(row["tokens_per_s"]),
            number(row["between_cv"] * 100),
            number(row["within_cv"] * 100),
            footnotes.mark([remark(row["flag"], lang)] if row["flag"] else []),
        )
        rows.append(Row(values, ("",) * len(values)))
    notes = (say("repeats.definition"), *footnotes.lines)
    return Table("repeats", say("repeats.title"), columns, (Group("", tuple(rows)),), notes, stub=3)


def modes_view(pairs: pd.DataFrame, say: Say) -> Table:
    """`compare_modes`: which mode beats which at the same work, grouped by count of cards, with its interval."""
    columns = (
        Column("faster", say("modes.faster")),
        Column("slower", say("modes.slower")),
        Column("ratio", say("modes.ratio"), "[95 %]", "decimals"),
        Column("p_value", say("modes.p"), form="text"),
        Column("verdict", say("bands.verdict")),
    )
    groups: dict[str, list[Row]] = {}
    for row in pairs.sort_values(["model", "cards", "ratio"], ascending=[True, True, False], kind="stable").to_dict(
        "records"
    ):
        heading = " · ".join(part for part in (plain(row["model"]), cards_phrase(row["cards"], say)) if part)
        values = (
            plain(row["faster"]),
            plain(row["slower"]),
            Estimate(*(number(row[end]) for end in ("ratio", "low", "high"))),
            p_text(row["p_value"]),
            significance(bool(row["beats"]), row["basis"], say),
        )
        groups.setdefault(heading, []).append(Row(values, ("",) * len(values)))
    made = tuple(Group(heading, tuple(rows)) for heading, rows in groups.items())
    return Table("modes", say("modes.title"), columns, made, (say("modes.definition"),), stub=2)


def p_text(p_value: Any) -> str:
    """A probability as papers give it: `< 0.001` where more digits would pretend."""
    known = number(p_value)
    return "" if known is None else "< 0.001" if known < 0.001 else f"{known:.3f}"


def significance(differs: bool, basis: str, say: Say) -> str:
    """Whether a difference is real, and by what: repeats, or the steps of single runs alone."""
    if not basis:
        return say("modes.unknown")
    return say(f"modes.{'real' if differs else 'chance'}_{basis}")


def has_repeats(repeats: pd.DataFrame) -> bool:
    return bool((np.asarray(repeats["runs"]) > 1).any())
