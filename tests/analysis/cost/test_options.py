from __future__ import annotations

from collections.abc import Callable

import pandas as pd

from analysis.cost.options import merge_repeats, predicted_cells, with_predictions

HOUR_TOKENS = 3_600_000.0
Cells = Callable[..., pd.DataFrame]


def test_repeats_of_a_cell_count_once_at_their_median(cells_of: Cells) -> None:
    cells = cells_of((1, 900), (1, 1000), (1, 1300), **{"workload.repeat": [0, 1, 2]})
    merged = merge_repeats(cells)
    assert list(merged["throughput.tokens_per_s"]) == [1000]


def test_the_interval_of_repeats_spans_them_all(cells_of: Cells) -> None:
    row = merge_repeats(cells_of((1, 900), (1, 1000), (1, 1300))).iloc[0]
    assert (row["throughput.tokens_per_s_low"], row["throughput.tokens_per_s_high"]) == (900, 1300)


def test_the_interval_of_repeats_keeps_each_ones_own_spread(cells_of: Cells) -> None:
    steps = {"median": 1.0, "ci95_low": 0.5, "ci95_high": 2.0}
    cells = cells_of((1, 1000), (1, 1000), **{f"throughput.step_time_s.{name}": value for name, value in steps.items()})
    row = merge_repeats(cells).iloc[0]
    assert (row["throughput.tokens_per_s_low"], row["throughput.tokens_per_s_high"]) == (500, 2000)


def test_cells_that_differ_in_their_work_are_not_repeats(cells_of: Cells) -> None:
    assert len(merge_repeats(cells_of((1, 900), (1, 1000), **{"workload.seq_len": [128, 2048]}))) == 2


def test_a_failed_repeat_does_not_pull_the_others_down(cells_of: Cells) -> None:
    cells = cells_of((1, 1000), (1, float("nan")), (1, 1000)).assign(status=["ok", "failed", "ok"])
    merged = merge_repeats(cells)
    assert list(merged["status"]) == ["ok", "failed"]


def test_predictions_cover_the_counts_between_and_twice_the_largest(cells_of: Cells) -> None:
    cells = with_predictions(cells_of((1, 1000), (4, 3600)), HOUR_TOKENS, 1, None)
    predicted = cells[cells["status"] == "predicted"]
    assert sorted(predicted["parallel.cards"]) == [2, 3, 5, 6, 7, 8]


def test_what_the_deadline_asks_for_is_predicted(cells_of: Cells) -> None:
    # 100 h in 6 h are 16.7 ideal cards, 18.5 at 90 %: 19
    cells = with_predictions(cells_of((1, 1000), (4, 3600)), 10 * HOUR_TOKENS, 10, 6)
    assert 19 in set(cells["parallel.cards"])


def test_counts_on_offer_are_the_only_ones_predicted(cells_of: Cells) -> None:
    cells = with_predictions(cells_of((1, 1000), (4, 3600)), HOUR_TOKENS, 1, None, [2, 4, 16])
    assert sorted(cells.loc[cells["status"] == "predicted", "parallel.cards"]) == [2, 16]


def test_a_count_that_ran_out_of_memory_is_not_predicted(cells_of: Cells) -> None:
    cells = cells_of((1, float("nan")), (2, 1900), (4, 3600)).assign(status=["oom", "imported", "imported"])
    predicted = with_predictions(cells, HOUR_TOKENS, 1, None)
    assert 1 not in set(predicted.loc[predicted["status"] == "predicted", "parallel.cards"])


def test_fewer_cards_than_ever_ran_are_not_predicted_because_they_may_not_fit(cells_of: Cells) -> None:
    predicted = with_predictions(cells_of((4, 3600), (8, 7000)), HOUR_TOKENS, 1, None)
    assert predicted["parallel.cards"].min() == 4


def test_tensor_parallel_is_predicted_at_powers_of_two_only(cells_of: Cells) -> None:
    cells = with_predictions(cells_of((1, 1000), (4, 2500), mode="tp"), HOUR_TOKENS, 1, None)
    assert sorted(cells.loc[cells["status"] == "predicted", "parallel.cards"]) == [2, 8]


def test_a_prediction_is_a_cell_with_its_interval_and_notes(cells_of: Cells) -> None:
    table = pd.DataFrame(
        {
            **{"model": [""], "mode": ["ddp"], "device": [""], "cards": [16], "tokens_per_s": [12e3]},
            **{"low": [9e3], "high": [13e3], "notes": ["crosses the node border"]},
        }
    )
    row = predicted_cells(cells_of((1, 1000)), table, cards_per_node=8).iloc[0]
    assert (row["status"], row["parallel.nodes"]) == ("predicted", 2)
    assert (row["throughput.tokens_per_s_low"], row["throughput.tokens_per_s_high"]) == (9e3, 13e3)
    assert row["prediction.notes"] == "crosses the node border"


def test_nothing_measured_gives_nothing_predicted(cells_of: Cells) -> None:
    cells = cells_of((1, float("nan")), status="oom")
    assert len(with_predictions(cells, HOUR_TOKENS, 1, None)) == 1


def test_repeats_with_blank_fields_are_still_repeats(cells_of: Cells) -> None:
    cells = cells_of((1, 900), (1, 1100), **{"workload.parameters": float("nan"), "parallel.schedule": None})
    assert list(merge_repeats(cells)["throughput.tokens_per_s"]) == [1000]
