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
from torch.distributed.tensor import DTensor
from torch.distributed.tensor.parallel import loss_parallel
from torch.nn.parallel import DistributedDataParallel
from torch.optim import Optimizer
from transformers import PretrainedConfig, PreTrainedModel

from benchmarks import modes, pipeline
from benchmarks.model import Source, build_on_meta, local_part, materialise, seeded_source, transformers_config, whole
from benchmarks.optim import build_optimizer, clip_gradients
from benchmarks.weights import safetensors_source
from configs.cell import Cell
from configs.layout import split_layers

WEIGHT_SEED = 0


AXES = ("pp", "replicate", "shard", "tp")


@dataclass(frozen=True)
class Job:
    """step(rows) takes this data-parallel rank's rows, (global_batch / dp, seq_len + 1), through one optimizer step.

    It returns this rank's part of the mean loss over the global batch: the sum over dp and pp ranks is the loss.
    """

    step: Callable[[torch.Tensor], torch.Tensor]
    modules: list[nn.Module]  # this rank's stages; one without a pipeline
    optimizer: Optimizer
    mesh: DeviceMesh
    parameters: int  # of the full model

    @property
    def dp_rank(self) -> int:
        shards = self.mesh["shard"].size()
        return self.mesh["replicate"].get_local_rank() * shards + self.mesh["shard"].get_local_rank()


