"""Cost tables: a cell a row, a tier a column, one table a quote, because a quote has one currency and one machine."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from analysis.prices import Quote, Tier
from analysis.tables import Column, Footnotes, Group, Row, Span, Table, Tone, file_names, number, plain, split_remarks
from analysis.text import Say, remark

PURE_DIFFERS = 0.05  # the second table is shown where rounding up to billing units adds more than this to some cell


def cost_views(
    costs: pd.DataFrame, quotes: Sequence[Quote], epoch_tokens: dict[str, float], per_epoch: bool, say: Say, lang: str
) -> list[Table]:
    """Tables of `cost_table`'s rows: as billed for each quote, and to the exact second where that says something else.

    epoch_tokens: model -> tokens that the costs are for. per_epoch: false where these are a billion, for want of the
    size of an epoch. Cells without a throughput are left out: the table of failures has them.
    """
    priced = costs[costs["tokens_per_s"].notna()]
    tables = []
    for quote, name in zip(quotes, file_names([quote.name for quote in quotes]), strict=True):
        rows = priced[priced["quote"] == quote.name]
        if rows.empty:
            continue
        for kind in ("", "pure_") if _rounding_matters(rows) else ("",):
            table = _view(rows, quote, epoch_tokens, kind, per_epoch, say, lang)
            tables.append(replace(table, name=f"{kind}cost_{name}"))
    return tables


def _rounding_matters(rows: pd.DataFrame) -> bool:
    return bool((rows["cost_per_epoch_high"] > rows["pure_cost_per_epoch_high"] * (1 + PURE_DIFFERS)).any())


def _view(
    rows: pd.DataFrame, quote: Quote, epoch_tokens: dict[str, float], kind: str, per_epoch: bool, say: Say, lang: str
) -> Table:
    currency = str(rows["currency"].iloc[0])
    scale, unit = time_unit(rows["epoch_hours"])
    tiers = [tier.name for tier in quote.tiers]
    columns = (
        Column("mode", say("cost.mode")),
        Column("cards", say("cost.cards"), form="count"),
        Column("time", say("cost.time"), say(f"unit.{unit}"), "number"),
        *(Column(name, plain(name).replace("_", " "), currency, "money") for name in tiers),
    )
    general, by_tier = _shared_remarks(rows, tiers)
    footnotes = Footnotes()
    groups: dict[str, list[Row]] = {}
    for by_name in _cells(rows):
        first = next(iter(by_name.values()))
        values: list[Any] = [plain(first["mode"]), number(first["cards"]), number(first["epoch_hours"] * scale)]
        marks = ["", "", ""]
        for name in tiers:
            record = by_name[name]
            fits = bool(record["tier_fits"])
            ends = (number(record[f"{kind}cost_per_epoch_{end}"]) if fits else None for end in ("low", "high"))
            values.append(Span(*ends))
            own = [r for r in split_remarks(record["notes"]) if r not in general and r not in by_tier[name]]
            said = [remark(text, lang) for text in own]
            marks.append(footnotes.mark(said if record["measured"] else [*said, say("cost.predicted")]))
        tone: Tone = "ok" if first["measured"] else "predicted"
        groups.setdefault(_heading(first, say), []).append(Row(tuple(values), tuple(marks), tone))
    if kind:
        notes = [say("cost.pure")]
    else:
        notes = [say("cost.billed"), say("cost.ranges", currency=currency)]
        tokens = {f"{round(epoch_tokens[model]):,}" for model in rows["model"].unique() if model in epoch_tokens}
        notes += [say("cost.epoch", tokens=text) for text in sorted(tokens)] if per_epoch else [say("cost.no_epoch")]
        notes += [_tier_line(tier, currency, quote, say) for tier in quote.tiers]
        notes += [remark(text, lang) for text in general]
        notes += [
            say("cost.tier_note", name=plain(name), remark=remark(text, lang))
            for name in tiers
            for text in by_tier[name]
        ]
        notes += footnotes.lines
    title = {("", True): "title", ("pure_", True): "pure_title", ("", False): "billion_title"}
    return Table(
        name=f"{kind}cost",
        title=say(f"cost.{title.get((kind, per_epoch), 'pure_billion_title')}", quote=_quote_title(quote)),
        columns=columns,
        groups=tuple(Group(heading, tuple(members)) for heading, members in groups.items()),
        notes=tuple(notes),
        stub=3,
    )


def time_unit(hours: pd.Series[float]) -> tuple[float, str]:
    """(factor on hours, unit) in which the middle one of `hours` reads well: h, min or s."""
    middle = float(np.nanmedian(hours)) if hours.notna().any() else 1.0
    return (1.0, "h") if middle >= 1 else (60.0, "min") if middle * 60 >= 1 else (3600.0, "s")


def _cells(rows: pd.DataFrame) -> list[dict[str, dict[Hashable, Any]]]:
    """For each cell the row of each tier: a quote's rows come cell by cell, each tier once."""
    cells: list[dict[str, dict[Hashable, Any]]] = []
    numbers = rows.groupby("tier", sort=False).cumcount()
    for place, record in zip(numbers, rows.to_dict("records"), strict=True):
        if place == len(cells):
            cells.append({})
        cells[place][record["tier"]] = record
    return cells


def _shared_remarks(rows: pd.DataFrame, tiers: Sequence[str]) -> tuple[list[str], dict[str, list[str]]]:
    """Remarks that all rows share, and those that all rows of a tier do: said once, not at every figure."""

    def shared(notes: pd.Series[str], known: Callable[[str], bool]) -> list[str]:
        common = [set(split_remarks(text)) for text in notes.unique()]
        first = split_remarks(str(notes.iloc[0]))
        return [text for text in first if not known(text) and all(text in each for each in common)]

    general = shared(rows["notes"], lambda text: False)
    return general, {
        name: shared(rows.loc[rows["tier"] == name, "notes"], lambda text: text in general) for name in tiers
    }


def _heading(record: dict[Hashable, Any], say: Say) -> str:
    parts = [plain(record["model"]) or say("scaling.unnamed"), plain(record["device"])]
    return " · ".join(part for part in parts if part)


def _quote_title(quote: Quote) -> str:
    return ", ".join(part for part in (plain(quote.provider), plain(quote.machine)) if part)


def _tier_line(tier: Tier, currency: str, quote: Quote, say: Say) -> str:
    """What one tier charges, in words."""
    line = say(
        "cost.tier",
        name=plain(tier.name),
        price="?" if tier.price is None else range_text(*tier.price),
        currency=currency if currency == quote.currency else quote.currency,
        unit=say(f"unit.{tier.unit}"),
        discount="" if tier.discount == (1, 1) else say("cost.discount", discount=range_text(*tier.discount)),
    )
    return line + (say("cost.min_cards", count=tier.min_cards) if tier.min_cards > 1 else "")


def range_text(low: float, high: float) -> str:
    """`20–35`; one figure where both ends are the same."""
    ends = [f"{end:,.10g}" for end in (low, high)]
    return ends[0] if ends[0] == ends[1] else "–".join(ends)
