"""Bytes that the forward pass keeps for the backward pass, term by term as transformers' decoder layers save them.

Korthikanti et al. 2022 (Reducing Activation Recomputation in Large Transformer Models, section 4) count the same
kinds of tensors for a fused GPT layer; these are the terms of an eager Llama layer with RMSNorm, rotary embedding and a
gated MLP. A term is tokens x width x bytes.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from analysis.vram.parameters import Sizes
from analysis.vram.roles import Roles
from analysis.vram.states import whole


@dataclass(frozen=True)
class Activations:
    """Bytes of one micro-batch on one role."""

    layer: Sizes  # kept by one layer
    layer_input: Sizes  # the part that checkpointing keeps instead
    dear: Sizes  # of `layer`, what selective checkpointing keeps beside the input
    attention: Sizes  # of `layer`, what the attention kernel keeps
    head: Sizes  # final norm and the head's input, where the head is
    shared: Sizes  # rotary tables and the mask, once
    weight_casts: Sizes  # autocast's 16-bit copies of this stage's matrices, held until their backward
    logits: Sizes
    loss: Sizes  # beside the logits, at the loss's own backward
    residual: Sizes  # one hidden state between layers


def compute_bytes(roles: Roles) -> Sizes:
    """Of an element that a matrix product reads or writes."""
    return np.where(roles.fp32 > 0, 4.0, 2.0)


def residual_bytes(roles: Roles) -> Sizes:
    """Of an element of the hidden states between layers: autocast leaves them in fp32."""
    return np.where((roles.fp32 > 0) | (roles.autocast > 0), 4.0, 2.0)


def activations(roles: Roles) -> Activations:
    """What one micro-batch keeps. Under tensor parallelism matrices' outputs are split, norms and inputs are whole;
    sequence parallelism splits the norms' part as well (Korthikanti et al. 2022, section 4.2)."""
    size, tokens = roles.size, roles.tokens
    own_tokens = np.where(roles.sequence_parallel > 0, tokens / roles.tp, tokens)
    compute, residual = compute_bytes(roles), residual_bytes(roles)
    # RMSNorm works in fp32 and saves its input there, then saves what it multiplies by the weight
    scaled = np.where(size.norm_scale_in_fp32 > 0, 4.0, residual)
    norm = (4 + scaled) * size.hidden * own_tokens + 4 * own_tokens
    # autocast casts the input anew for each of q, k, v and gate, up; else the group shares one tensor
    inputs = np.where(roles.autocast > 0, 5 * 2.0, 2 * compute) * size.hidden * tokens
    kept_attention = attention_bytes(roles, compute)
    mlp = 4 * compute * size.intermediate / roles.tp * tokens
    head_input = compute * size.hidden * tokens
    held = whole(roles)
    vocab = np.where(roles.loss_parallel > 0, size.vocab / roles.tp, size.vocab) * roles.last
    rotary = 2 * residual * size.head_dim * roles.seq_len
    mask = np.where(roles.eager > 0, residual * roles.micro_batch * roles.seq_len**2, 0.0)
    return Activations(
        layer=size.norms * norm + inputs + kept_attention + mlp,
        layer_input=residual * size.hidden * own_tokens,
        dear=dear_bytes(roles, compute),
        attention=kept_attention,
        head=roles.last * (norm + head_input),
        shared=rotary + mask,
        weight_casts=roles.autocast * 2.0 * (roles.layers * held.layer_linear + held.head),
        logits=compute * vocab * tokens,
        # log-softmax, its gradient and the loss's are fp32 whatever the logits are
        loss=12.0 * vocab * tokens,
        residual=residual * size.hidden * own_tokens,
    )


def dear_bytes(roles: Roles, compute: Sizes) -> Sizes:
    """Of one layer's results of matrix products and of attention: q, k, v, attention's output with its log-sum-exp,
    o_proj, gate, up, down. What benchmarks.training.recipe keeps under selective checkpointing."""
    size, tokens, tp = roles.size, roles.tokens, roles.tp
    split = (2 * size.query + 2 * size.key_value + 2 * size.intermediate) * compute / tp + 4 * size.heads / tp
    return np.asarray((split + 2 * size.hidden * compute) * tokens, dtype=np.float64)


def attention_bytes(roles: Roles, compute: Sizes) -> Sizes:
    """Of one layer's attention. A fused kernel keeps q, k, v, its output and a log-sum-exp in fp32 (Dao et al. 2022);
    eager attention keeps the seq_len x seq_len probabilities in fp32, again in 16 bit, and k, v for every head.
    """
    size, tokens, tp = roles.size, roles.tokens, roles.tp
    norms = np.where(
        (size.qk_norm_head + size.qk_norm_full) > 0, (4 + compute) * (size.query + size.key_value) / tp, 0.0
    )
    fused = (2 * size.query + 2 * size.key_value) * compute / tp + 4 * size.heads / tp
    square = np.where(compute < 4, 6.0, 4.0) * size.heads / tp * roles.seq_len
    eager = 4 * size.query * compute / tp + square
    return np.asarray((np.where(roles.eager > 0, eager, fused) + norms) * tokens, dtype=np.float64)
