"""The HTML page: what is on it, that nothing on it runs but its own scripts, and what its switches do in a browser."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from html.parser import HTMLParser
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from analysis.prices import Quote, parse_quote
from analysis.report import Report, make_report
from analysis.tables import Group, Span
from launch.render import plots
from launch.render.cells import formatted
from launch.render.page import MOST_ROWS, SECTIONS, page

CHROMIUM = Path("/usr/bin/chromium")
NASTY = '<img src=x onerror="document.title=1">&amp;</script><script>document.title="run"</script>'
VOID = {"meta", "br", "img", "link", "input", "hr"}

needs_plotly = pytest.mark.skipif(not plots.is_available(), reason="plotly is not installed")


def _quote(name: str, currency: str, *tiers: dict[str, Any]) -> Quote:
    content = {"provider": f"P {name}", "currency": currency, "machine": "a100_80g", "date": "2026-01-31"}
    return parse_quote({**content, "tiers": list(tiers)}, f"{name}.yaml", name)


HOURLY = {"name": "hourly", "unit": "card_hour", "price": [20, 35], "billing_unit_hours": 1}
MONTHLY = {"name": "monthly", "unit": "card_month", "price": [8000, 12000]}
SPOT = {"name": "spot", "unit": "card_hour", "price": [1.1, 1.9]}
QUOTES = (_quote("jiangsu", "CNY", HOURLY, MONTHLY), _quote("cloud", "USD", SPOT))


def _report(mode: str = "ddp", message: str = "out of memory", lang: str = "en", **more: Any) -> Report:
    """Three counts of cards measured, one out of memory: 10 h an epoch of 36 million tokens on one card."""
    rows = [(1, 1000.0, "ok"), (2, 1900.0, "ok"), (4, 3600.0, "ok"), (8, float("nan"), "oom")]
    cells = pd.DataFrame(rows, columns=["parallel.cards", "throughput.tokens_per_s", "status"])
    cells = cells.assign(**{"parallel.mode": mode, "workload.model": "m", "benchmark": "finetune", "parallel.nodes": 1})
    cells["cell_id"] = [f"c{cards}" for cards in cells["parallel.cards"]]
    cells["device.name"] = "NVIDIA A100-SXM4-80GB"
    cells["memory.device_used_gib"] = [70.0, 60.0, 50.0, float("nan")]
    cells["workload.data_set_tokens"] = 36e6
    cells["memory.card_gib"] = 80.0
    cells["throughput.exposed_comm_fraction"] = [0.0, 0.05, 0.1, float("nan")]
    cells["error.kind"] = [None, None, None, "OutOfMemoryError"]
    cells["error.message"] = [None, None, None, message]
    cells["environment.packages.torch"] = "2.6.0"
    sizes = [1024, 2048, 4096]
    collectives = pd.DataFrame({"bytes": sizes, "busbw_gbps": [1.0, 2.0, 3.0], "op": "all_reduce", "cards": 4})
    quotes = more.pop("quotes", QUOTES)
    return make_report("s", cells, more.pop("collectives", collectives), quotes, lang=lang)


@cache
def _text() -> str:
    """The page of the report without any special wish: several tests read it."""
    return page(_report())


@cache
def _read() -> _Page:
    return _Page(_text())


class _Page(HTMLParser):
    """Tags, texts by section, and the cells of tables with their attributes and texts."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[tuple[str, dict[str, str]]] = []
        self.sections: dict[str, str] = {}
        self.tables: dict[str, list[list[dict[str, str]]]] = {}
        self._open: list[tuple[str, dict[str, str]]] = []
        self.feed(text)
        self.close()
        assert self._open == [], "tags are left open"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.tags.append((tag, given))
        if tag == "section":
            self.sections[given["id"]] = ""
        elif given.get("id", "").startswith("table-"):
            self.tables[given["id"].removeprefix("table-")] = []
        elif tag == "tr":
            list(self.tables.values())[-1].append([])
        elif tag == "td":
            list(self.tables.values())[-1][-1].append({**given, "text": ""})
        elif tag == "span" and "data-low" in given:
            list(self.tables.values())[-1][-1][-1] |= given
        if tag not in VOID:
            self._open.append((tag, given))

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop()[0] == tag

    def handle_data(self, data: str) -> None:
        inside = [tag for tag, _ in self._open]
        for tag, given in self._open:
            if tag == "section":
                self.sections[given["id"]] += data
        if "td" in inside and "sup" not in inside:
            list(self.tables.values())[-1][-1][-1]["text"] += data


