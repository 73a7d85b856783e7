"""How many parameters a model has and how many of them each rank holds, exactly, matrix by matrix.

Vectorised: a size is a number or an array with one entry a rank. tests/analysis/vram/test_parameters.py holds the
counts to transformers' own models on the meta device.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Sizes = NDArray[np.float64]

# Fields that say of a config that its layers are not the plain dense ones this module counts.
_NOT_DENSE = {
    "num_local_experts": "mixture of experts",
    "num_experts": "mixture of experts",
    "n_routed_experts": "mixture of experts",
    "kv_lora_rank": "multi-head latent attention",
    "state_size": "state-space layers",
    "mamba_d_state": "state-space layers",
    "layers_block_type": "state-space layers",
}


@dataclass(frozen=True)
class Architecture:
    """What a decoder layer has besides its seven matrices. Read off transformers' modeling files of that name.

    bias fields: True, False, or the config field that says so. qk_norm: "" none, "head" one head wide, "full" as wide
    as the projection. norm_scale_in_fp32: the norm multiplies by its weight before it casts down (Gemma).
    """

    norms: int = 2
    qkv_bias: bool | str = False
    output_bias: bool | str = False
    mlp_bias: bool | str = False
    qk_norm: str = ""
    norm_scale_in_fp32: bool = False


_LLAMA = Architecture(qkv_bias="attention_bias", output_bias="attention_bias", mlp_bias="mlp_bias")
_GEMMA = Architecture(qkv_bias="attention_bias", output_bias="attention_bias", norm_scale_in_fp32=True)
ARCHITECTURES = {
    "llama": _LLAMA,
    "granite": _LLAMA,
    "mistral": Architecture(),
    "qwen2": Architecture(qkv_bias=True),
    "qwen3": Architecture(qkv_bias="attention_bias", output_bias="attention_bias", qk_norm="head"),
    "phi3": Architecture(),
    "gemma": _GEMMA,
    "gemma2": Architecture(4, "attention_bias", "attention_bias", norm_scale_in_fp32=True),
    "gemma3_text": Architecture(4, "attention_bias", "attention_bias", qk_norm="head", norm_scale_in_fp32=True),
    "olmo2": Architecture(qkv_bias="attention_bias", output_bias="attention_bias", qk_norm="full"),
}
TIED_BY_DEFAULT = ("gemma", "gemma2", "gemma3_text")


def not_covered(config: Mapping[str, Any]) -> str:
    """Why the closed form has no terms for this transformers config; empty where it has."""
    kind = str(config.get("model_type", ""))
    for field, what in _NOT_DENSE.items():
        if config.get(field):
            return f"{what} ({field})"
    return "" if kind in ARCHITECTURES else f"architecture {kind!r}"


def says(flag: bool | str, config: Mapping[str, Any]) -> bool:
    """An `Architecture` flag, looked up in the config where it names a field."""
    return bool(config.get(flag, False)) if isinstance(flag, str) else flag


@dataclass(frozen=True)
class Matrix:
    """`count` parameters of `rows` x `cols`. tp: the axis tensor parallelism splits (0 rows, 1 columns, None: a copy).

    linear: a matrix product's weight, which mixed precision casts. Vectors have one column.
    """

    name: str
    rows: Sizes
    cols: Sizes
    tp: int | None
    linear: bool = True
    count: Sizes | float = 1.0

    def elements(self, tp: Sizes | float = 1.0, shards: Sizes | float = 1.0) -> Sizes:
        """Elements on the fullest rank of tp tensor-parallel ones, its part in turn cut along its rows into `shards`.

        torch.chunk gives the first ranks ceil(rows / shards) rows; fully_shard pads the others to as many.
        """
        rows = np.ceil(self.rows / tp) if self.tp == 0 else self.rows
        cols = np.ceil(self.cols / tp) if self.tp == 1 else self.cols
        return np.asarray(self.count * np.ceil(rows / shards) * cols, dtype=np.float64)


@dataclass(frozen=True)
class Dimensions:
    """A model's sizes, one entry a rank; flags are 0 or 1."""

    layers: Sizes  # of the whole model
    hidden: Sizes
    query: Sizes  # heads x head size
    key_value: Sizes  # key/value heads x head size
    head_dim: Sizes
    heads: Sizes
    intermediate: Sizes
    vocab: Sizes
    tied: Sizes
    norms: Sizes  # a layer
    qkv_bias: Sizes
    output_bias: Sizes
    mlp_bias: Sizes
    qk_norm_head: Sizes
    qk_norm_full: Sizes
    norm_scale_in_fp32: Sizes


