"""Tables as Markdown (GitHub's dialect), what people and programs wrote escaped: it ends no cell and opens no tag."""

from __future__ import annotations

import re

from analysis.tables import Table
from launch.render.cells import formatted, is_numeric

# Brackets alone are text; a link needs a parenthesis or a colon after them.
_SPECIAL = re.compile(r"[\\`*_<>|~]|(?<=\])[(:]|&(?=#?\w+;)")


def markdown(table: Table) -> str:
    """`table` under its title and sentences, a Markdown table a group, its footnotes below."""
    texts = formatted(table)
    head = [f"{column.title} ({column.unit})" if column.unit else column.title for column in table.columns]
    rule = ["---:" if is_numeric(column) else "---" for column in table.columns]
    parts = [f"## {escape(table.title)}"]
    parts += ["\n".join(f"- {escape(sentence)}" for sentence in table.lead)] if table.lead else []
    row = 0
    for group in (group for group in table.groups if group.rows):
        lines = [_line([escape(cell) for cell in head]), _line(rule)]
        for member in group.rows:
            cells = (
                escape(text) + (f" <sup>{mark}</sup>" if mark else "")
                for text, mark in zip(texts[row], member.marks, strict=True)
            )
            lines.append(_line(list(cells)))
            row += 1
        if group.heading:
            parts.append(f"**{escape(group.heading)}**")
        parts.append("\n".join(lines))
    parts += ["\n".join(f"- {escape(note)}" for note in table.notes)] if table.notes else []
    return "\n\n".join(parts) + "\n"


def escape(text: str) -> str:
    """`text` as itself: no markup, no table border, no HTML."""
    return _SPECIAL.sub(lambda found: f"\\{found[0]}", text)


def _line(cells: list[str]) -> str:
    return "| " + " | ".join(cells) + " |"
