"""What is believed about a scaling series before it is measured: the latent quantities of the step-time model.

Each is a log-normal prior, named by its median and its spread. The medians follow from link and card data sheets where
they can be computed, the spreads from how far the published series lie from them; they were set on all published
series together and rounded, so no series has its own. `tests/accuracy_predict.py` shows what they reach.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

DDP, FSDP, TENSOR, PIPELINE = "ddp", "fsdp", "tp", "pp"
REFERENCE_TOKENS = 16384  # tokens a card takes between two synchronisations, for which the shares below are given


@dataclass(frozen=True)
class LogNormal:
    """median: the central value; sigma: standard deviation of the natural logarithm."""

    median: float
    sigma: float

    def at(self, z: Floats) -> Floats:
        """The values at standard normal scores `z`, same shape."""
        return self.median * np.exp(self.sigma * z)


@dataclass(frozen=True)
class Folded:
    """The absolute value of a normal variable: exponents, which are near zero on a good fabric and never below."""

    mean: float
    sigma: float

    def at(self, z: Floats) -> Floats:
        return np.abs(self.mean + self.sigma * z)


# Communication over compute in one full node, if nothing overlapped. Achieved FLOP/s over bus bandwidth is about 900
# FLOP/B on A100 (200e12 / 230e9) and H100 (400e12 / 436e9). FSDP moves 3 x 2 B a parameter for 6 FLOPs a token of it:
# 900 / tokens = 0.055 at 16k tokens. DDP moves 2 x 2-4 B. TP: 0.22 x FLOP/B / hidden a card = 0.05 at hidden 4096.
COMM_SHARE = {
    DDP: LogNormal(0.027, 0.8),
    FSDP: LogNormal(0.033, 0.75),
    TENSOR: LogNormal(0.055, 0.8),
    PIPELINE: LogNormal(0.005, 1.0),
}
# How much of it hides behind the backward pass (DDP) or behind both passes, prefetched (FSDP), as a share of compute.
HIDDEN_SHARE = {DDP: LogNormal(0.05, 1.0), FSDP: LogNormal(0.20, 0.7)}
# How the share falls as the tokens between two synchronisations grow: 1 without overlap.
TOKENS_EXPONENT = {DDP: 0.7, FSDP: 0.75}
PCIE_FACTOR = 3.3  # FLOP/B of a card without NVLink against one with it: RTX 4090 165e12 x 0.5 / 25e9 = 3300 to 900

# Bus bandwidth in a node over that of two nodes: 436 / 362 = 1.2 measured on H100 with a 400 Gb/s card each, 1.5 by
# data sheet on A100; far more and far less certain where the GPU or its network is older.
BORDER_SLOWDOWN = {"modern": LogNormal(1.35, 0.5), "other": LogNormal(2.0, 0.9)}
MEASURED_SLOWDOWN_SIGMA = 0.2  # of a ratio from a collective's sweep: training sends other sizes
# Bus bandwidth falls as nodes^-x. 0.9 over the first 8 nodes of results/reference/collectives_by_nodes.csv (EFA), near
# 0 on the rail-optimised fabrics of the published FSDP series. An unnamed fabric is congested with one chance in ten.
FALLOFF = {"flat": Folded(0.1, 0.2), "congested": Folded(0.9, 0.3)}
CONGESTED_SCORE = 1.28  # one-sided 10 % of a standard normal

RING_EXPONENT = Folded(1.1, 0.5)  # 1: the ring's (n-1)/n; 0: a cost that starts with the second card and stays
STRAGGLER_SHARE = LogNormal(0.0055, 0.9)  # of compute, each doubling: slowest-rank jitter, grows with the logarithm
STRAGGLER_S = LogNormal(0.006, 0.8)  # seconds a step, each doubling: latency of the collectives' trees
STEP_OVERHEAD_S = LogNormal(0.018, 0.7)  # seconds a step whatever its size: optimizer launch, clipping, logging
MICRO_BATCH_SHARE = {DDP: LogNormal(0.05, 0.9), FSDP: LogNormal(0.05, 0.9), TENSOR: LogNormal(0.018, 0.8)}
OPTIMIZER_S_PER_PARAMETER = LogNormal(1.5e-11, 0.4)  # about 30 B of AdamW state at 2 TB/s
BUBBLE_FACTOR = LogNormal(0.8, 0.4)  # of (p-1)/m: interleaved schedules have less
MICRO_BATCHES = LogNormal(16.0, 0.7)  # a pipeline's micro-batches a step, where the source does not say

# Something that all cards share and none can use at once (data loader, host memory, one slow link, too few processor
# cores for the ranks): share x (n-1)^exponent of compute. One series in fifty has it, and then it rules.
BOTTLENECK_SCORE = 2.05  # one-sided 2 % of a standard normal
BOTTLENECK_SHARE = LogNormal(0.4, 1.0)
BOTTLENECK_EXPONENT = Folded(1.1, 0.2)

# What the model leaves out, as a random walk over the doublings: independent increments of the logarithm of time.
WALK_SIGMA = 0.005  # a doubling, times its square root
WALK_RELATIVE = LogNormal(0.37, 1.0)  # of the modelled increment itself
BORDER_SIGMA = 0.0075  # at the first border between nodes
NOISE_SIGMA = 0.009  # between two runs of one cell
NOISE_SIGMA_ALONE = 0.08  # one count alone cannot show that it is typical of its series
OUTLIER_SIGMA, OUTLIER_CHANCE = 0.4, 0.02
REGAINED = 0.5  # at most this share of a measured loss a card comes back at more cards (a better ring, smaller shards)
LARGER_MICRO_BATCH_GAIN = 0.3  # ln of the most that a planned micro-batch larger than the measured one may bring

_NO_NVLINK = re.compile(r"pcie|rtx|4090|3090|a6000|\bl4\b|l40|\bt4\b|\ba10\b|a40\b", re.IGNORECASE)
_MODERN = re.compile(r"a100|a800|h100|h200|h800|h20\b|b200|b300|gb200|gh200|mi2\d\d|mi3\d\d|910b", re.IGNORECASE)
_CONGESTED = re.compile(r"\befa\b|ethernet|\btcp\b|\b(1|10|25)\s?g(b|be|bit)?\b", re.IGNORECASE)
_PARAMETERS = re.compile(r"(?<![0-9.])(\d+(?:\.\d+)?)\s?([bm])(?![a-z0-9])", re.IGNORECASE)


@dataclass(frozen=True)
class Fabric:
    """What the names of the card and its interconnect say about the links."""

    border: str  # key of BORDER_SLOWDOWN
    congested: bool
    nvlink: bool


def fabric(gpu: str, interconnect: str) -> Fabric:
    """Read the fabric's class from how people write it (`h100_80gb`, `NVIDIA A100-SXM4-80GB`, `NVLink + EFA`)."""
    without_nvlink = bool(_NO_NVLINK.search(gpu) or re.search("pcie only", interconnect, re.IGNORECASE))
    return Fabric(
        border="modern" if _MODERN.search(gpu) and not without_nvlink else "other",
        congested=bool(_CONGESTED.search(interconnect)),
        nvlink=not without_nvlink,
    )


def mode_class(mode: str) -> str | None:
    """Which communication pattern a mode's name stands for; None where it is unknown.

    In a product the axis that grows with the cards decides: `dp2_tp4` scales as data parallelism does.
    """
    name = mode.lower()
    if re.search(r"fsdp|zero_?3|hsdp", name):
        return FSDP
    if re.search(r"ddp|dp\d*(_|$)|zero|horovod", name):
        return DDP
    if re.match(r"(tp|tensor)", name):
        return TENSOR
    if re.match(r"(pp|pipeline|gpipe)", name):
        return PIPELINE
    return None


def parameters_in_name(model: str) -> float | None:
    """The parameter count that a model's name states (`mpt-13b`, `llama2_7b`, `125m`), None where it states none."""
    found = _PARAMETERS.search(model)
    return float(found[1]) * {"b": 1e9, "m": 1e6}[found[2].lower()] if found else None
