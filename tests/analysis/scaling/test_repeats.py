from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from analysis.scaling.repeats import compare_modes, holm, repeat_table


def runs(rates: list[float], half_width: float | None = None, **columns: object) -> pd.DataFrame:
    """Runs of 4-card cells; half_width: of the step time's recorded 95 % interval, relative."""
    data: dict[str, object] = {
        "parallel.mode": "ddp",
        "parallel.cards": 4,
        "throughput.tokens_per_s": rates,
        "throughput.step_time_s.median": 1.0,
        "throughput.step_time_s.cv": 0.05,
        "status": "ok",
        "workload.global_batch_tokens": 4096,
    }
    if half_width is not None:
        data |= {"throughput.step_time_s.ci95_low": 1 - half_width, "throughput.step_time_s.ci95_high": 1 + half_width}
    return pd.DataFrame({**data, **{name.replace("__", "."): value for name, value in columns.items()}})


def test_the_spread_between_runs_is_their_standard_deviation_over_their_mean() -> None:
    row = repeat_table(runs([98.0, 100.0, 102.0], 0.01)).iloc[0]
    assert row["runs"] == 3
    assert row["between_cv"] == pytest.approx(0.02)
    assert row["within_cv"] == 0.05
    assert row["within_se"] == pytest.approx(0.01 / 1.96)


def test_runs_that_differ_by_what_their_steps_explain_are_not_flagged() -> None:
    assert repeat_table(runs([99.5, 100.0, 100.5], 0.01))["flag"].tolist() == [""]


def test_runs_that_differ_by_more_than_their_steps_explain_are_flagged() -> None:
    # 2 % apart with a standard error of 0.1 % each.
    assert "more than their steps explain" in repeat_table(runs([98.0, 100.0, 102.0], 0.00196))["flag"][0]


def test_one_run_says_nothing_of_the_next() -> None:
    row = repeat_table(runs([100.0], 0.01)).iloc[0]
    assert np.isnan(row["between_cv"]) and row["flag"].startswith("one run")


def test_runs_without_a_recorded_interval_have_no_probability() -> None:
    assert np.isnan(repeat_table(runs([98.0, 102.0]))["p_same"][0])


def test_modes_with_repeats_are_compared_by_welchs_test_on_logarithms() -> None:
    a, b = [100.0, 102.0, 104.0], [90.0, 91.0, 95.0]
    frame = runs(a + b, parallel__mode=["ddp"] * 3 + ["tp"] * 3)
    row = compare_modes(frame).iloc[0]
    expected = stats.ttest_ind(np.log(a), np.log(b), equal_var=False)
    assert (row["faster"], row["slower"], row["basis"]) == ("ddp", "tp", "runs")
    assert row["p_value"] == pytest.approx(expected.pvalue)
    interval = expected.confidence_interval()
    assert [row["low"], row["high"]] == pytest.approx(np.exp([interval.low, interval.high]))
    assert row["beats"]


def test_a_difference_within_the_spread_between_runs_is_no_win() -> None:
    frame = runs([100.0, 108.0, 101.0, 99.0, 106.0, 103.0], parallel__mode=["ddp"] * 3 + ["tp"] * 3)
    assert not compare_modes(frame)["beats"][0]


def test_single_runs_are_compared_by_their_steps_and_it_is_said() -> None:
    # ln(100/95) = 5.1 %; half-widths 1 % each: 1.4 % together.
    row = compare_modes(runs([100.0, 95.0], 0.01, parallel__mode=["ddp", "tp"])).iloc[0]
    assert row["basis"] == "steps" and row["beats"]
    half = np.log(row["high"] / row["low"]) / 2
    assert half == pytest.approx(0.0141, abs=2e-4)


def test_single_runs_without_intervals_show_no_winner() -> None:
    row = compare_modes(runs([100.0, 95.0], parallel__mode=["ddp", "tp"])).iloc[0]
    assert row["basis"] == "" and not row["beats"] and np.isnan(row["p_value"])


def test_modes_with_different_global_batches_are_not_compared() -> None:
    frame = runs([100.0, 95.0], 0.01, parallel__mode=["ddp", "tp"], workload__global_batch_tokens=[4096, 8192])
    assert compare_modes(frame).empty


def test_every_pair_of_three_modes_is_compared_once() -> None:
    table = compare_modes(runs([100.0, 95.0, 90.0], 0.01, parallel__mode=["ddp", "tp", "pp"]))
    assert sorted(zip(table["faster"], table["slower"], strict=True)) == [("ddp", "pp"), ("ddp", "tp"), ("tp", "pp")]


def test_holm_multiplies_the_smallest_probability_by_their_number() -> None:
    # 0.01 x 3, 0.02 x 2, 0.04 x 1 raised to the one before; the unknown stays unknown and does not count.
    corrected = holm(pd.Series([0.04, 0.01, np.nan, 0.02]))
    assert corrected.tolist() == pytest.approx([0.04, 0.03, np.nan, 0.04], nan_ok=True)
