"""Matrix products as a table: what each shape reached, and the line through them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd

from analysis.scaling.series import texts
from analysis.steptime.matmul import fit_matmul
from analysis.tables import Column, Estimate, Group, Row, Table, number, plain, without_blank_columns
from analysis.text import Say


def matmul_view(rows: pd.DataFrame, say: Say) -> Table:
    """One row a product, one group a type, count of ranks and device."""
    columns = (
        Column("shape", say("matmul.shape")),
        Column("role", say("matmul.role"), rank=1),
        Column("size", say("matmul.size"), rank=2),
        Column("time_us", say("matmul.time"), "us", "number", rank=1),
        Column("tflops", say("matmul.rate"), "TFLOP/s [95 %]", "number"),
        Column("share", say("matmul.share"), "%", "percent"),
    )
    groups: dict[str, list[Row]] = {}
    skipped = []
    for row in rows.to_dict("records"):
        if number(row.get("tflops")) is None:
            skipped.append(say("matmul.skipped", what=_name(row, say), why=plain(row.get("skipped"))))
            continue
        share = number(row.get("share_of_peak"))
        values = (
            plain(row.get("shape")),
            say(f"matmul.{row['role']}"),
            f"{row['m']:.0f} x {row['n']:.0f} x {row['k']:.0f}",
            number(row.get("time_us")),
            Estimate(*(number(row.get(f"tflops{end}")) for end in ("", "_low", "_high"))),
            None if share is None else 100 * share,
        )
        groups.setdefault(_heading(row, say), []).append(Row(values, ("",) * len(values)))
    made = tuple(Group(heading, tuple(members)) for heading, members in groups.items())
    notes = (say("matmul.definition"), *_fits(rows, say), *dict.fromkeys(skipped))
    table = Table("matmul", say("matmul.title"), columns, made, notes, stub=2)
    return without_blank_columns(table, keep=("shape", "tflops"))


def _heading(row: Mapping[Any, Any], say: Say) -> str:
    ranks = number(row.get("ranks")) or 1
    cards = say("cards.one") if ranks == 1 else say("cards.many", count=f"{ranks:g}")
    return " · ".join(part for part in (plain(row.get("dtype")), cards, plain(row.get("device"))) if part)


def _name(row: Mapping[Any, Any], say: Say) -> str:
    return " ".join([plain(row.get("shape")), say(f"matmul.{row['role']}"), plain(row.get("dtype"))])


def _fits(rows: pd.DataFrame, say: Say) -> list[str]:
    said = []
    for dtype in texts(rows, "dtype").unique():
        fit = fit_matmul(rows, str(dtype))
        if fit is None:
            continue
        error, rate = f"{100 * fit.error:.0f}", f"{fit.tflops:.3g}"
        said.append(
            say("matmul.fit", dtype=dtype, launch=f"{fit.launch_us:.3g}", rate=rate, error=error, shapes=fit.shapes)
        )
        if fit.own_tflops is not None:
            said.append(say("matmul.own", dtype=dtype, rate=f"{fit.own_tflops:.3g}"))
    return said
