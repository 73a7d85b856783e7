"""Priced rows as JSON-able cells, with the names that scripts rely on; blank is None, whole counts are integers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

PLAIN = (
    *("cards", "mode", "tier", "quote", "provider", "machine", "model", "cell_id", "status", "measured", "unit"),
    *("currency", "rented_cards", "idle_cards", "tokens_per_s", "epoch_hours", "finish_hours", "total_cost_expected"),
    *("memory_share", "candidate", "feasible", "certain", "excluded", "risk", "pareto", "notes"),
    *("price_date", "hours_per_month"),
)
RANGES = (
    *("cost_per_epoch", "total_cost", "pure_cost_per_epoch", "pure_total_cost", "cost_per_billion_tokens"),
    *("price",),
)
HOURS_WITH_ENDS = ("epoch_hours", "finish_hours", "tokens_per_s")
COUNTS = ("cards", "rented_cards", "idle_cards")


def cells_json(rows: pd.DataFrame) -> list[dict[str, Any]]:
    """One mapping a row: `cards, mode, tier, epoch_hours, cost_per_epoch{low, high}, total_cost{low, high}, ...`."""
    columns: dict[str, list[Any]] = {name: _column(rows, name) for name in PLAIN}
    for name in RANGES:
        columns[name] = _ends(rows, name)
    for name in HOURS_WITH_ENDS:
        columns[f"{name}_interval"] = _ends(rows, name)
    names = list(columns)
    return [dict(zip(names, values, strict=True)) for values in zip(*columns.values(), strict=True)]


def cell_json(rows: pd.DataFrame, index: int) -> dict[str, Any]:
    """The row at `index` alone."""
    return cells_json(rows.loc[[index]])[0]


def _ends(rows: pd.DataFrame, name: str) -> list[dict[str, float | None]]:
    low, high = _column(rows, f"{name}_low"), _column(rows, f"{name}_high")
    return [{"low": a, "high": b} for a, b in zip(low, high, strict=True)]


def _column(rows: pd.DataFrame, name: str) -> list[Any]:
    values = rows[name].to_numpy()
    if values.dtype.kind == "f":
        known = np.isfinite(values)
        number = int if name in COUNTS else float
        return [number(value) if ok else None for value, ok in zip(values.tolist(), known.tolist(), strict=True)]
    return list(values.tolist())
