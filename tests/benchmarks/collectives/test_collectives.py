"""The collectives suite in real Gloo ranks."""

from __future__ import annotations

import functools
import json
import math
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from benchmarks.collectives import placements
from benchmarks.collectives.timing import summary
from configs.cell import from_dict, resolve
from configs.errors import ConfigError
from configs.schema import Config
from results.bandwidth import OPS, PATTERNS, algbw_gbps, bus_factor, check_collectives

RANKS = Path(__file__).parents[1] / "gloo_ranks.py"
MODEL = {
    "config": {
        "model_type": "llama",
        "hidden_size": 64,
        "intermediate_size": 176,
        "num_hidden_layers": 8,
        "num_attention_heads": 8,
        "vocab_size": 264,
    }
}


def cell(cards: int, measure: dict[str, Any] | None = None, **collectives: Any) -> dict[str, Any]:
    settings = {"iters": 4, "warmup_iters": 1, "min_bytes": 1024, "max_bytes": 65536, "factor": 64} | collectives
    benchmark = {"name": "collectives", "collectives": settings}
    return {"cards": cards, "model": MODEL, "benchmark": benchmark, "measure": measure or {}, "micro_batch": 1}


def run_ranks(folder: Path, ranks: int, cells: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Run `cells` one after another in one group of real ranks; what each returned on rank 0."""
    out = folder / "rows.json"
    spec = {"ranks": list(range(ranks)), "world": ranks, "store": f"file://{folder}/store", "out": str(out)}
    file = folder / "spec.json"
    file.write_text(json.dumps(spec | {"cells": cells}))
    environment = os.environ | {
        "OMP_NUM_THREADS": "1",
        "GLOO_SOCKET_IFNAME": "lo",
        "PYTHONPATH": str(RANKS.parents[2]),
        "PYTHONWARNINGS": "ignore",
    }
    done = subprocess.run(
        [sys.executable, str(RANKS), str(file)], env=environment, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(Path(f"{out}.0").read_text())


@pytest.fixture(scope="module")
def worlds(tmp_path_factory: pytest.TempPathFactory) -> Callable[[int], list[dict[str, Any]]]:
    """What the cells gave on so many ranks; every world is started once."""

    @functools.cache
    def outcomes(cards: int) -> list[dict[str, Any]]:
        cells = [cell(cards, ops=list(OPS), dtypes=["fp32"])]
        if cards == 2:
            cells += [
                cell(cards, ops=list(OPS), dtypes=["bf16", "fp16"], max_bytes=1024),
                cell(cards, min_bytes=16, max_bytes=16, ops=["all_gather", "all_reduce"]),
                cell(cards, min_bytes=2**20, max_bytes=2**20, measure={"max_seconds": 1e-6}),
                cell(cards, min_bytes=2**50, max_bytes=2**50),
                cell(cards, min_bytes=1024, max_bytes=2**50, factor=2**40),
                cell(cards, ops=[], patterns=list(PATTERNS)),
            ]
        return run_ranks(tmp_path_factory.mktemp(f"ranks{cards}"), cards, cells)

    return outcomes


@pytest.fixture(params=[2, 4, 8])
def all_ops(request: pytest.FixtureRequest, worlds: Callable[[int], list[dict[str, Any]]]) -> dict[str, Any]:
    return worlds(request.param)[0] | {"cards": request.param}


@pytest.fixture
def pair(worlds: Callable[[int], list[dict[str, Any]]]) -> list[dict[str, Any]]:
    return worlds(2)


def test_every_op_is_measured_in_every_form_it_has(all_ops: dict[str, Any]) -> None:
    forms = {(row["op"], row["in_place"]) for row in all_ops["rows"]}
    assert forms == {(op, form) for op in OPS for form in placements(op, True, True)}


def test_no_element_is_wrong_at_any_size(all_ops: dict[str, Any]) -> None:
    assert [row["wrong"] for row in all_ops["rows"]] == [0] * len(all_ops["rows"])


def test_every_row_states_ranks_and_backend(all_ops: dict[str, Any]) -> None:
    stated = {(row["ranks"], row["nodes"], row["backend"]) for row in all_ops["rows"]}
    assert stated == {(all_ops["cards"], 1, "gloo")}


def test_bandwidths_are_those_of_the_median_time(all_ops: dict[str, Any]) -> None:
    for row in all_ops["rows"]:
        assert row["algbw_gbps"] == pytest.approx(row["bytes"] / row["time_us"] / 1000)
        assert row["busbw_gbps"] == pytest.approx(row["algbw_gbps"] * bus_factor(row["op"], row["ranks"]))


def test_rows_are_shown_as_they_are_finished(all_ops: dict[str, Any]) -> None:
    assert all_ops["live"] == all_ops["rows"]


def test_half_precision_results_are_exact_too(pair: list[dict[str, Any]]) -> None:
    rows = pair[1]["rows"]
    assert {row["dtype"] for row in rows} == {"bf16", "fp16"}
    assert all(row["wrong"] == 0 or row.get("unsupported") for row in rows)


def test_a_size_that_rounds_to_nothing_is_said_to(pair: list[dict[str, Any]]) -> None:
    gather = [row for row in pair[2]["rows"] if row["op"] == "all_gather"]
    assert all("below 16 bytes a rank" in row["skipped"] for row in gather)
    assert [row["bytes"] for row in pair[2]["rows"] if row["op"] == "all_reduce"] == [16, 16]


def test_a_spent_time_bound_skips_the_rest_and_says_so(pair: list[dict[str, Any]]) -> None:
    assert all("measure.max_seconds" in row["skipped"] for row in pair[3]["rows"])


def test_a_smallest_size_beyond_memory_is_one_clear_line(pair: list[dict[str, Any]]) -> None:
    assert "1125899906842624 bytes of all_reduce do not fit into memory; a rank can use" in pair[4]["error"]


def test_sizes_beyond_memory_are_left_out_and_the_rest_measured(pair: list[dict[str, Any]]) -> None:
    measured = [row["bytes"] for row in pair[5]["rows"] if "time_us" in row]
    assert measured == [1024, 1024]
    assert any("1125899906842624 bytes and more do not fit" in row.get("skipped", "") for row in pair[5]["rows"])


def test_training_patterns_are_measured_from_the_cells_own_model(pair: list[dict[str, Any]]) -> None:
    """hidden 64, intermediate 176, 8 layers, 8 heads of 8, vocabulary 264 (untied), fp32.

    A layer is 4 x 64 x 64 + 3 x 64 x 176 + 2 x 64 = 50304 parameters; all of it 8 x 50304 + 2 x 264 x 64 + 64 =
    436288; an activation 1 sequence x 128 tokens x 64. Four bytes each.
    """
    found = {(row["pattern"], row["op"]): row["bytes"] for row in pair[6]["rows"]}
    assert found == {
        ("ddp_buckets", "all_reduce"): 436288 * 4,
        ("fsdp_layer", "all_gather"): 50304 * 4,
        ("fsdp_layer", "reduce_scatter"): 50304 * 4,
        ("tp_activation", "all_reduce"): 128 * 64 * 4,
    }
    assert [row["wrong"] for row in pair[6]["rows"]] == [0] * 4


def test_an_iteration_lasts_until_its_last_rank_is_through() -> None:
    """Ranks that take 0.1, 0.1 and 0.3 s: the call takes 0.3 s."""
    times_us = torch.tensor([[1e5] * 4, [1e5] * 4, [3e5] * 4], dtype=torch.float64)
    row = summary("all_reduce", 10**9, times_us)
    assert row["time_us"] == pytest.approx(3e5)
    assert (row["time_min_us"], row["time_max_us"], row["slowest_rank"]) == (1e5, 3e5, 2)


def test_iterations_add_up_to_the_slowest_ranks_whole_time() -> None:
    """The slow rank changes: ends at 1, 6 and at 4, 7 us, so the calls are over at 4 and 7."""
    row = summary("broadcast", 8, torch.tensor([[1.0, 5.0], [4.0, 3.0]]))
    assert row["time_mean_us"] == pytest.approx(7 / 2)
    assert row["time_p99_us"] == pytest.approx(4)


def test_bandwidth_of_a_summary_is_algbw_of_its_time() -> None:
    row = summary("all_reduce", 4000, torch.full((4, 3), 2.0))
    assert row["algbw_gbps"] == algbw_gbps(4000, 2.0) == 2.0
    assert math.isclose(row["busbw_gbps"], 3.0)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"cards": 1}, "one rank moves no data"),
        ({"cards": 2, "ops": ["allreduce"]}, "did you mean all_reduce"),
        ({"cards": 2, "dtypes": ["fp8"]}, "known: fp32, bf16, fp16"),
        ({"cards": 2, "iters": 0}, "iters"),
        ({"cards": 2, "in_place": False, "out_of_place": False}, "at least one of them"),
        ({"cards": 2, "factor": 1}, "does not grow"),
        ({"cards": 2, "patterns": ["ddp"]}, "known: ddp_buckets, fsdp_layer, tp_activation"),
    ],
)
def test_what_cannot_be_measured_is_refused(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        measured = resolve(from_dict(Config, cell(**fields)))
        check_collectives(measured.benchmark.collectives, measured.cards)


def test_any_number_of_ranks_will_do_whatever_the_batch() -> None:
    fields = cell(3) | {"micro_batch": 2, "global_batch": 16}
    assert resolve(from_dict(Config, fields)).cards == 3
