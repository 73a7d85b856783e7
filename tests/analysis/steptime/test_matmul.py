from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from analysis.steptime.matmul import fit_matmul, rate_of
from analysis.tables.matmul import matmul_view
from analysis.text import sayer

SIDES = np.array([64, 128, 256, 512, 1024, 2048])


def sweep(launch_us: float, tflops: float, noise: float = 0.0, seed: int = 0, calls: int = 0) -> pd.DataFrame:
    """Squares on a card that takes `launch_us` to start and multiplies at `tflops`."""
    times = launch_us + 2.0 * SIDES**3 / tflops / 1e6
    times = times * np.exp(noise * np.random.default_rng(seed).standard_normal(len(SIDES)))
    frame = pd.DataFrame({"m": SIDES, "n": SIDES, "k": SIDES, "time_us": times, "dtype": "bf16", "calls": calls})
    return frame.assign(shape="square", role="square", tflops=2.0 * SIDES**3 / times / 1e6, ranks=1)


def test_launch_and_rate_of_a_made_card_are_found() -> None:
    fit = fit_matmul(sweep(5.0, 600.0), "bf16")
    assert fit is not None
    assert (fit.launch_us, fit.tflops, fit.error) == (
        pytest.approx(5.0),
        pytest.approx(600.0),
        pytest.approx(0, abs=1e-9),
    )


def test_the_interval_holds_the_rate_under_noise() -> None:
    held = 0
    for seed in range(40):
        fit = fit_matmul(sweep(5.0, 0.5, noise=0.03, seed=seed), "bf16")
        assert fit is not None
        held += fit.tflops_low <= 0.5 <= fit.tflops_high
    assert held >= 30


def test_products_that_were_not_measured_follow_the_line() -> None:
    """2 calls of 1e9 FLOPs, each 5 us + 1e9 / 600 TFLOP/s = 6.667 us: 2e9 / 13.33 us = 150 TFLOP/s."""
    fit = fit_matmul(sweep(5.0, 600.0), "bf16")
    assert fit is not None
    assert rate_of(fit, [(1e9, 2)]) == pytest.approx(150.0)


def test_the_models_own_products_count_by_their_calls() -> None:
    frame = sweep(5.0, 600.0, calls=3)
    fit = fit_matmul(frame, "bf16")
    assert fit is not None
    assert fit.own_tflops == pytest.approx((2.0 * SIDES**3).sum() / frame["time_us"].sum() / 1e6)


def test_two_shapes_and_another_type_are_no_sweep() -> None:
    assert fit_matmul(sweep(5.0, 600.0).head(2), "bf16") is None
    assert fit_matmul(sweep(5.0, 600.0), "fp32") is None


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_the_table_shows_rates_and_says_what_was_skipped(lang: str) -> None:
    frame = sweep(5.0, 600.0)
    frame.loc[0, "tflops"] = np.nan
    frame["skipped"] = ["no memory", *[None] * 5]
    table = matmul_view(frame, sayer(lang))
    assert len(table.rows) == 5
    assert any("600" in note for note in table.notes)
    assert any("no memory" in note for note in table.notes)