def layer_matrices(size: Dimensions) -> Iterator[Matrix]:
    """Every parameter of one decoder layer, as transformers' plan splits it: column-wise first, row-wise after."""
    one = np.ones_like(size.hidden)
    yield Matrix("q_proj", size.query, size.hidden, 0)
    yield Matrix("k_proj, v_proj", size.key_value, size.hidden, 0, count=2)
    yield Matrix("o_proj", size.hidden, size.query, 1)
    yield Matrix("gate_proj, up_proj", size.intermediate, size.hidden, 0, count=2)
    yield Matrix("down_proj", size.hidden, size.intermediate, 1)
    yield Matrix("norms", size.hidden, one, None, linear=False, count=size.norms)
    yield Matrix("q bias", size.query, one, 0, count=size.qkv_bias)
    yield Matrix("k, v bias", size.key_value, one, 0, count=2 * size.qkv_bias)
    yield Matrix("o bias", size.hidden, one, None, count=size.output_bias)
    yield Matrix("gate, up bias", size.intermediate, one, 0, count=2 * size.mlp_bias)
    yield Matrix("down bias", size.hidden, one, None, count=size.mlp_bias)
    yield Matrix("q, k norm of a head", size.head_dim, one, None, linear=False, count=2 * size.qk_norm_head)
    yield Matrix("q norm", size.query, one, None, linear=False, count=size.qk_norm_full)
    yield Matrix("k norm", size.key_value, one, None, linear=False, count=size.qk_norm_full)


def embedding_matrix(size: Dimensions) -> Matrix:
    """The look-up table. Tensor parallelism shards it only where it is tied to the head, which must share the shard.

    That is a flag per rank, so the split is applied by the caller: here it is a copy.
    """
    return Matrix("embed_tokens", size.vocab, size.hidden, None, linear=False)


def head_matrix(size: Dimensions) -> Matrix:
    return Matrix("lm_head", size.vocab, size.hidden, 0)


@dataclass(frozen=True)
class Held:
    """Elements that a rank holds, one entry a rank: of one layer, and outside the layers."""

    layer: Sizes
    layer_linear: Sizes  # of these, weights of matrix products
    embedding: Sizes  # 0 on ranks without it, and where it is one parameter with the head
    head: Sizes
    norm: Sizes
    largest: Sizes  # the largest single parameter

    @property
    def root(self) -> Sizes:
        """Everything outside the layers."""
        return self.embedding + self.head + self.norm


def held(size: Dimensions, first: Sizes, last: Sizes, tp: Sizes, shards: Sizes) -> Held:
    """Elements on the fullest rank of a stage. first, last: whether the stage has the embedding, the head (0 or 1).

    A tied embedding is one parameter where both ends are on one stage, and a copy on each where they are not.
    """
    layer = np.zeros_like(size.hidden)
    linear, largest = layer, layer
    for matrix in layer_matrices(size):
        elements = matrix.elements(tp, shards)
        layer = layer + elements
        linear = linear + (elements if matrix.linear else 0.0)
        largest = np.maximum(largest, elements / np.maximum(matrix.count, 1))
    table, head = embedding_matrix(size), head_matrix(size).elements(tp, shards)
    embedding = np.where(size.tied > 0, head, table.elements(1.0, shards))
    with_head = last * head
    with_embedding = first * embedding * (1 - last * size.tied)
    norm = last * np.ceil(size.hidden / shards)
    return Held(
        layer, linear, with_embedding, with_head, norm, np.maximum(largest, np.maximum(with_embedding, with_head))
    )


def total_parameters(size: Dimensions) -> Sizes:
    """Parameters of the whole model; tied ones count once."""
    one = np.ones_like(size.hidden)
    whole = held(size, one, one, one, one)
    return np.asarray(size.layers * whole.layer + whole.root, dtype=np.float64)
