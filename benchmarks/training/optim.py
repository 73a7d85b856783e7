"""The optimizer of a recipe, on the part of every parameter that this rank holds."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import nn
from torch.distributed.tensor import DTensor
from torch.optim import Optimizer

from benchmarks.training.adafactor import ShardedAdafactor
from benchmarks.training.model import local_part
from configs.errors import ConfigError, choose
from configs.schema import Recipe

STATE_DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16}


class MixedStateAdamW(Optimizer):
    """AdamW (Loshchilov and Hutter 2019) whose two moments are kept in a dtype of their own; arithmetic in fp32."""

    def __init__(
        self, parameters: list[nn.Parameter], lr: float, weight_decay: float, state_dtype: torch.dtype
    ) -> None:
        super().__init__(parameters, {"lr": lr, "betas": (0.9, 0.999), "eps": 1e-8, "weight_decay": weight_decay})
        self._state_dtype = state_dtype

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> None:
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None:
                    self._update(parameter, group)

    def _update(self, parameter: nn.Parameter, group: dict) -> None:
        state = self.state[parameter]
        if not state:
            state["step"] = 0
            for name in ("exp_avg", "exp_avg_sq"):
                state[name] = torch.zeros_like(parameter, dtype=self._state_dtype)
        state["step"] += 1
        first, second = group["betas"]
        gradient = parameter.grad.float()
        mean = state["exp_avg"].float().lerp_(gradient, 1 - first)
        square = state["exp_avg_sq"].float().mul_(second).addcmul_(gradient, gradient, value=1 - second)
        state["exp_avg"].copy_(mean)
        state["exp_avg_sq"].copy_(square)
        root = (square / (1 - second ** state["step"])).sqrt_().add_(group["eps"])
        weights = parameter.float()
        weights.mul_(1 - group["lr"] * group["weight_decay"])
        weights.addcdiv_(mean, root, value=-group["lr"] / (1 - first ** state["step"]))
        if weights is not parameter:
            parameter.copy_(weights)


def _adamw(parameters: list[nn.Parameter], recipe: Recipe) -> Optimizer:
    """torch's fused AdamW where the states have the weights' dtype, which is what it knows; else our own."""
    dtype = STATE_DTYPES[recipe.state_dtype]
    if all(p.dtype == dtype for p in parameters):
        return torch.optim.AdamW(parameters, lr=recipe.learning_rate, weight_decay=recipe.weight_decay, fused=True)
    return MixedStateAdamW(parameters, recipe.learning_rate, recipe.weight_decay, dtype)


def _adamw8bit(parameters: list[nn.Parameter], recipe: Recipe) -> Optimizer:
    """AdamW with states in blocks of 8-bit floats (Dettmers et al. 2022)."""
    import bitsandbytes

    return bitsandbytes.optim.AdamW8bit(parameters, lr=recipe.learning_rate, weight_decay=recipe.weight_decay)


def _sgd(parameters: list[nn.Parameter], recipe: Recipe) -> Optimizer:
    return torch.optim.SGD(parameters, lr=recipe.learning_rate, weight_decay=recipe.weight_decay)


def _adafactor(parameters: list[nn.Parameter], recipe: Recipe) -> Optimizer:
    """Its row and column means are over the whole matrix, so it takes sharded parameters as they are."""
    return ShardedAdafactor(parameters, recipe.learning_rate, recipe.weight_decay)


OPTIMIZERS = {"adamw": _adamw, "adamw8bit": _adamw8bit, "sgd": _sgd, "adafactor": _adafactor}
ELEMENTWISE = ("adamw", "adamw8bit", "sgd")  # an element's update needs no other element: shards can go alone


class LocalOptimizer:
    """The recipe's optimizer. An elementwise one steps on plain tensors that share the storage of this rank's shards.

    That spares a DTensor dispatch for every operation, and lets optimizers that know no DTensor (8 bit) run sharded.
    """

    def __init__(self, parameters: list[nn.Parameter], recipe: Recipe) -> None:
        choose("recipe.optimizer", recipe.optimizer, OPTIMIZERS)
        self._parameters = parameters
        if not parameters:
            raise ConfigError("recipe", "leaves this rank nothing to train", "fewer ranks, or more lora_targets")
        as_shards = recipe.optimizer in ELEMENTWISE
        self._views = [_view(p) if as_shards and isinstance(p, DTensor) else p for p in parameters]
        stepped = [view for view in self._views if view.numel()]  # a trailing rank may hold nothing of a short tensor
        self.inner = OPTIMIZERS[recipe.optimizer](stepped or self._views, recipe)

    @torch.no_grad()
    def step(self) -> None:
        for parameter, view in zip(self._parameters, self._views, strict=True):
            if view is parameter:
                continue
            shard = local_part(parameter)
            if view.data_ptr() != shard.data_ptr():  # fully_shard pads a shard at its first use
                view.data = shard
            view.grad = None if parameter.grad is None else local_part(parameter.grad)
        self.inner.step()

    def zero_grad(self) -> None:
        for parameter, view in zip(self._parameters, self._views, strict=True):
            parameter.grad = view.grad = None


def _view(parameter: DTensor) -> nn.Parameter:
    return nn.Parameter(parameter.detach().to_local())
