"""What the measured counts say about the others: the posterior of the step-time model, by adaptive importance sampling.

Cappé et al. 2004. What the model leaves out is a random walk over the doublings, so that intervals widen with the
distance from the measured counts even where the model is sure of itself (Kennedy and O'Hagan 2001).
"""

from __future__ import annotations

from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from analysis.predict import prior
from analysis.predict.model import Floats, Latent, Points, Series, log_relative_time, score

LATENTS = len(Latent)
DRAWS, ROUNDS, KEPT = 2000, 3, 1000
_LEVEL = 25.0  # prior variance of the log compute time: anything
_WIDEN, _FLOOR, _FROM_PRIOR = 1.3, 0.05, 0.3  # the proposal stays wider than the posterior, and keeps 30 % prior draws
_TARGETS_AT_ONCE = 64  # a block of draws x targets x counts stays in the processor's cache
MOST_OUTLIER_CANDIDATES = 3


@dataclass(frozen=True)
class Posterior:
    """log_time: draws of ln(card-seconds a token) at the target counts, shape (KEPT, targets).

    outlier_chance: of each measured count, that it does not belong to the series.
    """

    log_time: Floats
    outlier_chance: Floats


@dataclass(frozen=True)
class _Draws:
    """Weighted draws: latent scores, their modelled ln time and walk variance at the measured counts.

    by_hypothesis: ln likelihood of each draw and outlier hypothesis, shape (draws, hypotheses). weight: adds up to 1.
    """

    z: Floats
    mean: Floats
    walk: Floats
    by_hypothesis: Floats
    weight: Floats


def posterior(series: Series, seed: int = 0) -> Posterior:
    """What the measured counts say about the targets. Deterministic for a seed."""
    rng = np.random.default_rng(seed)
    noises, log_chances = _outlier_hypotheses(series)
    draws = _sample(series, noises, log_chances, rng)
    kept = np.minimum(np.searchsorted(np.cumsum(draws.weight), (np.arange(KEPT) + 0.5) / KEPT), DRAWS - 1)
    likelihood = draws.by_hypothesis[kept]
    chances = np.exp(likelihood - np.logaddexp.reduce(likelihood, axis=1)[:, None])
    hypothesis = (rng.random((KEPT, 1)) > np.cumsum(chances, axis=1)).sum(axis=1).clip(0, len(noises) - 1)
    noise = np.stack(noises)[hypothesis]
    # One score a draw for all targets: curves over the cards are smooth.
    scores = rng.permutation(np.array([NormalDist().inv_cdf((i + 0.5) / KEPT) for i in range(KEPT)]))
    precision = np.linalg.inv(_covariance(draws.walk[kept]) + noise[:, :, None] * np.eye(noise.shape[1]))
    given = _Given(series, draws.z[kept], draws.mean[kept], draws.walk[kept], precision, scores)
    parts = range(0, len(series.targets.cards), _TARGETS_AT_ONCE)
    targets = [series.targets.part(i, i + _TARGETS_AT_ONCE) for i in parts]
    log_time = np.concatenate([_bounded(_conditional(given, part), series, part) for part in targets], axis=1)
    wrong = noise > noises[0]
    return Posterior(log_time, outlier_chance=wrong.mean(axis=0))


def _sample(series: Series, noises: list[Floats], log_chances: Floats, rng: np.random.Generator) -> _Draws:
    """Draws from the prior, then from normals fitted to the weighted draws before, weighted by the posterior."""
    centre, spread = np.zeros(LATENTS), np.eye(LATENTS)
    z = rng.standard_normal((DRAWS, LATENTS))
    for round_number in range(ROUNDS):
        if round_number:
            adapted = centre + rng.standard_normal((DRAWS, LATENTS)) @ np.linalg.cholesky(spread).T
            from_prior = rng.random(DRAWS) < _FROM_PRIOR
            z = np.where(from_prior[:, None], rng.standard_normal((DRAWS, LATENTS)), adapted)
        mean = log_relative_time(series, series.measured, z)
        walk = _walk(series, mean, z)
        by_hypothesis = np.stack([_log_likelihood(series, mean, walk, n) for n in noises], axis=1) + log_chances
        log_weight = np.logaddexp.reduce(by_hypothesis, axis=1)
        if round_number:
            log_weight += _log_prior_over_proposal(z, centre, spread)
        weight = np.exp(log_weight - log_weight.max())
        weight /= weight.sum()
        centre = weight @ z
        spread = (weight[:, None] * (z - centre)).T @ (z - centre) * _WIDEN + _FLOOR * np.eye(LATENTS)
    return _Draws(z, mean, walk, by_hypothesis, weight)


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
    return prior.WALK_RELATIVE.at(score(z, Latent.WALK))


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
    """The kept draws at the measured counts: latent scores, means, walk variances, inverse covariances, one score."""

    series: Series
    z: Floats
    mean: Floats
    walk: Floats
    precision: Floats
    scores: Floats


def _conditional(given: _Given, targets: Points) -> Floats:
    """One draw a row of ln time at the targets, given the measured counts; includes the noise of one future run.

    A target takes the walk from its nearest smaller measured count; between two measured ones it takes a share by the
    modelled time; below the smallest the walk runs backwards, independent of what was measured above.
    """
    series, walk, mean = given.series, given.walk, given.mean
    measured = series.measured
    target_mean = log_relative_time(series, targets, given.z)
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
    drawn: Floats = centre + np.sqrt(np.maximum(variance, 0) + prior.NOISE_SIGMA**2) * given.scores[:, None]
    return drawn
