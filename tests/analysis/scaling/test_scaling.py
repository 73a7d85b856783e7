from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from analysis.scaling import efficiency, scaling_table, speedup
from analysis.scaling.series import mode_family
from configs.errors import ConfigError
from results.store import read_measurements


def cells(cards: list[int], rates: list[float | None], **columns: object) -> pd.DataFrame:
    """A study's frame with one training cell a count."""
    data = {"parallel.mode": "ddp", "parallel.cards": cards, "throughput.tokens_per_s": rates, "status": "ok"}
    return pd.DataFrame({**data, **{name.replace("__", "."): value for name, value in columns.items()}})


def test_efficiency_is_recomputed_from_rates_against_one_base() -> None:
    # 9908.78 / 6982.74 / 2 and 9128.08 / 6982.74 / 4: a public table gave 0.46 for the last, against 2 cards.
    rates, cards = pd.Series([6982.74, 9908.78, 9128.08]), pd.Series([1, 2, 4])
    assert efficiency(rates, cards, base=1).tolist() == pytest.approx([1.0, 0.7095, 0.3268], abs=1e-4)


def test_efficiency_with_base_two_of_doubled_cards_and_triple_rate() -> None:
    # 300 / 100 x 2 / 4 = 1.5: above one, returned as it is.
    assert efficiency(pd.Series([100.0, 300.0]), pd.Series([2, 4]), base=2).tolist() == [1.0, 1.5]


def test_a_missing_base_names_the_measured_counts() -> None:
    with pytest.raises(ConfigError, match="base: 1 cards is not measured; measured: 2, 4"):
        speedup(pd.Series([1.0, 2.0]), pd.Series([2, 4]), base=1)


def test_a_base_that_is_there_twice_is_refused() -> None:
    with pytest.raises(ConfigError, match="base: 1 cards is there 2 times"):
        speedup(pd.Series([1.0, 1.1, 2.0]), pd.Series([1, 1, 2]), base=1)


def test_the_smallest_measured_count_is_the_base_where_one_card_ran_out_of_memory() -> None:
    frame = cells([1, 2, 4], [None, 100.0, 180.0], status=["oom", "ok", "ok"])
    table = scaling_table(frame)
    assert table["relative_to"].tolist() == ["relative to 2 cards"] * 3
    assert table["efficiency"].tolist() == pytest.approx([np.nan, 1.0, 0.9], nan_ok=True)


def test_cells_that_were_not_measured_stay_in_the_table_blank() -> None:
    table = scaling_table(cells([1, 2], [10.0, 0.0], status=["ok", "oom"]))
    assert table["status"].tolist() == ["ok", "oom"]
    assert np.isnan(table["tokens_per_s"][1]) and np.isnan(table["speedup"][1])


def test_a_series_of_failures_has_no_base_and_no_ratio() -> None:
    table = scaling_table(cells([1, 2], [None, None], status="failed"))
    assert table["relative_to"].tolist() == ["", ""] and table["speedup"].isna().all()


@pytest.mark.parametrize("wrong", [-5.0, 0.0, float("nan"), float("inf")])
def test_a_rate_that_is_no_positive_number_is_flagged_and_not_used(wrong: float) -> None:
    table = scaling_table(cells([1, 2], [10.0, wrong]))
    assert np.isnan(table["speedup"][1])
    assert "no positive throughput" in table["flags"][1]


def test_modes_do_not_share_a_base() -> None:
    frame = cells([1, 2, 1, 2], [10.0, 20.0, 8.0, 12.0], parallel__mode=["ddp", "ddp", "tp", "tp"])
    assert scaling_table(frame)["efficiency"].tolist() == [1.0, 1.0, 1.0, 0.75]


def test_data_parallel_products_are_one_family_and_tensor_sizes_are_not() -> None:
    assert [mode_family(m) for m in ("dp2_tp4", "dp16_tp4", "dp2_tp8", "zero3", "fsdp_grad_op")] == [
        "dp_tp4",
        "dp_tp4",
        "dp_tp8",
        "zero3",
        "fsdp_grad_op",
    ]


def test_recorded_strong_and_weak_cells_are_two_series() -> None:
    frame = cells([1, 2, 1, 2], [10.0, 15.0, 10.0, 19.0], workload__scaling=["strong", "strong", "weak", "weak"])
    table = scaling_table(frame)
    assert table.groupby("scaling")["efficiency"].max().index.tolist() == ["strong", "weak"]
    assert table[table["cards"] == 2]["efficiency"].tolist() == [0.75, 0.95]


