"""Whether numbers hold: the spread between runs of one cell, and whether one mode really beats another."""

from __future__ import annotations

import numpy as np
import pandas as pd
from scipy.special import chdtrc, stdtr, stdtrit

from analysis.scaling import HIGH, LOW, MEDIAN
from analysis.scaling.series import is_measured, label_series, numbers, texts

# What two modes must share to be compared: the same work on the same cards.
SAME_WORK = (
    *("study", "workload.model", "workload.recipe", "workload.precision", "workload.seq_len"),
    *("workload.global_batch_tokens", "workload.scaling", "device.name", "parallel.cards", "parallel.threads_per_rank"),
)
SIGNIFICANT = 0.05


def repeat_table(frame: pd.DataFrame) -> pd.DataFrame:
    """One row a series and card count: how far repeated runs lie apart, next to how far the steps of one run do.

    Columns: series, model, mode, scaling, cards, runs, tokens_per_s (median of the runs), between_cv (standard
    deviation of the runs / mean, NaN for one run), within_cv (median of the runs' step cv), within_se (relative
    standard error that the steps' 95 % interval implies), p_same (chi-square probability of a between-run spread this
    large if the steps' own errors were all there is), flag.
    """
    frame = frame.reset_index(drop=True)
    labels = label_series(frame)
    median, low, high = (numbers(frame, name) for name in (MEDIAN, LOW, HIGH))
    rows = pd.DataFrame(
        {
            **{name: labels[name] for name in ("series", "model", "mode", "scaling")},
            "cards": numbers(frame, "parallel.cards"),
            "rate": numbers(frame, "throughput.tokens_per_s"),
            "cv": numbers(frame, "throughput.step_time_s.cv"),
            "se": (high - low) / (2 * 1.96) / median,
        }
    )[is_measured(frame)]
    rows["weight"] = 1 / rows["se"] ** 2
    rows["weighted_rate"] = rows["rate"] * rows["weight"]
    by = rows.groupby(["series", "model", "mode", "scaling", "cards"], sort=False)
    table = by.agg(
        runs=("rate", "size"), tokens_per_s=("rate", "median"), within_cv=("cv", "median"), within_se=("se", "median")
    )
    table["between_cv"] = by["rate"].std() / by["rate"].mean()
    expected = by["weighted_rate"].transform("sum") / by["weight"].transform("sum")
    rows["squared"] = ((rows["rate"] / expected - 1) / rows["se"]) ** 2
    chi_square = by["squared"].sum().where(by["squared"].count() == table["runs"])
    table["p_same"] = np.where(table["runs"] > 1, chdtrc(table["runs"] - 1, chi_square), np.nan)
    table["flag"] = np.select(
        [table["runs"] == 1, table["p_same"] < SIGNIFICANT],
        ["one run: its spread between runs is not known", "runs differ by more than their steps explain"],
        default="",
    )
    order = ["runs", "tokens_per_s", "between_cv", "within_cv", "within_se", "p_same", "flag"]
    return table[order].reset_index()


def compare_modes(frame: pd.DataFrame) -> pd.DataFrame:
    """Every pair of modes that did the same work on the same number of cards, one row a pair, the faster one first.

    Columns: model, cards, faster, slower, ratio (of mean throughputs), low, high (95 %), p_value (two-sided, corrected
    after Holm over all pairs of the table), beats (bool: significant at 5 %), basis.
    basis: `runs` where both modes have repeats (Welch's t on the logarithms, no tighter than the steps allow), `steps`
    of single runs (their recorded intervals), which says nothing about another run; blank where neither is there.
    """
    by_mode = _by_work_and_mode(frame.reset_index(drop=True))
    pairs = by_mode.merge(by_mode, on="work", suffixes=("_a", "_b"))
    first = (pairs["log_rate_a"] > pairs["log_rate_b"]) | (
        (pairs["log_rate_a"] == pairs["log_rate_b"]) & (pairs["mode_a"] < pairs["mode_b"])
    )
    pairs = pairs[first & (pairs["mode_a"] != pairs["mode_b"])].reset_index(drop=True)
    repeated = (pairs["runs_a"] > 1) & (pairs["runs_b"] > 1)
    error, free = difference_error(pairs, repeated)
    difference = pairs["log_rate_a"] - pairs["log_rate_b"]
    half = stdtrit(free, 0.975) * error
    table = pd.DataFrame(
        {
            "model": pairs["model_a"],
            "cards": pairs["cards_a"].astype(int),
            "faster": pairs["mode_a"],
            "slower": pairs["mode_b"],
            "ratio": np.exp(difference),
            "low": np.exp(difference - half),
            "high": np.exp(difference + half),
            "p_value": holm(2 * stdtr(free, -difference / error)),
        }
    )
    table["beats"] = table["p_value"] < SIGNIFICANT
    table["basis"] = np.select([error.isna(), repeated], ["", "runs"], default="steps")
    return table


