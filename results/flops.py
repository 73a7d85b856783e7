"""Model FLOPs per token, and the share of the card's peak a throughput is, as the PaLM paper's appendix B counts."""

from __future__ import annotations


def model_flops_per_token(
    parameters: int,
    embedding_parameters: int,
    layers: int,
    attention_width: int,
    seq_len: int,
    causal: bool = False,
    frozen_parameters: int = 0,
) -> float:
    """FLOPs of forward and backward for one token: 6 N + 12 L h s (Chowdhery et al. 2022, appendix B).

    N: parameters less the embedding look-up (an output head, tied or not, is a matrix product and stays in). h: heads x
    head_dim. The attention term counts the full s^2, as PaLM does; with `causal` half of it, what a causal kernel does.
    Frozen parameters (less the look-up) get no gradient of their own, one third of the work: they count 4.
    """
    attention = 12 * layers * attention_width * seq_len
    products = 6 * (parameters - embedding_parameters) - 2 * frozen_parameters
    return products + attention / (2 if causal else 1)


def recomputed_flops_per_token(parameters: int, layers: int, attention_width: int, seq_len: int) -> float:
    """FLOPs that full activation checkpointing adds for one token: the decoder's forward pass again, 2 N + 4 L h s.

    N: parameters of the matrix products, as above; the head's, which is not recomputed, is counted with them.
    """
    return 2 * parameters + 4 * layers * attention_width * seq_len


def utilisation(flops_per_token: float, tokens_per_s_per_card: float, peak_tflops: float | None) -> float | None:
    """Achieved over peak FLOP/s of one card; None where the peak is not stated."""
    if not peak_tflops:
        return None
    return flops_per_token * tokens_per_s_per_card / (peak_tflops * 1e12)
