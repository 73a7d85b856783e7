"""Amdahl's, Gustafson's and the Universal Scalability Law, fitted to throughput over cards, with 95 % intervals.

With X1 the throughput of one card and n the cards,
    amdahl     X = X1 n / (1 + s (n-1))                   s: serial share of the work (Amdahl 1967)
    gustafson  X = X1 (n - s (n-1))                       s: serial share of the time (Gustafson 1988)
    usl        X = X1 n / (1 + s (n-1) + k n (n-1))       s: contention, k: crosstalk (Gunther 1993)
Each is linear in its coefficients once written as n/X (Gustafson: X), so a least-squares fit of the relative residuals,
reweighted by the fitted values, finds the one minimum. Intervals are Student's t on the delta method.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit  # quantile of Student's t

from configs.errors import ConfigError, choose

Floats = NDArray[np.float64]
REWEIGHTINGS = 4
AMDAHL, GUSTAFSON, USL = "amdahl", "gustafson", "usl"
COEFFICIENTS = {AMDAHL: 2, GUSTAFSON: 2, USL: 3}
NAMES = {AMDAHL: ("serial",), GUSTAFSON: ("serial",), USL: ("contention", "crosstalk")}
PEAK_DRAWS = 4000


@dataclass(frozen=True)
class Estimate:
    """A fitted value with its 95 % interval; the interval is NaN where no residual is left to judge by."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class LawFit:
    """One law fitted to one series.

    rate_one_card: tokens/s. shares: `serial`, or `contention` and `crosstalk`; never negative. residuals: measured over
    fitted - 1, one a point. cv_error: root mean square of the relative error at each count when it is left out, NaN
    with too few counts. peak_cards: past it more cards make the job slower; None where the law has no such point.
    notes: what a reader must know.
    """

    law: str
    rate_one_card: Estimate
    shares: dict[str, Estimate]
    residuals: tuple[float, ...]
    cv_error: float
    peak_cards: Estimate | None
    notes: tuple[str, ...]

    def throughput(self, cards: Sequence[float] | Floats) -> Floats:
        """Tokens/s of the law at each of `cards`."""
        n = np.asarray(cards, dtype=np.float64)
        share = [self.shares[name].value for name in NAMES[self.law]]
        return self.rate_one_card.value * _speedup(self.law, n, *share)


def _speedup(law: str, n: Floats, share: float, crosstalk: float = 0.0) -> Floats:
    if law == GUSTAFSON:
        return n - share * (n - 1)
    return np.asarray(n / (1 + share * (n - 1) + crosstalk * n * (n - 1)), dtype=np.float64)


def fit_law(law: str, cards: Sequence[float] | Floats, rate: Sequence[float] | Floats) -> LawFit:
    """Fit `law` to throughput `rate` (tokens/s of the whole job) at `cards`; several points at one count are repeats.

    Raises ConfigError on an unknown law, a point that is no positive number, or fewer counts than coefficients.
    """
    choose("law", law, COEFFICIENTS)
    n, x = _checked(law, cards, rate)
    coefficients, covariance = fit_coefficients(law, n, x)
    constrained = _constrained(law, n, x, coefficients)
    intervals, values = share_intervals(law, coefficients, covariance, len(n)), _to_shares(law, constrained)
    estimates = {
        name: Estimate(float(value), float(np.maximum(low, 0.0)), float(np.maximum(high, value)))  # NaN stays NaN
        for name, value, (low, high) in zip(NAMES[law], values, intervals, strict=True)
    }
    one = 1 / constrained[0] if law != GUSTAFSON else constrained.sum()
    fitted = one * _speedup(law, n, *values)
    notes = []
    if (_to_shares(law, coefficients) < -1e-12).any():
        notes.append("faster than linear: a share came out negative and is held at 0")
    if len(n) == COEFFICIENTS[law]:
        notes.append("as many coefficients as points: no interval")
    return LawFit(
        law=law,
        rate_one_card=Estimate(float(one), *_rate_interval(law, coefficients, covariance, len(n), float(one))),
        shares=estimates,
        residuals=tuple(float(r) for r in x / fitted - 1),
        cv_error=_left_out_error(law, n, x),
        peak_cards=_peak(values, coefficients, covariance, len(n)) if law == USL else None,
        notes=tuple(notes),
    )


