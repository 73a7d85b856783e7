"""Tables on a terminal, through rich: numerals never wrap; what does not fit is split or left out, and said."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from analysis.tables import Column, Table
from analysis.text import Say
from launch.render_cells import formatted, is_numeric

GAP = 2  # between columns
TEXT_MIN = 24  # a text column is folded down to this width before columns are left out
TONES = {"ok": "", "failed": "red", "predicted": "italic magenta"}


@dataclass(frozen=True)
class _Layout:
    """Which columns are shown, each with its width in terminal cells."""

    places: tuple[int, ...]
    widths: tuple[int, ...]

    @property
    def needed(self) -> int:
        return sum(self.widths) + GAP * (len(self.widths) - 1)


def print_table(console: Console, table: Table, say: Say) -> None:
    """Print `table`, in several blocks of columns where the console is too narrow for all at once."""
    _print(console, table.title, "bold")
    for sentence in table.lead:
        print_hanging(console, "- ", sentence, "")
    if not table.rows:
        _print_notes(console, table.notes)
        return
    texts = _marked(table, formatted(table))
    layout, left_out = _fit(table, texts, console.width)
    for block in _blocks(table.stub, layout, console.width):
        _print_block(console, table, texts, block)
    notes = list(table.notes)
    if left_out:
        notes.append(say("left_out", columns=", ".join(column.title for column in left_out)))
    _print_notes(console, notes)


def _print_notes(console: Console, notes: Sequence[str]) -> None:
    for note in notes:
        print_hanging(console, "  ", note, "dim")
    console.print()


def print_hanging(console: Console, lead: str, text: str, style: str) -> None:
    """Print `text` after `lead`, its further lines under its first."""
    for number, line in enumerate(_folded(console, text, console.width - cell_len(lead))):
        _print(console, (" " * cell_len(lead) if number else lead) + line, style)


def _marked(table: Table, texts: list[list[str]]) -> list[list[str]]:
    """Footnote letters after the numbers, in a field as wide as the column's widest, so that numerals stay aligned."""
    rows = table.rows
    fields = [max((len(row.marks[i]) for row in rows), default=0) for i in range(len(table.columns))]
    return [
        [f"{text} {mark:<{wide}}" if wide else text for text, mark, wide in zip(line, row.marks, fields, strict=True)]
        for line, row in zip(texts, rows, strict=True)
    ]


def _fit(table: Table, texts: list[list[str]], width: int) -> tuple[_Layout, list[Column]]:
    """The columns to show and their widths; optional ones go, the highest rank first, until the rest fits."""
    columns = table.columns
    heads = [max(map(cell_len, (*column.title.split(), column.unit))) for column in columns]
    widths = [max([head, *(cell_len(line[i]) for line in texts)]) for i, head in enumerate(heads)]
    least = [w if is_numeric(column) else min(w, TEXT_MIN) for w, column in zip(widths, columns, strict=True)]
    places = list(range(len(columns)))
    left_out: list[Column] = []
    while (spare := width - sum(least[i] for i in places) - GAP * (len(places) - 1)) < 0:
        optional = [i for i in places if columns[i].rank]
        if not optional:
            break
        drop = max(optional, key=lambda i: (columns[i].rank, i))
        places.remove(drop)
        left_out.append(columns[drop])
    for i in places:  # what room is left goes to the texts that were cut short
        granted = min(widths[i] - least[i], max(spare, 0))
        least[i] += granted
        spare -= granted
    return _Layout(tuple(places), tuple(least[i] for i in places)), left_out


def _blocks(stub: int, layout: _Layout, width: int) -> list[_Layout]:
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
    return [_Layout(tuple(place for place, _ in block), tuple(wide for _, wide in block)) for block in blocks or [head]]


def _print_block(console: Console, table: Table, texts: list[list[str]], layout: _Layout) -> None:
    columns = [table.columns[i] for i in layout.places]
    heads = [_header(column, width) for column, width in zip(columns, layout.widths, strict=True)]
    tallest = max(map(len, heads))
    for line in zip(*([""] * (tallest - len(head)) + head for head in heads), strict=True):
        _print_line(console, columns, layout.widths, line)
    _print(console, "─" * layout.needed, "dim")
    row = 0
    for group in table.groups:
        if group.heading:
            console.print(Text(group.heading, style="cyan"))
        for member in group.rows:
            cells = [
                [texts[row][i]] if is_numeric(column) else _folded(console, texts[row][i], width)
                for i, column, width in zip(layout.places, columns, layout.widths, strict=True)
            ]
            deepest = max(map(len, cells))
            for line in zip(*(cell + [""] * (deepest - len(cell)) for cell in cells), strict=True):
                _print_line(console, columns, layout.widths, line, TONES[member.tone])
            row += 1


def _print_line(
    console: Console, columns: Sequence[Column], widths: Sequence[int], cells: Sequence[str], style: str = ""
) -> None:
    padded = []
    for column, width, cell in zip(columns, widths, cells, strict=True):
        space = " " * max(width - cell_len(cell), 0)
        padded.append(space + cell if is_numeric(column) else cell + space)
    _print(console, (" " * GAP).join(padded).rstrip(), style)


def _print(console: Console, line: str, style: str) -> None:
    console.print(Text(line, style=style), no_wrap=True, overflow="ignore", crop=False)


def _folded(console: Console, text: str, width: int) -> list[str]:
    return [line.plain.rstrip() for line in Text(text).wrap(console, width)] or [""]


def _header(column: Column, width: int) -> list[str]:
    """The title's words, as many on a line as fit, and the unit on a line of its own."""
    lines: list[str] = []
    for word in column.title.split():
        if lines and cell_len(f"{lines[-1]} {word}") <= width:
            lines[-1] += f" {word}"
        else:
            lines.append(word)
    return [*lines, column.unit] if column.unit else lines
