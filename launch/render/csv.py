"""Frames as CSV and JSON: all digits, a column a quantity, nothing that a spreadsheet would run."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any

import pandas as pd

from results.record import finite

# What a spreadsheet takes for a formula at the start of a cell, perhaps behind blanks that it drops.
_FORMULA = re.compile(r"\s*[=+\-@]")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]+")  # line breaks and terminal escapes: they would break rows
_END = re.compile(r"(.+)_(low|high)((?:_s)?)")


def write_csv(frame: pd.DataFrame, path: Path) -> None:
    """Write `frame` with every text that a spreadsheet would run as a formula behind an apostrophe."""
    safe = frame.copy()
    for name in safe.columns:
        if not pd.api.types.is_numeric_dtype(safe[name]) and not pd.api.types.is_bool_dtype(safe[name]):
            safe[name] = safe[name].map(neutral)
    safe.columns = [neutral(str(name)) for name in safe.columns]
    safe.to_csv(path, index=False)


def neutral(value: Any) -> Any:
    """A text on one line, behind an apostrophe if it begins like a formula; anything else as it is."""
    if not isinstance(value, str):
        return value
    line = _CONTROL.sub(" ", value)
    return f"'{line}" if _FORMULA.match(line) else line


def json_rows(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """One object a row. Columns x_low and x_high become {low, high} under x, or under x_interval where x is there too.

    Blank is null; numbers that are whole, such as counts of cards, are integers.
    """
    places = _places([str(name) for name in frame.columns])
    rows = []
    for record in frame.itertuples(index=False, name=None):
        row: dict[str, Any] = {}
        for (key, end), value in zip(places, record, strict=True):
            if end:
                row.setdefault(key, {})[end] = _json_value(value)
            else:
                row[key] = _json_value(value)
        rows.append(row)
    return rows


def _places(names: list[str]) -> list[tuple[str, str]]:
    """For each column its key in the row and, where it is an end of an interval, which."""
    places = []
    for name in names:
        found = _END.fullmatch(name)
        if found is None or any(f"{found[1]}_{end}{found[3]}" not in names for end in ("low", "high")):
            places.append((name, ""))
            continue
        value = found[1] + found[3]
        places.append((f"{value}_interval" if value in names else value, found[2]))
    return places


def _json_value(value: Any) -> Any:
    if hasattr(value, "item"):
        value = value.item()
    if isinstance(value, float):
        return None if not math.isfinite(value) else int(value) if value.is_integer() else value
    return finite(value) if isinstance(value, (list, dict)) else None if value is pd.NA else value
