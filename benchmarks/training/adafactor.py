"""Adafactor (Shazeer and Stern 2018) for parameters that may be sharded over any mesh."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import nn
from torch.distributed.tensor import DTensor, Replicate
from torch.optim import Optimizer


class ShardedAdafactor(Optimizer):
    """The update of torch.optim.Adafactor with its constants, which does not run on a DTensor.

    A matrix keeps the running means of its squared gradient's rows and columns, over the whole matrix whatever part of
    it a rank holds; a vector keeps every element's.
    """

    def __init__(self, parameters: list[nn.Parameter], lr: float, weight_decay: float) -> None:
        constants = {"beta2_decay": -0.8, "eps": (1e-15, 1e-3), "d": 1.0}
        super().__init__(parameters, {"lr": lr, "weight_decay": weight_decay, **constants})

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> None:
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None:
                    self._update(parameter, group)

    def _update(self, parameter: nn.Parameter, group: dict) -> None:
        state = self.state[parameter]
        state["step"] = state.get("step", 0) + 1
        square_floor, scale_floor = group["eps"]
        weight = state["step"] ** group["beta2_decay"]
        gradient = parameter.grad.float()
        square = gradient.square()
        if gradient.dim() > 1:
            rows = self._mean(state, "row_var", square.mean(dim=-1, keepdim=True), weight)
            columns = self._mean(state, "col_var", square.mean(dim=-2, keepdim=True), weight)
            variance = rows * columns / _settled(rows.mean(dim=-2, keepdim=True)).clamp(min=square_floor)
        else:
            variance = self._mean(state, "variance", square, weight)
        update = gradient * variance.clamp(min=square_floor**2).rsqrt()
        clipped = (_root_mean_square(update) / group["d"]).clamp(min=1.0)
        rate = min(group["lr"], state["step"] ** -0.5) * _root_mean_square(parameter.float()).clamp(min=scale_floor)
        parameter.mul_(1 - group["lr"] * group["weight_decay"])
        parameter.sub_((update * (rate / clipped)).to(parameter.dtype))

    @staticmethod
    def _mean(state: dict, name: str, new: torch.Tensor, weight: float) -> torch.Tensor:
        new = _settled(new)
        state[name] = new * weight if name not in state else state[name] * (1 - weight) + new * weight
        return state[name]


def _root_mean_square(tensor: torch.Tensor) -> torch.Tensor:
    return _settled(tensor.square().mean()).sqrt()


def _settled(tensor: torch.Tensor) -> torch.Tensor:
    """`tensor` with partial sums added up over their ranks."""
    if not isinstance(tensor, DTensor):
        return tensor
    return tensor.redistribute(placements=[Replicate() if p.is_partial() else p for p in tensor.placements])