def test_the_decision_comes_first_and_every_section_is_there_in_its_order() -> None:
    read = _read()
    asked = ["decision", "scaling", "efficiency", "memory", "pareto", "cost", "breakdown", "bandwidth", "failures"]
    assert list(read.sections) == [*asked, "environment"]
    assert "Rent 1 card" in read.sections["decision"]
    assert "OutOfMemoryError: out of memory" in read.sections["failures"]
    assert "2.6.0" in read.sections["environment"]


@needs_plotly
def test_every_section_that_has_a_figure_shows_it() -> None:
    text = _text()
    found = re.findall(r'<section id="(\w+)">|data-figure="(\w+)"', text)
    section, placed = "", {}
    for name, figure in found:
        section = name or section
        if figure:
            placed[figure] = section
    assert placed["speedup"] == "scaling"
    assert placed["efficiency"] == "efficiency"
    assert placed["memory"] == "memory"
    assert placed["pareto"] == "pareto"
    assert placed["cost"] == "cost"
    assert placed["breakdown"] == "breakdown"
    assert placed["bandwidth"] == "bandwidth"
    data = re.search(r'<script type="application/json" id="figures">(.*?)</script>', text, re.S)
    assert data is not None
    assert set(json.loads(data[1])) == set(placed)


def test_every_table_of_the_report_is_on_the_page_with_all_its_rows() -> None:
    report = _report()
    read = _Page(page(report))
    for table in (*report.tables, *report.details):
        shown = [[cell["text"] for cell in row] for row in read.tables[table.name] if row]
        assert shown == formatted(table), table.name


def test_the_tier_switch_holds_the_low_and_high_of_the_cost_tables_cells() -> None:
    report = _report()
    read = _Page(page(report))
    table = next(table for table in report.tables if table.name == "cost_jiangsu")
    rows = [row for row in read.tables["cost_jiangsu"] if row]
    seen = 0
    for row, shown in zip(table.rows, rows, strict=True):
        for column, value, cell in zip(table.columns, row.values, shown, strict=True):
            assert ("data-tier" in cell) == isinstance(value, Span)
            if isinstance(value, Span):
                assert cell["data-tier"] == column.key
                ends = [float(cell[f"data-{end}"].replace(",", "")) for end in ("low", "high")]
                assert ends == pytest.approx([value.low, value.high])
                seen += 1
    assert seen == 3 * 2  # counts of cards that were measured, tiers
    # 10 h on one card: 200 to 350; 36e6 / 3600 / 3600 = 2.78 h, billed as 3 h on four: 240 to 420.
    hourly = [next(cell for cell in row if cell.get("data-tier") == "hourly") for row in rows]
    assert (hourly[0]["data-low"], hourly[0]["data-high"]) == ("200", "350")
    assert (hourly[2]["data-low"], hourly[2]["data-high"]) == ("240", "420")


def test_every_tier_of_every_quote_can_be_chosen_with_its_currency() -> None:
    options = [given for tag, given in _read().tags if tag == "option" and "data-tier" in given]
    chosen = [(given["data-quote"], given["data-tier"], given["data-currency"]) for given in options]
    assert chosen == [("jiangsu", "hourly", "CNY"), ("jiangsu", "monthly", "CNY"), ("cloud", "spot", "USD")]


def test_one_currency_needs_no_switch() -> None:
    several, one = _text(), page(_report(quotes=QUOTES[:1]))
    assert 'id="switch-currency"' in several
    assert 'id="switch-currency"' not in one


def test_markup_in_every_text_of_a_study_is_shown_and_not_run() -> None:
    tier = {**HOURLY, "name": NASTY}
    report = _report(mode=NASTY, message=NASTY, quotes=[_quote(NASTY, "CNY", tier)])
    report = replace(report, title=NASTY, summary=NASTY, notices=(NASTY,))
    text = page(report)
    read = _Page(text)
    assert "<img" not in text.partition("<script>")[0]
    assert not {tag for tag, _ in read.tags} & {"img", "a "}
    assert sum(tag == "script" for tag, _ in read.tags) == (3 if plots.is_available() else 1)
    assert not [name for _, given in read.tags for name in given if name.startswith("on")]
    for section in ("decision", "scaling", "cost", "failures"):
        assert "<img src=x onerror=" in read.sections[section], section  # as text, read back from its escapes


def test_plotly_gets_texts_whose_tags_are_text() -> None:
    drawn = {figure.name: plots.plot(figure) for figure in _report(mode=NASTY).figures}
    for name, figure in drawn.items():
        for trace in figure["data"]:
            given = [trace["name"], *trace.get("hovertext", ()), *(x for x in trace["x"] if isinstance(x, str))]
            assert not [text for text in given if "<" in text.replace("<br>", "")], name
    names = [trace["name"] for trace in drawn["speedup"]["data"]]
    assert plots.text(NASTY) in names


