"""The columns of an NCCL tests table: a header's names bound to a row's tokens, over the versions' layouts."""

from __future__ import annotations

import re
from dataclasses import dataclass

OUT_OF_PLACE, IN_PLACE = "out_of_place", "in_place"

# Names of columns over the versions -> ours. NCCL 1 printed bytes, N, op, res.
_NAMES = {
    "size": "size",
    "bytes": "size",
    "count": "count",
    "n": "count",
    "type": "type",
    "redop": "redop",
    "op": "redop",
    "root": "root",
    "time": "time",
    "cputime": "time",
    "algbw": "algbw",
    "busbw": "busbw",
    "wrong": "wrong",
    "error": "error",
    "res": "error",
    "i_min": "min",
    "i_max": "max",
    "i_p99": "p99",
    "i_cv%": "cv_pct",
    "timestamp": "timestamp",
}
_FIXED = ("size", "count", "type", "redop", "root")
# Where the header is missing: the fixed columns and the groups that a row with so many values has.
_BY_VALUES = {8: 2, 4: 1}


@dataclass(frozen=True)
class Columns:
    """A table's layout: the fixed columns' names, then those of each placement's group, in the order of a row."""

    fixed: tuple[str, ...]
    groups: tuple[tuple[str, ...], ...]
    placements: tuple[str, ...]
    time_ends: tuple[int, ...]  # where each group's time column ends on its line; empty for a wrapped header


def is_header(words: list[str]) -> bool:
    """Whether a comment's words begin a table's head; it may be wrapped."""
    return words[:2] in (["size", "count"], ["bytes", "N"])


def _name(word: str) -> str | None:
    return _NAMES.get(word.lstrip("#").lower())


def continue_header(header: list[str], line: str) -> list[str] | None:
    """The header's words with those of `line`, if that is the rest of it; a word may have been cut in two."""
    for words in ([*header, *line.split()], [*header[:-1], header[-1] + line.split()[0], *line.split()[1:]]):
        if all(_name(word) is not None for word in words):
            return words
    return None


def bind_header(words: list[str], labels: tuple[str, ...], line: str) -> Columns | None:
    """Bind a header's names: the fixed columns, then one group for each time column. None before there is one."""
    names = [_name(word) or word for word in words]
    if "time" not in names:
        return None
    first = names.index("time")
    groups: list[list[str]] = []
    for name in names[first:]:
        if name == "time":
            groups.append([])
        if name != "timestamp":
            groups[-1].append(name)
    placements = labels if len(labels) == len(groups) else (OUT_OF_PLACE, IN_PLACE)[: len(groups)]
    ends = tuple(match.end() for match in re.finditer(r"\b(?:cpu)?time\b", line))
    return Columns(tuple(names[:first]), tuple(tuple(group) for group in groups), placements, ends)


def guess_columns(tokens: list[str]) -> Columns | None:
    """Columns of a row without a header above it, by its number of values; None where that fits no version."""
    fixed, values = split_row(tokens, Columns(_FIXED, (), (), ()))
    group = ("time", "algbw", "busbw", "wrong")
    if "root" in fixed and len(values) % 4 == 3:  # no root column: what was taken for one is the time
        return _guess(_FIXED[:4], group, len(values) + 1)
    return _guess(_FIXED, group, len(values))


def _guess(fixed: tuple[str, ...], group: tuple[str, ...], values: int) -> Columns | None:
    groups = _BY_VALUES.get(values)
    return None if groups is None else Columns(fixed, (group,) * groups, (OUT_OF_PLACE, IN_PLACE)[:groups], ())


def split_row(tokens: list[str], columns: Columns) -> tuple[dict[str, str], list[str]]:
    """A row's fixed columns by name, and its values. A blank redop (old all_to_all) takes no token."""
    fixed: dict[str, str] = {}
    rest = list(tokens)
    for name in columns.fixed:
        if not rest:
            break
        if name == "redop" and not rest[0].isalpha():
            continue
        if name == "root" and not re.fullmatch(r"-?\d+", rest[0]):
            continue
        fixed[name] = rest.pop(0)
    return fixed, rest


def consistent(size: int, values: list[str], columns: Columns) -> bool:
    """Whether size / time is the printed algbw in every group, within its rounding; NCCL 1 printed milliseconds."""
    for names in columns.groups:
        row = dict(zip(names, (number(value) for value in values), strict=False))
        values = values[len(names) :]
        time, algbw = row.get("time"), row.get("algbw")
        if time is None or algbw is None or time <= 0:
            return False
        if all(abs(size / time / unit - algbw) > 0.01 + 0.01 * algbw for unit in (1e3, 1e6)):
            return False
    return True


def number(text: str) -> float | None:
    """A printed value; None for N/A and nan, which measured nothing."""
    try:
        value = float(text)
    except ValueError:
        return None
    return value if value == value else None
