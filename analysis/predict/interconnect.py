"""What a quote's links do to a throughput that was measured on other links, where only their kind is stated.

Bands from https://idctop.com/article/573547.html: the same eight cards train 20 to 40 % apart on NVLink and PCIe;
NVLink moves about 600 GB/s, InfiniBand or RoCE across servers 200 to 400 GB/s. The share of a step that waits for
the links is taken from the measurement, else from the same article's parallel efficiencies: 7x on 8 cards for data
parallel (at most 1/8 lost), 60 to 75 % for tensor and pipeline parallel (a quarter to two fifths lost).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from numpy.typing import NDArray

if TYPE_CHECKING:  # costs are computed with these bands: importing it here would be a circle
    from analysis.cost.tiers import TierArrays

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]

PCIE_OF_NVLINK = (0.60, 0.80)  # tokens/s on PCIe as a share of that on NVLink
NETWORK_SLOWDOWN = (600 / 400, 600 / 200)  # communication time across servers over that inside one
DATA_PARALLEL_COMM = (0.0, 1 / 8)
MODEL_PARALLEL_COMM = (0.25, 0.40)

_KINDS = (
    ("nvlink", re.compile(r"nv\s*-?link|nv\s*-?switch|\bsxm|\bnv\d+\b", re.I)),
    ("network", re.compile(r"infini\s*-?band|\bib\b|roce|ethernet|\bnetwork\b|rdma|以太|网络", re.I)),
    ("pcie", re.compile(r"pci", re.I)),
)


def link_kind(text: object) -> str:
    """`nvlink`, `pcie`, `network`, or "" where the text names none. Several: the first of these that it names."""
    if not isinstance(text, str):
        return ""
    negated = re.search(r"\b(no|without)\s+nv|无\s*nv", text, re.I)
    for kind, pattern in _KINDS:
        if pattern.search(text) and not (kind == "nvlink" and negated):
            return kind
    return ""


def link_factors(cells: pd.DataFrame, tiers: TierArrays, nodes: Floats) -> tuple[Floats, Floats, Flags]:
    """(low, high) factor on tokens/s of each cell at each tier, and where the effect of the links is not known.

    cells: columns of `costed_cells`. nodes: servers that the tier gives the cell, shape (cells, tiers). The factor is
    1 for one card, on like links, and wherever either side's links are not stated. All results (cells, tiers).
    """
    several = cells["cards"].to_numpy(dtype=float)[:, None] > 1
    measured = cells["link"].to_numpy()[:, None]
    offered = np.array([link_kind(tier.interconnect) for tier in tiers.tiers], dtype=object)[None, :]
    low, high = np.ones(nodes.shape), np.ones(nodes.shape)
    to_pcie = several & (measured == "nvlink") & (offered == "pcie")
    to_nvlink = several & (measured == "pcie") & (offered == "nvlink")
    low[to_pcie], high[to_pcie] = PCIE_OF_NVLINK
    low[to_nvlink], high[to_nvlink] = 1 / PCIE_OF_NVLINK[1], 1 / PCIE_OF_NVLINK[0]

    exposed = cells["exposed_comm"].to_numpy(dtype=float)
    by_model = cells["mode"].astype(str).str.contains(r"tp|pp|tensor|pipeline", case=False, regex=True).to_numpy()
    least = np.where(np.isnan(exposed), np.where(by_model, MODEL_PARALLEL_COMM[0], DATA_PARALLEL_COMM[0]), exposed)
    most = np.where(np.isnan(exposed), np.where(by_model, MODEL_PARALLEL_COMM[1], DATA_PARALLEL_COMM[1]), exposed)
    used = cells["nodes"].to_numpy(dtype=float)[:, None]
    spread = several & (used == 1) & (nodes > 1)
    high = np.where(spread, high / (1 + least[:, None] * (NETWORK_SLOWDOWN[0] - 1)), high)
    low = np.where(spread, low / (1 + most[:, None] * (NETWORK_SLOWDOWN[1] - 1)), low)
    unknown = several & (nodes > 1) & ~(used >= 1)
    return low, high, unknown
