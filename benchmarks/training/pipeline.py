"""Pipeline parallelism: the part of a model that one stage runs, and the schedule that moves micro-batches."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.pipelining import (
    PipelineStage,
    Schedule1F1B,
    ScheduleGPipe,
    ScheduleInterleaved1F1B,
    ScheduleInterleavedZeroBubble,
)
from transformers import PreTrainedModel

from configs.layout import SCHEDULES

Computing = Callable[[], AbstractContextManager[Any]]

_CLASSES: dict[str, Any] = {
    "1f1b": Schedule1F1B,
    "gpipe": ScheduleGPipe,
    "interleaved": ScheduleInterleaved1F1B,
    "zero_bubble": ScheduleInterleavedZeroBubble,
}


def stages_of_rank(schedule: str, pp: int, rank: int) -> list[int]:
    """The stages that pipeline rank `rank` holds; looped schedules give it one from every round."""
    return [rank + pp * turn for turn in range(SCHEDULES[schedule] if pp > 1 else 1)]


def keep_stage(model: PreTrainedModel, first: bool, last: bool) -> PreTrainedModel:
    """Drop what belongs to another stage: the embedding, the final norm, the head.

    They go by the names of the model's own pipeline plan: its first module takes ids, its last is the norm.
    """
    embedding, *_, norm = list(model.config.base_model_pp_plan or {"embed_tokens": 0, "layers": 0, "norm": 0})
    if not first:
        setattr(model.base_model, embedding, None)
    if not last:
        setattr(model.base_model, norm, nn.Identity())
        model.lm_head = None
    return model


class Stage(nn.Module):
    """What one stage runs: token ids in on the first, logits out on the last, hidden states in between.

    The decoder is transformers' own forward, entered through `inputs_embeds`. `computing` is the context of each
    forward: an autocast around a whole schedule would reach its backward passes too.
    """

    def __init__(self, model: PreTrainedModel, first: bool, last: bool, computing: Computing) -> None:
        super().__init__()
        self.model = model
        self.first, self.last = first, last
        self.computing = computing

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        inputs = {"input_ids": x} if self.first else {"inputs_embeds": x}
        with self.computing():
            if self.last:
                return self.model(**inputs, use_cache=False).logits
            return self.model.base_model(**inputs, use_cache=False).last_hidden_state


def end_stages_group(mesh: DeviceMesh) -> dist.ProcessGroup | None:
    """The group of the first and last stage that this rank belongs to, for gradients of tied embeddings; else None.

    Every rank of the job must call this, in the same order, as process groups are made together.
    """
    ranks = mesh.mesh.flatten(1)  # (pp, the other axes)
    mine = None
    for first, last in zip(ranks[0].tolist(), ranks[-1].tolist(), strict=True):
        group = dist.new_group([first, last])
        if dist.get_rank() in (first, last):
            mine = group
    return mine


def build_schedule(
    name: str,
    modules: list[nn.Module],
    group: dist.ProcessGroup,
    micro_batches: int,
    device: torch.device,
    loss: Callable[[torch.Tensor, torch.Tensor], torch.Tensor],
) -> Any:
    """The schedule `name` over this rank's stages. The loss is a sum, so gradients are not scaled by micro-batches."""
    indices = stages_of_rank(name, group.size(), group.rank())
    count = group.size() * len(indices)
    stages = [
        PipelineStage(module, index, count, device, group=group) for module, index in zip(modules, indices, strict=True)
    ]
    taken = stages[0] if SCHEDULES[name] == 1 else stages
    return _CLASSES[name](taken, n_microbatches=micro_batches, loss_fn=loss, scale_grads=False)