def build_mesh(cell: Cell, device: torch.device) -> DeviceMesh:
    """The world as pipeline x copies x shards x tensor: copies x shards are the data-parallel ranks."""
    layout = cell.layout
    copies = cell.mode.replicate if cell.mode.shard == "full" else layout.dp
    return init_device_mesh(device.type, (layout.pp, copies, layout.dp // copies, layout.tp), mesh_dim_names=AXES)


def build_job(cell: Cell, device: torch.device) -> Job:
    """Build on the meta device, apply the mode, materialise shard by shard. Every rank of the job calls this."""
    layout, recipe = cell.layout, cell.recipe
    mesh = build_mesh(cell, device)
    config = transformers_config(cell.model)
    rank = mesh["pp"].get_local_rank()
    stages = pipeline.stages_of_rank(cell.mode.schedule, layout.pp, rank)
    modules = [_build_stage(cell, config, mesh, device, stage, layout.pp * len(stages)) for stage in stages]
    parameters = [p for module in modules for p in module.parameters()]
    optimizer = build_optimizer(parameters, recipe)
    backward = _pipelined(cell, mesh, modules, device) if layout.pp > 1 else _accumulated(cell, modules[0], device)
    finish = _finisher(cell, mesh, modules, optimizer, config.tie_word_embeddings)

    def step(rows: torch.Tensor) -> torch.Tensor:
        loss = backward(rows)
        finish()
        return loss

    return Job(step, modules, optimizer, mesh, full_parameters(cell))


def _build_stage(
    cell: Cell, config: PretrainedConfig, mesh: DeviceMesh, device: torch.device, stage: int, stages: int
) -> nn.Module:
    """Stage `stage` of `stages`, under tensor and data parallelism, filled with its share of the full weights."""
    layout, recipe, mode = cell.layout, cell.recipe, cell.mode
    first, last = stage == 0, stage == stages - 1
    layers = split_layers(config.num_hidden_layers, stages)[stage]
    dtype = torch.bfloat16 if recipe.precision == "bf16_pure" else torch.float32
    model = build_on_meta(config, layers, dtype, recipe.attention)
    source = weight_source(cell, model)
    if stages > 1:
        model = pipeline.keep_stage(model, first, last)
    if layout.tp > 1:
        model = modes.tensor_parallel(model, mesh["tp"], mode.sequence_parallel, mode.loss_parallel)
    if recipe.checkpointing == "full":
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    module: nn.Module = model if stages == 1 else pipeline.Stage(model, first, last)
    # DDP can neither hold parameters that tensor parallelism has sharded nor rebuild its buckets between the
    # micro-batches of a pipeline; one shard a copy can do both
    sharded = mode.shard == "full" or (layout.dp > 1 and layout.tp * layout.pp > 1)
    if sharded:
        copies = mesh["replicate"].size()
        over = mesh["shard"] if copies == 1 else mesh["replicate", "shard"]
        modes.fully_sharded(
            module, over, model.base_model.layers, mode.reshard_after_forward, recipe.precision == "bf16"
        )
    materialise(module, model.config, source, device, first_layer=layers.start)
    module.train()
    if layout.dp > 1 and not sharded:
        module = modes.data_parallel(module, mesh["replicate"], device)
    return module


def weight_source(cell: Cell, model: PreTrainedModel) -> Source:
    """Where the full weights come from: the seed, or the model's own files."""
    if cell.model.init == "pretrained" and cell.model.path is not None:
        return safetensors_source(cell.model.path)
    return seeded_source(model, WEIGHT_SEED, model.config.initializer_range)


def full_parameters(cell: Cell) -> int:
    """Parameters of the whole model; tied ones count once."""
    config = transformers_config(cell.model)
    whole = build_on_meta(config, range(config.num_hidden_layers), torch.float32, "sdpa")
    return sum(p.numel() for p in whole.parameters())


def _loss_sum(logits: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    return F.cross_entropy(logits.flatten(0, 1).float(), targets.flatten(), reduction="sum")


def _autocast(cell: Cell, module: nn.Module, device: torch.device) -> contextlib.AbstractContextManager[None]:
    """fully_shard casts by its own policy; everything else computes in bf16 through autocast."""
    if cell.recipe.precision == "bf16" and not isinstance(module, FSDPModule):
        return torch.autocast(device.type, dtype=torch.bfloat16)
    return contextlib.nullcontext()


def _loss_parallel(cell: Cell) -> contextlib.AbstractContextManager[None]:
    """Cross-entropy over logits that stay sharded by vocabulary, where the mode asks for it."""
    return loss_parallel() if cell.mode.loss_parallel and cell.layout.tp > 1 else contextlib.nullcontext()


def _accumulated(cell: Cell, module: nn.Module, device: torch.device) -> Callable[[torch.Tensor], torch.Tensor]:
    """Forward and backward of every micro-batch; gradients are exchanged on the last one only."""

    def backward(rows: torch.Tensor) -> torch.Tensor:
        rows = rows.to(device, non_blocking=True)
        total = torch.zeros((), device=device)
        chunks = rows.split(cell.micro_batch)
        for number, chunk in enumerate(chunks):
            with _synchronised(module, number == len(chunks) - 1), _loss_parallel(cell):
                with _autocast(cell, module, device):
                    logits = module(input_ids=chunk[:, :-1], use_cache=False).logits
                    loss = _loss_sum(logits, chunk[:, 1:]) / cell.global_batch_tokens
                # both wrappers average over dp; the loss is already a share of the global mean
                (loss * cell.layout.dp).backward()
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
    cell: Cell, mesh: DeviceMesh, modules: list[nn.Module], device: torch.device
) -> Callable[[torch.Tensor], torch.Tensor]:
    """The schedule's own forward and backward; micro-batches are what accumulation is elsewhere."""
    rank = mesh["pp"].get_local_rank()
    first, last = rank == 0, rank == cell.layout.pp - 1

    def share_of_mean(logits: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        return _loss_sum(logits, targets) * (cell.layout.dp / cell.global_batch_tokens)

    schedule = pipeline.build_schedule(
        cell.mode.schedule, modules, mesh["pp"].get_group(), cell.grad_accum, device, share_of_mean
    )

    def backward(rows: torch.Tensor) -> torch.Tensor:
        rows = rows.to(device, non_blocking=True)
        losses: list[torch.Tensor] = []
        inputs = (rows[:, :-1].contiguous(),) if first else ()
        with _autocast(cell, modules[0], device), _loss_parallel(cell):
            schedule.step(*inputs, **({"target": rows[:, 1:].contiguous(), "losses": losses} if last else {}))
        if not last:
            return torch.zeros((), device=device)
        return torch.stack([whole(loss.detach()) for loss in losses]).sum() / cell.layout.dp

    return backward


def _finisher(
    cell: Cell, mesh: DeviceMesh, modules: list[nn.Module], optimizer: Optimizer, tied_embeddings: bool
) -> Callable[[], None]:
    """Exchange of tied gradients between the end stages, clipping, optimizer step, gradients cleared."""
    parameters = [p for module in modules for p in module.parameters() if p.requires_grad]
    staged = cell.layout.pp > 1
    pp_group = mesh["pp"].get_group() if staged else None
    tied_group = pipeline.end_stages_group(mesh) if staged and tied_embeddings else None
    tied = _tied_parameter(modules) if tied_group is not None else None
    counted = [p for p in parameters if p is not tied or mesh["pp"].get_local_rank() == 0]

    def finish() -> None:
        if tied is not None:
            _add_other_end(tied, tied_group)
        if cell.recipe.clip_norm is not None:
            clip_gradients(parameters, counted, cell.recipe.clip_norm, pp_group)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    return finish


def _add_other_end(tied: nn.Parameter, group: dist.ProcessGroup) -> None:
    """Sum the gradient of a tied parameter over the two stages that hold it."""
    if isinstance(tied.grad, DTensor) and tied.grad.placements != tied.placements:
        # the look-up's gradient comes out whole where the head's is sharded
        tied.grad = tied.grad.redistribute(placements=tied.placements)
    dist.all_reduce(local_part(tied.grad), group=group)


def _tied_parameter(modules: list[nn.Module]) -> nn.Parameter:
    """The end stages' copy of the embedding: on the first it is the look-up, on the last the head."""
    wanted = ("embed_tokens.weight", "lm_head.weight")
    return next(p for module in modules for name, p in module.named_parameters() if name.endswith(wanted))
