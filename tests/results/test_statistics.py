"""Medians and their intervals."""

from __future__ import annotations

import math

import numpy as np
import pytest

from results.statistics import block_bootstrap, relative_width, summarise


def test_the_median_of_known_steps() -> None:
    assert summarise([0.3, 0.1, 0.2]).median == 0.2


def test_one_step_has_no_interval() -> None:
    step = summarise([0.1])
    assert (step.median, step.ci95_low, step.ci95_high, step.cv) == (0.1, None, None, None)
    assert relative_width(step) == math.inf


def test_no_steps_have_no_median() -> None:
    assert summarise([]).median is None


def test_equal_steps_have_an_interval_without_width() -> None:
    step = summarise([0.5] * 20)
    assert (step.ci95_low, step.ci95_high, step.cv) == (0.5, 0.5, 0.0)
    assert relative_width(step) == 0


def test_the_interval_covers_the_true_median_at_its_rate() -> None:
    """400 series of 60 independent steps: a 95 % interval misses about 20, give or take 13 (3 sigma), and its bias."""
    generator = np.random.default_rng(0)
    missed = 0
    for _ in range(400):
        step = summarise(generator.lognormal(0, 0.1, 60))
        assert step.ci95_low is not None and step.ci95_high is not None
        missed += not step.ci95_low <= 1.0 <= step.ci95_high
    assert missed <= 45


def test_blocks_keep_the_correlation_that_single_draws_would_lose() -> None:
    """A slow wave: neighbours are alike, so the median is known less well than from as many independent steps."""
    generator = np.random.default_rng(1)
    noise = generator.normal(0, 1, 400)
    wave = np.empty(400)
    wave[0] = 0
    for i in range(1, 400):
        wave[i] = 0.95 * wave[i - 1] + noise[i]
    shuffled = generator.permutation(wave)
    assert block_bootstrap(wave).std() > 1.3 * block_bootstrap(shuffled).std()


def test_a_bootstrap_needs_a_sample() -> None:
    with pytest.raises(ValueError, match="at least one"):
        block_bootstrap([])
