"""Model FLOPs and utilisation."""

from __future__ import annotations

import pytest

from results.flops import model_flops_per_token, utilisation


def test_palm_appendix_b_for_llama_2_7b_by_hand() -> None:
    """6 x (6,738,415,616 - 32,000 x 4,096) + 12 x 32 x 4,096 x 2,048 = 39,644,061,696 + 3,221,225,472."""
    flops = model_flops_per_token(6_738_415_616, 32_000 * 4_096, 32, 4_096, 2_048)
    assert flops == 42_865_287_168


def test_causal_attention_counts_half_of_the_square() -> None:
    full = model_flops_per_token(0, 0, layers=1, attention_width=10, seq_len=100)
    assert model_flops_per_token(0, 0, 1, 10, 100, causal=True) == full / 2 == 6000


def test_utilisation_is_achieved_over_peak() -> None:
    assert utilisation(40e9, 3900, 312) == pytest.approx(0.5)


def test_without_a_peak_there_is_no_utilisation() -> None:
    assert utilisation(40e9, 3900, None) is None
