"""The prediction table: throughput at counts that were not measured, each with its interval and what it rests on."""

from __future__ import annotations

import pandas as pd

from analysis.tables import Column, Estimate, Footnotes, Group, Row, Table, number, split_remarks


def prediction_view(name: str, predictions: pd.DataFrame) -> Table:
    """`predict`'s frame as a table, one group a series; everything in it is predicted and toned so."""
    columns = (
        Column("cards", "cards", form="count"),
        Column("tokens_per_s", "tokens/s", "[95 %]", "count"),
        Column("efficiency_pct", "efficiency", "% [95 %]", "percent"),
        Column("marks", "note"),
    )
    footnotes = Footnotes()
    groups: dict[str, list[Row]] = {}
    for row in predictions.to_dict("records"):
        titles = [str(row[key]) for key in ("model", "mode", "scaling", "device") if row[key]]
        method, *links = split_remarks(row["method"])  # the links differ from row to row of one series
        heading = " · ".join([*titles, str(row["relative_to"]), method])
        values = (
            number(row["cards"]),
            Estimate(number(row["tokens_per_s"]), number(row["low"]), number(row["high"])),
            Estimate(*(number(row[f"efficiency{end}"] * 100) for end in ("", "_low", "_high"))),
            footnotes.mark([*links, *split_remarks(row["notes"])]),
        )
        groups.setdefault(heading, []).append(Row(values, ("",) * len(values), "predicted"))
    return Table(
        "prediction",
        f"Predicted, not measured: {name}",
        columns,
        tuple(Group(heading, tuple(rows)) for heading, rows in groups.items()),
        ("Intervals are 95 %. Efficiency is relative to the smallest measured count.", *footnotes.lines),
    )
