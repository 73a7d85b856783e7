"""The norm of the full model's gradient under any layout, clipping by it, and the loss scale of fp16."""

from __future__ import annotations

import math

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.tensor import DTensor

from benchmarks.training.model import local_part


def settle(parameters: list[nn.Parameter]) -> None:
    """Make every sharded parameter's gradient lie on the ranks as the parameter does.

    A norm's weight under sequence parallelism gets a gradient of partial sums; a tied look-up's comes out whole.
    """
    for parameter in parameters:
        gradient = parameter.grad
        if isinstance(gradient, DTensor) and gradient.placements != parameter.placements:
            parameter.grad = gradient.redistribute(placements=parameter.placements)


@torch.no_grad()
def gradient_norm(parameters: list[nn.Parameter], stages: int) -> torch.Tensor:
    """The L2 norm of the full model's gradient, the same number on every rank of the job; stays on the device.

    Every rank adds the squares of what it holds, divided by the number of ranks that hold the same, and one all-reduce
    over the job sums. `stages` is the number of pipeline ranks: each stage's parameters are on world / stages ranks.
    """
    world = dist.get_world_size()
    held: dict[int, list[torch.Tensor]] = {}
    for parameter in parameters:
        if parameter.grad is not None and local_part(parameter.grad).numel():
            copies = world // stages // shards_of(parameter)
            held.setdefault(copies, []).append(local_part(parameter.grad))
    everywhere = stages == 1 and all(shards_of(p) == 1 for p in parameters)
    total = torch.zeros((), device=local_part(parameters[0]).device)
    for copies, gradients in held.items():
        norms = torch.stack(torch._foreach_norm(gradients, 2, torch.float32))
        total += norms.square().sum() / (1 if everywhere else copies)
    if not everywhere:
        dist.all_reduce(total)
    return total.sqrt()


def shards_of(parameter: torch.Tensor) -> int:
    """In how many different pieces the ranks of its mesh hold `parameter`."""
    if not isinstance(parameter, DTensor):
        return 1
    mesh = parameter.device_mesh
    return math.prod(
        mesh.size(axis) for axis, placement in enumerate(parameter.placements) if not placement.is_replicate()
    )


@torch.no_grad()
def scale_gradients(parameters: list[nn.Parameter], factor: torch.Tensor | float) -> None:
    gradients = [local_part(p.grad) for p in parameters if p.grad is not None]
    torch._foreach_mul_(gradients, factor)


def clip_factor(norm: torch.Tensor, max_norm: float) -> torch.Tensor:
    """What gradients of `norm` are multiplied by so that theirs is at most `max_norm` (as torch's own clipping)."""
    return (max_norm / (norm + 1e-6)).clamp(max=1.0)


class LossScale:
    """Dynamic loss scaling for fp16 (Micikevicius et al. 2018), with torch.amp.GradScaler's constants.

    The scale doubles after 2,000 good steps in a row and halves when a gradient overflows, whose step is left out.
    Without fp16 it is 1 and nothing waits for the device.
    """

    GROWTH_INTERVAL = 2000

    def __init__(self, enabled: bool) -> None:
        self.enabled = enabled
        self.value = 2.0**16 if enabled else 1.0
        self.skipped_steps = 0
        self._good = 0

    def accepts(self, norm: torch.Tensor) -> bool:
        """Whether the step with this gradient norm is taken; adapts the scale. Every rank has the same norm."""
        if not self.enabled:
            return True
        if math.isfinite(norm.item()):
            self._good += 1
            if self._good == self.GROWTH_INTERVAL:
                self.value, self._good = self.value * 2, 0
            return True
        self.value, self._good = self.value / 2, 0
        self.skipped_steps += 1
        return False