def test_one_global_batch_at_every_count_is_strong_scaling() -> None:
    assert set(scaling_table(cells([1, 2], [1.0, 2.0], workload__global_batch_tokens=4096))["scaling"]) == {"strong"}


def test_one_batch_per_card_at_every_count_is_weak_scaling() -> None:
    frame = cells([1, 2, 4], [1.0, 2.0, 4.0], workload__global_batch_tokens=[512, 1024, 2048])
    assert set(scaling_table(frame)["scaling"]) == {"weak"}


def test_a_batch_that_follows_neither_rule_is_flagged() -> None:
    table = scaling_table(cells([1, 2], [1.0, 2.0], workload__global_batch_tokens=[512, 1536]))
    assert set(table["scaling"]) == {"varied"}
    assert "batch per card differs" in table["flags"][1]


def test_mixed_strong_and_weak_rows_are_split_and_the_odd_row_has_no_base() -> None:
    # (1, 32) and (2, 32) share the global batch, (4, 128) shares 32 a card with the first only.
    frame = cells([1, 2, 4], [10.0, 15.0, 39.0], workload__global_batch_tokens=[32, 32, 128])
    table = scaling_table(frame)
    assert table["series"].nunique() == 2
    assert table["base_cards"].tolist() == [1, 1, 4]
    assert table["flags"].str.contains("strong and weak rows split").all()


def test_two_strong_series_of_different_global_batch_have_their_own_base() -> None:
    frame = cells([1, 2, 1, 2], [10.0, 15.0, 12.0, 18.0], workload__global_batch_tokens=[64, 64, 128, 128])
    table = scaling_table(frame.assign(**{"workload.scaling": "strong"}))
    assert table["base_cards"].tolist() == [1, 1, 1, 1]
    assert table["speedup"].tolist() == [1.0, 1.5, 1.0, 1.5]


def test_different_gpus_are_split_and_flagged() -> None:
    table = scaling_table(cells([1, 2], [10.0, 30.0], device__name=["A100", "H100"]))
    assert table["base_cards"].tolist() == [1, 2]
    assert table["flags"].str.contains("different GPUs").all()


def test_threads_per_rank_divide_series() -> None:
    table = scaling_table(cells([1, 2], [10.0, 12.0], parallel__threads_per_rank=[2, 1]))
    assert table["base_cards"].tolist() == [1, 2]


def test_a_failed_cell_without_a_device_stays_in_its_series() -> None:
    frame = cells([1, 2, 4], [None, 10.0, 18.0], status=["oom", "ok", "ok"], device__name=[None, "A100", "A100"])
    assert scaling_table(frame)["series"].nunique() == 1


def test_one_stage_has_no_schedule_and_is_the_base_of_its_pipeline() -> None:
    table = scaling_table(cells([1, 2], [10.0, 15.0], parallel__mode="pp", parallel__schedule=[None, "1f1b"]))
    assert table["base_cards"].tolist() == [1, 1]


def test_efficiency_above_one_is_flagged_not_hidden() -> None:
    table = scaling_table(cells([1, 2], [10.0, 22.0]))
    assert table["efficiency"][1] == pytest.approx(1.1)
    assert table["flags"][1] == "superlinear"


def test_decreasing_throughput_is_flagged() -> None:
    table = scaling_table(cells([1, 2, 4], [10.0, 15.0, 12.0]))
    assert "slower than with fewer cards" in table["flags"][2]


def test_two_rows_at_the_base_count_give_their_median_as_base() -> None:
    table = scaling_table(cells([1, 1, 2], [10.0, 12.0, 22.0]))
    assert table["speedup"][2] == 2.0  # 22 / median(10, 12)
    assert "several rows at this count" in table["flags"][0]


def test_a_row_written_twice_does_not_weigh_twice_in_the_base() -> None:
    table = scaling_table(cells([1, 1, 1, 2], [10.0, 10.0, 13.0, 23.0]))
    assert table["speedup"][3] == 2.0  # 23 / median(10, 13)
    assert "the same row again" in table["flags"][1]


