"""What a matmul sweep says of a card: FLOP/s by shape, and the line that carries them to shapes that were not measured.

time = launch + FLOPs / rate, both at least 0, by least squares of the relative deviation: small products wait for their
launch, large ones for the units that multiply.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analysis.scaling.series import numbers, texts

RESAMPLES = 200
LEAST_SHAPES = 3  # a line through two shows no scatter


@dataclass(frozen=True)
class MatmulFit:
    """A line through the measured shapes of one type. tflops: its slope, with 95 % interval; launch_us: its start.

    error: median relative deviation of a shape from the line. own_tflops: of all products of the measured model's
    micro-batch together, None where only squares were measured.
    """

    dtype: str
    shapes: int
    launch_us: float
    tflops: float
    tflops_low: float
    tflops_high: float
    error: float
    own_tflops: float | None

    def time_us(self, flops: float) -> float:
        return self.launch_us + flops / self.tflops / 1e6


def fit_matmul(rows: pd.DataFrame, dtype: str) -> MatmulFit | None:
    """The fit of `rows` (the record's matmul section) of one type; None for fewer than LEAST_SHAPES shapes."""
    chosen = rows[(texts(rows, "dtype") == dtype).to_numpy() & (numbers(rows, "time_us") > 0)]
    if len(chosen) < LEAST_SHAPES:
        return None
    m, n, k, times = (numbers(chosen, name) for name in ("m", "n", "k", "time_us"))
    flops = 2.0 * m * n * k
    launch, slope = _line(flops, times)
    draws = np.random.default_rng(0).integers(0, len(times), size=(RESAMPLES, len(times)))
    slopes = np.array([_line(flops[draw], times[draw])[1] for draw in draws])
    low, high = np.percentile(slopes[slopes > 0], [2.5, 97.5]) if (slopes > 0).any() else (slope, slope)
    calls = np.nan_to_num(numbers(chosen, "calls"))
    spent = float((calls * times).sum())
    return MatmulFit(
        dtype=dtype,
        shapes=len(times),
        launch_us=launch,
        tflops=1e-6 / slope,
        tflops_low=min(1e-6 / float(high), 1e-6 / slope),
        tflops_high=max(1e-6 / float(low), 1e-6 / slope),
        error=float(np.median(np.abs((launch + slope * flops) / times - 1))),
        own_tflops=float((calls * flops).sum()) / spent / 1e6 if spent else None,
    )


def rate_of(fit: MatmulFit, products: Sequence[tuple[float, float]]) -> float:
    """TFLOP/s of (FLOPs, calls) one after the other, as the fit has them; NaN for none."""
    spent = sum(calls * fit.time_us(flops) for flops, calls in products)
    return sum(calls * flops for flops, calls in products) / spent / 1e6 if spent else math.nan


def _line(flops: NDArray[np.float64], times_us: NDArray[np.float64]) -> tuple[float, float]:
    """(launch, us a FLOP), neither negative, of the least squared relative deviation."""
    a, b = 1 / times_us, flops / times_us
    aa, bb, ab, sa, sb = (a * a).sum(), (b * b).sum(), (a * b).sum(), a.sum(), b.sum()
    determinant = aa * bb - ab * ab
    if determinant > 1e-12 * aa * bb:
        launch, slope = (sa * bb - sb * ab) / determinant, (sb * aa - sa * ab) / determinant
        if launch >= 0 and slope > 0:
            return float(launch), float(slope)
    return 0.0, float(sb / bb)
