"""A report as one HTML page that loads nothing: its tables and figures, with switches, for screen, phone and paper.

Whatever a person or a program wrote is escaped where it enters the page: `escape` for HTML, `plots.text` for plotly.js.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from html import escape
from importlib.metadata import version
from importlib.resources import files

from analysis.figures import Figure
from analysis.report import Report
from analysis.tables import Column, Row, Span, Table, file_names, plain
from analysis.text import Say, sayer
from launch.render import plots
from launch.render.cells import cell_text, formatted, is_numeric

# section -> tables and figures by the beginnings of their names, in the order of the page. What no section claims
# is under "more", which is left out where it is empty.
SECTIONS: dict[str, tuple[str, ...]] = {
    "decision": ("decision",),
    "scaling": ("speedup", "scaling", "modes", "repeats"),
    "efficiency": ("efficiency", "bands"),
    "memory": ("memory",),
    "pareto": ("pareto",),
    "cost": ("cost", "pure_cost"),
    "breakdown": ("breakdown",),
    "bandwidth": ("bandwidth", "collectives"),
    "matmul": ("matmul",),
    "more": (),
    "failures": ("failures",),
    "environment": ("environment",),
}
OPTIONAL = ("matmul", "more")  # sections that most studies have nothing for
LONG = 40  # rows; a longer table scrolls in a frame of its own on a screen
MOST_ROWS = 2000  # of one table: what a browser lays out at once; files beside the page have more
# The page may run and draw what it holds, and load nothing at all.
POLICY = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:"


def page(report: Report) -> str:
    """The whole report as an HTML document. Without plotly it says how figures are to be had, in their place."""
    say = sayer(report.lang)
    bodies = {key: _section(key, report, say) for key in SECTIONS}
    shown = [key for key, body in bodies.items() if body or key not in OPTIONAL]
    empty = {"failures": "page.nothing_failed"}
    sections = [
        f'<section id="{key}">\n<h2>{escape(say(f"page.{key}"))}</h2>\n'
        + (bodies[key] or f'<p class="nothing">{escape(say(empty.get(key, "page.nothing")))}</p>')
        + "\n</section>"
        for key in shown
    ]
    links = "".join(f'<li><a href="#{key}">{escape(say(f"page.{key}"))}</a></li>' for key in shown)
    title = escape(plain(report.title))
    return "\n".join(
        [
            "<!DOCTYPE html>",
            f'<html lang="{escape(report.lang)}">',
            "<head>",
            '<meta charset="utf-8">',
            f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f"<title>{title}</title>",
            f"<style>\n{_own('page.css')}</style>",
            "</head>",
            "<body>",
            f'<header>\n<h1>{title}</h1>\n<p class="summary">{escape(plain(report.summary))}</p>',
            *(f'<p class="notice">{escape(plain(notice))}</p>' for notice in report.notices),
            *_missing(report, say),
            f'<nav aria-label="{escape(say("page.contents"))}"><ul>{links}</ul></nav>',
            "</header>",
            f"<main>\n{chr(10).join(sections)}\n</main>",
            f"<footer>{escape(say('page.written', version=version('cardscale')))}</footer>",
            *_scripts(report, say),
            "</body>",
            "</html>",
            "",
        ]
    )


def _section(key: str, report: Report, say: Say) -> str:
    """Figures, then tables, of one section; the empty string where there are none."""
    drawn = [figure for figure in report.figures if _place(figure.name) == key] if plots.is_available() else []
    tables = [table for table in report.tables if _place(table.name) == key]
    details = [table for table in report.details if _place(table.name) == key]
    heading = say(f"page.{key}")
    parts = [_figure(figure, heading) for figure in drawn]
    if key == "cost" and tables:
        parts.append(_switches([*tables, *details], report, say))
    parts += [_table(table, heading, _quote_of(table, report), say) for table in tables]
    # What files have beyond the terminal is folded away, unless it is all that the section has.
    folded = bool(parts)
    parts += [_table(table, heading, _quote_of(table, report), say, folded) for table in details]
    return "\n".join(parts)


def _place(name: str) -> str:
    """The section that claims the table or figure `name`: `decision1` and `cost_jiangsu` go by their beginnings."""
    for key, beginnings in SECTIONS.items():
        if any(re.match(rf"{beginning}(\d*$|_)", name) for beginning in beginnings):
            return key
    return "more"


def _missing(report: Report, say: Say) -> list[str]:
    if not report.figures:
        return []
    if not plots.is_available():
        return [f'<p class="notice">{escape(say("page.no_plotly"))}</p>']
    return [f'<noscript><p class="notice">{escape(say("page.no_script"))}</p></noscript>']


def _figure(figure: Figure, above: str) -> str:
    """above: the section's heading, which is not said twice."""
    title, note = escape(plain(figure.title)), escape(plain(figure.note))
    name = escape(figure.name)
    return (
        f"<figure>\n{_heading(figure.title, above)}"
        f'<div class="plot" data-figure="{name}" role="img" aria-label="{title}"></div>\n'
        f"<figcaption>{note}</figcaption>\n</figure>"
    )


