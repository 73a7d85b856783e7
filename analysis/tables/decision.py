"""The decision as a table: what to rent and its runners-up in rows, the reasons as sentences above them."""

from __future__ import annotations

from typing import Any

from analysis.decision import Decision
from analysis.tables import Column, Footnotes, Group, Row, Span, Table, number, plain
from analysis.tables.cost import time_unit
from analysis.text import Say


def decision_view(decision: Decision, name: str, title: str, say: Say) -> Table:
    """The chosen row first, then the alternatives by their role; where nothing is feasible, the nearest ones alone."""
    picked = ([] if decision.chosen is None else [("chosen", decision.chosen)]) + list(decision.alternatives)
    rows = decision.cells.loc[[index for _, index in picked]]
    currency = plain(rows["currency"].iloc[0]) if len(rows) else ""
    scale, unit = time_unit(rows["finish_hours"])
    columns = (
        Column("role", say("decision.role")),
        Column("cards", say("cost.cards"), form="count"),
        Column("mode", say("cost.mode")),
        Column("tier", say("decision.tier")),
        Column("finish", say("decision.finish"), say(f"unit.{unit}"), "number"),
        Column("total", say("decision.total"), currency, "money"),
        Column("per_epoch", say("decision.per_epoch"), currency, "money", rank=1),
    )
    footnotes = Footnotes()
    made = []
    for (role, _), row in zip(picked, rows.to_dict("records"), strict=True):
        values: tuple[Any, ...] = (
            say(f"decision.{role}"),
            number(row["cards"]),
            plain(row["mode"]),
            plain(f"{row['quote']} {row['tier']}"),
            number(row["finish_hours"] * scale),
            Span(number(row["total_cost_low"]), number(row["total_cost_high"])),
            Span(number(row["cost_per_epoch_low"]), number(row["cost_per_epoch_high"])),
        )
        mark = "" if row["measured"] else footnotes.mark([say("cost.predicted")])
        marks = ("", mark, *("",) * (len(values) - 2))
        made.append(Row(values, marks, "ok" if row["measured"] else "predicted"))
    return Table(name, title, columns, (Group("", tuple(made)),), tuple(footnotes.lines), lead=decision.reasons)