def test_the_page_asks_the_network_for_nothing() -> None:
    read = _read()
    assert not [given for _, given in read.tags if "src" in given]
    assert [given["href"] for tag, given in read.tags if "href" in given and not given["href"].startswith("#")] == []
    policy = next(given["content"] for _, given in read.tags if given.get("http-equiv") == "Content-Security-Policy")
    assert policy.startswith("default-src 'none'")
    assert "http" not in policy


def test_the_page_is_made_for_phones_and_for_paper() -> None:
    text = _text()
    assert '<meta name="viewport" content="width=device-width, initial-scale=1">' in text
    assert "@media print" in text
    assert "@media (max-width:" in text


def test_without_plotly_the_page_says_how_to_get_the_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plots, "find_spec", lambda name: None)
    text = page(_report())
    assert "pip install &#x27;cardscale[page]&#x27;" in text
    assert 'class="plot"' not in text
    assert len(text) < 200_000
    assert _Page(text).tables["scaling"]


def test_a_study_with_nothing_measured_has_a_page_that_says_so() -> None:
    cells = pd.DataFrame(
        {
            "cell_id": ["a"],
            "parallel.mode": ["tp"],
            "status": ["failed"],
            "parallel.cards": [2],
            "error.kind": ["SIGKILL"],
        }
    )
    read = _Page(page(make_report("s", cells, pd.DataFrame(), QUOTES)))
    assert "SIGKILL" in read.sections["failures"]
    assert "nothing on this" in read.sections["decision"]


def test_the_page_in_chinese_has_no_english_heading() -> None:
    text = page(_report(lang="zh"))
    assert '<html lang="zh">' in text
    headings = re.findall(r"<h[23]>(.*?)</h[23]>", text)
    assert len(headings) > len(SECTIONS) - 2
    assert [heading for heading in headings if not re.search(r"[一-鿿]", heading)] == []


@needs_plotly
def test_sizes_are_in_binary_units_and_cards_and_money_are_not() -> None:
    figures = {figure.name: figure for figure in _report().figures}
    assert plots.plot(figures["bandwidth"])["layout"]["xaxis"]["ticktext"] == ["1Ki", "2Ki", "4Ki"]
    speedup = figures["speedup"]
    curve = replace(speedup.curves[0], x=(1024.0,), y=(2048.0,), low=(None,), high=(None,), labels=())
    drawn = plots.plot(replace(speedup, curves=(curve,)))
    assert drawn["layout"]["xaxis"]["ticktext"] == ["1,024"]
    assert "cards: 1,024<br>speedup over 1 card: 2,048" in drawn["data"][0]["hovertext"][0]


def test_a_table_too_long_for_a_browser_shows_its_first_rows_and_says_so() -> None:
    report = _report()
    failures = next(table for table in report.tables if table.name == "failures")
    rows = tuple(replace(failures.rows[0], values=(f"cell {i}", 8, "oom", "")) for i in range(MOST_ROWS + 7))
    groups = (Group("one", rows[:5]), Group("two", rows[5:]))
    text = page(replace(report, tables=(replace(failures, groups=groups),)))
    shown = [row[0]["text"] for row in _Page(text).tables["failures"] if row]
    assert shown == [f"cell {i}" for i in range(MOST_ROWS)]
    assert "the first 2,000 of 2,007 rows" in text


@needs_plotly
def test_a_prediction_is_open_and_dotted_and_named_once() -> None:
    figure = next(figure for figure in _report().figures if figure.name == "speedup")
    measured = figure.curves[0]
    drawn = plots.plot(replace(figure, curves=(measured, replace(measured, predicted=True))))["data"]
    first, second = drawn[0], drawn[1]
    assert first["line"]["color"] == second["line"]["color"]
    assert second["marker"]["symbol"] == first["marker"]["symbol"] + "-open"
    assert (first["showlegend"], second["showlegend"]) == (True, False)


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    if find_spec("playwright") is None:
        pytest.skip("playwright is not installed")
    if not CHROMIUM.exists():
        pytest.skip(f"{CHROMIUM} is not installed")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        started = driver.chromium.launch(executable_path=str(CHROMIUM), args=["--no-sandbox"])
        yield started
        started.close()


