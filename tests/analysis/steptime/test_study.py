from __future__ import annotations

import math
from dataclasses import replace

import pandas as pd
import pytest

from analysis.links import LinkModel, fit_links
from analysis.steptime.study import predict_study
from configs.cell import Cell, resolve
from configs.compose import compose_config
from configs.errors import ConfigError
from configs.schema import Machine, WhatIf

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


NODES_OF_FOUR = Machine("sheet", "cuda", intra_node_gbps=100.0, inter_node_gbps=0.004, cards_per_node=4)


def step_s(what_if: WhatIf, cards: int = 8) -> float:
    frame, cells = study((cell("mode=ddp", "cards=1"), 1.0))
    table, *_ = predict_study(frame, cells, [cards], None, NODES_OF_FOUR, what_if)
    return float(16 * 128 / table["tokens_per_s"].iloc[0])


def test_stragglers_cost_what_the_slowest_of_the_cards_lags() -> None:
    # Compute of 8 cards is (1 - 0.015) / 8; the default spread is 0.5 %.
    added = (1 - 0.015) / 8 * (0.05 - 0.005) * math.sqrt(2 * math.log(8))
    assert step_s(WhatIf(straggler_cv=0.05)) == pytest.approx(step_s(WhatIf()) + added, rel=1e-6)


def test_fewer_rails_and_an_oversubscribed_stage_slow_what_leaves_the_node() -> None:
    # 2 x 7/8 x 436,288 x 4 B over 4 network cards at 0.75 x 4 MB/s; a quarter of the rails takes four times as long.
    transfer = 2 * 7 / 8 * PARAMETERS * 4 / (4 * 0.75 * 0.004e9)
    plain = step_s(WhatIf())
    assert step_s(WhatIf(rails=1)) == pytest.approx(plain + 3 * transfer, rel=1e-6)
    assert step_s(WhatIf(oversubscription=2.0)) == pytest.approx(plain + transfer, rel=1e-6)
    assert step_s(WhatIf(oversubscription=2.0, pod_nodes=2)) == pytest.approx(plain, rel=1e-6)


def test_one_large_node_has_no_border() -> None:
    assert step_s(WhatIf(nodes=1)) < step_s(WhatIf()) < step_s(WhatIf(nodes=8))


def test_curves_that_were_measured_across_nodes_are_stretched_to_the_asked_rails() -> None:
    across = [2**k for k in range(10, 24, 2)]
    curves = fit_links(
        [{"op": "all_reduce", "bytes": s, "ranks": 8, "nodes": 2, "time_us": s / SLOW_GBPS / 1e3} for s in across]
    )
    frame, cells = study((cell("mode=ddp", "cards=1"), 1.0))
    sheet = replace(NODES_OF_FOUR, inter_node_gbps=1e-6)  # so slow that its latency does not count in the ratio
    (as_it_is, *_), (halved, *_) = (
        predict_study(frame, cells, [8], curves, sheet, what_if) for what_if in (WhatIf(), WhatIf(rails=2))
    )
    steps = [16 * 128 / table["tokens_per_s"].iloc[0] for table in (as_it_is, halved)]
    assert steps[1] - steps[0] == pytest.approx(PARAMETERS * 4 / (SLOW_GBPS * 1e9), rel=1e-4)
    assert halved["method"].iloc[0].endswith("links between nodes measured; what if: 2 rails a node")


@pytest.mark.parametrize(
    ("what_if", "said"),
    [
        (WhatIf(oversubscription=0.5), "whatif.oversubscription: 0.5 is out of range; 1 or more"),
        (WhatIf(rails=0), "whatif.rails: 0 is out of range; 1 or more"),
        (WhatIf(straggler_cv=float("nan")), "whatif.straggler_cv: nan is out of range"),
    ],
)
def test_a_cluster_that_cannot_be_is_refused(what_if: WhatIf, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        step_s(what_if)


def test_nodes_that_the_cards_do_not_fill_evenly_are_left_out_and_said() -> None:
    frame, cells = study((cell("mode=ddp", "cards=1"), 1.0))
    _, _, skipped = predict_study(frame, cells, [8], None, NODES_OF_FOUR, WhatIf(nodes=3))
    assert skipped == ["tiny ddp is not predicted at 8 cards: whatif.nodes: 8 cards do not share out over 3 nodes"]


def test_a_mode_that_was_not_measured_takes_anothers_compute_and_says_so() -> None:
    frame, cells = study((cell("mode=ddp", "cards=1"), 1.0))
    table, *_ = predict_study(frame, cells, [1, 4], None, modes=[cell("mode=tp", "cards=1").mode])
    measured, asked = (table[table["mode"] == mode].set_index("cards") for mode in ("ddp", "tp"))
    assert asked.loc[1, "tokens_per_s"] == pytest.approx(2048.0)
    assert asked.loc[1, "high"] / asked.loc[1, "low"] > measured.loc[1, "high"] / measured.loc[1, "low"]
    assert asked.loc[4, "method"].startswith("step-time model, tp not measured, calibrated on ddp; links in the node")
    assert asked.loc[4, "relative_to"] == "relative to 1 card of ddp"


def test_a_mode_that_was_measured_is_not_predicted_twice() -> None:
    frame, cells = study((cell("mode=ddp", "cards=1"), 1.0))
    table, *_ = predict_study(frame, cells, [4], None, modes=[cell("mode=ddp", "cards=4").mode])
    assert len(table) == 1


def test_a_cell_far_from_the_others_is_named() -> None:
    measured = ((n, 1.0 / n) for n in (1, 2, 8))
    cells_of = [(cell("mode=ddp", f"cards={n}"), step) for n, step in measured]
    frame, cells = study(*cells_of, (cell("mode=ddp", "cards=4"), 5.0))
    table, *_ = predict_study(frame, cells, [16], None, replace(NODES_OF_FOUR, cards_per_node=16))
    assert "measured at 4 cards far from what the other cells say" in table["notes"].iloc[0]
    assert "measured slower at 4 cards than with fewer" in table["notes"].iloc[0]


def test_cells_that_agree_are_not_doubted() -> None:
    cells_of = [(cell("mode=ddp", f"cards={n}"), 1.0 / n + 0.02) for n in (1, 2, 4)]
    frame, cells = study(*cells_of)
    table, *_ = predict_study(frame, cells, [8], None, replace(NODES_OF_FOUR, cards_per_node=16))
    assert table["notes"].iloc[0] == ""


def test_a_step_above_linear_is_said_to_have_been_measured() -> None:
    frame, cells = study((cell("mode=ddp", "cards=1"), 1.0), (cell("mode=ddp", "cards=2"), 0.3))
    table, *_ = predict_study(frame, cells, [4], None, NODES_OF_FOUR)
    assert "measured above linear at 2 cards" in table["notes"].iloc[0]


def test_hybrid_sharding_is_left_to_the_measurements() -> None:
    frame, cells = study((cell("mode=hsdp", "cards=2"), 1.0))
    table, used, _ = predict_study(frame, cells, [4], None)
    assert table.empty
    assert used.tolist() == [False]