def _by_work_and_mode(frame: pd.DataFrame) -> pd.DataFrame:
    """One row a mode and piece of work: work (number), mode, model, cards, runs, log_rate, and its two errors.

    between: standard error of the mean log rate over runs, NaN for one run. within: the same from the steps alone.
    """
    frame = training_runs(frame)
    keys = pd.DataFrame({name: texts(frame, name) for name in SAME_WORK if name in frame.columns})
    rows = pd.DataFrame(
        {
            "work": keys.groupby(list(keys.columns), sort=False).ngroup(),
            "mode": texts(frame, "parallel.mode"),
            "model": texts(frame, "workload.model"),
            "cards": numbers(frame, "parallel.cards"),
        }
    )
    table = rows.groupby(["work", "mode"], sort=False)[["model", "cards"]].first()
    return table.join(mean_log_rates(frame, rows[["work", "mode"]])).reset_index()


def training_runs(frame: pd.DataFrame) -> pd.DataFrame:
    """The measured fine-tuning cells of `frame`, with a fresh index."""
    measured = is_measured(frame) & texts(frame, "benchmark").isin(["", "finetune"]).to_numpy()
    return frame[measured].reset_index(drop=True)


def mean_log_rates(runs: pd.DataFrame, by: pd.DataFrame) -> pd.DataFrame:
    """One row a group of `runs` that agree in `by` (same index), indexed by its columns: runs, log_rate, two errors.

    log_rate: mean of the logarithm of tokens/s. between: its standard error over runs, NaN for one run. within: the
    same from the steps' recorded 95 % intervals alone.
    """
    rows = by.assign(
        log_rate=np.log(numbers(runs, "throughput.tokens_per_s")),
        squared_error=(np.log(numbers(runs, HIGH) / numbers(runs, LOW)) / (2 * 1.96)) ** 2,
    )
    groups = rows.groupby(list(by.columns), sort=False)
    table = groups.agg(runs=("log_rate", "size"), log_rate=("log_rate", "mean"))
    table["between"] = groups["log_rate"].std() / np.sqrt(table["runs"])
    table["within"] = np.sqrt(groups["squared_error"].mean() / table["runs"])
    return table


def difference_error(pairs: pd.DataFrame, repeated: pd.Series[bool]) -> tuple[pd.Series[float], pd.Series[float]]:
    """(standard error of the difference of log rates, degrees of freedom): Welch's where both sides have repeats.

    pairs: `mean_log_rates` of both, with the suffixes _a and _b. repeated: which pairs have repeats on both sides.
    """
    within = (pairs["within_a"] ** 2 + pairs["within_b"] ** 2) ** 0.5
    between = (pairs["between_a"] ** 2 + pairs["between_b"] ** 2) ** 0.5
    error = within.where(~repeated, pd.concat([between, within], axis=1).max(axis=1))
    spread_a, spread_b = (
        (pairs[f"between_{mode}"] ** 2 / between**2) ** 2 / (pairs[f"runs_{mode}"] - 1) for mode in "ab"
    )
    welch = (1 / (spread_a + spread_b)).where(~(within >= between), np.inf)
    return error.where(error > 0), welch.where(repeated, np.inf).fillna(np.inf)


def holm(p_values: pd.Series[float]) -> pd.Series[float]:
    """p-values corrected for their number (Holm 1979): the k-th smallest of m times m - k + 1, never decreasing."""
    known = p_values.dropna().sort_values()
    factor = np.arange(len(known), 0, -1)
    corrected = np.minimum(np.maximum.accumulate(known.to_numpy(dtype=float) * factor), 1.0)
    return pd.Series(corrected, index=known.index).reindex(p_values.index)
