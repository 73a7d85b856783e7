"""Tables on a terminal, through rich: numerals never wrap; what does not fit is split or left out, and said."""

from __future__ import annotations

from collections.abc import Sequence

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from analysis.tables import Column, Table
from analysis.text import Say
from launch.render.blocks import GAP, Layout, blocks, fit, marked
from launch.render.cells import formatted, is_numeric

TONES = {"ok": "", "failed": "red", "predicted": "italic magenta"}


def print_table(console: Console, table: Table, say: Say) -> None:
    """Print `table`, in several blocks of columns where the console is too narrow for all at once."""
    _print(console, table.title, "bold")
    for sentence in table.lead:
        print_hanging(console, "- ", sentence, "")
    if not table.rows:
        _print_notes(console, table.notes)
        return
    texts = marked(table, formatted(table))
    layout, left_out = fit(table, texts, console.width)
    for block in blocks(table.stub, layout, console.width):
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


def _print_block(console: Console, table: Table, texts: list[list[str]], layout: Layout) -> None:
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
