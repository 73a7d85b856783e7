from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pandas as pd
import pytest

from analysis.figures import MOST_CURVES, Curve, Figure, Guide, at_most, y_limits
from analysis.figures import cost as cost_figures
from analysis.figures.links import bandwidth_figure
from analysis.figures.scaling import series_names
from analysis.prices import Quote
from analysis.report import make_report
from analysis.scaling import scaling_table
from analysis.text import sayer

EN = sayer("en")
Cells = Callable[..., pd.DataFrame]


def _figures(cells: pd.DataFrame, *quotes: Quote, collectives: pd.DataFrame | None = None) -> dict[str, Figure]:
    sizes = pd.DataFrame() if collectives is None else collectives
    return {figure.name: figure for figure in make_report("s", cells, sizes, quotes).figures}


def _curve(style: int = 0, y: tuple[float, ...] = (1.0,), **more: Any) -> Curve:
    blank = (None,) * len(y)
    low, high = more.pop("low", blank), more.pop("high", blank)
    return Curve(f"c{style}", tuple(float(i + 1) for i in range(len(y))), y, low, high, style, **more)


def test_the_speedup_has_an_ideal_line_from_its_base(cells_of: Cells, article: Quote) -> None:
    figure = _figures(cells_of((2, 100.0), (4, 180.0), (8, 320.0)), article)["speedup"]
    assert figure.y_label == "speedup over 2 cards"
    assert figure.guides == (Guide("ideal", figure.guides[0].x, figure.guides[0].y),)
    first, last = zip(figure.guides[0].x, figure.guides[0].y, strict=True)
    assert first == (2.0, 1.0)
    assert last[1] == last[0] / 2
    assert figure.curves[0].y == pytest.approx((1.0, 1.8, 3.2))


def test_predictions_are_curves_of_their_own_in_the_look_of_their_series(cells_of: Cells, article: Quote) -> None:
    curves = _figures(cells_of((1, 100.0), (2, 190.0), (4, 360.0)), article)["speedup"].curves
    measured, predicted = (next(c for c in curves if c.predicted is flag) for flag in (False, True))
    assert measured.style == predicted.style
    assert not set(measured.x) & set(predicted.x)
    assert max(predicted.x) > max(measured.x)


def test_repeats_are_their_median_inside_the_widest_interval(cells_of: Cells, article: Quote) -> None:
    # 100 on one card; 150, 160 and 190 on two: median 1.6.
    curve = _figures(cells_of((1, 100.0), (2, 150.0), (2, 160.0), (2, 190.0)), article)["speedup"].curves[0]
    assert curve.x == (1.0, 2.0)
    assert curve.y == pytest.approx((1.0, 1.6))


def test_memory_stands_against_the_card_and_its_ninety_percent(cells_of: Cells, article: Quote) -> None:
    cells = cells_of((1, 100.0), **{"memory.device_used_gib": 74.0, "memory.card_gib": 80.0, "status": "ok"})
    figure = _figures(cells, article)["memory"]
    assert [(guide.name, guide.y, guide.firm) for guide in figure.guides] == [
        ("card: 80 GiB", (80.0,), True),
        ("90% of 80 GiB", (72.0,), False),
    ]


def test_memory_without_a_known_card_says_so(cells_of: Cells, article: Quote) -> None:
    figure = _figures(cells_of((1, 100.0), **{"memory.device_used_gib": 74.0}), article)["memory"]
    assert figure.guides == ()
    assert "size of a card is not recorded" in figure.note


def test_the_shares_of_a_step_add_up_to_the_whole(cells_of: Cells, article: Quote) -> None:
    columns = {"throughput.data_wait_fraction": 0.1, "throughput.exposed_comm_fraction": [0.0, 0.25]}
    figure = _figures(cells_of((1, 100.0), (2, 150.0), **columns), article)["breakdown"]
    assert [curve.name for curve in figure.curves] == [
        "compute and all else",
        "waiting for data",
        "waiting for communication",
    ]
    assert [sum(values) for values in zip(*(curve.y for curve in figure.curves), strict=True)] == pytest.approx(
        [100, 100]
    )
    assert figure.curves[2].y == pytest.approx((0, 25))


def test_no_time_breakdown_where_nothing_recorded_one(cells_of: Cells, article: Quote) -> None:
    assert "breakdown" not in _figures(cells_of((1, 100.0)), article)