def choose_law(cards: Sequence[float] | Floats, rate: Sequence[float] | Floats) -> list[LawFit]:
    """Every law that the points allow, the one with the smallest left-out error first.

    A law with more coefficients must beat a simpler one by more than a tenth of the error: on noise it often wins by a
    hair. Laws that cannot be cross-validated come last. Raises ConfigError where no law can be fitted.
    """
    counts = len({float(c) for c in cards})
    fits = [fit_law(law, cards, rate) for law in COEFFICIENTS if counts >= COEFFICIENTS[law]]
    if not fits:
        raise ConfigError("law", f"{counts} card count measured", "at least 2")
    penalty = {law: 1.0 + 0.1 * (COEFFICIENTS[law] - 2) for law in COEFFICIENTS}
    return sorted(fits, key=lambda fit: fit.cv_error * penalty[fit.law] if np.isfinite(fit.cv_error) else np.inf)


def fit_coefficients(law: str, n: Floats, x: Floats) -> tuple[Floats, Floats]:
    """Unconstrained least squares of the relative residuals: coefficients (..., p) and their covariance (..., p, p).

    n: cards, shape (points,); x: throughput, shape (..., points), so that many series are fitted at once. The
    coefficients are those of n/X in 1, n-1, n(n-1), or of X in 1, n for Gustafson. NaN covariance without residuals.
    """
    design = _design(law, n)
    y = x if law == GUSTAFSON else n / x
    fitted = y
    for _ in range(REWEIGHTINGS):
        scaled = design / fitted[..., :, None]
        target = (y / fitted)[..., :, None]
        gram = np.swapaxes(scaled, -1, -2) @ scaled
        coefficients = np.linalg.solve(gram, np.swapaxes(scaled, -1, -2) @ target)[..., 0]
        new = coefficients @ design.T
        fitted = np.where(new > 0, new, fitted)
    free = len(n) - design.shape[1]
    residual = y / fitted - 1
    variance = (residual**2).sum(axis=-1) / free if free > 0 else np.full(x.shape[:-1], np.nan)
    covariance: Floats = np.linalg.inv(gram) * variance[..., None, None]
    return np.asarray(coefficients, dtype=np.float64), covariance


def share_intervals(law: str, coefficients: Floats, covariance: Floats, points: int) -> Floats:
    """95 % intervals of the law's shares, shape (..., shares, 2), before they are held at 0 or above."""
    value = _to_shares(law, coefficients)
    gradient = _gradient(law, coefficients)
    variance = np.einsum("...si,...ij,...sj->...s", gradient, covariance, gradient)
    half = _t_quantile(points - COEFFICIENTS[law]) * np.sqrt(np.maximum(variance, 0))
    return np.stack([value - half, value + half], axis=-1)


def _design(law: str, n: Floats) -> Floats:
    columns: dict[str, Callable[[], list[Floats]]] = {
        AMDAHL: lambda: [np.ones_like(n), n - 1],
        GUSTAFSON: lambda: [np.ones_like(n), n],
        USL: lambda: [np.ones_like(n), n - 1, n * (n - 1)],
    }
    return np.stack(columns[law](), axis=-1)


def _to_shares(law: str, coefficients: Floats) -> Floats:
    """n/X = a + b (n-1) + c n(n-1): shares b/a and c/a. X = a + b n: the serial share is a / (a + b)."""
    if law == GUSTAFSON:
        return np.asarray(coefficients[..., :1] / coefficients.sum(axis=-1, keepdims=True), dtype=np.float64)
    return np.asarray(coefficients[..., 1:] / coefficients[..., :1], dtype=np.float64)


def _gradient(law: str, coefficients: Floats) -> Floats:
    """Derivative of the shares by the coefficients, shape (..., shares, coefficients)."""
    a = coefficients[..., 0]
    if law == GUSTAFSON:
        total = coefficients.sum(axis=-1)
        return np.stack([coefficients[..., 1] / total**2, -a / total**2], axis=-1)[..., None, :]
    rows = []
    for i in range(1, coefficients.shape[-1]):
        row = np.zeros_like(coefficients)
        row[..., 0], row[..., i] = -coefficients[..., i] / a**2, 1 / a
        rows.append(row)
    return np.stack(rows, axis=-2)


def _t_quantile(free: int) -> float:
    return float(stdtrit(free, 0.975)) if free > 0 else float("nan")


