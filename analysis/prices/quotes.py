"""A spreadsheet of quotes, one row a tier, to the plain data that `analysis.prices` checks. Bytes in, no file access.

Quotes come out of many hands: GB18030 or Latin-1 text, semicolons, full-width digits, decimal commas. Whatever can be
read only one way is read; whatever can be read two ways is an error that names file, row and column.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from analysis.prices import TIER_FIELDS, UNITS
from analysis.prices.columns import MONEY_FIELDS, Sign, join_ends, settle_numbers
from analysis.prices.headers import currency_of, date_of, field_of, in_brackets, unit_of
from analysis.prices.numerals import tidy
from configs.errors import ConfigError

QUOTE_FIELDS = ("provider", "machine", "region", "currency", "date", "hours_per_month")
STORAGE_COLUMNS = {"storage_price_gb_month": "price_gb_month", "read_gbps": "read_gbps", "write_gbps": "write_gbps"}
_YES = ("yes", "true", "1", "y", "free", "是", "免费")


@dataclass(frozen=True)
class SheetData:
    """One quote as plain data, and for each tier where its fields stand in the file."""

    name: str
    data: dict[str, Any]
    places: tuple[Callable[[str], str], ...]


@dataclass(frozen=True)
class _Header:
    """The header row: how its cells read, and which column is for which field."""

    source: str
    cells: tuple[str, ...]
    columns: Mapping[str, int]

    def called(self, field: str) -> str:
        """How the file calls the column of `field`."""
        return self.cells[self.columns[field]] if field in self.columns else field

    def place(self, row: int) -> Callable[[str], str]:
        def where(field: str) -> str:
            bare = field.removeprefix("storage.")
            bare = next((column for column, name in STORAGE_COLUMNS.items() if name == bare), bare)
            both = [bare] if bare in self.columns else [f"{bare}_low", f"{bare}_high"]
            names = [self.called(column) for column in both if column in self.columns]
            return f"{self.source}: row {row}: {'/'.join(names) or bare}"

        return where


def decode(content: bytes) -> str:
    """Text of a spreadsheet's export: UTF-16 with its mark, UTF-8, GB18030 where that gives Chinese, else Latin-1."""
    if content.startswith((b"\xff\xfe", b"\xfe\xff")):
        return content.decode("utf-16", errors="replace")
    for encoding in ("utf-8-sig", "gb18030"):
        try:
            text = content.decode(encoding)
        except UnicodeDecodeError:
            continue
        if encoding == "utf-8-sig" or _is_chinese(text):
            return text
    return content.decode("cp1252", errors="replace")


def _is_chinese(text: str) -> bool:
    """Whether text decoded as GB18030 was meant so. Latin-1 often decodes too, but into rare characters."""
    header = next((line for line in text.splitlines() if line.strip()), "")
    if any(field_of(cell) for cell in re.split(r"[,;\t，]", header) if re.search(r"[\u4e00-\u9fff]", cell)):
        return True
    return text.encode("gb2312", errors="ignore").decode("gb2312") == text


def read_quotes(content: bytes, source: str, name: str) -> list[SheetData]:
    """The quotes of a CSV: rows of one provider, machine, region, currency and date belong together, in file order.

    source: how messages call the file. name: what the quote is called; with several, their provider and machine follow.
    Raises ConfigError naming file, row (as a spreadsheet counts) and column.
    """
    rows = _rows(decode(content), source)
    header = _header(*rows[0], source)
    if len(rows) == 1:
        raise ConfigError(source, "has a header and no rows", "one row a tier")
    records = [_record(number, cells, header) for number, cells in rows[1:]]
    places = [header.place(number) for number, _ in rows[1:]]
    signs = settle_numbers(records, lambda i, field: places[i](field))
    groups: dict[tuple[str, ...], list[int]] = {}
    for i, record in enumerate(records):
        _settle_words(record, signs[i], header, places[i])
        groups.setdefault(tuple(str(record.get(field) or "") for field in QUOTE_FIELDS), []).append(i)
    unused = [cell for cell in header.cells if cell and field_of(cell) is None]
    sheets: list[SheetData] = []
    for key, members in groups.items():
        called = name if len(groups) == 1 else f"{name}: {' '.join(part for part in key[:2] if part)}"
        if called in {sheet.name for sheet in sheets}:
            called = f"{name}: {' '.join(part for part in key if part)}"
        data = _sheet([records[i] for i in members], [rows[i + 1][0] for i in members], unused)
        sheets.append(SheetData(called, {**data, "name": called}, tuple(places[i] for i in members)))
    return sheets


