"""How far predictions lie from published measurements: each series' rest predicted from its two smallest counts.

Three baselines are fitted on the same two points: the mean throughput per card, a line through the logarithms, and
Amdahl's law. A series is the rows that differ in the number of cards only (micro-batch and accumulation may move).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analysis.predict import predict

BASE_COUNTS = 2
SERIES_COLUMNS = (
    *("model", "parameters", "seq_len", "gpu", "mode", "precision", "activation_checkpointing", "notes", "variant"),
)
BASELINES = ("constant_per_card", "log_log", "amdahl")


def published_series(table: pd.DataFrame) -> Iterator[tuple[str, pd.DataFrame]]:
    """(name, rows by ascending cards) of each series of a published table that has more than two counts."""
    keys = [c for c in SERIES_COLUMNS if c in table.columns]
    for key, rows in table.groupby(keys, dropna=False, sort=False):
        rows = rows.sort_values("cards").drop_duplicates("cards")
        if len(rows) > BASE_COUNTS:
            shown = dict(zip(keys, key, strict=True))
            name = " ".join(str(shown[k]) for k in ("model", "gpu", "mode", "precision", "variant") if k in shown)
            yield name.replace(" nan", ""), rows


def measurement_frame(rows: pd.DataFrame) -> pd.DataFrame:
    """A published table's rows with the columns of a measurement frame; blank stays blank."""

    def number(name: str) -> pd.Series[float]:
        return rows[name].astype(float) if name in rows.columns else pd.Series(np.nan, index=rows.index)

    batch = number("global_batch_sequences")
    batch = batch.fillna(number("micro_batch") * number("grad_accum") * number("cards"))
    return pd.DataFrame(
        {
            "parallel.mode": rows["mode"],
            "parallel.cards": rows["cards"],
            "parallel.nodes": np.ceil(number("cards") / number("cards_per_node")),
            "throughput.tokens_per_s": rows["tokens_per_s"],
            "workload.model": rows["model"],
            "workload.seq_len": number("seq_len"),
            "workload.micro_batch": number("micro_batch"),
            "workload.global_batch_tokens": batch * number("seq_len"),
            "device.name": rows["gpu"],
            "device.interconnect": rows.get("interconnect", ""),
            "status": "imported",
        }
    ).reset_index(drop=True)


def constant_per_card(cards: NDArray[np.float64], rate: NDArray[np.float64], at: float) -> float:
    """Tokens/s at `at` cards if every card did the mean of what it did in the two measured jobs."""
    return float(np.mean(rate / cards) * at)


def log_log(cards: NDArray[np.float64], rate: NDArray[np.float64], at: float) -> float:
    """Tokens/s at `at` cards on the straight line through the two points' logarithms."""
    slope = np.log(rate[1] / rate[0]) / np.log(cards[1] / cards[0])
    return float(rate[1] * (at / cards[1]) ** slope)


def amdahl(cards: NDArray[np.float64], rate: NDArray[np.float64], at: float) -> float:
    """Tokens/s at `at` cards with time = serial + parallel / cards through the two points; neither is negative."""
    per_token = 1 / rate
    parallel = (per_token[0] - per_token[1]) / (1 / cards[0] - 1 / cards[1])
    serial = max(per_token[1] - parallel / cards[1], 0.0)
    return float(1 / (serial + (per_token[1] - serial) * cards[1] / at))


def hold_out(table: pd.DataFrame) -> pd.DataFrame:
    """One row a held-out point: series, cards, measured, predicted, low, high, covered, error_pct and the baselines'.

    table: columns of results/reference/train_throughput.csv. Errors are |predicted / measured - 1| in percent.
    """
    fits: dict[str, Callable[[NDArray[np.float64], NDArray[np.float64], float], float]] = {
        "constant_per_card": constant_per_card,
        "log_log": log_log,
        "amdahl": amdahl,
    }
    points = []
    for name, rows in published_series(table):
        known, rest = rows.iloc[:BASE_COUNTS], rows.iloc[BASE_COUNTS:]
        cards_per_node = None if pd.isna(known["cards_per_node"].iloc[0]) else int(known["cards_per_node"].iloc[0])
        predicted = predict(measurement_frame(known), [int(c) for c in rest["cards"]], cards_per_node=cards_per_node)
        cards, rate = known["cards"].to_numpy(dtype=float), known["tokens_per_s"].to_numpy(dtype=float)
        for (_, point), (_, guess) in zip(rest.iterrows(), predicted.iterrows(), strict=True):
            truth = float(point["tokens_per_s"])
            errors = {f: 100 * abs(fit(cards, rate, float(point["cards"])) / truth - 1) for f, fit in fits.items()}
            points.append(
                {
                    "series": name,
                    "cards": int(point["cards"]),
                    "measured": truth,
                    "predicted": guess["tokens_per_s"],
                    "low": guess["low"],
                    "high": guess["high"],
                    "covered": bool(guess["low"] <= truth <= guess["high"]),
                    "error_pct": 100 * abs(guess["tokens_per_s"] / truth - 1),
                    **errors,
                }
            )
    return pd.DataFrame(points)


def error_summary(points: pd.DataFrame) -> pd.DataFrame:
    """Median and 90th percentile of the absolute error in percent, one row a method; coverage for the prediction."""
    rows = [
        {
            "method": method,
            "points": len(points),
            "median_pct": points[column].median(),
            "p90_pct": points[column].quantile(0.9),
            "covered_pct": 100 * points["covered"].mean() if column == "error_pct" else np.nan,
        }
        for method, column in (("prediction", "error_pct"), *((b, b) for b in BASELINES))
    ]
    return pd.DataFrame(rows)
