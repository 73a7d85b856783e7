"""Presentation-neutral tables: title, columns with units, grouped rows of plain values, footnotes.

What a value is (a count, a range of money, a median with its interval) is data; how it looks is the renderers' matter.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, Union

Form = Literal["text", "count", "number", "decimals", "percent", "money", "rate"]
Tone = Literal["ok", "failed", "predicted"]


@dataclass(frozen=True)
class Span:
    """A low and a high end, such as a price range."""

    low: float | None
    high: float | None


@dataclass(frozen=True)
class Estimate:
    """A value with its 95 % interval; the ends are None where the interval is not known."""

    value: float | None
    low: float | None
    high: float | None


Value = Union[str, int, float, Span, Estimate, None]


@dataclass(frozen=True)
class Column:
    """One column. A count has no decimals, `decimals` two, a percent one; number, money and rate as many as they need.

    rank: 0 must be shown; where there is no room, columns of the highest rank go first.
    """

    key: str
    title: str
    unit: str = ""
    form: Form = "text"
    rank: int = 0


@dataclass(frozen=True)
class Row:
    """One value a column; marks: for each column the letters of its footnotes; tone: ok, failed or predicted."""

    values: tuple[Value, ...]
    marks: tuple[str, ...]
    tone: Tone = "ok"


@dataclass(frozen=True)
class Group:
    """Rows under one heading; an empty heading is not shown."""

    heading: str
    rows: tuple[Row, ...]


@dataclass(frozen=True)
class Table:
    """name: for files and scripts. stub: how many leading columns name a row, repeated where a table is split.

    lead: sentences above the rows; notes: below them.
    """

    name: str
    title: str
    columns: tuple[Column, ...]
    groups: tuple[Group, ...]
    notes: tuple[str, ...] = ()
    stub: int = 1
    lead: tuple[str, ...] = ()

    @property
    def rows(self) -> list[Row]:
        return [row for group in self.groups for row in group.rows]


def without_blank_columns(table: Table, keep: Sequence[str] = ()) -> Table:
    """`table` without the columns in which nothing is known; those whose key is in `keep` stay."""
    shown = [
        place
        for place, column in enumerate(table.columns)
        if column.key in keep or any(not is_blank(row.values[place]) for row in table.rows)
    ]

    def kept(row: Row) -> Row:
        return Row(tuple(row.values[i] for i in shown), tuple(row.marks[i] for i in shown), row.tone)

    groups = tuple(Group(group.heading, tuple(map(kept, group.rows))) for group in table.groups)
    return replace(table, columns=tuple(table.columns[i] for i in shown), groups=groups)


def is_blank(value: Value) -> bool:
    """Whether there is nothing to show for `value`."""
    if isinstance(value, (Span, Estimate)):
        return not ends([value])
    return value is None or value == ""


class Footnotes:
    """Hands out letters for remarks in the order in which they first appear; a remark keeps its letter."""

    def __init__(self) -> None:
        self._letters: dict[str, str] = {}

    def mark(self, remarks: Iterable[str]) -> str:
        """The letters of `remarks`, joined by commas."""
        return ",".join(self._letters.setdefault(remark, _letter(len(self._letters))) for remark in remarks)

    @property
    def lines(self) -> list[str]:
        return [f"{letter}: {remark}" for remark, letter in self._letters.items()]


def _letter(number: int) -> str:
    """a, b, ... z, aa, ab, ..."""
    text = ""
    number += 1
    while number:
        number, rest = divmod(number - 1, 26)
        text = chr(ord("a") + rest) + text
    return text


def split_remarks(text: str) -> list[str]:
    """The remarks of a cell, which tables join by "; "."""
    return [part for part in text.split("; ") if part]


def number(value: Any) -> float | None:
    """A finite number, or None: blank is not measured."""
    if value is None or isinstance(value, str):
        return None
    result = float(value)
    return result if math.isfinite(result) else None


def plain(value: Any) -> str:
    """A person's or a program's text on one line, without control characters; blank is the empty string.

    Error messages carry terminal escapes and line breaks; neither may reach a table.
    """
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ""
    return " ".join("".join(c if c.isprintable() else " " for c in str(value)).split())


def file_names(names: Sequence[str]) -> list[str]:
    """For each of `names` a name that any file system takes and that says the same, numbered where two would agree."""
    made: list[str] = []
    for name in names:
        slug = re.sub(r"[^\w.-]+", "_", name).strip("._") or "unnamed"
        made.append(slug if slug not in made else f"{slug}-{len(made) + 1}")
    return made


def ends(values: Iterable[Value]) -> list[float]:
    """Every known number in `values`, the ends of spans and intervals too."""
    found: list[float | None] = []
    for value in values:
        if isinstance(value, Span):
            found += [number(value.low), number(value.high)]
        elif isinstance(value, Estimate):
            found += [number(value.value), number(value.low), number(value.high)]
        else:
            found.append(number(value))
    return [value for value in found if value is not None]


def decimals(values: Sequence[float]) -> int:
    """Decimals that show the middle one of `values` with three significant digits and the smallest with two; at most 6.

    values: finite numbers; zeros need no decimals.
    """
    sizes = sorted(abs(value) for value in values if value)
    if not sizes:
        return 0
    return max(_decimals_for(sizes[len(sizes) // 2], 3), _decimals_for(sizes[0], 2))


def money_decimals(values: Sequence[float]) -> int:
    """None where every amount is 100 or more, two (cents) down to 1, below that two significant digits."""
    smallest = min((abs(value) for value in values if value), default=math.inf)
    return 0 if smallest >= 100 else 2 if smallest >= 1 else max(_decimals_for(smallest, 2), 2)


def rate_decimals(values: Sequence[float]) -> int:
    """Two, as bandwidths are printed; three where none reaches 10: small messages are slow, and their time says it."""
    return 2 if max(values, default=0) >= 10 else 3


def _decimals_for(size: float, digits: int) -> int:
    return min(max(digits - 1 - math.floor(math.log10(size)), 0), 6)
