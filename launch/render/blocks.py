"""How a table's columns are laid out in a given width: which are shown, how wide, in how many blocks."""

from __future__ import annotations

from dataclasses import dataclass

from rich.cells import cell_len

from analysis.tables import Column, Table
from launch.render.cells import is_numeric

GAP = 2  # between columns
TEXT_MIN = 24  # a text column is folded down to this width before columns are left out


@dataclass(frozen=True)
class Layout:
    """Which columns are shown, each with its width in characters (a Chinese one counts twice)."""

    places: tuple[int, ...]
    widths: tuple[int, ...]

    @property
    def needed(self) -> int:
        return sum(self.widths) + GAP * (len(self.widths) - 1)


def marked(table: Table, texts: list[list[str]]) -> list[list[str]]:
    """Footnote letters after the numbers, in a field as wide as the column's widest, so that numerals stay aligned."""
    rows = table.rows
    fields = [max((len(row.marks[i]) for row in rows), default=0) for i in range(len(table.columns))]
    return [
        [f"{text} {mark:<{wide}}" if wide else text for text, mark, wide in zip(line, row.marks, fields, strict=True)]
        for line, row in zip(texts, rows, strict=True)
    ]


def fit(table: Table, texts: list[list[str]], width: int, all_columns: bool = False) -> tuple[Layout, list[Column]]:
    """(layout, columns left out): optional ones go, the highest rank first, until the rest fits.

    all_columns: leave none out; `blocks` splits what is too wide.
    """
    columns = table.columns
    heads = [max(map(cell_len, (*column.title.split(), column.unit))) for column in columns]
    widths = [max([head, *(cell_len(line[i]) for line in texts)]) for i, head in enumerate(heads)]
    least = [w if is_numeric(column) else min(w, TEXT_MIN) for w, column in zip(widths, columns, strict=True)]
    places = list(range(len(columns)))
    left_out: list[Column] = []
    while (spare := width - sum(least[i] for i in places) - GAP * (len(places) - 1)) < 0:
        optional = [i for i in places if columns[i].rank]
        if not optional or all_columns:
            break
        drop = max(optional, key=lambda i: (columns[i].rank, i))
        places.remove(drop)
        left_out.append(columns[drop])
    for i in places:  # what room is left goes to the texts that were cut short
        granted = min(widths[i] - least[i], max(spare, 0))
        least[i] += granted
        spare -= granted
    return Layout(tuple(places), tuple(least[i] for i in places)), left_out


def blocks(stub: int, layout: Layout, width: int) -> list[Layout]:
    """`layout` in one block where it fits, else in several that each repeat the stub."""
    columns = list(zip(layout.places, layout.widths, strict=True))
    head, rest = columns[:stub], columns[stub:]
    blocks: list[list[tuple[int, int]]] = []
    room = 0
    for place, wide in rest:
        if not blocks or wide + GAP > room:
            blocks.append(list(head))
            room = width - sum(w + GAP for _, w in head) + GAP
        blocks[-1].append((place, wide))
        room -= wide + GAP
    return [Layout(tuple(place for place, _ in block), tuple(wide for _, wide in block)) for block in blocks or [head]]