def _rate_interval(law: str, coefficients: Floats, covariance: Floats, points: int, one: float) -> tuple[float, float]:
    gradient = np.ones(2) if law == GUSTAFSON else np.eye(len(coefficients))[0] / coefficients[0] ** 2
    half = _t_quantile(points - COEFFICIENTS[law]) * float(np.sqrt(gradient @ covariance @ gradient))
    return one - half, one + half


def _constrained(law: str, n: Floats, x: Floats, coefficients: Floats) -> Floats:
    """The best coefficients with no negative share: refitted with the negative one at 0, else with both at 0."""
    shares = _to_shares(law, coefficients)
    if (shares >= 0).all() and not (law == GUSTAFSON and coefficients[1] < 0):
        return coefficients
    if law == USL:
        if shares[0] >= 0 or shares[1] < 0:  # no crosstalk: Amdahl
            return np.append(_constrained(AMDAHL, n, x, fit_coefficients(AMDAHL, n, x)[0]), 0.0)
        without_contention = _weighted(np.stack([np.ones_like(n), n * (n - 1)], axis=-1), n / x)
        return np.array([without_contention[0], 0.0, max(without_contention[1], 0.0)])
    if law == GUSTAFSON:  # X = b n, or X = a where more cards bring nothing
        return np.array([0.0, np.mean(x / n)]) if coefficients[0] < 0 else np.array([np.mean(x), 0.0])
    return np.array([np.mean(n / x), 0.0])


def _weighted(design: Floats, y: Floats) -> Floats:
    return np.asarray(np.linalg.lstsq(design / y[:, None], np.ones_like(y), rcond=None)[0], dtype=np.float64)


def _left_out_error(law: str, n: Floats, x: Floats) -> float:
    """Root mean square relative error at each count, fitted without it. Repeats of a count leave together."""
    counts = np.unique(n)
    if len(counts) <= COEFFICIENTS[law]:
        return float("nan")
    errors = []
    for count in counts:
        rest = n != count
        left = _constrained(law, n[rest], x[rest], fit_coefficients(law, n[rest], x[rest])[0])
        one = 1 / left[0] if law != GUSTAFSON else left.sum()
        fitted = one * _speedup(law, np.array([count]), *_to_shares(law, left))
        errors.extend(x[~rest] / fitted - 1)
    return float(np.sqrt(np.mean(np.square(errors))))


def _peak(shares: Floats, coefficients: Floats, covariance: Floats, points: int) -> Estimate | None:
    """sqrt((1 - contention) / crosstalk) with its interval, from draws of the coefficients; None without crosstalk."""
    if shares[1] <= 0:
        return None
    value = float(np.sqrt(max(1 - shares[0], 0.0) / shares[1]))
    free = points - COEFFICIENTS[USL]
    if free <= 0:
        return Estimate(max(value, 1.0), float("nan"), float("nan"))
    rng = np.random.default_rng(0)
    normal = rng.standard_normal((PEAK_DRAWS, 3)) @ np.linalg.cholesky(covariance).T
    drawn = _to_shares(USL, coefficients + normal * np.sqrt(free / rng.chisquare(free, (PEAK_DRAWS, 1))))
    crosstalk = np.maximum(drawn[:, 1], 0.0)
    with np.errstate(divide="ignore"):
        peaks = np.sqrt(np.maximum(1 - drawn[:, 0], 0.0) / crosstalk)
    low, high = np.quantile(peaks, [0.025, 0.975], method="lower")
    return Estimate(max(value, 1.0), max(float(low), 1.0), float(high))


def _checked(law: str, cards: Sequence[float] | Floats, rate: Sequence[float] | Floats) -> tuple[Floats, Floats]:
    n, x = np.asarray(cards, dtype=np.float64), np.asarray(rate, dtype=np.float64)
    if n.shape != x.shape or n.ndim != 1:
        raise ConfigError(f"law {law}", f"{n.size} card counts for {x.size} throughputs", "one of each a point")
    for what, values in (("cards", n), ("throughput", x)):
        wrong = ~(np.isfinite(values) & (values > 0))
        if wrong.any():
            raise ConfigError(f"law {law}", f"{what} {values[wrong][0]} is not a positive number")
    counts = len(np.unique(n))
    if counts < COEFFICIENTS[law]:
        need = f"{law} has {COEFFICIENTS[law]} coefficients: as many counts at least"
        raise ConfigError(f"law {law}", f"{counts} card count{'s' if counts != 1 else ''} measured", need)
    order = np.argsort(n, kind="stable")
    return n[order], x[order]
