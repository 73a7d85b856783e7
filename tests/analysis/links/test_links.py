"""The link model on made links whose alpha and beta are known, and on published measurements."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import results
from analysis.links import LinkModel, fit_links
from analysis.links.fit import fit_pieces, held_out_errors, points, predict
from analysis.nccl.tests import read_log
from configs.errors import ConfigError
from results.record import finite

REFERENCE = Path(results.__file__).parent / "reference"
SIZES = [2.0**power for power in range(10, 31)]


def rows(
    time_us: Callable[[float], float], op: str = "all_reduce", ranks: int = 8, nodes: int = 1
) -> list[dict[str, Any]]:
    noise = np.random.default_rng(0).uniform(0.99, 1.01, len(SIZES))
    return [
        {"op": op, "bytes": size, "ranks": ranks, "nodes": nodes, "wrong": 0, "time_us": time_us(size) * factor}
        for size, factor in zip(SIZES, noise, strict=True)
    ]


def link(alpha_us: float, algbw_gbps: float) -> Callable[[float], float]:
    return lambda size: alpha_us + size / algbw_gbps / 1e3


def published() -> dict[str, tuple[list[float], list[float]]]:
    """name -> (sizes, times in us) of every published measurement with three sizes or more."""
    frame = pd.read_csv(REFERENCE / "all_reduce_4node.csv")
    found = {
        "all_reduce_4node.csv": (frame.payload_bytes.tolist(), (frame.payload_bytes / frame.algbw_gbps / 1e3).tolist())
    }
    for path in sorted((REFERENCE / "nccl_tests").glob("*.log")):
        measured = [row for row in read_log(path.read_text(), path.name).rows if row["bytes"] and row["ranks"] > 1]
        if len({row["bytes"] for row in measured}) >= 3:
            found[path.name] = ([row["bytes"] for row in measured], [row["time_us"] for row in measured])
    return found


@pytest.mark.parametrize("name", published())
def test_a_held_out_size_is_predicted_within_ten_percent(name: str) -> None:
    assert np.median(held_out_errors(*published()[name])) < 0.10


@pytest.mark.parametrize("first", [1, 2])
@pytest.mark.parametrize("name", [name for name, (sizes, _) in published().items() if len(set(sizes)) >= 5])
def test_every_other_size_is_predicted_within_ten_percent(name: str, first: int) -> None:
    """Half of the inner sizes at once are held out, so that no neighbour on either side was seen."""
    x, y = points(*published()[name])
    held = np.zeros(x.size, dtype=bool)
    held[first:-1:2] = True
    pieces = fit_pieces(x[~held].tolist(), y[~held].tolist())
    errors = [abs(predict(pieces, size) / time - 1) for size, time in zip(x[held], y[held], strict=True)]
    assert np.median(errors) < 0.10


def test_latency_and_bandwidth_of_a_made_link_are_found() -> None:
    """alpha 20 us, algbw 100 GB/s; over 8 ranks busbw of all_reduce is 1.75 x algbw."""
    [curve] = fit_links(rows(link(20, 100))).curves
    assert curve.latency_us == pytest.approx(20, rel=0.02)
    value, low, high = curve.busbw_gbps or (0, 0, 0)
    assert value == pytest.approx(175, rel=0.02)
    assert low <= 175 * 1.01
    assert high >= 175 * 0.99


def test_a_switch_of_protocol_is_a_piece_of_its_own() -> None:
    """Low latency and half the rate up to 256 KiB, the full rate and more latency above."""
    small, large = link(5, 50), link(25, 200)
    [curve] = fit_links(rows(lambda size: small(size) if size <= 2**18 else large(size))).curves
    pieces = [piece for piece in curve.pieces if not piece.bridge]
    assert len(pieces) == 2
    assert pieces[0].algbw_gbps == pytest.approx(50, rel=0.15)
    assert pieces[1].algbw_gbps == pytest.approx(200, rel=0.02)


def test_one_disturbed_size_does_not_move_the_others() -> None:
    disturbed = [row | {"time_us": row["time_us"] * (5 if row["bytes"] == 2**22 else 1)} for row in rows(link(20, 100))]
    model = fit_links(disturbed)
    assert model.time("all_reduce", 2**22, 8).time_us == pytest.approx(link(20, 100)(2**22), rel=0.05)
    assert model.curves[0].outliers == (2**22,)


def test_two_links_are_told_apart_by_their_intervals() -> None:
    """1 Gbit/s and 200 Mbit/s are 0.125 and 0.025 GB/s; two ranks, so busbw is algbw."""
    fast = fit_links(rows(link(100, 0.125), ranks=2, nodes=2)).curves[0].busbw_gbps
    slow = fit_links(rows(link(100, 0.025), ranks=2, nodes=2)).curves[0].busbw_gbps
    assert fast is not None and slow is not None
    assert slow[2] < fast[1]


def test_links_inside_and_across_nodes_are_separate_curves() -> None:
    model = fit_links(rows(link(10, 200)) + rows(link(50, 40), nodes=2))
    assert {(curve.group, curve.nodes) for curve in model.curves} == {("intra_node", 1), ("inter_node", 2)}
    assert model.time("all_reduce", 2**28, 8, nodes=1).time_us == pytest.approx(link(10, 200)(2**28), rel=0.05)
    assert model.time("all_reduce", 2**28, 8, nodes=2).time_us == pytest.approx(link(50, 40)(2**28), rel=0.05)


def test_an_estimate_encloses_what_the_link_does() -> None:
    model = fit_links(rows(link(20, 100)))
    for size in (3000, 3e5, 3e7):
        estimate = model.time("all_reduce", size, 8)
        assert estimate.low_us is not None and estimate.high_us is not None
        assert estimate.low_us < link(20, 100)(size) < estimate.high_us


def test_two_nodes_are_not_extended_to_more_without_saying_so() -> None:
    model = fit_links(rows(link(20, 100), ranks=16, nodes=2))
    assert any("measured on two nodes" in note for note in model.time("all_reduce", 2**20, 32, nodes=4).notes)
    assert not any("two nodes" in note for note in model.time("all_reduce", 2**20, 16, nodes=2).notes)


def test_another_number_of_ranks_keeps_the_traffic_on_each_link() -> None:
    """Bandwidth bound: time is bytes x 2(n-1)/n / busbw, with busbw 175: 16 ranks move 1.875 / 1.75 of 8 ranks'."""
    estimate = fit_links(rows(link(0.001, 100))).time("all_reduce", 2**28, 16)
    assert estimate.time_us == pytest.approx(2**28 * 1.875 / 175e3, rel=0.03)
    assert "scaled from 8 ranks to 16" in estimate.notes


