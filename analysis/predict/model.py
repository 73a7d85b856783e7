"""The step-time model behind `predict`: seconds a token costs a card, as a function of the card count.

time(n) = compute x (1 + exposed communication + bubble + stragglers + overheads), each term a latent quantity with a
prior (`predict_prior`).
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from analysis.predict import prior
from analysis.predict.prior import DDP, FSDP, PIPELINE, TENSOR, Fabric

Floats = NDArray[np.float64]


class Latent(IntEnum):
    """The quantities that no measurement states; each has one standard normal score in a draw."""

    COMM = 0
    BORDER = 1
    FALLOFF = 2
    STRAGGLER = 3
    MICRO_BATCH = 4
    STEP = 5
    HIDDEN = 6
    RING = 7
    STRAGGLER_S = 8
    WALK = 9
    CONGESTED = 10
    OPTIMIZER = 11
    MICRO_BATCHES = 12
    BUBBLE = 13
    BOTTLENECK = 14
    BOTTLENECK_EXPONENT = 15
    BOTTLENECK_THERE = 16


def score(z: Floats, latent: Latent) -> Floats:
    """The scores of one latent quantity, a column: (draws, 1)."""
    return z[:, latent : latent + 1]


@dataclass(frozen=True)
class Points:
    """What is known of some card counts; arrays of shape (counts,), NaN where not known.

    nodes: machines the count spans. micro_batch: sequences. step_tokens: tokens a card takes in one optimizer step.
    micro_batches: of a pipeline, a step. sharing: ranks that one processor core serves in turn, 1 on cards.
    """

    cards: Floats
    nodes: Floats
    micro_batch: Floats
    step_tokens: Floats
    micro_batches: Floats
    sharing: Floats

    def part(self, start: int, stop: int) -> Points:
        """The counts from `start` up to `stop`."""
        return Points(*(getattr(self, field.name)[start:stop] for field in fields(self)))


@dataclass(frozen=True)
class Series:
    """One scaling series as the model needs it. measured: counts in ascending order, each once; targets: in any order.

    log_time: ln of card-seconds a token at the measured counts. noise: its standard deviation at each, from the
    measurement's own interval, 0 where unknown. Other fields: see `predict_prior`; border_slowdown, where it was
    measured, replaces the prior.
    """

    kind: str
    fabric: Fabric
    measured: Points
    log_time: Floats
    noise: Floats
    targets: Points
    seq_len: float | None = None
    parameters: float | None = None
    border_slowdown: float | None = None


def log_relative_time(series: Series, points: Points, z: Floats) -> Floats:
    """ln of time over pure compute, shape (draws, counts); z: latent scores, shape (draws, latents)."""
    return np.asarray(np.log1p(relative_excess(series, points, z)) + np.log(points.sharing), dtype=np.float64)


def relative_excess(series: Series, points: Points, z: Floats) -> Floats:
    """Time beyond pure compute, over pure compute, shape (draws, counts); z: latent scores, shape (draws, latents)."""
    cards, doublings = points.cards, np.log2(points.cards)
    reference = series.measured.part(-1, len(series.measured.cards))  # shares are given at the largest measured count
    step_s = _ratio(points.step_tokens, reference.step_tokens) * _step_seconds(series)
    smaller_micro_batch = 1 / _ratio(points.micro_batch, reference.micro_batch)
    by_micro_batch = prior.MICRO_BATCH_SHARE.get(series.kind, prior.MICRO_BATCH_SHARE[DDP])
    overhead_s = prior.STEP_OVERHEAD_S.at(score(z, Latent.STEP))
    latency_s = prior.STRAGGLER_S.at(score(z, Latent.STRAGGLER_S)) * doublings
    excess = _exposed_communication(series, points, z, reference)
    excess = excess + prior.STRAGGLER_SHARE.at(score(z, Latent.STRAGGLER)) * doublings
    # 3 x: a step is never mostly overhead, however short it is; it bounds the term by a third.
    excess = excess + (overhead_s + latency_s) / (step_s + 3 * overhead_s)
    excess = excess + by_micro_batch.at(score(z, Latent.MICRO_BATCH)) * smaller_micro_batch
    excess = excess + _shared_bottleneck(cards, z)
    if series.parameters and np.isfinite(reference.step_tokens[0]):
        shards = cards if series.kind != DDP else np.ones_like(cards)
        optimizer_s = prior.OPTIMIZER_S_PER_PARAMETER.at(score(z, Latent.OPTIMIZER)) * series.parameters / shards
        excess = excess + np.minimum(optimizer_s / step_s, 0.3)
    if series.kind == PIPELINE:
        unknown = prior.MICRO_BATCHES.at(score(z, Latent.MICRO_BATCHES))
        micro_batches = np.where(np.isfinite(points.micro_batches), points.micro_batches, unknown)
        excess = excess + prior.BUBBLE_FACTOR.at(score(z, Latent.BUBBLE)) * (cards - 1) / micro_batches
    return excess


def _shared_bottleneck(cards: Floats, z: Floats) -> Floats:
    exponent = prior.BOTTLENECK_EXPONENT.at(score(z, Latent.BOTTLENECK_EXPONENT))
    share = prior.BOTTLENECK_SHARE.at(score(z, Latent.BOTTLENECK)) * (cards - 1) ** exponent
    return np.where(score(z, Latent.BOTTLENECK_THERE) > prior.BOTTLENECK_SCORE, share, 0.0)


def _exposed_communication(series: Series, points: Points, z: Floats, reference: Points) -> Floats:
    cards = points.cards
    share = prior.COMM_SHARE[series.kind].at(score(z, Latent.COMM))
    if not series.fabric.nvlink:
        share = share * prior.PCIE_FACTOR
    if series.kind in (TENSOR, PIPELINE):
        # Compute a token shrinks as 1/n, what is sent for it does not: the share grows with n - 1.
        return share * (cards - 1) * _slowdown(series, points.nodes, z)
    load = 1 / _ratio(points.step_tokens, reference.step_tokens)
    tokens = reference.step_tokens[0]
    if series.kind == FSDP and np.isfinite(reference.micro_batch[0]):  # parameters are gathered for every micro-batch
        load = 1 / _ratio(points.micro_batch, reference.micro_batch)
        tokens = reference.micro_batch[0] * (series.seq_len or np.nan)
    if np.isfinite(tokens):
        share = share * (tokens / prior.REFERENCE_TOKENS) ** -prior.TOKENS_EXPONENT[series.kind]
    full_node = np.maximum((cards - 1) / cards * 8 / 7, 1e-300)  # the ring's volume over that of eight cards
    ring = np.where(cards > 1, full_node ** prior.RING_EXPONENT.at(score(z, Latent.RING)), 0)
    whole = share * ring * _slowdown(series, points.nodes, z) * load
    hidden = prior.HIDDEN_SHARE[series.kind].at(score(z, Latent.HIDDEN))
    # max(whole - hidden, 0) with a soft corner: the last bucket and the first gather are exposed in any case.
    exposed: Floats = (whole - hidden) / 2 + np.sqrt(((whole - hidden) / 2) ** 2 + (0.2 * whole) ** 2)
    return exposed


def _slowdown(series: Series, nodes: Floats, z: Floats) -> Floats:
    """Communication time on `nodes` over that in one node, for the same volume: (draws, counts)."""
    border = prior.BORDER_SLOWDOWN[series.fabric.border]
    if series.border_slowdown:
        border = prior.LogNormal(series.border_slowdown, prior.MEASURED_SLOWDOWN_SIGMA)
    congested = prior.FALLOFF["congested"].at(score(z, Latent.FALLOFF))
    flat = prior.FALLOFF["flat"].at(score(z, Latent.FALLOFF))
    may_be = np.where(score(z, Latent.CONGESTED) > prior.CONGESTED_SCORE, congested, flat)
    falloff = congested if series.fabric.congested else may_be
    across = border.at(score(z, Latent.BORDER)) * (np.maximum(nodes, 2) / 2) ** falloff
    return np.where(nodes > 1, across, 1.0)


def _ratio(values: Floats, reference: Floats) -> Floats:
    """values / reference, shape of values; 1 where either is not known."""
    ratio = values / reference
    return np.where(np.isfinite(ratio), ratio, 1.0)


def _step_seconds(series: Series) -> float:
    """Seconds of a step at the largest measured count, 1 where the batch is not known (a usual length)."""
    tokens = series.measured.step_tokens[-1]
    return float(tokens * np.exp(series.log_time[-1])) if np.isfinite(tokens) else 1.0
