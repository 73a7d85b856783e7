"""What a series of step times says: the median, its interval, its spread. Shared by the ranks and the analysis."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

RESAMPLES = 1000


@dataclass(frozen=True)
class StepTime:
    """The median step time in seconds with its 95 % interval; cv is standard deviation / mean.

    The interval is None for fewer than three steps: one sample has no spread, and that is not the same as no error.
    """

    median: float | None
    ci95_low: float | None
    ci95_high: float | None
    cv: float | None


def block_bootstrap(
    series: Sequence[float] | NDArray[np.float64], resamples: int = RESAMPLES, seed: int = 0
) -> NDArray[np.float64]:
    """Medians of `resamples` moving-block resamples of `series`, shape (resamples,).

    Blocks of about n^(1/3) consecutive samples keep the autocorrelation of neighbouring steps (Künsch 1989; the rate
    is that of Hall, Horowitz and Jing 1995). Deterministic for a given seed. Raises ValueError on an empty series.
    """
    values = np.asarray(series, dtype=np.float64)
    n = values.size
    if n == 0:
        raise ValueError("a bootstrap needs at least one sample")
    block = max(1, round(n ** (1 / 3)))
    count = math.ceil(n / block)
    starts = np.random.default_rng(seed).integers(0, n - block + 1, size=(resamples, count))
    index = (starts[:, :, None] + np.arange(block)).reshape(resamples, -1)[:, :n]
    medians: NDArray[np.float64] = np.median(values[index], axis=1)
    return medians


def summarise(series: Sequence[float] | NDArray[np.float64]) -> StepTime:
    """Median, 95 % interval (percentiles of the block bootstrap) and coefficient of variation of step times."""
    values = np.asarray(series, dtype=np.float64)
    if values.size == 0:
        return StepTime(None, None, None, None)
    median = float(np.median(values))
    if values.size < 3:
        return StepTime(median, None, None, None)
    low, high = np.percentile(block_bootstrap(values), [2.5, 97.5])
    mean = float(values.mean())
    return StepTime(median, float(low), float(high), float(values.std(ddof=1)) / mean if mean > 0 else None)


def relative_width(step: StepTime) -> float:
    """Half the interval's width as a share of the median; infinite where there is no interval."""
    if not step.median or step.ci95_low is None or step.ci95_high is None:
        return math.inf
    return (step.ci95_high - step.ci95_low) / 2 / step.median
