from __future__ import annotations

import math
from dataclasses import replace

import pandas as pd
import pytest

from analysis.links import LinkModel, fit_links
from analysis.steptime.study import predict_study
from configs.cell import Cell, resolve
from configs.compose import compose_config
from configs.schema import Machine

PARAMETERS = 436_288  # of the tiny model, as its records state
SLOW_GBPS = 0.01


def cell(*overrides: str) -> Cell:
    return resolve(compose_config(list(overrides)))


def study(*measured: tuple[Cell, float], nodes: int = 1) -> tuple[pd.DataFrame, dict[str, Cell]]:
    """The frame of cells that took so many seconds a step, each token of which carried loss."""
    rows, cells = [], {}
    for at, (of, step_s) in enumerate(measured):
        cells[f"c{at}"] = of
        rows.append(
            {
                "cell_id": f"c{at}",
                "benchmark": of.benchmark.name,
                "status": "ok",
                "workload.model": of.model.name,
                "workload.seq_len": of.seq_len,
                "workload.scaling": of.scaling,
                "workload.global_batch_tokens": of.global_batch_tokens,
                "parallel.mode": of.mode.name,
                "parallel.cards": of.cards,
                "parallel.nodes": nodes,
                "device.name": "card",
                "throughput.tokens_per_s": of.global_batch_tokens / step_s,
                "throughput.step_time_s.median": step_s,
            }
        )
    return pd.DataFrame(rows), cells


def links() -> LinkModel:
    """All-reduces of 10 MB/s and no latency."""
    sizes = [2**k for k in range(10, 24, 2)]
    return fit_links(
        [
            {"op": "all_reduce", "bytes": s, "ranks": n, "nodes": 1, "time_us": s / SLOW_GBPS / 1e3}
            for n in (2, 4)
            for s in sizes
        ]
    )


def test_one_measured_card_and_the_links_give_four_cards_by_hand() -> None:
    frame, cells = study((cell("mode=ddp", "cards=1"), 1.0))
    table, used, skipped = predict_study(frame, cells, [4], links())
    # One card: 8 micro-batches in 1 s less 15 ms a step that no card shortens. Four: 2 each; the slowest of four lags
    # sqrt(2 ln 4) x 0.5 %. The gradients, 4 B each at 10 MB/s, hide in 3/4 of the last backward, 2/3 of a micro-batch.
    passes = (1.0 - 0.015) / 4
    gradients = PARAMETERS * 4 / (SLOW_GBPS * 1e9) - passes / 2 * 2 / 3 * 0.75
    step = passes * (1 + 0.005 * math.sqrt(2 * math.log(4))) + 0.015 + gradients
    row = table.iloc[0]
    assert row["tokens_per_s"] == pytest.approx(16 * 128 / step, rel=1e-6)
    assert row["efficiency"] == pytest.approx(1.0 / step / 4, rel=1e-6)
    assert row["low"] < row["tokens_per_s"] < row["high"]
    assert row["method"] == "step-time model, calibrated on ddp at 1 card; links in the node measured"
    assert row["relative_to"] == "relative to 1 card"
    assert used.tolist() == [True]
    assert skipped == []


def test_weak_scaling_keeps_the_batch_of_a_card() -> None:
    weak = ("scaling=weak", "global_batch=2", "micro_batch=2", "mode=ddp")
    frame, cells = study((cell(*weak, "cards=2"), 1.0))
    table, *_ = predict_study(frame, cells, [2, 8], None)
    assert table["tokens_per_s"].iloc[0] == pytest.approx(2 * 2 * 128 / 1.0, rel=1e-6)
    assert table["efficiency"].iloc[0] == pytest.approx(1.0, rel=1e-6)
    assert 0.3 < table["efficiency"].iloc[1] < 1.0


def test_a_count_that_the_mode_does_not_allow_is_left_out_and_said() -> None:
    frame, cells = study((cell("mode=tp", "cards=1"), 1.0))
    table, _, skipped = predict_study(frame, cells, [8, 16], None)
    assert table["cards"].tolist() == [8]
    assert skipped[0].startswith(
        "tiny tp is not predicted at 16 cards: mode=tp: 8 attention heads do not divide by tp=16"
    )


def test_a_batch_that_no_longer_shares_out_takes_smaller_micro_batches_and_says_so() -> None:
    frame, cells = study((cell("mode=ddp", "cards=1"), 1.0))
    table, *_ = predict_study(frame, cells, [16, 32], None)
    assert table["notes"].iloc[0].startswith("micro-batch 1 instead of 2")
    assert "global batch of 32 sequences: 16 do not share out" in table["notes"].iloc[1]


def test_the_border_is_crossed_on_the_sheets_link_and_the_row_says_so() -> None:
    frame, cells = study((cell("mode=ddp", "cards=1"), 1.0))
    machine = Machine("sheet", "cuda", intra_node_gbps=100.0, inter_node_gbps=10.0, cards_per_node=4)
    slower = replace(machine, inter_node_gbps=0.001)
    (fast, *_), (slow, *_) = (predict_study(frame, cells, [4, 8], None, m) for m in (machine, slower))
    assert fast["tokens_per_s"].iloc[0] == slow["tokens_per_s"].iloc[0]
    assert fast["tokens_per_s"].iloc[1] > slow["tokens_per_s"].iloc[1]
    assert fast["method"].iloc[1].endswith("links between nodes from the data sheet, 10 GB/s")
    assert "crosses the node border (4 cards a node), which was not measured" in fast["notes"].iloc[1]
    assert "border" not in fast["notes"].iloc[0]


def test_ranks_beyond_a_processors_cores_take_turns() -> None:
    frame, cells = study((cell("mode=ddp", "cards=1"), 1.0))
    two_cores = frame.assign(**{"device.cores": 2.0})
    (free, *_), (shared, *_) = (predict_study(f, cells, [8], links()) for f in (frame, two_cores))
    assert shared["tokens_per_s"].iloc[0] < 0.6 * free["tokens_per_s"].iloc[0]


def test_what_the_model_has_no_terms_for_is_left_to_the_measurements() -> None:
    lora = cell("mode=ddp", "cards=1", "recipe=lora")
    frame, cells = study((lora, 1.0), (cell("mode=ddp", "cards=1"), 1.0))
    table, used, _ = predict_study(frame, cells, [2], None)
    assert used.tolist() == [False, True]
    assert len(table) == 1


def test_a_study_that_measured_nothing_predicts_nothing() -> None:
    frame, cells = study((cell("mode=ddp", "cards=1"), 1.0))
    table, used, _ = predict_study(frame.assign(status="oom"), cells, [2], None)
    assert table.empty
    assert not used.any()
    assert predict_study(pd.DataFrame(), {}, [2], None)[0].empty
