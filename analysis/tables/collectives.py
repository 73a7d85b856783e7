"""Collectives as tables: every size in the columns of NCCL tests, or one line a call where there are many."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from analysis.nccl.tests import in_switch_notes
from analysis.scaling.series import numbers
from analysis.tables import Column, Group, Row, Table, Tone, number, plain, without_blank_columns
from analysis.text import Say, remark


def collectives_view(collectives: pd.DataFrame, say: Say, lang: str = "en") -> Table:
    """The columns that NCCL tests print, one group an operation, type, placement and count of cards."""
    columns = (
        Column("bytes", say("collectives.size"), "B", "count"),
        Column("count", say("collectives.count"), form="count", rank=1),
        Column("time_us", say("collectives.time"), "us", "number"),
        Column("algbw_gbps", say("collectives.algbw"), "GB/s", "rate"),
        Column("busbw_gbps", say("collectives.busbw"), "GB/s", "rate"),
        Column("wrong", say("collectives.wrong"), form="count"),
    )
    groups: dict[str, list[Row]] = {}
    for row in _timed(collectives):
        values = tuple(number(row.get(column.key)) for column in columns)
        groups.setdefault(collective_name(row, say), []).append(Row(values, ("",) * len(values), _tone(values[-1])))
    made = tuple(Group(heading, tuple(members)) for heading, members in groups.items())
    notes = _collective_notes(collectives, say, lang)
    table = Table("collectives", say("collectives.title"), columns, made, notes)
    return without_blank_columns(table, keep=("bytes", "time_us"))


def collectives_summary(collectives: pd.DataFrame, say: Say, lang: str = "en") -> Table:
    """One row an operation, type, placement and count of cards: latency of the smallest size and the best busbw."""
    columns = (
        Column("what", say("collectives.call")),
        Column("smallest", say("collectives.smallest"), "B", "count", rank=1),
        Column("time_us", say("collectives.latency"), "us", "number"),
        Column("busbw_gbps", say("collectives.best"), "GB/s", "rate"),
        Column("bytes", say("collectives.at"), "B", "count"),
        Column("wrong", say("collectives.wrong"), form="count"),
    )
    groups: dict[str, list[Mapping[Any, Any]]] = {}
    for row in _timed(collectives):
        groups.setdefault(collective_name(row, say), []).append(row)
    rows = []
    for name, members in groups.items():
        small = min(members, key=lambda row: number(row.get("bytes")) or 0)
        best = max(members, key=lambda row: number(row.get("busbw_gbps")) or 0)
        wrong = sum(number(row.get("wrong")) or 0 for row in members)
        values = (
            *(name, number(small.get("bytes")), number(small.get("time_us"))),
            *(number(best.get("busbw_gbps")), number(best.get("bytes")), wrong),
        )
        rows.append(Row(values, ("",) * len(values), _tone(wrong)))
    notes = (*_collective_notes(collectives, say, lang), say("collectives.all_sizes"))
    return Table("collectives", say("collectives.title"), columns, (Group("", tuple(rows)),), notes)


def _timed(collectives: pd.DataFrame) -> list[dict[Any, Any]]:
    return [row for row in collectives.to_dict("records") if number(row.get("time_us")) is not None]


def _tone(wrong: float | None) -> Tone:
    return "failed" if (wrong or 0) > 0 else "ok"


def _collective_notes(collectives: pd.DataFrame, say: Say, lang: str) -> tuple[str, ...]:
    """Definitions, what was not measured, and bandwidths above what the links carry."""
    rows: list[Mapping[str, Any]] = [
        {str(name): value for name, value in row.items()} for row in collectives.to_dict("records")
    ]
    missing = []
    for row in rows:
        if number(row.get("time_us")) is None:
            why = plain(row.get("unsupported")) or plain(row.get("skipped")) or say("failures.none_given")
            missing.append(say("collectives.not_measured", what=collective_name(row, say), why=why))
    notes = [say("collectives.definition"), *dict.fromkeys(missing)]
    notes += [remark(text, lang) for text in in_switch_notes([row for row in rows if isinstance(row.get("op"), str)])]
    if (numbers(collectives, "cards") == 1).any():
        notes.append(say("collectives.one_rank"))
    return tuple(notes)


def collective_name(row: Mapping[Any, Any], say: Say) -> str:
    """What was called, how and on what: `all_reduce · fp32 · in place · 8 cards`."""
    parts = [plain(row.get("op")), plain(row.get("dtype"))]
    if isinstance(row.get("in_place"), (bool, np.bool_)):
        parts.append(say(f"collectives.{'in_place' if row['in_place'] else 'out_of_place'}"))
    if pattern := plain(row.get("pattern")):
        parts.append(say("collectives.pattern", name=pattern))
    if (cards := number(row.get("cards"))) is not None:
        parts.append(say("cards.one") if cards == 1 else say("cards.many", count=f"{cards:g}"))
    return " · ".join(part for part in (*parts, plain(row.get("device"))) if part)
