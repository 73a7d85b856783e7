from __future__ import annotations

import numpy as np
import pytest

from analysis.scaling.laws import AMDAHL, GUSTAFSON, USL, choose_law, fit_coefficients, fit_law, share_intervals
from configs.errors import ConfigError

CARDS = np.array([1.0, 2, 4, 8, 16, 32])


def amdahl(n: np.ndarray, serial: float) -> np.ndarray:
    return 1000 * n / (1 + serial * (n - 1))


def usl(n: np.ndarray, contention: float, crosstalk: float) -> np.ndarray:
    return 1000 * n / (1 + contention * (n - 1) + crosstalk * n * (n - 1))


def test_amdahl_at_one_tenth_serial_gives_the_textbook_speedup() -> None:
    # 1 / (0.1 + 0.9 / 10) = 5.263 on ten processors.
    fit = fit_law(AMDAHL, CARDS, amdahl(CARDS, 0.1))
    assert fit.shares["serial"].value == pytest.approx(0.1)
    assert fit.throughput([10])[0] / fit.rate_one_card.value == pytest.approx(5.263, abs=1e-3)


def test_gustafson_at_one_tenth_serial_gives_the_textbook_speedup() -> None:
    # 10 - 0.1 x 9 = 9.1 on ten processors.
    fit = fit_law(GUSTAFSON, CARDS, 1000 * (CARDS - 0.1 * (CARDS - 1)))
    assert fit.shares["serial"].value == pytest.approx(0.1)
    assert fit.throughput([10])[0] == pytest.approx(9100)


def test_usl_peaks_where_contention_and_crosstalk_say() -> None:
    # sqrt((1 - 0.04) / 0.0006) = 40: past it more cards make the job slower.
    fit = fit_law(USL, CARDS, usl(CARDS, 0.04, 0.0006))
    assert fit.shares["contention"].value == pytest.approx(0.04)
    assert fit.shares["crosstalk"].value == pytest.approx(0.0006)
    assert fit.peak_cards is not None
    assert fit.peak_cards.value == pytest.approx(40)
    assert fit.throughput([40])[0] > fit.throughput([41])[0] > fit.throughput([60])[0]


def test_amdahl_has_no_count_past_which_it_slows() -> None:
    assert fit_law(AMDAHL, CARDS, amdahl(CARDS, 0.1)).peak_cards is None


@pytest.mark.parametrize(
    ("law", "truth"),
    [
        (AMDAHL, (0.03,)),
        (AMDAHL, (0.2,)),
        (GUSTAFSON, (0.1,)),
        (USL, (0.03, 0.0005)),
        (USL, (0.1, 0.002)),
    ],
)
@pytest.mark.parametrize("points", [4, 6])
@pytest.mark.parametrize("noise", [0.005, 0.03])
def test_95_percent_intervals_cover_the_truth_in_92_to_98_of_100_trials(
    law: str, truth: tuple[float, ...], points: int, noise: float
) -> None:
    n = CARDS[:points]
    clean = {AMDAHL: amdahl, USL: usl, GUSTAFSON: lambda n, s: 1000 * (n - s * (n - 1))}[law](n, *truth)
    trials = clean * np.exp(noise * np.random.default_rng(0).standard_normal((1000, points)))
    intervals = share_intervals(law, *fit_coefficients(law, n, trials), points)
    for i, value in enumerate(truth):
        covered = ((intervals[:, i, 0] <= value) & (value <= intervals[:, i, 1])).mean()
        assert 0.92 <= covered <= 0.98


def test_many_series_are_fitted_as_each_alone() -> None:
    trials = usl(CARDS, 0.03, 0.001) * np.exp(0.02 * np.random.default_rng(1).standard_normal((3, len(CARDS))))
    together = fit_coefficients(USL, CARDS, trials)[0]
    for i in range(3):
        assert together[i] == pytest.approx(fit_coefficients(USL, CARDS, trials[i])[0])


def test_residuals_are_measured_over_fitted() -> None:
    rate = amdahl(CARDS, 0.1)
    rate[3] *= 1.05
    residuals = fit_law(AMDAHL, CARDS, rate).residuals
    assert max(residuals) == residuals[3]
    assert residuals[3] == pytest.approx(0.05, abs=0.03)


def test_cross_validation_picks_crosstalk_where_throughput_falls() -> None:
    rng = np.random.default_rng(2)
    rate = usl(CARDS, 0.05, 0.01) * np.exp(0.005 * rng.standard_normal(len(CARDS)))
    assert choose_law(CARDS, rate)[0].law == USL


def test_cross_validation_keeps_amdahl_where_its_law_made_the_series() -> None:
    rng = np.random.default_rng(3)
    rate = amdahl(CARDS, 0.08) * np.exp(0.01 * rng.standard_normal(len(CARDS)))
    assert choose_law(CARDS, rate)[0].law == AMDAHL


def test_cross_validation_picks_gustafson_for_a_straight_line() -> None:
    assert choose_law(CARDS, 1000 * (CARDS - 0.3 * (CARDS - 1)))[0].law == GUSTAFSON


def test_faster_than_linear_is_held_at_no_serial_share_and_said() -> None:
    fit = fit_law(AMDAHL, [1, 2, 4, 8], [100.0, 205.0, 420.0, 860.0])
    assert fit.shares["serial"].value == 0
    assert "faster than linear" in fit.notes[0]


def test_equal_throughput_at_every_count_is_all_serial() -> None:
    assert fit_law(AMDAHL, [1, 2, 4], [100.0, 100.0, 100.0]).shares["serial"].value == pytest.approx(1.0)


def test_as_many_coefficients_as_points_leave_no_interval() -> None:
    fit = fit_law(AMDAHL, [1, 2], [100.0, 190.0])
    assert fit.shares["serial"].value == pytest.approx(2 / 190 * 100 - 1)  # 200/190 - 1
    assert np.isnan(fit.shares["serial"].low) and np.isnan(fit.cv_error)
    assert "no interval" in fit.notes[0]


def test_repeats_of_a_count_are_points_of_their_own() -> None:
    fit = fit_law(AMDAHL, [1, 1, 2, 2], [99.0, 101.0, 189.0, 191.0])
    assert len(fit.residuals) == 4
    assert fit.shares["serial"].low < 2 / 1.9 - 1 < fit.shares["serial"].high


@pytest.mark.parametrize("wrong", [0.0, -3.0, float("nan"), float("inf")])
def test_a_throughput_that_is_no_positive_number_is_refused(wrong: float) -> None:
    with pytest.raises(ConfigError, match="is not a positive number"):
        fit_law(AMDAHL, [1, 2, 4], [100.0, 190.0, wrong])


def test_one_count_fits_no_law() -> None:
    with pytest.raises(ConfigError, match="1 card count measured"):
        fit_law(AMDAHL, [2, 2], [100.0, 101.0])
    with pytest.raises(ConfigError, match="at least 2"):
        choose_law([2], [100.0])


def test_two_counts_do_not_fit_three_coefficients() -> None:
    with pytest.raises(ConfigError, match="usl has 3 coefficients"):
        fit_law(USL, [1, 2], [100.0, 190.0])


def test_an_unknown_law_names_the_known_ones() -> None:
    with pytest.raises(ConfigError, match="did you mean amdahl"):
        fit_law("amdal", [1, 2], [100.0, 190.0])
