"""The modules of one rank: built on the meta device, spread over the mesh by the mode, and filled shard by shard."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from transformers import PretrainedConfig

from benchmarks.training import modes, pipeline
from benchmarks.training.model import build_on_meta, materialise, transformers_config
from benchmarks.training.recipe import autocast_dtype, compile_layers, computing, prepare, weight_dtype
from benchmarks.training.weights import source_of
from configs.cell import Cell
from configs.layout import split_layers

AXES = ("pp", "replicate", "shard", "tp")


def build_mesh(cell: Cell, device: torch.device) -> DeviceMesh:
    """The world as pipeline x copies x shards x tensor: copies x shards are the data-parallel ranks."""
    layout = cell.layout
    copies = cell.mode.replicate if cell.mode.shard == "full" else layout.dp
    return init_device_mesh(device.type, (layout.pp, copies, layout.dp // copies, layout.tp), mesh_dim_names=AXES)


def is_sharded(cell: Cell) -> bool:
    """Whether fully_shard holds the parameters: where the mode shards them, and where DDP cannot keep copies.

    DDP can neither hold parameters that tensor parallelism has sharded nor rebuild its buckets between the
    micro-batches of a pipeline; one shard a copy can do both.
    """
    return cell.mode.shard == "full" or (cell.layout.dp > 1 and cell.layout.tp * cell.layout.pp > 1)


def build_stages(
    cell: Cell,
    mesh: DeviceMesh,
    device: torch.device,
    fill: Callable[..., None] = materialise,
    copies: Callable[..., nn.Module] = modes.data_parallel,
) -> list[nn.Module]:
    """This rank's stages (one without a pipeline), each under tensor and data parallelism, with its share of weights.

    fill, copies: how parameters get their storage, and what keeps whole copies alike; a dry run has its own.
    """
    config = transformers_config(cell.model)
    stages = pipeline.stages_of_rank(cell.mode.schedule, cell.layout.pp, mesh["pp"].get_local_rank())
    count = cell.layout.pp * len(stages)
    return [_build_stage(cell, config, mesh, device, stage, count, fill, copies) for stage in stages]


def _build_stage(
    cell: Cell,
    config: PretrainedConfig,
    mesh: DeviceMesh,
    device: torch.device,
    stage: int,
    stages: int,
    fill: Callable[..., None],
    copies: Callable[..., nn.Module],
) -> nn.Module:
    recipe, mode = cell.recipe, cell.mode
    first, last = stage == 0, stage == stages - 1
    layers = split_layers(config.num_hidden_layers, stages)[stage]
    model = build_on_meta(config, layers, weight_dtype(recipe), recipe.attention)
    prepare(model, recipe)
    source = source_of(cell, model, config)
    if stages > 1:
        model = pipeline.keep_stage(model, first, last)
    if cell.layout.tp > 1:
        model = modes.tensor_parallel(model, mesh["tp"], mode.sequence_parallel, mode.loss_parallel)
    if recipe.compile:
        compile_layers(model)
    sharded = is_sharded(cell)
    context = computing(recipe, device, cast_by_sharding=sharded)
    module: nn.Module = model if stages == 1 else pipeline.Stage(model, first, last, context)
    if sharded:
        over = mesh["shard"] if mesh["replicate"].size() == 1 else mesh["replicate", "shard"]
        modes.fully_sharded(module, over, model.base_model.layers, mode.reshard_after_forward, autocast_dtype(recipe))
    fill(module, model.config, source, device, first_layer=layers.start)
    module.train()
    if cell.layout.dp > 1 and not sharded:
        module = copies(module, mesh["replicate"], device)
    return module


def full_parameters(cell: Cell) -> tuple[int, int]:
    """Parameters of the whole model, tied ones once and without adapters; and those that the recipe trains."""
    config = transformers_config(cell.model)
    model = build_on_meta(config, range(config.num_hidden_layers), torch.float32, "sdpa")
    total = sum(p.numel() for p in model.parameters())
    prepare(model, cell.recipe)
    return total, sum(p.numel() for p in model.parameters() if p.requires_grad)
