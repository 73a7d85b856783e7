"""One training job: the model under its mode, its optimizer, and the function that takes one optimizer step."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass, field

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import FSDPModule
from torch.distributed.tensor.parallel import loss_parallel
from torch.nn.parallel import DistributedDataParallel
from torch.optim import Optimizer

from benchmarks.training import modes, pipeline
from benchmarks.training.build import build_mesh, build_stages, full_parameters, is_sharded
from benchmarks.training.gradients import LossScale, clip_factor, gradient_norm, scale_gradients, settle
from benchmarks.training.model import local_part, materialise, whole
from benchmarks.training.optim import LocalOptimizer
from benchmarks.training.recipe import computing
from configs.cell import Cell

# (rows, target tokens of the global batch) -> this rank's part of the mean loss; gradients are left in the parameters
Backward = Callable[[torch.Tensor, int], torch.Tensor]


@dataclass(frozen=True)
class Job:
    """step(rows, targets) takes this data-parallel rank's rows through one optimizer step.

    rows: (global_batch / dp, seq_len + 1) token ids, padding below 0. targets: how many tokens of the whole global
    batch carry loss; None: all. It returns this rank's part of the mean loss over them: the sum over dp and pp ranks is
    the loss. norms: of the full gradient before clipping, one a step, where the recipe needs it.
    """

    step: Callable[..., torch.Tensor]
    modules: list[nn.Module]  # this rank's stages; one without a pipeline
    optimizer: Optimizer
    dp_rank: int
    parameters: int  # of the full model
    trainable: int
    norms: list[torch.Tensor] = field(default_factory=list)
    scale: LossScale = field(default_factory=lambda: LossScale(False))


def build_job(
    cell: Cell,
    device: torch.device,
    fill: Callable[..., None] = materialise,
    copies: Callable[..., nn.Module] = modes.data_parallel,
) -> Job:
    """Build on the meta device, apply the mode, materialise shard by shard. Every rank of the job calls this.

    fill, copies: how parameters get their storage, and what keeps whole copies alike; a dry run has its own.
    """
    if cell.mode.engine == "deepspeed":
        from benchmarks.training.zero import build_zero_job

        return build_zero_job(cell, device)
    mesh = build_mesh(cell, device)
    modules = build_stages(cell, mesh, device, fill, copies)
    trained = [p for module in modules for p in module.parameters() if p.requires_grad]
    optimizer = LocalOptimizer(trained, cell.recipe)
    scale = LossScale(cell.recipe.precision == "fp16")
    norms: list[torch.Tensor] = []
    backward = (_pipelined if cell.layout.pp > 1 else _accumulated)(cell, mesh, modules, device, scale)
    finish = _finisher(cell, mesh, modules, optimizer, scale, norms)

    def step(rows: torch.Tensor, targets: int | None = None) -> torch.Tensor:
        loss = backward(rows, targets or cell.global_batch_tokens)
        finish()
        return loss

    dp_rank = mesh["replicate"].get_local_rank() * mesh["shard"].size() + mesh["shard"].get_local_rank()
    return Job(step, modules, optimizer.inner, dp_rank, *full_parameters(cell), norms, scale)


def inputs_and_targets(cell: Cell, rows: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The same tokens moved by one. Padding is id 0 to the model; causal attention never shows it to a real token."""
    inputs = rows[:, :-1] if cell.data.packing else rows[:, :-1].clamp(min=0)
    return inputs.contiguous(), rows[:, 1:].contiguous()


