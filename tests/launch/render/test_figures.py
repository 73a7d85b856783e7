from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from analysis.figures import MOST_CURVES, Curve, Figure, Guide
from launch.render.figures import COLOURS, DASHES, FORMATS, MARKERS, draw, draw_all, is_available, short_number

pytestmark = pytest.mark.skipif(not is_available(), reason="matplotlib is not installed")


def _curve(style: int, predicted: bool = False, name: str = "") -> Curve:
    x, y = (1.0, 2.0, 4.0), (1.0, 1.8, 3.0)
    return Curve(name or f"mode {style}", x, y, (0.9, 1.7, None), (1.1, 1.9, None), style, predicted)


def _figure(*curves: Curve, **more: Any) -> Figure:
    return Figure("speedup", "Speedup", "cards", "speedup", curves or (_curve(0),), x_log=2, y_log=True, **more)


def test_every_format_is_written_and_not_empty(tmp_path: Path) -> None:
    paths = draw_all([_figure()], tmp_path, "{name}, predicted")
    assert [path.suffix[1:] for path in paths] == list(FORMATS)
    heads = [path.read_bytes()[:5] for path in paths]
    assert heads == [b"<?xml", b"%PDF-", b"\x89PNG\r"]


def test_drawn_twice_the_files_are_the_same(tmp_path: Path) -> None:
    first, second = (draw_all([_figure()], tmp_path / name, "{name}") for name in ("a", "b"))
    assert [path.read_bytes() for path in first] == [path.read_bytes() for path in second]


def test_curves_differ_in_more_than_colour() -> None:
    looks = {(MARKERS[s % len(MARKERS)], str(DASHES[s // len(COLOURS) % len(DASHES)])) for s in range(MOST_CURVES)}
    assert len(looks) == MOST_CURVES


def test_a_prediction_is_open_and_dashed_and_shares_its_series_entry_in_the_legend() -> None:
    axes = draw(_figure(_curve(0), _curve(0, predicted=True))).axes[0]
    measured, predicted = (bars[0] for bars in axes.containers)
    assert measured.get_color() == predicted.get_color()
    assert predicted.get_markerfacecolor() == "white"
    assert predicted.is_dashed() is not measured.is_dashed()
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["mode 0"]


def test_a_prediction_alone_is_named_as_one() -> None:
    legend = draw(_figure(_curve(0, predicted=True)), "{name}, predicted").axes[0].get_legend()
    assert [text.get_text() for text in legend.get_texts()] == ["mode 0, predicted"]


def test_a_dollar_sign_in_a_name_is_no_mathematics(tmp_path: Path) -> None:
    svg = draw_all([_figure(_curve(0, name=r"$\frac{1}{2}$ cheap"))], tmp_path, "{name}")[0]
    assert r"$\frac{1}{2}$ cheap" in svg.read_text(encoding="utf-8")


def test_markup_in_a_name_is_escaped_in_svg(tmp_path: Path) -> None:
    svg = draw_all([_figure(_curve(0, name="<script>alert(1)</script>"))], tmp_path, "{name}")[0]
    assert "<script>" not in svg.read_text(encoding="utf-8")


def test_counts_of_cards_are_the_ticks() -> None:
    axes = draw(_figure()).axes[0]
    assert [axes.xaxis.get_major_formatter()(tick) for tick in axes.get_xticks()] == ["1", "2", "4"]


def test_a_limit_is_firm_and_its_warning_line_dashed() -> None:
    card, tight = Guide("card", (), (80.0,), firm=True), Guide("90 %", (), (72.0,))
    axes = draw(Figure("memory", "", "", "", (_curve(0),), (card, tight))).axes[0]
    lines = {line.get_label(): line.get_linestyle() for line in axes.get_lines()}
    assert (lines["card"], lines["90 %"]) == ("-", "--")


@pytest.mark.parametrize(
    ("value", "text"), [(1024, "1,024"), (12000, "12,000"), (0.05, "0.05"), (1.5, "1.5"), (64, "64")]
)
def test_ticks_are_short(value: float, text: str) -> None:
    assert short_number(value) == text


@pytest.mark.parametrize(("value", "text"), [(512, "512"), (1024, "1Ki"), (4 * 2**20, "4Mi"), (1000, "1,000")])
def test_sizes_are_in_binary_units_where_those_are_exact(value: float, text: str) -> None:
    assert short_number(value, is_bytes=True) == text
