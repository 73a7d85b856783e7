"""A table's values as text: decimals that suit the column, ranges with a dash, intervals in brackets."""

from __future__ import annotations

from analysis.tables import Column, Estimate, Span, Table, Value, decimals, ends, money_decimals, number, rate_decimals


def formatted(table: Table) -> list[list[str]]:
    """The text of every cell of `table`, row by row over all groups, without footnote marks."""
    rows = table.rows
    places = [_decimals(column, [row.values[i] for row in rows]) for i, column in enumerate(table.columns)]
    return [[cell_text(value, digits) for value, digits in zip(row.values, places, strict=True)] for row in rows]


def cell_text(value: Value, digits: int) -> str:
    """One value; blank is the empty string, because what was not measured is not zero."""
    if value is None or isinstance(value, str):
        return value or ""
    if isinstance(value, Span):
        low, high = (None if end is None else f"{end:,.{digits}f}" for end in (value.low, value.high))
        if low is None or high is None:
            return low or high or ""
        return low if low == high else f"{low}–{high}"
    if isinstance(value, Estimate):
        middle = cell_text(value.value, digits)
        if value.low is None or value.high is None:
            return middle
        return f"{middle} [{value.low:,.{digits}f}, {value.high:,.{digits}f}]"
    known = number(value)
    return "" if known is None else f"{known:,.{digits}f}"


def is_numeric(column: Column) -> bool:
    return column.form != "text"


def _decimals(column: Column, values: list[Value]) -> int:
    fixed = {"text": 0, "count": 0, "percent": 1, "decimals": 2}
    if column.form in fixed:
        return fixed[column.form]
    rule = {"money": money_decimals, "rate": rate_decimals}.get(column.form, decimals)
    return rule(ends(values))
