"""One training job: the model under its mode, its optimizer, and the function that takes one optimizer step."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import FSDPModule
from torch.nn.parallel import DistributedDataParallel
from torch.optim import Optimizer

from benchmarks import modes, pipeline
from benchmarks.model import build_on_meta, materialise, seeded_source, transformers_config
from benchmarks.optim import build_optimizer, clip_gradients
from configs.cell import Cell
from configs.layout import split_layers

WEIGHT_SEED = 0


@dataclass(frozen=True)
class Job:
    """step(rows) takes this data-parallel rank's rows, (global_batch / dp, seq_len + 1), through one optimizer step.

    It returns this rank's part of the mean loss over the global batch: the sum over dp and pp ranks is the loss.
    """

    step: Callable[[torch.Tensor], torch.Tensor]
    module: nn.Module
    optimizer: Optimizer
    mesh: DeviceMesh
    parameters: int  # of the full model

    @property
    def dp_rank(self) -> int:
        return self.mesh["dp"].get_local_rank()


def build_job(cell: Cell, device: torch.device) -> Job:
    """Build on the meta device, apply the mode, materialise shard by shard. Every rank of the job calls this."""
    layout, recipe = cell.layout, cell.recipe
    mesh = init_device_mesh(device.type, (layout.pp, layout.dp, layout.tp), mesh_dim_names=("pp", "dp", "tp"))
    config = transformers_config(cell.model)
    parameter_dtype = torch.bfloat16 if recipe.precision == "bf16_pure" else torch.float32
    stage = mesh["pp"].get_local_rank()
    first, last = stage == 0, stage == layout.pp - 1
    layers = split_layers(config.num_hidden_layers, layout.pp)[stage]

    model = build_on_meta(config, layers, parameter_dtype, recipe.attention)
    source = seeded_source(model, WEIGHT_SEED, config.initializer_range)
    model = pipeline.keep_stage(model, first, last)
    if layout.tp > 1:
        model = modes.tensor_parallel(model, mesh["tp"])
    if recipe.checkpointing == "full":
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    sharded = cell.mode.shard == "full"
    if sharded:
        model = modes.fully_sharded(
            model, mesh["dp"], model.base_model.layers, cell.mode.reshard_after_forward, recipe.precision == "bf16"
        )
    materialise(model, source, device, first_layer=layers.start)
    model.train()

    module: nn.Module = model if layout.pp == 1 else pipeline.Stage(model, first, last)
    if layout.dp > 1 and not sharded:
        module = modes.data_parallel(module, mesh["dp"], device)
    optimizer = build_optimizer(module.parameters(), recipe)
    backward = _pipelined(cell, mesh, module, device) if layout.pp > 1 else _accumulated(cell, module, device)
    finish = _finisher(cell, mesh, module, optimizer, tied_stages=layout.pp > 1 and config.tie_word_embeddings)

    def step(rows: torch.Tensor) -> torch.Tensor:
        loss = backward(rows)
        finish()
        return loss

    return Job(step, module, optimizer, mesh, full_parameters(cell))


def full_parameters(cell: Cell) -> int:
    """Parameters of the whole model; tied ones count once."""
    config = transformers_config(cell.model)
    whole = build_on_meta(config, range(config.num_hidden_layers), torch.float32, "sdpa")
    return sum(p.numel() for p in whole.parameters())


def _loss_sum(logits: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    return F.cross_entropy(logits.flatten(0, 1).float(), targets.flatten(), reduction="sum")


def _autocast(cell: Cell, device: torch.device) -> contextlib.AbstractContextManager[None]:
    """fully_shard casts by its own policy; everything else computes in bf16 through autocast."""
    if cell.recipe.precision == "bf16" and cell.mode.shard != "full":
        return torch.autocast(device.type, dtype=torch.bfloat16)
    return contextlib.nullcontext()


def _accumulated(cell: Cell, module: nn.Module, device: torch.device) -> Callable[[torch.Tensor], torch.Tensor]:
    """Forward and backward of every micro-batch; gradients are exchanged on the last one only."""

    def backward(rows: torch.Tensor) -> torch.Tensor:
        rows = rows.to(device, non_blocking=True)
        total = torch.zeros((), device=device)
        chunks = rows.split(cell.micro_batch)
        for number, chunk in enumerate(chunks):
            with _synchronised(module, number == len(chunks) - 1), _autocast(cell, device):
                logits = module(input_ids=chunk[:, :-1], use_cache=False).logits
                loss = _loss_sum(logits, chunk[:, 1:]) / cell.global_batch_tokens
                # both wrappers average over dp; the loss is already a share of the global mean
                (loss * cell.layout.dp).backward()
            total += loss.detach()
        return total

    return backward


@contextlib.contextmanager
def _synchronised(module: nn.Module, last: bool):
    if isinstance(module, FSDPModule):
        module.set_requires_gradient_sync(last)
        yield
    elif isinstance(module, DistributedDataParallel) and not last:
        with module.no_sync():
            yield
    else:
        yield


def _pipelined(
    cell: Cell, mesh: DeviceMesh, module: nn.Module, device: torch.device
) -> Callable[[torch.Tensor], torch.Tensor]:
    """The schedule's own forward and backward; micro-batches are what accumulation is elsewhere."""
    stage = mesh["pp"].get_local_rank()
    first, last = stage == 0, stage == cell.layout.pp - 1

    def share_of_mean(logits: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        return _loss_sum(logits, targets) * (cell.layout.dp / cell.global_batch_tokens)

    schedule = pipeline.build_schedule(
        cell.mode.schedule, module, mesh["pp"].get_group(), cell.grad_accum, device, share_of_mean
    )

    def backward(rows: torch.Tensor) -> torch.Tensor:
        rows = rows.to(device, non_blocking=True)
        losses: list[torch.Tensor] = []
        inputs = (rows[:, :-1].contiguous(),) if first else ()
        with _autocast(cell, device):
            schedule.step(*inputs, **({"target": rows[:, 1:].contiguous(), "losses": losses} if last else {}))
        return sum(loss.detach() for loss in losses) / cell.layout.dp if last else torch.zeros((), device=device)

    return backward


def _finisher(
    cell: Cell, mesh: DeviceMesh, module: nn.Module, optimizer: Optimizer, tied_stages: bool
) -> Callable[[], None]:
    """Exchange of tied gradients, clipping, optimizer step, gradients cleared."""
    parameters = [p for p in module.parameters() if p.requires_grad]
    pp_group = mesh["pp"].get_group() if cell.layout.pp > 1 else None
    tied_group = pipeline.end_stages_group(mesh) if tied_stages else None
    tied = _tied_parameter(module) if tied_group is not None else None
    counted = [p for p in parameters if p is not tied or mesh["pp"].get_local_rank() == 0]

    def finish() -> None:
        if tied is not None:
            dist.all_reduce(tied.grad, group=tied_group)
        if cell.recipe.clip_norm is not None:
            clip_gradients(parameters, counted, cell.recipe.clip_norm, pp_group)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    return finish


def _tied_parameter(module: nn.Module) -> nn.Parameter:
    wanted = ("embed_tokens.weight", "lm_head.weight")
    return next(p for name, p in module.named_parameters() if name.endswith(wanted))