def _opened(browser: Any, report: Report, folder: Path, width: int = 1200) -> tuple[Any, list[str]]:
    """(the page with its figures drawn, what the browser complained about)."""
    path = folder / "report.html"
    path.write_text(page(report), encoding="utf-8")
    opened = browser.new_page(viewport={"width": width, "height": 900})
    said: list[str] = []
    opened.on("console", lambda message: said.append(f"{message.type}: {message.text}"))
    opened.on("pageerror", lambda error: said.append(f"error: {error}"))
    opened.on("request", lambda request: said.append(request.url) if request.url.startswith("http") else None)
    opened.goto(path.as_uri())
    opened.wait_for_selector("body[data-drawn]", timeout=60_000)
    return opened, said


def _shown(opened: Any, table: str) -> list[list[str]]:
    """The texts of a table's visible cells."""
    script = """name => [...document.getElementById('table-' + name).querySelectorAll('tbody tr:not(.group)')].map(
        row => [...row.cells].filter(cell => cell.offsetParent !== null).map(cell => cell.innerText))"""
    rows: list[list[str]] = opened.evaluate(script, table)
    return rows


@needs_plotly
def test_in_a_browser_every_figure_is_drawn_and_nothing_complains(browser: Any, tmp_path: Path) -> None:
    report = _report()
    opened, said = _opened(browser, report, tmp_path)
    assert opened.locator(".plot .main-svg").count() >= len(report.figures) > 5
    assert opened.locator("body").get_attribute("data-drawn") == str(len(report.figures))
    assert said == []
    opened.close()


@needs_plotly
def test_in_a_browser_the_tier_switch_changes_the_table_and_the_figure(browser: Any, tmp_path: Path) -> None:
    opened, said = _opened(browser, _report(), tmp_path)
    assert _shown(opened, "cost_jiangsu")[0] == ["ddp", "1", "10.00", "200–350", "8,000–12,000"]
    opened.select_option("#switch-tier", "jiangsu/monthly")
    assert _shown(opened, "cost_jiangsu")[0] == ["ddp", "1", "10.00", "8,000–12,000"]
    assert not opened.locator("#table-cost_cloud").is_visible()
    visible = "document.querySelector('[data-figure=cost]').data.map(trace => [trace.name, trace.visible])"
    assert dict(opened.evaluate(visible)) == {"hourly": "legendonly", "monthly": True}
    opened.select_option("#switch-tier", "cloud/spot")  # in another currency, which the figure does not have
    assert dict(opened.evaluate(visible)) == {"hourly": True, "monthly": True}
    opened.select_option("#switch-tier", "jiangsu/monthly")
    opened.select_option("#switch-end", "high")
    assert _shown(opened, "cost_jiangsu")[0] == ["ddp", "1", "10.00", "12,000"]
    opened.select_option("#switch-end", "")
    opened.select_option("#switch-tier", "")
    assert _shown(opened, "cost_jiangsu")[0] == ["ddp", "1", "10.00", "200–350", "8,000–12,000"]
    assert said == []
    opened.close()


def test_in_a_browser_the_currency_switch_shows_that_currency_alone(browser: Any, tmp_path: Path) -> None:
    opened, _ = _opened(browser, _report(), tmp_path)
    opened.select_option("#switch-tier", "jiangsu/hourly")
    opened.select_option("#switch-currency", "USD")
    assert not opened.locator("#table-cost_jiangsu").is_visible()
    assert opened.locator("#table-cost_cloud").is_visible()
    assert opened.locator("#switch-tier").input_value() == ""
    opened.close()


def test_in_a_browser_markup_in_a_study_does_not_run(browser: Any, tmp_path: Path) -> None:
    tier = {**HOURLY, "name": NASTY}
    report = _report(mode=NASTY, message=NASTY, quotes=[_quote(NASTY, "CNY", tier)])
    opened, said = _opened(browser, report, tmp_path)
    assert opened.title() == "Scaling report: s"
    assert opened.locator("img").count() == 0
    assert said == []
    opened.close()


def test_in_a_browser_a_phone_never_scrolls_sideways(browser: Any, tmp_path: Path) -> None:
    opened, _ = _opened(browser, _report(), tmp_path, width=360)
    assert opened.evaluate("document.documentElement.scrollWidth") <= 360
    opened.close()


@needs_plotly
def test_in_a_browser_print_fits_its_figures_to_the_paper(browser: Any, tmp_path: Path) -> None:
    opened, _ = _opened(browser, _report(), tmp_path)
    widths = "[...document.querySelectorAll('.plot')].map(plot => plot._fullLayout.width)"
    assert min(opened.evaluate(widths)) > 700
    opened.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert max(opened.evaluate(widths)) <= 680
    opened.evaluate("dispatchEvent(new Event('afterprint'))")
    opened.wait_for_function(f"Math.min(...{widths}) > 700")
    opened.close()
