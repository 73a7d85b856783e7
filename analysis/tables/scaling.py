"""The scaling table: each series' throughput, speedup and efficiency beside its base, step time and memory."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import numpy as np
import pandas as pd

from analysis.scaling.series import numbers, texts
from analysis.tables import (
    Column,
    Estimate,
    Footnotes,
    Group,
    Row,
    Span,
    Table,
    Tone,
    number,
    plain,
    split_remarks,
    without_blank_columns,
)
from analysis.text import Say, remark
from results.record import MEASURED

# Where a peak may come from, best first: what the driver sees is what decides whether a card is full.
MEMORY_COLUMNS = {
    "memory.device_used_gib": "device",
    "memory.peak_reserved_gib": "reserved",
    "memory.peak_allocated_gib": "allocated",
}


def scaling_view(scaling: pd.DataFrame, frame: pd.DataFrame, say: Say, lang: str = "en") -> Table:
    """`scaling_table`'s frame as a table, one group a series.

    frame: the cells it was computed from, for the kind of memory each states. Step times are in ms where the median
    series steps faster than a second, else in s.
    """
    memory, kinds = peak_memory(frame)
    scale, unit = (1000, "ms") if np.nanmedian(_or_nan(scaling["step_time_s"])) < 1 else (1, "s")
    columns = (
        Column("cards", say("scaling.cards"), form="count"),
        Column("status", say("scaling.status")),
        Column("tokens_per_s", say("scaling.tokens"), form="number"),
        Column("tokens_per_s_per_card", say("scaling.per_card"), say("scaling.tokens"), "number", rank=3),
        Column("speedup", say("scaling.speedup"), form="decimals"),
        Column("speedup_interval", say("scaling.speedup_interval"), form="decimals", rank=2),
        Column("efficiency_pct", say("scaling.efficiency"), "%", "percent"),
        Column("step_time", say("scaling.step"), f"{say(f'unit.{unit}')} [95 %]", "number"),
        Column("peak_gib", say("scaling.memory"), "GiB", "decimals", rank=1),
        Column("marks", say("scaling.marks")),
    )
    footnotes = Footnotes()
    groups: dict[int, list[Row]] = {}
    firsts: dict[int, dict[Hashable, Any]] = {}
    bases: dict[int, float] = {}
    for row in scaling.to_dict("records"):
        remarks = [remark(text, lang) for text in split_remarks(row["flags"])]
        rate, cards, peak = row["tokens_per_s"], row["cards"], row["peak_gib"]
        if number(peak) is None:
            peak = memory.get(row["cell_id"])
        step, low, high = (row[f"step_time{end}_s"] for end in ("", "_low", "_high"))
        values = (
            number(cards),
            say(f"status.{row['status'] or 'imported'}"),
            number(rate),
            number(rate / cards),
            number(row["speedup"]),
            Span(number(row["speedup_low"]), number(row["speedup_high"])),
            number(row["efficiency"] * 100),
            Estimate(*(number(value * scale) for value in (step, low, high))),
            number(peak),
            footnotes.mark(remarks),
        )
        unmeasured: Tone = "predicted" if row["status"] == "predicted" else "failed"
        tone: Tone = "ok" if row["status"] in ("", *MEASURED) else unmeasured
        groups.setdefault(row["series"], []).append(Row(values, ("",) * len(values), tone))
        firsts.setdefault(row["series"], row)
        if (base := number(row["base_cards"])) is not None:
            bases[row["series"]] = base
    headings, shared = _headings(firsts, bases, say)
    notes = [say("scaling.all", what=shared)] if shared else []
    notes.append(say("scaling.definition"))
    known = scaling["step_time_s"].notna()
    if known.any():
        notes.append(say("scaling.interval"))
    if (scaling["tokens_per_s"].notna() & scaling["step_time_low_s"].isna()).any():
        notes.append(say("scaling.no_interval"))
    if kinds:
        notes.append(say("scaling.memory_kind", kinds=say("and").join(say(f"memory.{kind}") for kind in kinds)))
    table = Table(
        name="scaling",
        title=say("scaling.title"),
        columns=columns,
        groups=tuple(Group(headings[series], tuple(rows)) for series, rows in groups.items()),
        notes=(*notes, *footnotes.lines),
    )
    return without_blank_columns(table, keep=("cards", "status"))


def peak_memory(frame: pd.DataFrame) -> tuple[dict[str, float], list[str]]:
    """(cell_id -> peak GiB, the kinds of memory these are). Each cell gives the first of `MEMORY_COLUMNS` it has."""
    peaks: dict[str, float] = {}
    kinds: list[str] = []
    if not len(frame):
        return peaks, kinds
    cells, status, source = texts(frame, "cell_id"), texts(frame, "status"), texts(frame, "memory.device_used_source")
    for name, kind in MEMORY_COLUMNS.items():
        for cell, value, state, stated in zip(cells, numbers(frame, name), status, source, strict=True):
            if np.isnan(value) or cell in peaks:
                continue
            peaks[cell] = float(value)
            if kind == "device":
                kind_here = "rss" if "resident" in stated else "stated" if state == "imported" else "device"
            else:
                kind_here = kind
            if kind_here not in kinds:
                kinds.append(kind_here)
    return peaks, kinds


def cards_phrase(count: float, say: Say) -> str:
    """`1 card`, `8 cards`."""
    return say("cards.one") if count == 1 else say("cards.many", count=f"{count:g}")


def _parts(row: dict[Hashable, Any], say: Say) -> dict[str, str]:
    """What a series is, in words: model and mode, then what it shares or does not share with the others."""
    model = plain(row["model"]) or say("scaling.unnamed")
    length = number(row["seq_len"])
    return {
        "name": say("scaling.group", model=model, mode=plain(row["mode"])),
        "device": plain(row["device"]),
        "rule": say(f"scaling.{row['scaling']}") if row["scaling"] in ("strong", "weak", "varied") else "",
        "length": "" if length is None else say("scaling.seq_len", tokens=f"{length:g}"),
    }


def _headings(rows: dict[int, dict[Hashable, Any]], bases: dict[int, float], say: Say) -> tuple[dict[int, str], str]:
    """(series -> heading, what all series share): what is the same everywhere is said once, below the table."""
    parts = {series: _parts(row, say) for series, row in rows.items()}
    shared = [
        name
        for name in ("device", "rule", "length")
        if len({part[name] for part in parts.values()}) == 1 and next(iter(parts.values()))[name]
    ]
    headings = {}
    for series, part in parts.items():
        said = [text for name, text in part.items() if text and name not in shared]
        if series in bases:
            said.append(say("scaling.relative", cards=cards_phrase(bases[series], say)))
        headings[series] = " · ".join(said)
    return headings, " · ".join(next(iter(parts.values()))[name] for name in shared) if parts else ""


def _or_nan(values: pd.Series[Any]) -> pd.Series[Any]:
    """`values`, or one NaN where there are none known: a median needs something, and NaN is below nothing."""
    return values if values.notna().any() else pd.Series([np.inf])
