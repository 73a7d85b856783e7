"""Fit time = alpha + bytes / bandwidth to the sizes of one collective, in pieces where the protocol switches.

alpha-beta is the model of Hockney 1994; NCCL changes protocol and algorithm with size, so one line does not hold from
1 KiB to 1 GiB. Robust throughout: a size counts by its median time, and lines are the ones of least absolute relative
deviation, so that a minority of disturbed sizes does not move them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

MOST_POINTS = 48  # a longer size list is thinned by medians of neighbours; the cost grows with the fourth power
LEAST_SIZES = 3  # of a piece: two would go through any disturbed size exactly
PIECE_COST = 0.10  # what one more piece must save in the sum of relative deviations
MOST_DEVIATION = 0.25  # what one size can add to that sum: beyond it is disturbed, and no reason for a piece
RESAMPLES = 200


@dataclass(frozen=True)
class Piece:
    """time_us = alpha_us + bytes / (1e3 x algbw_gbps), for sizes up to `to_bytes`, with 95 % intervals.

    algbw is GB/s in powers of ten; infinite where time does not grow with size (latency only). A `bridge` only joins
    the pieces around a switch of protocol: its alpha is no latency and its rate no bandwidth.
    """

    from_bytes: float
    to_bytes: float
    alpha_us: float
    alpha_low_us: float
    alpha_high_us: float
    algbw_gbps: float
    algbw_low_gbps: float
    algbw_high_gbps: float
    bridge: bool = False

    def time_us(self, size_bytes: float) -> float:
        return self.alpha_us + size_bytes / self.algbw_gbps / 1e3


def fit_pieces(sizes: Sequence[float], times_us: Sequence[float]) -> tuple[Piece, ...]:
    """Pieces for measured (size in bytes, time in us), any order, sizes may repeat. Empty for fewer than two sizes."""
    x, y = points(sizes, times_us)
    if x.size < 2:
        return ()
    bounds = _segment(x, y)
    lines = [_line(x[a:b], y[a:b]) for a, b in bounds]
    fitted = iter(zip(bounds, lines, strict=True))  # the pieces that are no bridges come in this order
    return tuple(
        piece if piece.bridge else _with_intervals(piece, x, y, *next(fitted)) for piece in _join(x, bounds, lines)
    )


def predict(pieces: Sequence[Piece], size_bytes: float) -> float:
    """Time in us of one call, by the piece that holds its size."""
    piece = next((p for p in pieces if size_bytes <= p.to_bytes), pieces[-1])
    return piece.time_us(size_bytes)


def held_out_errors(sizes: Sequence[float], times_us: Sequence[float]) -> Array:
    """|predicted / measured - 1| of every inner size, each predicted by a fit that has not seen it.

    The first and the last size are never held out: that would test extrapolation.
    """
    x, y = points(sizes, times_us)
    errors = []
    for i in range(1, x.size - 1):
        seen, times = np.delete(x, i), np.delete(y, i)
        bounds = _segment(seen, times)
        pieces = _join(seen, bounds, [_line(seen[a:b], times[a:b]) for a, b in bounds])
        errors.append(abs(predict(pieces, float(x[i])) / y[i] - 1))
    return np.array(errors)


def points(sizes: Sequence[float], times_us: Sequence[float]) -> tuple[Array, Array]:
    """One point a size: ascending sizes and the median time of each, the lower of two middle ones.

    Disturbance only adds time, so of two that differ the lower is the better. Beyond MOST_POINTS sizes, neighbours are
    joined.
    """
    x, y = np.asarray(sizes, dtype=np.float64), np.asarray(times_us, dtype=np.float64)
    unique = np.unique(x)
    middle = np.array([np.percentile(y[x == size], 50, method="lower") for size in unique])
    if unique.size <= MOST_POINTS:
        return unique, middle
    groups = np.array_split(np.arange(unique.size), MOST_POINTS)
    return np.array([np.median(unique[g]) for g in groups]), np.array([np.median(middle[g]) for g in groups])


def _segment(x: Array, y: Array) -> list[tuple[int, int]]:
    """Index ranges [a, b) of the pieces with the least total deviation plus cost, by dynamic programming."""
    n = x.size
    least = min(LEAST_SIZES, n)
    best = [math.inf] * (n + 1)
    start = [0] * (n + 1)
    best[0] = 0.0
    for end in range(least, n + 1):
        for begin in range(0, end - least + 1):
            if math.isinf(best[begin]):
                continue
            line = _line(x[begin:end], y[begin:end])
            deviation = float(_deviations(x[begin:end], y[begin:end], *np.atleast_2d(line).T)[0])
            cost = best[begin] + deviation + (PIECE_COST if begin else 0.0)
            if cost < best[end]:
                best[end], start[end] = cost, begin
    bounds: list[tuple[int, int]] = []
    end = n
    while end > 0:
        bounds.insert(0, (start[end], end))
        end = start[end]
    return bounds


def _deviations(x: Array, y: Array, alphas: Array, betas: Array) -> Array:
    """The summed relative deviation of the points from each line, shape (lines,)."""
    each = np.abs(np.log((alphas[:, None] + betas[:, None] * x) / y))
    deviations: Array = np.minimum(each, MOST_DEVIATION).sum(axis=1)
    return deviations


def _line(x: Array, y: Array) -> tuple[float, float]:
    """(alpha, beta), neither negative, of least absolute relative deviation; beta in us a byte.

    Such a line goes through two of the points, or through one with alpha or beta at zero, so all of those are tried.
    """
    i, j = np.triu_indices(x.size, 1)
    slopes = (y[j] - y[i]) / (x[j] - x[i])
    starts = y[i] - slopes * x[i]
    fine = (slopes >= 0) & (starts >= 0)
    zeros = np.zeros_like(y)
    alphas = np.concatenate([starts[fine], y, zeros])
    betas = np.concatenate([slopes[fine], zeros, y / x])
    best = int(np.argmin(_deviations(x, y, alphas, betas)))
    return float(alphas[best]), float(betas[best])


def _join(x: Array, bounds: Sequence[tuple[int, int]], lines: Sequence[tuple[float, float]]) -> list[Piece]:
    """The lines as pieces without intervals: they end where they meet, else a bridge leads from one to the next."""
    pieces: list[Piece] = []
    begin = 0.0
    for i, (alpha, beta) in enumerate(lines):
        if i == len(lines) - 1:
            pieces.append(_piece(begin, math.inf, alpha, beta))
            break
        low, high = float(x[bounds[i][1] - 1]), float(x[bounds[i + 1][0]])
        next_alpha, next_beta = lines[i + 1]
        meeting = (next_alpha - alpha) / (beta - next_beta) if beta != next_beta else math.nan
        if low <= meeting <= high:
            pieces.append(_piece(begin, meeting, alpha, beta))
            begin = meeting
            continue
        pieces.append(_piece(begin, low, alpha, beta))
        start, end = alpha + beta * low, next_alpha + next_beta * high
        slope = (end - start) / (high - low)
        pieces.append(_piece(low, high, start - slope * low, slope, bridge=True))
        begin = high
    return pieces


def _piece(begin: float, end: float, alpha: float, beta: float, bridge: bool = False) -> Piece:
    rate = 1e-3 / beta if beta else math.inf
    return Piece(begin, end, alpha, alpha, alpha, rate, rate, rate, bridge)


def _with_intervals(piece: Piece, x: Array, y: Array, bounds: tuple[int, int], line: tuple[float, float]) -> Piece:
    if bounds[1] - bounds[0] < LEAST_SIZES:  # two sizes show no scatter: all of the time may be transfer, or latency
        low, high = float(x[bounds[1] - 1] / y[bounds[1] - 1] / 1e3), math.inf
        most = float(y[bounds[0]])
        return replace(piece, alpha_low_us=0.0, alpha_high_us=most, algbw_low_gbps=low, algbw_high_gbps=high)
    alphas, betas = _resampled(x[slice(*bounds)], y[slice(*bounds)], *line)
    alpha_low, alpha_high = (float(bound) for bound in np.percentile(alphas, [2.5, 97.5]))
    beta_low, beta_high = (float(bound) for bound in np.percentile(betas, [2.5, 97.5]))
    return replace(
        piece,
        alpha_low_us=min(alpha_low, piece.alpha_us),
        alpha_high_us=max(alpha_high, piece.alpha_us),
        algbw_low_gbps=min(1e-3 / beta_high if beta_high > 0 else math.inf, piece.algbw_gbps),
        algbw_high_gbps=max(1e-3 / beta_low if beta_low > 0 else math.inf, piece.algbw_gbps),
    )


def _resampled(x: Array, y: Array, alpha: float, beta: float) -> tuple[Array, Array]:
    """alpha and beta of lines through resampled residuals, shape (RESAMPLES,) each; deterministic."""
    fitted = alpha + beta * x
    ratios = y / fitted
    draws = np.random.default_rng(0).integers(0, x.size, size=(RESAMPLES, x.size))
    lines = np.array([_line(x, fitted * ratios[draw]) for draw in draws])
    return lines[:, 0], lines[:, 1]