def _heading(title: str, above: str) -> str:
    return "" if title == above else f"<h3>{escape(plain(title))}</h3>\n"


def _table(table: Table, above: str, quote: str, say: Say, folded: bool = False) -> str:
    """Title, sentences, rows, footnotes. quote: the name of the price sheet that a cost table is of, else empty."""
    parts = [f"<summary>{escape(plain(table.title))}</summary>" if folded else _heading(table.title, above).strip()]
    if table.lead:
        parts.append(f'<ul class="lead">{_items(table.lead)}</ul>')
    if table.rows:
        long = " long" if len(table.rows) > LONG else ""
        parts.append(f'<div class="wide{long}" tabindex="0">\n{_grid(table, quote)}\n</div>')
    notes = list(table.notes)
    if (total := len(table.rows)) > MOST_ROWS:
        notes.insert(0, say("page.first_rows", shown=f"{MOST_ROWS:,}", total=f"{total:,}"))
    if notes:
        parts.append(f'<ul class="notes">{_items(notes)}</ul>')
    tag = "details" if folded else "div"
    tiers = _tiers(table) if quote else []
    of = f' data-quote="{escape(quote)}" data-currency="{escape(plain(tiers[0].unit))}"' if tiers else ""
    return f'<{tag} class="table" id="table-{escape(table.name)}"{of}>\n' + "\n".join(parts) + f"\n</{tag}>"


def _grid(table: Table, quote: str) -> str:
    tiers = {column.key for column in _tiers(table)} if quote else set()
    of = [f' data-tier="{escape(column.key)}"' if column.key in tiers else "" for column in table.columns]
    head = "".join(
        f'<th scope="col"{_look(column)}{tier}>{escape(plain(column.title))}'
        + (f' <span class="unit">{escape(plain(column.unit))}</span>' if column.unit else "")
        + "</th>"
        for column, tier in zip(table.columns, of, strict=True)
    )
    lines = []
    texts = iter(formatted(table)[:MOST_ROWS])
    left = MOST_ROWS
    for group in table.groups:
        if not left:
            break
        if group.heading and group.rows:
            heading = escape(plain(group.heading))
            lines.append(f'<tr class="group"><th colspan="{len(table.columns)}" scope="rowgroup">{heading}</th></tr>')
        lines += [_line(table.columns, row, next(texts), of) for row in group.rows[:left]]
        left -= len(group.rows[:left])
    return f"<table>\n<thead><tr>{head}</tr></thead>\n<tbody>\n" + "\n".join(lines) + "\n</tbody>\n</table>"


def _line(columns: Sequence[Column], row: Row, texts: list[str], of: list[str]) -> str:
    cells = []
    for column, value, text, mark, tier in zip(columns, row.values, texts, row.marks, of, strict=True):
        shown = escape(plain(text))
        if tier and isinstance(value, Span) and "–" in text:
            digits = len(text.partition("–")[0].partition(".")[2])
            low, high = cell_text(value.low, digits), cell_text(value.high, digits)
            shown = f'<span data-low="{escape(low)}" data-high="{escape(high)}">{shown}</span>'
        cells.append(f"<td{_look(column)}{tier}>{shown}" + (f"<sup>{escape(mark)}</sup>" if mark else "") + "</td>")
    tone = "" if row.tone == "ok" else f' class="{row.tone}"'
    return f"<tr{tone}>{''.join(cells)}</tr>"