def loss_sum(logits: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """Cross-entropy in fp32, summed over the targets that are no padding (-100)."""
    return F.cross_entropy(logits.flatten(0, 1).float(), targets.flatten(), reduction="sum")


def _loss_parallel(cell: Cell) -> contextlib.AbstractContextManager[None]:
    """Cross-entropy over logits that stay sharded by vocabulary, where the mode asks for it."""
    return loss_parallel() if cell.mode.loss_parallel and cell.layout.tp > 1 else contextlib.nullcontext()


def _accumulated(
    cell: Cell, mesh: DeviceMesh, modules: list[nn.Module], device: torch.device, scale: LossScale
) -> Backward:
    """Forward and backward of every micro-batch; gradients are exchanged on the last one only."""
    module = modules[0]
    context = computing(cell.recipe, device, cast_by_sharding=is_sharded(cell))

    def backward(rows: torch.Tensor, targets: int) -> torch.Tensor:
        rows = rows.to(device, non_blocking=True)
        total = torch.zeros((), device=device)
        chunks = rows.split(cell.micro_batch)
        for number, chunk in enumerate(chunks):
            inputs, labels = inputs_and_targets(cell, chunk)
            with _synchronised(module, number == len(chunks) - 1), _loss_parallel(cell):
                with context():
                    logits = module(input_ids=inputs, use_cache=False).logits
                    loss = loss_sum(logits, labels) / targets
                # both wrappers average over dp; the loss is already a share of the global mean
                (loss * (cell.layout.dp * scale.value)).backward()
            total += whole(loss.detach())
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
    cell: Cell, mesh: DeviceMesh, modules: list[nn.Module], device: torch.device, scale: LossScale
) -> Backward:
    """The schedule's own forward and backward; micro-batches are what accumulation is elsewhere."""
    rank = mesh["pp"].get_local_rank()
    first, last = rank == 0, rank == cell.layout.pp - 1
    share = 1.0

    def share_of_mean(logits: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        return loss_sum(logits, targets) * share

    schedule = pipeline.build_schedule(
        cell.mode.schedule, modules, mesh["pp"].get_group(), cell.grad_accum, device, share_of_mean
    )

    def backward(rows: torch.Tensor, targets: int) -> torch.Tensor:
        nonlocal share
        share = cell.layout.dp * scale.value / targets
        inputs, labels = inputs_and_targets(cell, rows.to(device, non_blocking=True))
        losses: list[torch.Tensor] = []
        with _loss_parallel(cell):
            schedule.step(*((inputs,) if first else ()), **({"target": labels, "losses": losses} if last else {}))
        if not last:
            return torch.zeros((), device=device)
        return torch.stack([whole(loss.detach()) for loss in losses]).sum() / (cell.layout.dp * scale.value)

    return backward


def _finisher(
    cell: Cell,
    mesh: DeviceMesh,
    modules: list[nn.Module],
    optimizer: LocalOptimizer,
    scale: LossScale,
    norms: list[torch.Tensor],
) -> Callable[[], None]:
    """Exchange of tied gradients between the end stages, clipping, optimizer step, gradients cleared."""
    recipe, stages = cell.recipe, cell.layout.pp
    trained = [p for module in modules for p in module.parameters() if p.requires_grad]
    tied, tied_group = None, None
    if stages > 1 and cell.shape.tied_embeddings and recipe.method == "full":
        tied_group = pipeline.end_stages_group(mesh)
        tied = _tied_parameter(modules) if tied_group is not None else None
    counted = [p for p in trained if p is not tied or mesh["pp"].get_local_rank() == 0]

    def finish() -> None:
        settle(trained)
        if tied is not None:
            dist.all_reduce(local_part(tied.grad), group=tied_group)  # the two stages that hold it
        if recipe.clip_norm is not None or scale.enabled:
            used = scale.value
            norm = gradient_norm(counted, stages) / used
            norms.append(norm)
            if not scale.accepts(norm):
                return optimizer.zero_grad()
            factor = clip_factor(norm, recipe.clip_norm) if recipe.clip_norm is not None else 1.0
            scale_gradients(trained, factor / used)
        optimizer.step()
        return optimizer.zero_grad()

    return finish


def _tied_parameter(modules: list[nn.Module]) -> nn.Parameter:
    """The end stages' copy of the embedding: on the first it is the look-up, on the last the head."""
    wanted = ("embed_tokens.weight", "lm_head.weight")
    return next(p for module in modules for name, p in module.named_parameters() if name.endswith(wanted))
