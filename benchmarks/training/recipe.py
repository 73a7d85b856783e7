"""What a recipe does to a model: dtypes of weights and arithmetic, adapters, activation checkpointing, compilation."""

from __future__ import annotations

import contextlib
from functools import partial
from typing import Any

import torch
from torch.utils.checkpoint import CheckpointPolicy, checkpoint, create_selective_checkpoint_contexts
from transformers import PreTrainedModel

from benchmarks.training.lora import add_adapters
from benchmarks.training.pipeline import Computing
from configs.schema import Recipe

_AUTOCAST = {"bf16": torch.bfloat16, "fp16": torch.float16}

# What selective checkpointing keeps: the results of matrix products and of attention, which cost the most to redo.
# Norms, activation functions, rotations and sums are computed again.
_KEPT = {
    torch.ops.aten.mm.default,
    torch.ops.aten.addmm.default,
    torch.ops.aten.bmm.default,
    torch.ops.aten._scaled_dot_product_flash_attention.default,
    torch.ops.aten._scaled_dot_product_efficient_attention.default,
    torch.ops.aten._scaled_dot_product_cudnn_attention.default,
    torch.ops.aten._scaled_dot_product_flash_attention_for_cpu.default,
}


def weight_dtype(recipe: Recipe) -> torch.dtype:
    """Of the weights that a full fine-tune trains, or that LoRA leaves frozen: those need no fp32 master copy."""
    if recipe.precision == "bf16_pure":
        return torch.bfloat16
    if recipe.method == "lora":
        return _AUTOCAST.get(recipe.precision, torch.float32)
    return torch.float32


def autocast_dtype(recipe: Recipe) -> torch.dtype | None:
    """What matrix products are computed in where that differs from the weights; None where it does not."""
    return _AUTOCAST.get(recipe.precision)


def computing(recipe: Recipe, device: torch.device, cast_by_sharding: bool) -> Computing:
    """The context of every forward pass. Fully sharded parameters are cast as they are gathered, all others here."""
    dtype = autocast_dtype(recipe)
    if dtype is None or cast_by_sharding:
        return contextlib.nullcontext
    return partial(torch.autocast, device.type, dtype=dtype)


def prepare(model: PreTrainedModel, recipe: Recipe) -> None:
    """Adapters and checkpointing, before any mode is applied. `model` is on the meta device."""
    if recipe.method == "lora":
        add_adapters(model, recipe, torch.bfloat16 if recipe.precision == "bf16_pure" else torch.float32)
    if recipe.checkpointing != "none":
        checkpoint_layers(model, selective=recipe.checkpointing == "selective")


def checkpoint_layers(model: PreTrainedModel, selective: bool) -> None:
    """Keep only each decoder layer's input for the backward pass; selective: and what is dear to compute again."""
    options: dict[str, Any] = {"use_reentrant": False}
    if selective:
        options["context_fn"] = partial(create_selective_checkpoint_contexts, _keep_what_is_dear)
    model._set_gradient_checkpointing(True, gradient_checkpointing_func=partial(checkpoint, **options))


def _keep_what_is_dear(context: Any, operation: Any, *args: Any, **kwargs: Any) -> CheckpointPolicy:
    return CheckpointPolicy.MUST_SAVE if operation in _KEPT else CheckpointPolicy.PREFER_RECOMPUTE


def compile_layers(model: PreTrainedModel) -> None:
    """Compile each decoder layer for itself: they are alike, so the first pays for all of them."""
    for layer in model.base_model.layers:
        layer.compile()
