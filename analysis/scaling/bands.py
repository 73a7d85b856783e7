"""Rules of thumb for parallel speedup, and where a measurement lies against them: inside the band, below or above.

Bands: https://idctop.com/article/573547.html (8 cards data parallel 7x or better; tensor and pipeline parallel use 60
to 75 % of 8 cards; 4 cards data parallel 2x to 3.6x; the same 8 cards train 20 to 40 % apart on NVLink and PCIe).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from analysis.predict.interconnect import link_kind
from analysis.predict.prior import DDP, FSDP, PIPELINE, TENSOR, mode_class
from analysis.scaling import scaling_table
from analysis.scaling.series import is_measured, numbers, texts

INSIDE, BELOW, ABOVE = "inside the band", "below", "above"


@dataclass(frozen=True)
class Band:
    """low, high: of the quantity in `what`, infinite where the rule names no such end."""

    what: str
    kinds: tuple[str, ...]
    cards: int
    low: float
    high: float


BANDS = (
    Band("speedup", (DDP, FSDP), 4, 2.0, 3.6),
    Band("speedup", (DDP, FSDP), 8, 7.0, float("inf")),
    Band("efficiency", (TENSOR, PIPELINE), 8, 0.60, 0.75),
)
NVLINK_OVER_PCIE = Band("throughput on NVLink over PCIe", (DDP, FSDP, TENSOR, PIPELINE), 8, 1.20, 1.40)


def place(value: float, low: float, high: float) -> str:
    """`inside the band`, `below` or `above`; blank for a value that is not known."""
    if np.isnan(value):
        return ""
    return BELOW if value < low else ABOVE if value > high else INSIDE


def band_table(frame: pd.DataFrame) -> pd.DataFrame:
    """One row a measured cell that a rule of thumb speaks of, and one a pair of like cells on NVLink and PCIe.

    Columns: model, mode, cards, what (speedup, efficiency, or the ratio of links), measured, low, high (measured 95 %
    interval), band (text), verdict. Speedups relative to more than one card are not compared: the rules mean one.
    """
    table = scaling_table(frame)
    rows = []
    for band in BANDS:
        of_kind = table["parallel_mode"].map({m: mode_class(m) for m in table["parallel_mode"].unique()})
        cells = table[of_kind.isin(band.kinds) & (table["cards"] == band.cards) & (table["base_cards"] == 1)]
        for _, cell in cells.dropna(subset=[band.what]).iterrows():
            interval = cell[f"{band.what}_low"], cell[f"{band.what}_high"]
            rows.append(_row(cell["model"], cell["parallel_mode"], band, float(cell[band.what]), interval))
    rows += _link_pairs(frame)
    columns = ["model", "mode", "cards", "what", "measured", "low", "high", "band", "verdict"]
    return pd.DataFrame(rows, columns=columns)


def _link_pairs(frame: pd.DataFrame) -> list[dict[str, object]]:
    """Median throughput of eight cards on NVLink over that on PCIe, where the rest of the cell is the same."""
    cells = pd.DataFrame(
        {
            "model": texts(frame, "workload.model"),
            "mode": texts(frame, "parallel.mode"),
            "card": texts(frame, "device.name").str.lower().str.replace(r"[-_ ]*(sxm\d*|pcie).*", "", regex=True),
            "seq_len": texts(frame, "workload.seq_len"),
            "batch": texts(frame, "workload.global_batch_tokens"),
            "link": texts(frame, "device.interconnect").map(link_kind),
            "rate": numbers(frame, "throughput.tokens_per_s"),
        }
    )[is_measured(frame) & (numbers(frame, "parallel.cards") == NVLINK_OVER_PCIE.cards)]
    medians = cells.groupby(["model", "mode", "card", "seq_len", "batch", "link"])["rate"].median().unstack("link")
    if not {"nvlink", "pcie"} <= set(medians.columns):
        return []
    ratios = (medians["nvlink"] / medians["pcie"]).dropna()
    keys = ratios.index.to_frame(index=False)
    return [
        _row(model, mode, NVLINK_OVER_PCIE, float(ratio), (np.nan, np.nan))
        for model, mode, ratio in zip(keys["model"], keys["mode"], ratios, strict=True)
    ]


def _row(model: str, mode: str, band: Band, value: float, interval: tuple[float, float]) -> dict[str, object]:
    named = f"{band.low:g} or better" if np.isinf(band.high) else f"{band.low:g} to {band.high:g}"
    return {
        "model": model,
        "mode": mode,
        "cards": band.cards,
        "what": band.what,
        "measured": value,
        "low": interval[0],
        "high": interval[1],
        "band": named,
        "verdict": place(value, band.low, band.high),
    }
