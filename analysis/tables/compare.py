"""Two studies side by side as a table."""

from __future__ import annotations

import pandas as pd

from analysis.tables import Column, Estimate, Group, Row, Table, number, plain
from analysis.tables.checks import p_text, significance
from analysis.text import Say


def compare_view(cells: pd.DataFrame, a: str, b: str, say: Say) -> Table:
    """`compare_studies`: one row a shared cell, grouped by model. a, b: what the studies are called."""
    columns = (
        Column("mode", say("cost.mode")),
        Column("cards", say("cost.cards"), form="count"),
        Column("tokens_per_s_a", say("compare.rate", study=plain(a)), form="number"),
        Column("tokens_per_s_b", say("compare.rate", study=plain(b)), form="number"),
        Column("ratio", say("compare.ratio", a=plain(a), b=plain(b)), "[95 %]", "decimals"),
        Column("p_value", say("modes.p"), form="text"),
        Column("verdict", say("bands.verdict")),
    )
    groups: dict[str, list[Row]] = {}
    for row in cells.to_dict("records"):
        values = (
            plain(row["mode"]),
            number(row["cards"]),
            number(row["tokens_per_s_a"]),
            number(row["tokens_per_s_b"]),
            Estimate(*(number(row[end]) for end in ("ratio", "ratio_low", "ratio_high"))),
            p_text(row["p_value"]),
            _verdict(bool(row["differs"]), float(row["ratio"]), str(row["basis"]), say),
        )
        heading = " · ".join(part for part in (plain(row["model"]), plain(row["device"])) if part)
        groups.setdefault(heading, []).append(Row(values, ("",) * len(values)))
    made = tuple(Group(heading, tuple(rows)) for heading, rows in groups.items())
    notes = (say("compare.definition", b=plain(b)),)
    return Table("compare", say("compare.title", a=plain(a), b=plain(b)), columns, made, notes, stub=2)


def compare_summary(cells: pd.DataFrame, a: str, b: str, say: Say) -> str:
    """In how many cells `b` is really faster, and slower; and how many of these differences no repeat bears out."""
    faster, slower = (int((cells["differs"] & way).sum()) for way in (cells["ratio"] > 1, cells["ratio"] < 1))
    said = say("compare.summary", a=plain(a), b=plain(b), faster=faster, slower=slower, total=len(cells))
    single = int((cells["differs"] & (cells["basis"] == "steps")).sum())
    return f"{said} {say('compare.single', count=single)}" if single else said


def _verdict(differs: bool, ratio: float, basis: str, say: Say) -> str:
    how = significance(differs, basis, say)
    way = say("compare.faster" if ratio > 1 else "compare.slower")
    return say("compare.verdict", way=way, how=how) if differs else how
