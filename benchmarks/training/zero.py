"""DeepSpeed ZeRO: the same model, weights, loss and optimizer as the other modes, sharded by DeepSpeed's engine."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from transformers import PretrainedConfig, PreTrainedModel

from benchmarks.training.build import full_parameters
from benchmarks.training.deepspeed_settings import DTYPES, import_deepspeed, settings
from benchmarks.training.gradients import LossScale
from benchmarks.training.model import (
    Source,
    build_on_meta,
    full_name,
    materialise,
    rebuilt_buffers,
    ties,
    transformers_config,
)
from benchmarks.training.optim import OPTIMIZERS
from benchmarks.training.recipe import compile_layers, prepare
from benchmarks.training.train import Job, inputs_and_targets, loss_sum
from benchmarks.training.weights import source_of
from configs.cell import Cell


def build_zero_job(cell: Cell, device: torch.device) -> Job:
    """One rank's part of a ZeRO job. Every rank of the job calls this."""
    deepspeed = import_deepspeed(device)
    recipe = cell.recipe
    config = transformers_config(cell.model)
    dtype = DTYPES.get(recipe.precision, torch.float32)
    model = build_on_meta(config, range(config.num_hidden_layers), dtype, recipe.attention)
    prepare(model, recipe)
    for parameter in model.parameters():  # adapters too: their masters are in the optimizer
        parameter.data = parameter.data.to(dtype)
    source = source_of(cell, model, config)
    wanted = settings(cell, device)
    if cell.mode.zero_stage == 3:
        fill_partitioned(deepspeed, model, config, source, device, wanted)
    else:
        materialise(model, model.config, source, device)
    model.train()
    if recipe.compile:
        compile_layers(model)
    trained = [p for p in model.parameters() if p.requires_grad]
    engine, *_ = deepspeed.initialize(
        model=model, optimizer=OPTIMIZERS[recipe.optimizer](trained, recipe), config=wanted, dist_init_required=False
    )
    scale, norms = LossScale(False), []

    def step(rows: torch.Tensor, targets: int | None = None) -> torch.Tensor:
        loss = _accumulated(cell, engine, rows.to(device, non_blocking=True), targets or cell.global_batch_tokens)
        engine.step()
        if recipe.clip_norm is not None or recipe.precision == "fp16":
            norms.append(torch.as_tensor(engine.get_global_grad_norm()))
        scale.skipped_steps = engine.skipped_steps
        return loss

    return Job(step, [engine], engine.optimizer, dist.get_rank(), *full_parameters(cell), norms, scale)


def _accumulated(cell: Cell, engine: Any, rows: torch.Tensor, targets: int) -> torch.Tensor:
    """Forward and backward of every micro-batch; this rank's part of the mean loss."""
    total = torch.zeros((), device=rows.device)
    chunks = rows.split(cell.micro_batch)
    for number, chunk in enumerate(chunks):
        inputs, labels = inputs_and_targets(cell, chunk)
        engine.set_gradient_accumulation_boundary(number == len(chunks) - 1)
        loss = loss_sum(engine(input_ids=inputs, use_cache=False).logits, labels) / targets
        # the engine averages over dp; the loss is already a share of the global mean, over all micro-batches
        engine.backward(loss * cell.layout.dp, scale_wrt_gas=False)
        total += loss.detach()
    return total


@torch.no_grad()
def fill_partitioned(
    deepspeed: Any,
    model: PreTrainedModel,
    config: PretrainedConfig,
    source: Source,
    device: torch.device,
    wanted: dict[str, Any],
) -> None:
    """Fill `model` module by module and partition each at once: a rank holds its share and one module's parameters."""
    for owner, name, value in rebuilt_buffers(model):
        owner.register_buffer(name, value.to(device), persistent=False)
    groups = {id(getattr(*group[0])): group for group in ties(model)}
    modules = dict(model.named_modules())
    for path, module in modules.items():
        own = list(module.named_parameters(recurse=False))
        for name, parameter in own:
            if not parameter.is_meta:  # tied to one that is there already
                continue
            full = source(full_name(f"{path}.{name}", 0), parameter.shape, parameter.dtype, device)
            filled = nn.Parameter(full.to(device, parameter.dtype), requires_grad=parameter.requires_grad)
            for holder, attribute in groups.get(id(parameter), [(module, name)]):
                setattr(holder, attribute, filled)
        if own:
            own_parameters = nn.ParameterList([getattr(module, name) for name, _ in own])
            deepspeed.zero.Init(module=own_parameters, config_dict_or_path=wanted, dtype=next(iter(own))[1].dtype)
