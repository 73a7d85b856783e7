"""Parallel modes as functions: each takes a model on the meta device and a mesh, and returns it spread over that."""

from __future__ import annotations

import fnmatch

import torch
from torch import nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor import DTensor, Replicate, Shard
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    ParallelStyle,
    PrepareModuleInput,
    RowwiseParallel,
    SequenceParallel,
    parallelize_module,
)
from torch.nn.parallel import DistributedDataParallel
from transformers import PreTrainedModel

from benchmarks.training.lora import BASE, adapter_plan, base_path
from benchmarks.training.model import retie, ties
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


def tensor_parallel(
    model: PreTrainedModel, mesh: DeviceMesh, sequence_parallel: bool = False, loss_parallel: bool = False
) -> PreTrainedModel:
    """Shard `model`'s linear layers over the one-dimensional `mesh`, following the plan in its transformers config.

    Tied embeddings are sharded by vocabulary, so that both uses hold the same shard. sequence_parallel: activations
    between the layers' matrix products are sharded along the sequence (Korthikanti et al. 2022). loss_parallel: logits
    stay sharded by vocabulary. Raises ConfigError for an architecture without a plan or with a style that has no torch
    counterpart.
    """
    tied = ties(model)
    names = tensor_parallel_plan(model)
    plan: dict[str, ParallelStyle] = {path: _STYLES[style]() for path, style in names.items()}
    if sequence_parallel:
        plan |= _sequence_parallel_plan(model, names)
    plan |= adapter_plan(model, names, sequence_parallel)
    head = _path_of(model, model.get_output_embeddings())
    if f"{head}{BASE}" in plan:
        raise ConfigError("recipe.lora_targets", "lm_head cannot be split with its adapter", "other targets under tp")
    if head in plan:
        plan[head] = ColwiseParallel(
            input_layouts=Shard(1) if sequence_parallel else Replicate(),
            output_layouts=Shard(-1) if loss_parallel else Replicate(),
            use_local_output=not loss_parallel,
        )
    frozen = [name for name, parameter in model.named_parameters() if not parameter.requires_grad]
    parallelize_module(model, mesh, plan)
    for name in frozen:  # the styles make new parameters
        model.get_parameter(name).requires_grad_(False)
    if sequence_parallel:
        _shard_the_sequence_between_layers(model, mesh, gather_after=head not in plan)
    retie(tied)
    return model


def tensor_parallel_plan(model: PreTrainedModel) -> dict[str, str]:
    """Module path -> style's name, from the model's own plan, for the modules that this (part of the) model has."""
    prefix = model.base_model_prefix
    named = {f"{prefix}.{key}": style for key, style in (model.config.base_model_tp_plan or {}).items()}
    named |= {key: style for key, style in (type(model)._tp_plan or {}).items() if "." not in key}
    if not named:
        raise ConfigError("mode=tp", f"{model.config.model_type} has no tensor-parallel plan in its config")
    embedding = _path_of(model, model.get_input_embeddings())
    if model.config.tie_word_embeddings and embedding:
        named[embedding] = "embedding_rowwise"
    plan = {}
    for path, module in model.named_modules():
        if not isinstance(module, (nn.Linear, nn.Embedding)):
            continue
        for pattern, style in named.items():
            if fnmatch.fnmatchcase(base_path(path), pattern):
                if style not in _STYLES:
                    raise ConfigError("mode=tp", f"{pattern}: style {style!r} has no torch counterpart")
                plan[path] = style
    return plan


def _sequence_parallel_plan(model: PreTrainedModel, plan: dict[str, str]) -> dict[str, ParallelStyle]:
    """Norms on sequence shards; gathers before the layers' column-wise products, scatters after the row-wise ones."""
    styles: dict[str, ParallelStyle] = {}
    layers = model.base_model.layers
    prefix = _path_of(model, layers)
    for index, layer in enumerate(layers):
        for name, part in layer.named_children():
            path = f"{prefix}.{index}.{name}"
            inside = [f"{path}.{child}" for child, _ in part.named_modules() if f"{path}.{child}" in plan]
            if not inside:
                styles[path] = SequenceParallel()
                continue
            styles[path] = (
                PrepareModuleInput(input_layouts=(Shard(1),), desired_input_layouts=(Replicate(),))
                if _called_by_position(name)
                else PrepareModuleInput(
                    input_kwarg_layouts={"hidden_states": Shard(1)},
                    desired_input_kwarg_layouts={"hidden_states": Replicate()},
                )
            )
            for each in inside:
                if plan[each].startswith("rowwise"):
                    styles[each] = RowwiseParallel(output_layouts=Shard(1))
    norm = list(model.config.base_model_pp_plan or {"norm": 0})[-1]
    if not isinstance(getattr(model.base_model, norm), nn.Identity):
        styles[f"{model.base_model_prefix}.{norm}"] = SequenceParallel()
    return styles


def _called_by_position(name: str) -> bool:
    """transformers' decoder layers call their attention with keywords and their MLP with one positional argument."""
    return "attn" not in name and "attention" not in name


def _shard_the_sequence_between_layers(model: PreTrainedModel, mesh: DeviceMesh, gather_after: bool) -> None:
    """Cut the hidden states along the sequence as they enter the first layer; gather them after the last if asked."""
    layers = model.base_model.layers

    def cut(module: nn.Module, args: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor, ...]:
        whole_sequence = DTensor.from_local(args[0], mesh, [Replicate()], run_check=False)
        return (whole_sequence.redistribute(placements=[Shard(1)]).to_local(), *args[1:])

    def gather(module: nn.Module, args: tuple[object, ...], output: torch.Tensor) -> torch.Tensor:
        part = DTensor.from_local(output, mesh, [Shard(1)], run_check=False)
        return part.redistribute(placements=[Replicate()]).to_local()

    layers[0].register_forward_pre_hook(cut)
    if gather_after:
        layers[-1].register_forward_hook(gather)


def fully_sharded(
    module: nn.Module,
    mesh: DeviceMesh,
    layers: nn.ModuleList,
    reshard_after_forward: bool,
    compute_dtype: torch.dtype | None,
) -> None:
    """Shard parameters, gradients and optimizer states of `module`: one unit a decoder layer, the rest in the root.

    A two-dimensional `mesh` is hybrid: copies along its first axis, shards along its second. compute_dtype: what
    gathered parameters are cast to (gradients are then summed in fp32); None leaves them as they are.
    """
    policy = (
        MixedPrecisionPolicy(param_dtype=compute_dtype, reduce_dtype=torch.float32)
        if compute_dtype
        else MixedPrecisionPolicy()
    )
    for layer in layers:
        fully_shard(layer, mesh=mesh, reshard_after_forward=reshard_after_forward, mp_policy=policy)
    fully_shard(module, mesh=mesh, reshard_after_forward=reshard_after_forward, mp_policy=policy)


def data_parallel(model: nn.Module, mesh: DeviceMesh, device: torch.device) -> DistributedDataParallel:
    """Keep a whole copy on every rank of `mesh` and average the gradients in buckets. `model` is materialised."""
    ids = [device.index] if device.type == "cuda" else None
    return DistributedDataParallel(model, device_ids=ids, process_group=mesh.get_group())


def _path_of(model: nn.Module, wanted: nn.Module | None) -> str:
    """The path of a module of `model`; empty where another stage holds it."""
    return next((path for path, module in model.named_modules() if module is wanted), "")