def test_cost_takes_the_cheapest_mode_of_each_count(cells_of: Cells, article: Quote) -> None:
    # A billion tokens: 100,000 tokens/s take 2.78 h, 200,000 take 1.39 h; billed as 3 h and 2 h at 20 to 35.
    cells = pd.concat([cells_of((1, 1e5), mode="ddp"), cells_of((1, 2e5), mode="fsdp")])
    hourly = _figures(cells, article)["cost"].curves[0]
    assert (hourly.low, hourly.high, hourly.labels) == ((40.0,), (70.0,), ("fsdp",))


def test_the_front_of_time_and_money_is_a_guide(cells_of: Cells, article: Quote) -> None:
    figure = _figures(cells_of((1, 1e5), (2, 1.8e5), (4, 3.2e5)), article)["pareto"]
    front = figure.guides[0]
    assert list(front.x) == sorted(front.x)
    assert list(front.y) == sorted(front.y, reverse=True)


def test_bandwidth_has_a_curve_a_call_and_leaves_out_what_was_not_timed() -> None:
    frame = pd.DataFrame(
        {
            "op": ["all_reduce", "all_reduce", "all_gather"],
            "dtype": "fp32",
            "cards": 8,
            "bytes": [1024, 2048, 1024],
            "busbw_gbps": [1.0, 2.0, None],
        }
    )
    figure = bandwidth_figure(frame, EN)
    assert figure is not None
    assert [(curve.name, curve.x, curve.y) for curve in figure.curves] == [
        ("all_reduce · fp32 · 8 cards", (1024.0, 2048.0), (1.0, 2.0))
    ]


def test_a_legend_names_only_what_tells_series_apart(cells_of: Cells) -> None:
    cells = pd.concat(
        [
            cells_of((1, 1.0), mode=mode, **{"workload.model": "m", "workload.seq_len": length})
            for mode, length in (("ddp", 512), ("ddp", 2048), ("fsdp", 512))
        ]
    )
    assert list(series_names(scaling_table(cells)).values()) == [
        "ddp · 512 tokens",
        "ddp · 2048 tokens",
        "fsdp · 512 tokens",
    ]


def test_a_figure_keeps_the_best_curves_and_says_how_many_it_leaves_out() -> None:
    curves = tuple(_curve(style) for style in range(20))
    figure = at_most(Figure("f", "", "", "", curves), EN, best=[float(style) for style in range(20)])
    assert [curve.name for curve in figure.curves] == [f"c{style}" for style in range(8, 20)]
    assert [curve.style for curve in figure.curves] == list(range(MOST_CURVES))
    assert figure.note == "Shown: the best 12 of 20."


def test_the_interval_of_a_prediction_does_not_stretch_the_axis() -> None:
    measured = _curve(0, (10.0, 20.0), low=(9.0, 18.0), high=(11.0, 22.0))
    vague = _curve(0, (15.0,), low=(0.001,), high=(9000.0,), predicted=True)
    low, high = y_limits(Figure("f", "", "", "", (measured, vague), y_log=True)) or (0, 0)
    assert 8 < low < 9 and 22 < high < 25


def test_a_linear_axis_begins_at_zero() -> None:
    assert (y_limits(Figure("f", "", "", "", (_curve(0, (90.0, 100.0)),))) or (1, 1))[0] == 0


def test_a_figure_without_a_point_has_no_limits() -> None:
    assert y_limits(Figure("f", "", "", "", ())) is None


def test_a_crowded_front_keeps_the_options_nearest_to_it_and_says_how_many_there_are(
    cells_of: Cells, quote_of: Callable[..., Quote], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cost_figures, "MOST_POINTS", 2)
    tiers = ({"name": name, "unit": "card_hour", "price": [price, price]} for name, price in (("a", 10), ("b", 30)))
    made = make_report("s", cells_of((1, 1e5), (2, 2e5)), pd.DataFrame(), [quote_of(*tiers)])
    figure = next(figure for figure in made.figures if figure.name == "pareto")
    measured = [curve for curve in figure.curves if not curve.predicted]
    # At twice the speed two cards cost what one does: both of tier a are on or beside the front, b is 3 times as dear.
    assert {curve.name for curve in figure.curves} == {"a"}
    assert sum(len(curve.x) for curve in figure.curves) == 2
    assert measured
    assert "2 options nearest to the front, of " in figure.note