def test_recorded_intervals_combine_in_quadrature_of_their_logarithms() -> None:
    frame = cells([1, 2], [100.0, 180.0]).assign(
        **{
            "throughput.step_time_s.median": [1.0, 1.0],
            "throughput.step_time_s.ci95_low": [np.exp(-0.03), np.exp(-0.04)],
            "throughput.step_time_s.ci95_high": [np.exp(0.03), np.exp(0.04)],
        }
    )
    row = scaling_table(frame).iloc[1]
    assert row["speedup_low"] == pytest.approx(1.8 * np.exp(-0.05))  # hypot(0.03, 0.04)
    assert row["speedup_high"] == pytest.approx(1.8 * np.exp(0.05))
    assert row["efficiency_low"] == pytest.approx(0.9 * np.exp(-0.05))
    assert row["interval_source"] == "recorded intervals"


def test_without_steps_and_intervals_the_interval_is_blank() -> None:
    row = scaling_table(cells([1, 2], [100.0, 180.0])).iloc[1]
    assert np.isnan(row["speedup_low"]) and row["interval_source"] == ""


def noisy_steps(seed: int, mean: float, count: int = 200) -> list[float]:
    return np.random.default_rng(seed).normal(mean, 0.05 * mean, count).tolist()


def test_the_bootstrap_interval_of_a_ratio_carries_both_cells_noise() -> None:
    # Median of 200 normal steps at 5 %: standard error 1.2533 x 0.05 / sqrt(200) = 0.44 %; of the ratio 0.63 %.
    frame = cells([1, 2], [100.0, 180.0]).assign(
        **{"throughput.step_times_s": [noisy_steps(1, 1.0), noisy_steps(2, 1.1)]}
    )
    row = scaling_table(frame).iloc[1]
    half = np.log(row["speedup_high"] / row["speedup_low"]) / 2
    assert row["interval_source"] == "block bootstrap"
    assert half == pytest.approx(1.96 * 0.0063, rel=0.35)
    assert row["speedup_low"] < 1.8 < row["speedup_high"]


def test_equal_step_lists_do_not_cancel_in_the_bootstrap() -> None:
    steps = noisy_steps(3, 1.0)
    row = scaling_table(cells([1, 2], [100.0, 200.0]).assign(**{"throughput.step_times_s": [steps, steps]})).iloc[1]
    assert row["speedup_high"] > row["speedup_low"] * 1.01


def test_efficiency_above_one_within_its_interval_is_named_so() -> None:
    frame = cells([1, 2], [100.0, 201.0]).assign(
        **{
            "throughput.step_time_s.median": 1.0,
            "throughput.step_time_s.ci95_low": 0.95,
            "throughput.step_time_s.ci95_high": 1.05,
        }
    )
    assert scaling_table(frame)["flags"][1] == "above 1 within its interval"


def test_more_nodes_than_the_base_is_flagged() -> None:
    table = scaling_table(cells([8, 16], [880.0, 1280.0], parallel__nodes=[1, 2]))
    assert "more nodes than the base" in table["flags"][1]


def test_more_ranks_than_cores_are_flagged() -> None:
    table = scaling_table(cells([1, 2, 4], [10.0, 19.0, 20.0], device__cores=2))
    assert table["flags"].str.contains("oversubscribed").tolist() == [False, False, True]


def test_collective_cells_are_not_training_cells() -> None:
    table = scaling_table(cells([1, 2], [1.0, 2.0], benchmark=["finetune", "collectives"]))
    assert len(table) == 1


def test_an_empty_study_gives_an_empty_table_with_its_columns() -> None:
    assert {"cards", "efficiency", "flags"} <= set(scaling_table(pd.DataFrame()).columns)


def test_a_frame_of_something_else_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"has no column parallel\.mode"):
        scaling_table(pd.DataFrame({"a": [1]}))


def test_a_measurement_csv_is_analysed_like_a_study(tmp_path) -> None:  # type: ignore[no-untyped-def]
    file = tmp_path / "bert.csv"
    file.write_text("mode,cards,tokens_per_s\nddp,1,122\nddp,2,230\nddp,4,444\nddp,8,880\nddp,16,1280\n")
    table = scaling_table(read_measurements(file))
    # throughput per card 122, 115, 111, 110, 80 in the public report
    assert table["efficiency"].tolist() == pytest.approx([1, 115 / 122, 111 / 122, 110 / 122, 80 / 122])
