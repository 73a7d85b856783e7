"""Our optimizers against torch's own, where torch has the same one."""

from __future__ import annotations

import pytest
import torch

from benchmarks.training.adafactor import ShardedAdafactor
from benchmarks.training.optim import MixedStateAdamW


def trained(make: object, dtype: torch.dtype = torch.float32) -> list[torch.Tensor]:
    """A matrix and a vector after five steps on gradients of different sizes."""
    generator = torch.Generator().manual_seed(0)
    parameters = [torch.nn.Parameter(torch.randn(shape, generator=generator).to(dtype)) for shape in ((6, 4), (5,))]
    optimizer = make(parameters)
    for step in range(1, 6):
        for parameter in parameters:
            parameter.grad = torch.randn(parameter.shape, generator=generator).to(dtype) * step
        optimizer.step()
    return [p.detach() for p in parameters]


def test_adamw_with_fp32_states_is_torchs() -> None:
    ours = trained(lambda p: MixedStateAdamW(p, 0.01, 0.1, torch.float32))
    theirs = trained(lambda p: torch.optim.AdamW(p, lr=0.01, weight_decay=0.1))
    torch.testing.assert_close(ours, theirs, rtol=1e-6, atol=1e-7)


def test_adamw_keeps_its_states_in_the_dtype_asked_for() -> None:
    parameter = torch.nn.Parameter(torch.ones(4))
    parameter.grad = torch.ones(4)
    optimizer = MixedStateAdamW([parameter], 0.01, 0.0, torch.bfloat16)
    optimizer.step()
    assert {name: state.dtype for name, state in optimizer.state[parameter].items() if name != "step"} == {
        "exp_avg": torch.bfloat16,
        "exp_avg_sq": torch.bfloat16,
    }


def test_bf16_states_stay_near_fp32_states() -> None:
    """bf16 has 8 bits of mantissa: a state's relative error is at most 2^-9, an update's of the order of 1 %."""
    short = trained(lambda p: MixedStateAdamW(p, 0.01, 0.0, torch.bfloat16))
    full = trained(lambda p: MixedStateAdamW(p, 0.01, 0.0, torch.float32))
    torch.testing.assert_close(short, full, rtol=0, atol=5 * 0.01 * 0.02)


@pytest.mark.parametrize("weight_decay", [0.0, 0.1])
def test_adafactor_is_torchs(weight_decay: float) -> None:
    ours = trained(lambda p: ShardedAdafactor(p, 0.05, weight_decay))
    theirs = trained(lambda p: torch.optim.Adafactor(p, lr=0.05, weight_decay=weight_decay))
    torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-6)