def test_latency_on_more_ranks_lies_between_that_of_a_tree_and_of_a_ring() -> None:
    """64 ranks against 8: log2 gives twice the latency, a ring nine times."""
    estimate = fit_links(rows(link(20, 1e6))).time("all_reduce", 1024, 64)
    assert estimate.time_us == pytest.approx(40, rel=0.05)
    assert estimate.high_us is not None and estimate.high_us >= 180


def test_ranks_between_measured_ones_are_interpolated() -> None:
    model = fit_links(rows(link(10, 100), ranks=2) + rows(link(40, 100), ranks=8))
    estimate = model.time("all_reduce", 1024, 4)
    assert estimate.time_us == pytest.approx(math.sqrt(10 * 40), rel=0.05)
    assert "between 2 and 8 measured ranks" in estimate.notes


def test_sizes_beyond_a_latency_bound_curve_have_no_upper_bound() -> None:
    few = [row for row in rows(link(20, 100)) if row["bytes"] <= 2**15]
    estimate = fit_links(few).time("all_reduce", 2**30, 8)
    assert estimate.high_us == math.inf
    assert any("bandwidth is not known" in note for note in estimate.notes)


def test_a_group_that_was_not_measured_is_said_to_be_another() -> None:
    estimate = fit_links(rows(link(20, 100))).time("all_reduce", 2**20, 8, nodes=2)
    assert "inter_node links were not measured; this is the time on intra_node ones" in estimate.notes


def test_rows_that_measured_nothing_do_not_count() -> None:
    useless = [
        {"op": "all_reduce", "bytes": 2**20, "ranks": 8, "nodes": 1, "wrong": 7, "time_us": 1.0},
        {"op": "all_reduce", "bytes": 2**20, "ranks": 1, "nodes": 1, "wrong": 0, "time_us": 1.0},
        {"op": "all_reduce", "bytes": 0, "ranks": 8, "nodes": 1, "wrong": 0, "time_us": 1.0},
        {
            "op": "all_reduce",
            "bytes": 2**20,
            "ranks": 8,
            "nodes": 1,
            "wrong": 0,
            "time_us": 1.0,
            "pattern": "ddp_buckets",
        },
        {"op": "reduce", "dtype": "bf16", "unsupported": "no"},
    ]
    clean, mixed = rows(link(20, 100)), rows(link(20, 100)) + useless
    assert fit_links(mixed) == fit_links(clean)
    with pytest.raises(ConfigError, match="at least two sizes"):
        fit_links(useless)


def test_no_rows_at_all_are_refused() -> None:
    with pytest.raises(ConfigError, match="nothing was measured"):
        fit_links([])


def test_an_op_that_was_not_measured_is_refused_with_those_that_were() -> None:
    with pytest.raises(ConfigError, match="known: all_reduce"):
        fit_links(rows(link(20, 100))).time("all_gather", 2**20, 8)


def test_a_model_survives_strict_json() -> None:
    few = [row for row in rows(lambda size: 20.0) if row["bytes"] <= 2**15]
    model = fit_links(rows(link(20, 100), op="broadcast") + few)
    data = model.to_json()
    assert finite(data) == data
    assert LinkModel.from_json(json.loads(json.dumps(data, allow_nan=False))) == model


def test_something_else_is_no_model() -> None:
    with pytest.raises(ConfigError, match="no link model"):
        LinkModel.from_json({"curves": [{"op": "all_reduce"}]})


def test_the_table_has_one_row_a_curve_with_its_error() -> None:
    table = fit_links(rows(link(20, 100)) + rows(link(30, 90), op="all_gather")).table()
    assert table["op"].tolist() == ["all_gather", "all_reduce"]
    assert (table["median_error"] < 0.02).all()


def test_a_long_size_list_is_fitted_too() -> None:
    sizes = [1e6 * (i + 1) for i in range(1000)]
    pieces = fit_pieces(sizes, [link(20, 100)(size) for size in sizes])
    assert predict(pieces, 5.5e8) == pytest.approx(link(20, 100)(5.5e8), rel=0.01)


def test_two_sizes_leave_open_what_is_latency_and_what_is_transfer() -> None:
    """10 us at 1 MB and 20 us at 2 MB: latency is at most 10 us, the rate at least 2 MB / 20 us = 100 GB/s."""
    [piece] = fit_pieces([1e6, 2e6], [10.0, 20.0])
    assert (piece.alpha_low_us, piece.alpha_high_us) == (0.0, 10.0)
    assert (piece.algbw_low_gbps, piece.algbw_high_gbps) == (100.0, math.inf)
