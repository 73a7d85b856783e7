"""Model FLOPs per token, and the share of the card's peak a throughput is, as the PaLM paper's appendix B counts."""

from __future__ import annotations


def model_flops_per_token(
    parameters: int, embedding_parameters: int, layers: int, attention_width: int, seq_len: int, causal: bool = False
) -> float:
    """FLOPs of forward and backward for one token: 6 N + 12 L h s (Chowdhery et al. 2022, appendix B).

    N: parameters less the embedding look-up (an output head, tied or not, is a matrix product and stays in). h: heads x
    head_dim. The attention term counts the full s^2, as PaLM does; with `causal` half of it, what a causal kernel does.
    """
    attention = 12 * layers * attention_width * seq_len
    return 6 * (parameters - embedding_parameters) + attention / (2 if causal else 1)


def utilisation(flops_per_token: float, tokens_per_s_per_card: float, peak_tflops: float | None) -> float | None:
    """Achieved over peak FLOP/s of one card; None where the peak is not stated."""
    if not peak_tflops:
        return None
    return flops_per_token * tokens_per_s_per_card / (peak_tflops * 1e12)
