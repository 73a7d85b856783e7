from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from analysis.scaling.steadiness import steadiness, steadiness_table


def noise(seed: int, count: int = 50, spread: float = 0.01) -> np.ndarray:
    return 1 + spread * np.random.default_rng(seed).standard_normal(count)


def correlated(seed: int, count: int = 50) -> np.ndarray:
    """Steps whose noise carries half of the step before."""
    rng = np.random.default_rng(seed)
    values = np.zeros(count)
    for i in range(1, count):
        values[i] = 0.5 * values[i - 1] + rng.standard_normal()
    return 1 + 0.02 * values


def test_steady_steps_get_no_verdict() -> None:
    assert steadiness(noise(0)).verdict == ""


def test_one_slow_step_is_named() -> None:
    times = noise(1)
    times[17] = 1.5
    assert steadiness(times).outliers == (17,)


def test_an_outlier_is_not_taken_for_a_drift() -> None:
    times = noise(2)
    times[-1] = 3.0
    assert steadiness(times).drift == 0


def test_a_drift_is_measured_over_the_run() -> None:
    assert steadiness(noise(3) + np.linspace(0, 0.05, 50)).drift == pytest.approx(0.05, abs=0.015)


def test_a_drift_below_two_percent_is_not_worth_a_word() -> None:
    assert steadiness(noise(4, spread=0.001) + np.linspace(0, 0.01, 50)).drift == 0


def test_correlated_noise_is_rarely_called_a_drift() -> None:
    called = np.mean([steadiness(correlated(seed)).drift != 0 for seed in range(300)])
    assert called < 0.06


def test_steps_that_slow_as_the_clock_falls_are_named() -> None:
    times, clocks = noise(5, 30, 0.002), np.full(30, 1980.0)
    times[20:24], clocks[20:24] = 1.09, 1700.0
    found = steadiness(times, clocks)
    assert found.throttled == (20, 21, 22, 23)
    assert "slow while the clock is low: 20, 21, 22, 23" in found.verdict


def test_a_slow_step_at_full_clock_is_not_throttled() -> None:
    times = noise(6, 30, 0.002)
    times[12] = 1.3
    assert steadiness(times, np.full(30, 1980.0)).throttled == ()


def test_a_low_clock_that_costs_nothing_is_not_throttling() -> None:
    clocks = np.full(30, 1980.0)
    clocks[10] = 1500.0
    assert steadiness(noise(7, 30, 0.002), clocks).throttled == ()


def test_unknown_steps_keep_the_numbers_of_the_others() -> None:
    times = noise(8)
    times[3], times[30] = np.nan, 2.0
    assert steadiness(times).outliers == (30,)


def test_seven_steps_are_too_few_to_judge() -> None:
    assert steadiness([1.0, 1, 1, 5, 1, 1, 1]).verdict == ""


def test_clocks_have_to_match_the_steps() -> None:
    with pytest.raises(ValueError, match="3 clocks for 4 steps"):
        steadiness([1.0, 1, 1, 1], [1980.0] * 3)


def test_the_table_judges_every_cell_that_lists_its_steps() -> None:
    slow = noise(9)
    slow[5] = 2.0
    frame = pd.DataFrame(
        {
            "cell_id": ["steady", "slow", "unlisted", "failed"],
            "status": ["ok", "ok", "ok", "failed"],
            "throughput.tokens_per_s": [1.0, 1.0, 1.0, np.nan],
            "throughput.step_times_s": [noise(10).tolist(), slow.tolist(), None, None],
            "device.throttled": [True, False, False, False],
        }
    )
    table = steadiness_table(frame).set_index("cell_id")
    assert table.index.tolist() == ["steady", "slow"]
    assert table["outliers"].tolist() == [0, 1]
    assert table.loc["steady", "verdict"] == "the card reported throttling"
    assert "far from their neighbours: 5" in str(table.loc["slow", "verdict"])


def test_a_batch_of_runs_is_judged_as_each_alone() -> None:
    lists = [noise(seed).tolist() for seed in range(5)] + [(noise(9) + np.linspace(0, 0.1, 50)).tolist()]
    frame = pd.DataFrame({"throughput.tokens_per_s": 1.0, "throughput.step_times_s": lists})
    assert steadiness_table(frame)["drift"].tolist() == pytest.approx([steadiness(times).drift for times in lists])