def _rows(text: str, source: str) -> list[tuple[int, list[str]]]:
    """(row number, cells) of every row that is not blank; the first is the header."""
    declared = re.match(r"sep=(.)\r?\n", text)
    first = next((line for line in text.splitlines() if line.strip() and not line.startswith("sep=")), "")
    delimiter = declared[1] if declared else max(",;\t，", key=first.count)
    try:
        rows = list(csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True))
    except csv.Error as error:
        raise ConfigError(source, f"cannot be read as CSV: {error}", "quotes around a cell come in pairs") from None
    numbered = [(i, row) for i, row in enumerate(rows, start=1) if any(cell.strip() for cell in row)]
    numbered = numbered[1:] if declared else numbered
    if not numbered:
        raise ConfigError(source, "is empty", "a header and one row a tier")
    return numbered


def _header(number: int, cells: list[str], source: str) -> _Header:
    where = f"{source}: row {number}"
    columns: dict[str, int] = {}
    for i, cell in enumerate(cells):
        field = field_of(cell)
        if field in columns:
            raise ConfigError(where, f"columns {cells[columns[field]]!r} and {cell!r} mean the same", "one of them")
        if field is not None:
            columns[field] = i
    if not set(MONEY_FIELDS) & set(columns):
        raise ConfigError(
            where, "has no column for the price", "price (单价), or both price_low and price_high (最低价, 最高价)"
        )
    if ("price_low" in columns) != ("price_high" in columns):
        raise ConfigError(where, "has only one of price_low and price_high", "both, or a price column")
    return _Header(source, tuple(tidy(cell) for cell in cells), columns)


def _record(number: int, cells: list[str], header: _Header) -> dict[str, Any]:
    if any(cell.strip() for cell in cells[len(header.cells) :]):
        raise ConfigError(
            f"{header.source}: row {number}",
            f"has {len(cells)} cells for {len(header.cells)} columns",
            "a decimal comma in a comma-separated file needs quotes around its cell",
        )
    return {field: tidy(cells[i]) if i < len(cells) else "" for field, i in header.columns.items()}


def _settle_words(record: dict[str, Any], signs: list[Sign], header: _Header, where: Callable[[str], str]) -> None:
    """Settle unit, currency, date and the low and high columns of one row."""
    money = next(field for field in MONEY_FIELDS if field in header.columns)
    bracket = in_brackets(header.called(money))
    said = record.get("unit") or bracket
    unit = said if said in UNITS else unit_of(said)
    if unit is None:
        raise ConfigError(where("unit"), f"{said!r} names no unit", f"{', '.join(UNITS)} (卡时, 整机月, ...)")
    record["unit"] = unit
    record["currency"] = _currency(record.get("currency") or "", bracket, signs, where)
    record["date"] = date_of(record["date"], where("date")) if record.get("date") else None
    for field in ("price", "discount"):
        join_ends(record, field, where)
    if "free" in record:
        record["free"] = record["free"].lower() in _YES


def _currency(cell: str, bracket: str, signs: list[Sign], where: Callable[[str], str]) -> str:
    """The row's currency: its own column, else the price header's brackets, else a sign that means only one."""
    stated = currency_of(cell) or currency_of(bracket)
    if cell and not stated:
        raise ConfigError(where("currency"), f"{cell!r} is not a currency", "three letters, such as CNY")
    if not stated and signs:
        stated = signs[0][0]
    if len(stated) != 1:
        said = f"the currency can be {' or '.join(stated)}" if stated else "the currency is not stated"
        raise ConfigError(where("currency"), said, "a currency column: CNY, USD, EUR, ...")
    for codes, place in signs:
        if stated[0] not in codes:
            raise ConfigError(place, f"the price is in {' or '.join(codes)}", f"the row's currency is {stated[0]}")
    return stated[0]


def _sheet(records: list[dict[str, Any]], rows: list[int], unused: Sequence[str]) -> dict[str, Any]:
    """The rows of one quote as one sheet's plain data."""
    data = {field: records[0][field] for field in QUOTE_FIELDS if records[0].get(field) not in (None, "")}
    notes = list(dict.fromkeys(record["notes"] for record in records if record.get("notes")))
    if unused:
        notes.append(f"columns not used: {', '.join(unused)}")
    tiers: list[dict[str, Any]] = []
    for record, row in zip(records, rows, strict=True):
        tier = {field: record[field] for field in TIER_FIELDS if record.get(field) not in (None, "")}
        storage = {name: record[column] for column, name in STORAGE_COLUMNS.items() if record.get(column) is not None}
        if storage:
            tier["storage"] = storage
        if "name" not in tier:
            taken = {other["name"] for other in tiers}
            tier["name"] = tier["unit"] if tier["unit"] not in taken else f"{tier['unit']} of row {row}"
        tiers.append(tier)
    return {**data, "notes": "; ".join(notes), "tiers": tiers}
