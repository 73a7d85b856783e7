"""Two studies side by side: before and after a change, or one provider against another."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy.special import stdtr, stdtrit

from analysis.scaling.repeats import SIGNIFICANT, difference_error, holm, mean_log_rates, training_runs
from analysis.scaling.series import texts

# What makes two cells the same work. Not the device, its links or its threads: those are what is compared. Only where
# one study holds several devices do cells match by device as well, or they would pass for repeats of each other.
SHARED = (
    *("workload.model", "parallel.mode", "parallel.cards", "parallel.nodes", "workload.seq_len"),
    *("workload.global_batch_tokens", "workload.micro_batch", "workload.recipe", "workload.precision"),
    "workload.scaling",
)
DEVICE = "device.name"
NEEDED = ("workload.model", "parallel.mode", "parallel.cards")


@dataclass(frozen=True)
class Comparison:
    """cells: what both studies measured, one row a cell. only_a, only_b: (model, mode, cards) of what one has alone."""

    cells: pd.DataFrame
    only_a: tuple[tuple[str, str, str], ...]
    only_b: tuple[tuple[str, str, str], ...]


def compare_studies(a: pd.DataFrame, b: pd.DataFrame) -> Comparison:
    """Every cell that both studies measured: how much faster `b` is than `a`, and whether that is more than chance.

    Cells match where they agree in all of SHARED that both studies record; runs of one cell count as its repeats.
    Columns of `cells`: model, mode, device (blank unless a study has several), cards, runs_a, runs_b, tokens_per_s_a,
    tokens_per_s_b (geometric means of the runs), ratio (b over a), ratio_low, ratio_high (95 %), p_value (two-sided,
    corrected after Holm over all cells), differs (bool: significant at 5 %), basis (`runs`: repeats in both, Welch's t
    on the logarithms and no tighter than the steps allow; `steps`: of single runs; blank where neither is known).
    """
    runs_a, runs_b = training_runs(a), training_runs(b)
    names = [
        name
        for name in SHARED
        if name in NEEDED or all((texts(runs, name) != "").any() and name in runs.columns for runs in (runs_a, runs_b))
    ]
    if any(texts(runs, DEVICE).nunique() > 1 for runs in (runs_a, runs_b)):
        names.append(DEVICE)
    rates_a, rates_b = (mean_log_rates(runs, _keys(runs, names)).reset_index() for runs in (runs_a, runs_b))
    joined = rates_a.merge(rates_b, on=names, how="outer", suffixes=("_a", "_b"), indicator="where", sort=False)
    pairs = joined[joined["where"] == "both"].reset_index(drop=True)
    repeated = (pairs["runs_a"] > 1) & (pairs["runs_b"] > 1)
    error, free = difference_error(pairs, repeated)
    difference = pairs["log_rate_b"] - pairs["log_rate_a"]
    half = stdtrit(free, 0.975) * error
    p_value = holm(2 * stdtr(free, -difference.abs() / error))
    cells = pd.DataFrame(
        {
            "model": pairs["workload.model"],
            "mode": pairs["parallel.mode"],
            "device": pairs[DEVICE] if DEVICE in names else "",
            "cards": pd.to_numeric(pairs["parallel.cards"]).astype(int),
            "runs_a": pairs["runs_a"].astype(int),
            "runs_b": pairs["runs_b"].astype(int),
            "tokens_per_s_a": np.exp(pairs["log_rate_a"]),
            "tokens_per_s_b": np.exp(pairs["log_rate_b"]),
            "ratio": np.exp(difference),
            "ratio_low": np.exp(difference - half),
            "ratio_high": np.exp(difference + half),
            "p_value": p_value,
            "differs": p_value < SIGNIFICANT,
            "basis": np.select([error.isna(), repeated], ["", "runs"], default="steps"),
        }
    ).sort_values(["model", "device", "mode", "cards"], kind="stable", ignore_index=True)
    return Comparison(cells, _alone(joined, "left_only"), _alone(joined, "right_only"))


def _keys(runs: pd.DataFrame, names: list[str]) -> pd.DataFrame:
    """The columns that cells are matched by, as text: a whole number is the same whether a blank made it a float."""
    return pd.DataFrame({name: texts(runs, name).str.replace(r"\.0$", "", regex=True) for name in names})


def _alone(joined: pd.DataFrame, side: str) -> tuple[tuple[str, str, str], ...]:
    rows = joined[joined["where"] == side]
    found = zip(rows["workload.model"], rows["parallel.mode"], rows["parallel.cards"], strict=True)
    return tuple(sorted((str(model), str(mode), str(cards)) for model, mode, cards in found))
