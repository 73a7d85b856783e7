"""Parallel modes as functions: each takes a model on the meta device and a mesh, and returns it spread over that."""

from __future__ import annotations

import fnmatch

import torch
from torch import nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor import Replicate
from torch.distributed.tensor.parallel import ColwiseParallel, ParallelStyle, RowwiseParallel, parallelize_module
from torch.nn.parallel import DistributedDataParallel
from transformers import PreTrainedModel

from benchmarks.model import retie, ties
from configs.errors import ConfigError

# transformers' names of tensor-parallel styles, over the versions we support -> ours
_STYLES = {
    "colwise": ColwiseParallel,
    "rowwise": RowwiseParallel,
    "colwise_rep": lambda: ColwiseParallel(output_layouts=Replicate()),
    "colwise_gather_output": lambda: ColwiseParallel(output_layouts=Replicate()),
    "rowwise_rep": lambda: RowwiseParallel(input_layouts=Replicate()),
    "rowwise_split_input": lambda: RowwiseParallel(input_layouts=Replicate()),
    "embedding_rowwise": lambda: RowwiseParallel(input_layouts=Replicate()),
}


def tensor_parallel(model: PreTrainedModel, mesh: DeviceMesh) -> PreTrainedModel:
    """Shard `model`'s linear layers over the one-dimensional `mesh`, following the plan in its transformers config.

    Tied embeddings are sharded by vocabulary, so that both uses hold the same shard. Raises ConfigError for an
    architecture without a plan or with a style that has no torch counterpart.
    """
    tied = ties(model)
    plan = tensor_parallel_plan(model)
    parallelize_module(model, mesh, plan)
    retie(tied)
    return model


def tensor_parallel_plan(model: PreTrainedModel) -> dict[str, ParallelStyle]:
    """Module path -> style, from the model's own plan, for the modules that this (part of the) model has."""
    prefix = model.base_model_prefix
    named = {f"{prefix}.{key}": style for key, style in (model.config.base_model_tp_plan or {}).items()}
    named |= {key: style for key, style in (type(model)._tp_plan or {}).items() if "." not in key}
    if not named:
        raise ConfigError("mode=tp", f"{model.config.model_type} has no tensor-parallel plan in its config")
    if model.config.tie_word_embeddings:
        named[_path_of(model, model.get_input_embeddings())] = "embedding_rowwise"
    plan = {}
    for path, module in model.named_modules():
        if not isinstance(module, (nn.Linear, nn.Embedding)):
            continue
        for pattern, style in named.items():
            if fnmatch.fnmatchcase(path, pattern):
                if style not in _STYLES:
                    raise ConfigError("mode=tp", f"{pattern}: style {style!r} has no torch counterpart")
                plan[path] = _STYLES[style]()
    return plan


def fully_sharded(
    model: PreTrainedModel, mesh: DeviceMesh, layers: nn.ModuleList, reshard_after_forward: bool, autocast: bool
) -> PreTrainedModel:
    """Shard parameters, gradients and optimizer states over `mesh`: one unit a decoder layer, the rest in the root."""
    policy = (
        MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
        if autocast
        else MixedPrecisionPolicy()
    )
    for layer in layers:
        fully_shard(layer, mesh=mesh, reshard_after_forward=reshard_after_forward, mp_policy=policy)
    fully_shard(model, mesh=mesh, reshard_after_forward=reshard_after_forward, mp_policy=policy)
    return model


def data_parallel(model: nn.Module, mesh: DeviceMesh, device: torch.device) -> DistributedDataParallel:
    """Keep a whole copy on every rank of `mesh` and average the gradients in buckets. `model` is materialised."""
    ids = [device.index] if device.type == "cuda" else None
    return DistributedDataParallel(model, device_ids=ids, process_group=mesh.get_group())


def _path_of(model: nn.Module, wanted: nn.Module) -> str:
    return next(path for path, module in model.named_modules() if module is wanted)
