"""Tables as LaTeX (booktabs, longtable) that pdflatex compiles: a fragment a table for papers, and a whole document."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from analysis.tables import Column, Table
from launch.render.blocks import Layout, blocks, fit
from launch.render.cells import formatted, is_numeric

TEXT_PARAGRAPH = 20  # characters; a longer text column is set in paragraphs
LINE = 104  # characters of \footnotesize that fit on a line of A4 with the margins below
PACKAGES = r"\usepackage{booktabs,longtable,array}"
_PREAMBLE = rf"""\documentclass[a4paper]{{article}}
\usepackage[T1]{{fontenc}}
\usepackage[utf8]{{inputenc}}
\usepackage{{textcomp}}
\IfFileExists{{lmodern.sty}}{{\usepackage{{lmodern}}}}{{}}
\usepackage[margin=2cm]{{geometry}}
{PACKAGES}
\setlength{{\parindent}}{{0pt}}
"""
_ESCAPES = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    '"': r"\textquotedbl{}",
    "'": r"\textquotesingle{}",
    "`": r"\textasciigrave{}",
    "–": "--",
    "—": "---",
    "−": r"\ensuremath{-}",
    "×": r"\ensuremath{\times}",
    "·": r"\textperiodcentered{}",
    "≥": r"\ensuremath{\geq}",
    "≤": r"\ensuremath{\leq}",
    "±": r"\ensuremath{\pm}",
    "°": r"\textdegree{}",
    "µ": r"\textmu{}",
    **{character: f"\\{character}" for character in "{}$&#%_"},
}


def escape(text: str) -> str:
    """`text` as LaTeX prints it: no command, no mathematics. What neither T1 nor Chinese fonts have is named."""
    return "".join(_ESCAPES.get(character) or _printable(character) for character in text)


def _printable(character: str) -> str:
    code = ord(character)
    if code < 0x7F or 0xA1 <= code <= 0x17F or is_chinese(character):
        return character
    return f"[U+{code:04X}]"


def is_chinese(character: str) -> bool:
    """Whether the character is set in the Chinese font: ideographs, and the punctuation that goes with them."""
    code = ord(character)
    return 0x3000 <= code <= 0x303F or 0x4E00 <= code <= 0x9FFF or 0xFF00 <= code <= 0xFF5E


def latex_table(table: Table) -> str:
    """`table` as one longtable, or several where its columns do not fit a page; sentences above, footnotes below.

    Needs the packages booktabs, longtable and array, and CJKutf8 around it where there is Chinese text.
    """
    parts = []
    if table.lead:
        items = [rf"\item {escape(line)}" for line in table.lead]
        parts.append("\n".join([r"\begin{itemize}", *items, r"\end{itemize}"]))
    if table.rows:
        texts = formatted(table)
        layout, _ = fit(table, texts, LINE, all_columns=True)
        for number, block in enumerate(blocks(table.stub, layout, LINE)):
            parts.append(_longtable(table, texts, block, number))
    if table.notes:
        parts.append("\n".join([r"{\footnotesize", *(rf"{escape(note)}\par" for note in table.notes), "}"]))
    return "\n".join([f"% {PACKAGES}", *parts, ""])


def latex_document(title: str, paragraphs: Iterable[str], tables: Sequence[Table], tablename: str) -> str:
    """A document for pdflatex: title, paragraphs, one section a table. tablename: what captions begin with."""
    body = [rf"{{\LARGE {escape(title)}\par}}", r"\bigskip"]
    body += [rf"{escape(text)}\par" for text in paragraphs]
    for table in tables:
        body += [rf"\section*{{{escape(table.title)}}}", latex_table(table)]
    text = "\n".join(body)
    preamble, begin, end = _PREAMBLE, [r"\begin{document}"], [r"\end{document}", ""]
    if any(map(is_chinese, text + tablename)):
        preamble += r"\usepackage{CJKutf8}" + "\n"
        begin.append(r"\begin{CJK*}{UTF8}{gbsn}")
        end.insert(0, r"\end{CJK*}")
    return preamble + "\n".join([*begin, rf"\renewcommand{{\tablename}}{{{escape(tablename)}}}", text, *end])


def _longtable(table: Table, texts: list[list[str]], layout: Layout, number: int) -> str:
    columns = [table.columns[i] for i in layout.places]
    shape = "".join(_alignment(column, width) for column, width in zip(columns, layout.widths, strict=True))
    head = [_row([escape(column.title) for column in columns])]
    if any(column.unit for column in columns):
        head.append(_row([escape(column.unit) for column in columns]))
    title = escape(table.title)
    label = rf"\label{{tab:{_key(table.name)}}}"
    caption = rf"\caption[]{{{title}}}" if number else rf"\caption{{{title}}}{label}"
    lines = [r"{\footnotesize", r"\setlength{\tabcolsep}{4pt}", rf"\begin{{longtable}}{{@{{}}{shape}@{{}}}}"]
    lines += [caption + r"\\", r"\toprule", *head, r"\midrule", r"\endfirsthead"]
    lines += [r"\toprule", *head, r"\midrule", r"\endhead", r"\bottomrule", r"\endfoot"]
    row = 0
    for group in table.groups:
        if group.heading and group.rows:
            lines.append(rf"\multicolumn{{{len(columns)}}}{{@{{}}l@{{}}}}{{\emph{{{escape(group.heading)}}}}}\\*")
        for member in group.rows:
            lines.append(_row([_cell(texts[row][i], member.marks[i]) for i in layout.places]))
            row += 1
    return "\n".join([*lines, r"\end{longtable}", "}"])


def _alignment(column: Column, width: int) -> str:
    """Numbers to the right; a long text in a paragraph as wide as it has room."""
    if is_numeric(column):
        return "r"
    if width < TEXT_PARAGRAPH:
        return "l"
    return rf">{{\raggedright\arraybackslash}}p{{{0.9 * width / LINE:.2f}\linewidth}}"


def _cell(text: str, mark: str) -> str:
    return escape(text) + (rf"\rlap{{\textsuperscript{{{escape(mark)}}}}}" if mark else "")


def _row(cells: list[str]) -> str:
    # A cell that begins with [ would be taken for the argument of the \\ before it.
    return " & ".join("{}" + cell if cell.startswith(("[", "*")) else cell for cell in cells) + r" \\"


def _key(name: str) -> str:
    return "".join(character if character.isalnum() else "-" for character in name)
