"""The step-time model behind `predict`: seconds a token costs a card, as a function of the card count.

time(n) = compute x (1 + exposed communication + bubble + stragglers + overheads), each term a latent quantity with a
prior (`predict_prior`). The posterior given the measured counts is found by adaptive importance sampling (Cappé et al.
2004); what the model leaves out is a random walk over the doublings, so that intervals widen with the distance from
the measured counts even where the model is sure of itself (Kennedy and O'Hagan 2001).
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from analysis import predict_prior as prior
from analysis.predict_prior import DDP, FSDP, PIPELINE, TENSOR, Fabric

Floats = NDArray[np.float64]
LATENTS = 17
DRAWS, ROUNDS, KEPT = 2000, 3, 1000
_LEVEL = 25.0  # prior variance of the log compute time: anything
_WIDEN, _FLOOR, _FROM_PRIOR = 1.3, 0.05, 0.3  # the proposal stays wider than the posterior, and keeps 30 % prior draws
_TARGETS_AT_ONCE = 64  # a block of draws x targets x counts stays in the processor's cache
MOST_OUTLIER_CANDIDATES = 3


@dataclass(frozen=True)
class Points:
    """What is known of some card counts; arrays of shape (counts,), NaN where not known.

    nodes: machines the count spans. micro_batch: sequences. step_tokens: tokens a card takes in one optimizer step.
    micro_batches: of a pipeline, a step.
    """

    cards: Floats
    nodes: Floats
    micro_batch: Floats
    step_tokens: Floats
    micro_batches: Floats

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


@dataclass(frozen=True)
class Posterior:
    """log_time: draws of ln(card-seconds a token) at the target counts, shape (KEPT, targets).

    outlier_chance: of each measured count, that it does not belong to the series.
    """

    log_time: Floats
    outlier_chance: Floats


def posterior(series: Series, seed: int = 0) -> Posterior:
    """What the measured counts say about the targets. Deterministic for a seed."""
    noises, log_chances = _outlier_hypotheses(series)
    rng = np.random.default_rng(seed)
    centre, spread = np.zeros(LATENTS), np.eye(LATENTS)
    z = rng.standard_normal((DRAWS, LATENTS))
    for round_number in range(ROUNDS):
        mean = np.log1p(relative_excess(series, series.measured, z))
        walk = _walk(series, mean, z)
        by_hypothesis = np.stack([_log_likelihood(series, mean, walk, n) for n in noises], axis=1) + log_chances
        log_weight = np.logaddexp.reduce(by_hypothesis, axis=1)
        if round_number:
            log_weight += _log_prior_over_proposal(z, centre, spread)
        weight = np.exp(log_weight - log_weight.max())
        weight /= weight.sum()
        if round_number < ROUNDS - 1:
            centre = weight @ z
            spread = (weight[:, None] * (z - centre)).T @ (z - centre) * _WIDEN + _FLOOR * np.eye(LATENTS)
            adapted = centre + rng.standard_normal((DRAWS, LATENTS)) @ np.linalg.cholesky(spread).T
            from_prior = rng.random(DRAWS) < _FROM_PRIOR
            z = np.where(from_prior[:, None], rng.standard_normal((DRAWS, LATENTS)), adapted)
    kept = np.minimum(np.searchsorted(np.cumsum(weight), (np.arange(KEPT) + 0.5) / KEPT), DRAWS - 1)
    chances = np.exp(by_hypothesis[kept] - np.logaddexp.reduce(by_hypothesis[kept], axis=1)[:, None])
    hypothesis = (rng.random((KEPT, 1)) > np.cumsum(chances, axis=1)).sum(axis=1).clip(0, len(noises) - 1)
    # One score a draw for all targets: curves over the cards are smooth.
    score = rng.permutation(np.array([NormalDist().inv_cdf((i + 0.5) / KEPT) for i in range(KEPT)]))
    noise = np.stack(noises)[hypothesis]
    precision = np.linalg.inv(_covariance(walk[kept]) + noise[:, :, None] * np.eye(noise.shape[1]))
    given = _Given(series, z[kept], mean[kept], walk[kept], precision, score)
    parts = range(0, len(series.targets.cards), _TARGETS_AT_ONCE)
    targets = [series.targets.part(i, i + _TARGETS_AT_ONCE) for i in parts]
    log_time = np.concatenate([_bounded(_conditional(given, part), series, part) for part in targets], axis=1)
    wrong = noise > noises[0]
    return Posterior(log_time, outlier_chance=wrong.mean(axis=0))


def _bounded(log_time: Floats, series: Series, targets: Points) -> Floats:
    """No card among more is faster than the fastest measured one, but for the noise of a measurement.

    Past the largest measured count it regains at most a share of what was lost there. A planned micro-batch larger
    than any measured may bring more.
    """
    measured, noise = series.measured, 3 * _noise_floor(series)
    fastest, last = float(series.log_time.min()), float(series.log_time[-1])
    regained = min(last - fastest, max(noise, prior.REGAINED * (last - fastest)))
    bound = np.where(targets.cards > measured.cards[-1], last - regained, fastest) - noise
    larger = targets.micro_batch > np.nanmax(measured.micro_batch, initial=0) * (1 + 1e-9)
    bound = bound - prior.LARGER_MICRO_BATCH_GAIN * (larger & np.isfinite(measured.micro_batch[-1]))
    return np.where(targets.cards > measured.cards[0], np.maximum(log_time, bound), log_time)


def _noise_floor(series: Series) -> float:
    return prior.NOISE_SIGMA if len(series.log_time) > 1 else prior.NOISE_SIGMA_ALONE


def _own_variance(cards: Floats, nodes: Floats, from_cards: float, from_nodes: float) -> Floats:
    """Of the walk between two counts, whatever the model says there: by doublings, and at the first node border."""
    crosses = (np.minimum(nodes, from_nodes) <= 1) & (np.maximum(nodes, from_nodes) > 1)
    walked: Floats = prior.WALK_SIGMA**2 * np.abs(np.log2(cards / from_cards)) + prior.BORDER_SIGMA**2 * crosses
    return walked


def _walk(series: Series, mean: Floats, z: Floats) -> Floats:
    """Variance of the walk at each measured count since the smallest, shape (draws, counts)."""
    cards, nodes = series.measured.cards, series.measured.nodes
    own = np.array([_own_variance(cards[i], nodes[i], cards[i - 1], nodes[i - 1]) for i in range(1, len(cards))])
    increments = own.reshape(1, -1) + (_relative_sigma(z) * np.diff(mean, axis=1)) ** 2
    walked: Floats = np.concatenate([np.zeros((len(z), 1)), np.cumsum(increments, axis=1)], axis=1)
    return walked


def _relative_sigma(z: Floats) -> Floats:
    return prior.WALK_RELATIVE.at(z[:, 9:10])


def relative_excess(series: Series, points: Points, z: Floats) -> Floats:
    """Time beyond pure compute, over pure compute, shape (draws, counts); z: latent scores, shape (draws, LATENTS)."""
    cards, doublings = points.cards, np.log2(points.cards)
    reference = series.measured.part(-1, len(series.measured.cards))  # shares are given at the largest measured count
    step_s = _ratio(points.step_tokens, reference.step_tokens) * _step_seconds(series)
    excess = _exposed_communication(series, points, z, reference)
    excess = excess + prior.STRAGGLER_SHARE.at(z[:, 3:4]) * doublings
    overhead_s = prior.STEP_OVERHEAD_S.at(z[:, 5:6])
    # 3 x: a step is never mostly overhead, however short it is; it bounds the term by a third.
    excess = excess + (overhead_s + prior.STRAGGLER_S.at(z[:, 8:9]) * doublings) / (step_s + 3 * overhead_s)
    shared = prior.BOTTLENECK_SHARE.at(z[:, 14:15]) * (cards - 1) ** prior.BOTTLENECK_EXPONENT.at(z[:, 15:16])
    excess = excess + np.where(z[:, 16:17] > prior.BOTTLENECK_SCORE, shared, 0.0)
    smaller = 1 / _ratio(points.micro_batch, reference.micro_batch)
    by_micro_batch = prior.MICRO_BATCH_SHARE.get(series.kind, prior.MICRO_BATCH_SHARE[DDP])
    excess = excess + by_micro_batch.at(z[:, 4:5]) * smaller
    if series.parameters and np.isfinite(reference.step_tokens[0]):
        shards = cards if series.kind != DDP else np.ones_like(cards)
        optimizer = prior.OPTIMIZER_S_PER_PARAMETER.at(z[:, 11:12]) * series.parameters / shards / step_s
        excess = excess + np.minimum(optimizer, 0.3)
    if series.kind == PIPELINE:
        unknown = prior.MICRO_BATCHES.at(z[:, 12:13])
        micro_batches = np.where(np.isfinite(points.micro_batches), points.micro_batches, unknown)
        excess = excess + prior.BUBBLE_FACTOR.at(z[:, 13:14]) * (cards - 1) / micro_batches
    return excess


def _exposed_communication(series: Series, points: Points, z: Floats, reference: Points) -> Floats:
    fabric, cards = series.fabric, points.cards
    share = prior.COMM_SHARE[series.kind].at(z[:, 0:1]) * (1.0 if fabric.nvlink else prior.PCIE_FACTOR)
    border = prior.BORDER_SLOWDOWN[fabric.border]
    if series.border_slowdown:
        border = prior.LogNormal(series.border_slowdown, 0.2)
    congested = prior.FALLOFF["congested"].at(z[:, 2:3])
    flat = prior.FALLOFF["flat"].at(z[:, 2:3])
    falloff = congested if fabric.congested else np.where(z[:, 10:11] > prior.CONGESTED_SCORE, congested, flat)
    slowdown = np.where(points.nodes > 1, border.at(z[:, 1:2]) * (np.maximum(points.nodes, 2) / 2) ** falloff, 1.0)
    if series.kind in (TENSOR, PIPELINE):
        # Compute a token shrinks as 1/n, what is sent for it does not: the share grows with n - 1.
        return share * (cards - 1) * slowdown
    load = 1 / _ratio(points.step_tokens, reference.step_tokens)
    tokens = reference.step_tokens[0]
    if series.kind == FSDP and np.isfinite(reference.micro_batch[0]):  # parameters are gathered for every micro-batch
        load = 1 / _ratio(points.micro_batch, reference.micro_batch)
        tokens = reference.micro_batch[0] * (series.seq_len or np.nan)
    if np.isfinite(tokens):
        share = share * (tokens / prior.REFERENCE_TOKENS) ** -prior.TOKENS_EXPONENT[series.kind]
    ring = np.where(cards > 1, np.maximum((cards - 1) / cards * 8 / 7, 1e-300) ** prior.RING_EXPONENT.at(z[:, 7:8]), 0)
    whole = share * ring * slowdown * load
    hidden = prior.HIDDEN_SHARE[series.kind].at(z[:, 6:7])
    # max(whole - hidden, 0) with a soft corner: the last bucket and the first gather are exposed in any case.
    exposed: Floats = (whole - hidden) / 2 + np.sqrt(((whole - hidden) / 2) ** 2 + (0.2 * whole) ** 2)
    return exposed


def _ratio(values: Floats, reference: Floats) -> Floats:
    """values / reference, shape of values; 1 where either is not known."""
    ratio = values / reference
    return np.where(np.isfinite(ratio), ratio, 1.0)


def _step_seconds(series: Series) -> float:
    """Seconds of a step at the largest measured count, 1 where the batch is not known (a usual length)."""
    tokens = series.measured.step_tokens[-1]
    return float(tokens * np.exp(series.log_time[-1])) if np.isfinite(tokens) else 1.0


def _outlier_hypotheses(series: Series) -> tuple[list[Floats], Floats]:
    """Noise of the measured points (variances) if none is an outlier, or one is; and the ln chances of each.

    Two points cannot tell which of them is wrong, so they are believed. Of many, those that lie farthest from the line
    between their neighbours are suspected.
    """
    count = len(series.log_time)
    usual = _noise_floor(series) ** 2 + series.noise**2
    suspects = _farthest_from_neighbours(series)[:MOST_OUTLIER_CANDIDATES] if count > 2 else []
    noises = [usual]
    for suspect in suspects:
        wrong = usual.copy()
        wrong[suspect] += prior.OUTLIER_SIGMA**2
        noises.append(wrong)
    chances = [1 - prior.OUTLIER_CHANCE * len(suspects), *[prior.OUTLIER_CHANCE] * len(suspects)]
    return noises, np.log(np.array(chances))


def _farthest_from_neighbours(series: Series) -> list[int]:
    x, y = np.log2(series.measured.cards), series.log_time
    far = np.zeros(len(x))
    for i in range(len(x)):
        a, b = (i - 1, i + 1) if 0 < i < len(x) - 1 else ((1, 2) if i == 0 else (i - 2, i - 1))
        slope = (y[b] - y[a]) / (x[b] - x[a])
        far[i] = abs(y[i] - y[a] - slope * (x[i] - x[a]))
    return [int(i) for i in np.argsort(-far)]


def _covariance(walk: Floats) -> Floats:
    """Of the walk plus the free level, shape (draws, counts, counts): Cov(i, j) = Var(smaller of the two) + level."""
    return np.minimum(walk[:, :, None], walk[:, None, :]) + _LEVEL


def _log_likelihood(series: Series, mean: Floats, walk: Floats, noise: Floats) -> Floats:
    lower = np.linalg.cholesky(_covariance(walk) + np.diag(noise))
    residual = np.linalg.solve(lower, (series.log_time - mean)[:, :, None])[:, :, 0]
    log_density: Floats = -0.5 * (residual**2).sum(axis=1) - np.log(np.diagonal(lower, axis1=1, axis2=2)).sum(axis=1)
    return log_density


def _log_prior_over_proposal(z: Floats, centre: Floats, spread: Floats) -> Floats:
    """ln prior - ln proposal, up to a constant; the proposal mixes the adapted normal with the prior itself."""
    off = z - centre
    log_prior = -0.5 * (z**2).sum(axis=1)
    adapted = -0.5 * np.einsum("ij,jk,ik->i", off, np.linalg.inv(spread), off) - 0.5 * np.linalg.slogdet(spread)[1]
    mixed = np.logaddexp(np.log(1 - _FROM_PRIOR) + adapted, np.log(_FROM_PRIOR) + log_prior)
    ratio: Floats = log_prior - mixed
    return ratio


@dataclass(frozen=True)
class _Given:
    """The kept draws at the measured counts: latent scores, means, walk variances, inverse covariances, and a score."""

    series: Series
    z: Floats
    mean: Floats
    walk: Floats
    precision: Floats
    score: Floats


def _conditional(given: _Given, targets: Points) -> Floats:
    """One draw a row of ln time at the targets, given the measured counts; includes the noise of one future run.

    A target takes the walk from its nearest smaller measured count; between two measured ones it takes a share by the
    modelled time; below the smallest the walk runs backwards, independent of what was measured above.
    """
    series, walk, mean = given.series, given.walk, given.mean
    measured = series.measured
    target_mean = np.log1p(relative_excess(series, targets, given.z))
    below = np.searchsorted(measured.cards, targets.cards, side="right") - 1
    anchor, above = below.clip(0), (below + 1).clip(0, len(measured.cards) - 1)
    own = _own_variance(targets.cards, targets.nodes, measured.cards[anchor], measured.nodes[anchor])
    beyond = own + (_relative_sigma(given.z) * (target_mean - mean[:, anchor])) ** 2
    span = np.log2(measured.cards[above] / measured.cards[anchor])
    share = np.log2(targets.cards / measured.cards[anchor]) / np.where(span > 0, span, np.inf)
    between = (walk[:, above] - walk[:, anchor]) * share
    inside = (below >= 0) & (above > anchor)
    own_part = np.where(inside, between, beyond)
    target_walk = np.where(below >= 0, walk[:, anchor] + own_part, 0.0)
    across = np.minimum(target_walk[:, :, None], walk[:, None, :]) + _LEVEL
    centre = target_mean + (across @ (given.precision @ (series.log_time - mean)[:, :, None]))[:, :, 0]
    explained = ((across @ given.precision) * across).sum(axis=2)
    variance = np.where(below >= 0, target_walk, beyond) + _LEVEL - explained
    drawn: Floats = centre + np.sqrt(np.maximum(variance, 0) + prior.NOISE_SIGMA**2) * given.score[:, None]
    return drawn
