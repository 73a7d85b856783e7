"""Which options belong to which engine, and the one line that refuses the others."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable

import pytest

from configs.cell import Cell
from configs.engines import check_installed
from configs.errors import ConfigError

CellOf = Callable[..., Cell]


@pytest.mark.parametrize("stage", [1, 2, 3])
def test_a_zero_mode_derives_the_accumulation_from_the_global_batch(cell_of: CellOf, stage: int) -> None:
    cell = cell_of(f"mode=zero{stage}", "cards=4", "global_batch=64", "micro_batch=2")
    assert (cell.mode.engine, cell.mode.zero_stage, cell.layout.dp) == ("deepspeed", stage, 4)
    assert cell.micro_batch * cell.grad_accum * cell.layout.dp == 64


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["mode=ddp", "mode.engine=megatron"], "mode=ddp: mode.engine: 'megatron' is unknown; known: torch, deepspeed"),
        (["mode=ddp", "mode.zero_stage=2"], "mode=ddp: mode.zero_stage: is DeepSpeed's; mode=zero1, zero2 or zero3"),
        (
            ["mode=fsdp", "mode.offload=optimizer"],
            "mode=fsdp: mode.offload: is DeepSpeed's; mode=zero1, zero2 or zero3",
        ),
        (["mode=zero2", "mode.offload=disk"], "mode=zero2: mode.offload: 'disk' is unknown"),
        (["mode=zero2", "mode.offload=all"], "mode=zero2: mode.offload: all includes parameters; mode=zero3"),
        (["mode=zero3", "mode.zero_stage=4"], "mode=zero3: mode.zero_stage: 4 is no stage; 0, 1, 2 or 3"),
        (["mode=zero3", "mode.tp=2", "cards=2"], "mode=zero3: engine=deepspeed has no tp"),
        (["mode=zero2", "recipe.precision=fp16"], "recipe.precision: fp16 under mode=zero2 needs a GPU (machine cpu)"),
        (["mode=zero1", "recipe.optimizer=adafactor"], "recipe.optimizer: adafactor needs whole matrices"),
    ],
)
def test_an_option_of_another_engine_is_refused_in_one_line(
    cell_of: CellOf, overrides: list[str], message: str
) -> None:
    with pytest.raises(ConfigError) as error:
        cell_of(*overrides)
    assert str(error.value).startswith(message)
    assert "\n" not in str(error.value)


def test_a_mode_whose_package_is_missing_says_how_to_install_it(
    cell_of: CellOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    cell = cell_of("mode=zero2")
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ConfigError) as error:
        check_installed(cell.mode, cell.recipe)
    assert str(error.value) == "mode=zero2: needs the package deepspeed; pip install 'cardscale[deepspeed]'"
