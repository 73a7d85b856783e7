"""The optimizer of a recipe, and gradient clipping that is right under every layout."""

from __future__ import annotations

from collections.abc import Iterable

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.tensor import DTensor
from torch.optim import Optimizer

from benchmarks.model import local_part, whole
from configs.errors import choose
from configs.schema import Recipe

OPTIMIZERS = {
    "adamw": lambda params, recipe: torch.optim.AdamW(
        params, lr=recipe.learning_rate, weight_decay=recipe.weight_decay
    ),
    "sgd": lambda params, recipe: torch.optim.SGD(params, lr=recipe.learning_rate, weight_decay=recipe.weight_decay),
}


def build_optimizer(parameters: Iterable[nn.Parameter], recipe: Recipe) -> Optimizer:
    choose("recipe.optimizer", recipe.optimizer, OPTIMIZERS)
    return OPTIMIZERS[recipe.optimizer]([p for p in parameters if p.requires_grad], recipe)


@torch.no_grad()
def gradient_norm(parameters: list[nn.Parameter], pp_group: dist.ProcessGroup | None) -> torch.Tensor:
    """The L2 norm of the full model's gradient, the same number on every rank.

    Sharded gradients count once over their mesh; replicated ones once; pipeline stages add up over `pp_group`.
    """
    squares = []
    for mesh_parameters in _by_mesh(parameters):
        norm = torch.nn.utils.get_total_norm([p.grad for p in mesh_parameters])
        squares.append(whole(norm).float() ** 2)
    total = torch.stack(squares).sum()
    if pp_group is not None and pp_group.size() > 1:
        dist.all_reduce(total, group=pp_group)
    return total.sqrt()


@torch.no_grad()
def clip_gradients(
    parameters: list[nn.Parameter],
    counted: list[nn.Parameter],
    max_norm: float,
    pp_group: dist.ProcessGroup | None,
) -> torch.Tensor:
    """Scale the gradients of `parameters` so that the full norm is at most `max_norm`; returns the norm before.

    `counted` are those that enter the norm: a parameter that two stages hold enters once. Stays on the device.
    """
    norm = gradient_norm(counted, pp_group)
    scale = (max_norm / (norm + 1e-6)).clamp(max=1.0)
    torch._foreach_mul_([local_part(p.grad) for p in parameters if p.grad is not None], scale)
    return norm


def _by_mesh(parameters: list[nn.Parameter]) -> list[list[nn.Parameter]]:
    groups: dict[object, list[nn.Parameter]] = {}
    for parameter in parameters:
        if parameter.grad is not None:
            key = (parameter.device_mesh, parameter.placements) if isinstance(parameter, DTensor) else None
            groups.setdefault(key, []).append(parameter)
    return list(groups.values())
