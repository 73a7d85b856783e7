"""Whether a run's steps are steady: single slow steps, a drift over the run, and steps that slow as the clocks fall."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import stdtr

from analysis.scaling import STEPS
from analysis.scaling.series import column, is_measured, texts

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]
WINDOW = 11  # steps; the local median that an outlier is judged against
OUTLIER_MADS = 6.0  # median absolute deviations, scaled to a standard deviation
LEAST_OUTLIER = 0.10  # a step within a tenth of its neighbours is no outlier, however steady they are
LEAST_DRIFT, DRIFT_P = 0.02, 0.01  # over the run; and the chance of such a trend without one
THROTTLED_CLOCK, THROTTLED_TIME = 0.95, 1.02  # clock below this share of the run's best, step above this of its usual
FEWEST_STEPS = 8
RUNS_AT_ONCE = 512  # runs x steps x window stay in the processor's cache
CLOCKS = "device.step_sm_clock_mhz"


@dataclass(frozen=True)
class Steadiness:
    """What one run's step times show; step numbers count from 0.

    outliers: steps far above or below their neighbours. drift: relative change from the first to the last step along
    the trend, 0 where it is small or may be chance. drift_p: chance of such a trend without one. throttled: steps that
    were slow while the clock was low. verdict: in words, blank where the run is steady.
    """

    outliers: tuple[int, ...]
    drift: float
    drift_p: float
    throttled: tuple[int, ...]
    verdict: str


def steadiness(times_s: Sequence[float] | Floats, clocks_mhz: Sequence[float] | Floats | None = None) -> Steadiness:
    """Judge the step times of one run, in order; clocks_mhz: the lowest card clock during each step, where sampled.

    Fewer than 8 steps cannot show an outlier or a drift. Steps that are NaN are not judged. Raises ValueError where
    there is not one clock a step.
    """
    times = np.asarray(times_s, dtype=np.float64)
    known = np.flatnonzero(np.isfinite(times))
    outlier, drift, drift_p = _judge(times[known][None, :])
    throttled = np.array([], dtype=np.int64) if clocks_mhz is None else _throttled(times, np.asarray(clocks_mhz))
    return _verdict(len(times), known[outlier[0]], float(drift[0]), float(drift_p[0]), throttled)


def steadiness_table(frame: pd.DataFrame) -> pd.DataFrame:
    """One row a measured cell that lists its steps.

    Columns: cell_id, steps, outliers (count), drift (relative, over the run), throttled (count of steps), verdict.
    Clocks are read from device.step_sm_clock_mhz where the record lists one a step; where there is none, a card that
    reported `device.throttled` is said to.
    """
    frame = frame[is_measured(frame)]
    listed = [np.asarray(v, dtype=np.float64) if _is_list(v) else np.array([]) for v in column(frame, STEPS)]
    found = _judge_all(listed)
    cells, clocks = texts(frame, "cell_id").tolist(), column(frame, CLOCKS).tolist()
    reported = texts(frame, "device.throttled").str.lower().eq("true").tolist()
    rows = []
    for i in sorted(found):
        times, outliers, drift, drift_p = listed[i], *found[i]
        has_clocks = _is_list(clocks[i]) and len(clocks[i]) == len(times)
        throttled = _throttled(times, np.asarray(clocks[i])) if has_clocks else np.array([], dtype=np.int64)
        run = _verdict(len(times), outliers, drift, drift_p, throttled)
        said = [run.verdict] * bool(run.verdict) + ["the card reported throttling"] * (reported[i] and not has_clocks)
        rows.append((cells[i], len(times), len(outliers), drift, len(throttled), "; ".join(said)))
    return pd.DataFrame(rows, columns=["cell_id", "steps", "outliers", "drift", "throttled", "verdict"])


def _judge_all(listed: list[Floats]) -> dict[int, tuple[NDArray[np.int64], float, float]]:
    """(outlying steps, drift, p) of each run that lists any steps; runs of one length are judged at once."""
    known = {i: np.flatnonzero(np.isfinite(times)) for i, times in enumerate(listed) if len(times)}
    by_length: dict[int, list[int]] = {}
    for i, steps in known.items():
        by_length.setdefault(len(steps), []).append(i)
    found = {}
    for alike in by_length.values():
        for start in range(0, len(alike), RUNS_AT_ONCE):
            runs = alike[start : start + RUNS_AT_ONCE]
            outlier, drift, p = _judge(np.stack([listed[i][known[i]] for i in runs]))
            for row, i in enumerate(runs):
                found[i] = (known[i][outlier[row]], float(drift[row]), float(p[row]))
    return found


def _judge(times: Floats) -> tuple[Flags, Floats, Floats]:
    """(outlier flags, drift, p) of runs of one length, shape (runs, steps)."""
    runs, steps = times.shape
    if steps < FEWEST_STEPS:
        return np.zeros(times.shape, dtype=bool), np.zeros(runs), np.ones(runs)
    outlier = _outliers(times)
    drift, p = _drift(times, ~outlier)
    real = (p < DRIFT_P) & (np.abs(drift) >= LEAST_DRIFT)
    return outlier, np.where(real, drift, 0.0), p


def _outliers(times: Floats) -> Flags:
    """Hampel's identifier: steps farther from the local median than the run's median absolute deviation allows."""
    half = min(WINDOW, times.shape[1]) // 2
    padded = np.pad(times, ((0, 0), (half, half)), mode="reflect")
    local = np.median(np.lib.stride_tricks.sliding_window_view(padded, 2 * half + 1, axis=1), axis=2)
    off = np.abs(times - local)
    scale = 1.4826 * np.median(off, axis=1, keepdims=True)
    flags: Flags = off > np.maximum(OUTLIER_MADS * scale, LEAST_OUTLIER * local)
    return flags


def _drift(times: Floats, kept: Flags) -> tuple[Floats, Floats]:
    """(relative change over the run, p) of the least-squares line through the kept steps.

    Neighbouring steps are not independent: the slope's variance grows by (1 + r)/(1 - r), r the lag-1 autocorrelation
    of what the line leaves.
    """
    weight = kept.astype(np.float64)
    count = weight.sum(axis=1)
    step = np.arange(times.shape[1]) - (weight * np.arange(times.shape[1])).sum(axis=1, keepdims=True) / count[:, None]
    mean = (weight * times).sum(axis=1) / count
    spread = (weight * step**2).sum(axis=1)
    slope = (weight * step * times).sum(axis=1) / spread
    left = weight * (times - mean[:, None] - slope[:, None] * step)
    squares = (left**2).sum(axis=1)
    with np.errstate(invalid="ignore", divide="ignore"):
        r = np.clip(np.nan_to_num((left[:, 1:] * left[:, :-1]).sum(axis=1) / squares), 0.0, 0.95)
        error = np.sqrt(squares / (count - 2) / spread * (1 + r) / (1 - r))
        score = np.abs(slope) / error
    p = 2 * stdtr(count - 2, -np.where(np.isfinite(score), score, np.where(slope == 0, 0.0, 1e3)))
    return slope * (times.shape[1] - 1) / mean, np.asarray(p, dtype=np.float64)


def _throttled(times: Floats, clocks: Floats) -> NDArray[np.int64]:
    """Steps slower than those at full clock, taken while the clock was low."""
    if clocks.shape != times.shape:
        raise ValueError(f"{clocks.size} clocks for {times.size} steps")
    if not np.isfinite(clocks).any():
        return np.array([], dtype=np.int64)
    low = clocks < THROTTLED_CLOCK * np.nanmax(clocks)
    return np.flatnonzero(low & (times > THROTTLED_TIME * np.nanmedian(times[~low])))


def _verdict(
    steps: int, outliers: NDArray[np.int64], drift: float, drift_p: float, throttled: NDArray[np.int64]
) -> Steadiness:
    said = []
    if len(outliers):
        said.append(f"{len(outliers)} of {steps} steps far from their neighbours: {_listed(outliers)}")
    if drift:
        said.append(f"steps drift by {100 * drift:+.1f} % over the run")
    if len(throttled):
        said.append(f"{len(throttled)} steps slow while the clock is low: {_listed(throttled)}")
    return Steadiness(tuple(map(int, outliers)), drift, drift_p, tuple(map(int, throttled)), "; ".join(said))


def _listed(steps: NDArray[np.int64]) -> str:
    shown = ", ".join(str(i) for i in steps[:5])
    return f"{shown}, ..." if len(steps) > 5 else shown


def _is_list(value: Any) -> bool:
    return isinstance(value, (list, tuple, np.ndarray)) and len(value) > 0