def _look(column: Column) -> str:
    return ' class="n"' if is_numeric(column) else ""


def _items(sentences: Iterable[str]) -> str:
    return "".join(f"<li>{escape(plain(sentence))}</li>" for sentence in sentences)


def _tiers(table: Table) -> list[Column]:
    """The columns of a cost table that are a tier each: all its money."""
    return [column for column in table.columns if column.form == "money"]


def _quote_of(table: Table, report: Report) -> str:
    """The name of the price sheet that a cost table is of, else the empty string."""
    names = file_names([quote.name for quote in report.quotes])
    for quote, name in zip(report.quotes, names, strict=True):
        if table.name in (f"cost_{name}", f"pure_cost_{name}"):
            return quote.name
    return ""


def _switches(tables: Sequence[Table], report: Report, say: Say) -> str:
    """Choices above the cost tables: the tier, the end of the ranges, and the currency where there are several."""
    by_quote = {quote: table for table in reversed(tables) if (quote := _quote_of(table, report))}
    if not by_quote:
        return ""
    # currency on the axis -> curves of the figure of costs, which has one currency
    drawn = {
        figure.y_label: {curve.name for curve in figure.curves} for figure in report.figures if figure.name == "cost"
    }
    groups = []
    for quote, table in reversed(by_quote.items()):
        options = []
        for column in _tiers(table):
            names = [plain(f"{quote} {column.key}"), plain(column.key)]  # as the figure of costs calls its curves
            shown = drawn.get(say("figure.money_axis", currency=column.unit), set())
            curve = next((name for name in (each.replace("_", " ") for each in names) if name in shown), "")
            data = {"quote": quote, "tier": column.key, "currency": column.unit, "curve": curve}
            given = " ".join(f'data-{key}="{escape(value)}"' for key, value in data.items())
            label = escape(plain(column.title))
            options.append(f'<option value="{escape(f"{quote}/{column.key}")}" {given}>{label}</option>')
        groups.append(f'<optgroup label="{escape(plain(quote))}">{"".join(options)}</optgroup>')
    currencies = dict.fromkeys(plain(_tiers(table)[0].unit) for table in reversed(by_quote.values()))
    choices = [_choice("tier", say("page.tier"), [("", say("page.all_tiers"))], "".join(groups))]
    if len(currencies) > 1:
        known = [("", say("page.all_currencies")), *((name, name) for name in currencies)]
        choices.append(_choice("currency", say("page.currency"), known))
    ends = [("", say("page.both")), ("low", say("page.low")), ("high", say("page.high"))]
    choices.append(_choice("end", say("page.end"), ends))
    return f'<div class="switches">{"".join(choices)}</div>'


def _choice(name: str, label: str, options: list[tuple[str, str]], more: str = "") -> str:
    listed = "".join(f'<option value="{escape(value)}">{escape(text)}</option>' for value, text in options)
    return f'<label>{escape(label)} <select id="switch-{name}">{listed}{more}</select></label>'


def _scripts(report: Report, say: Say) -> list[str]:
    scripts = []
    if report.figures and plots.is_available():
        predicted = say("figure.predicted", name="{name}")
        drawn = {figure.name: plots.plot(figure, predicted) for figure in report.figures}
        # In a script nothing is escaped but the end of the script itself, which begins with "<".
        data = json.dumps(drawn, ensure_ascii=False, allow_nan=False).replace("<", "\\u003c")
        scripts.append(f'<script type="application/json" id="figures">{data}</script>')
        scripts.append(f"<script>{plots.plotly_js()}</script>")
    return [*scripts, f"<script>\n{_own('page.js')}</script>"]


def _own(name: str) -> str:
    return files("launch.render").joinpath(name).read_text(encoding="utf-8")
