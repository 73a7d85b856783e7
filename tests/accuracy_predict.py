"""Print how far predictions lie from published measurements, series by series; exits 1 where a stated goal is missed.

Run by `make accuracy`: `python tests/accuracy_predict.py`.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pandas as pd

from analysis.predict.accuracy import error_summary, hold_out

REFERENCE = Path(__file__).resolve().parent.parent / "results" / "reference"


def other_series() -> pd.DataFrame:
    """The second table, which rates some models in sequences or images; sequences become tokens."""
    table = pd.read_csv(REFERENCE / "scaling_other.csv")
    per_unit = np.where(table["unit"] == "sequences", table["seq_len"], 1.0)
    table["tokens_per_s"] = table["throughput"] * per_unit
    table["variant"] = table["source"] + " micro-batch " + table["micro_batch"].astype(str)
    return table


def show(title: str, points: pd.DataFrame) -> pd.DataFrame:
    print(f"\n== {title}: every series' rest from its two smallest counts")
    with pd.option_context("display.width", 250, "display.max_rows", None, "display.max_columns", None):
        print(points.assign(series=points["series"].str.slice(0, 60)).round(1).to_string(index=False))
        summary = error_summary(points)
        print(summary.round(2).to_string(index=False))
    return summary


def main() -> int:
    summary = show("train_throughput.csv", hold_out(pd.read_csv(REFERENCE / "train_throughput.csv")))
    show("scaling_other.csv", hold_out(other_series()))
    ours, baselines = summary.iloc[0], summary.iloc[1:]
    missed = [
        goal
        for goal, reached in (
            ("median 1.5 %", ours["median_pct"] <= 1.5),
            ("90th percentile 10 %", ours["p90_pct"] <= 10),
            ("better than each baseline in the median", (ours["median_pct"] < baselines["median_pct"]).all()),
            ("better than each baseline in the 90th percentile", (ours["p90_pct"] < baselines["p90_pct"]).all()),
            ("90 % of points inside the 95 % intervals", ours["covered_pct"] >= 90),
        )
        if not reached
    ]
    print("\ngoals missed: " + "; ".join(missed) if missed else "\nall goals reached")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
