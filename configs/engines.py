"""What runs a mode: torch's own parallelism or DeepSpeed's. Which options each has, and what must be installed."""

from __future__ import annotations

import importlib.util

from configs.errors import ConfigError, choose
from configs.layout import Layout
from configs.schema import Machine, Mode, Recipe

ENGINES = ("torch", "deepspeed")
OFFLOADS = ("none", "optimizer", "all")
ZERO_STAGES = (0, 1, 2, 3)


def check_engine(mode: Mode, layout: Layout, recipe: Recipe, machine: Machine) -> None:
    """Refuse options that the mode's engine does not have, in one line that names the modes that have them."""
    where = f"mode={mode.name}"
    choose(f"{where}: mode.engine", mode.engine, ENGINES)
    choose(f"{where}: mode.offload", mode.offload, OFFLOADS)
    if mode.zero_stage not in ZERO_STAGES:
        raise ConfigError(f"{where}: mode.zero_stage", f"{mode.zero_stage} is no stage", "0, 1, 2 or 3")
    if mode.engine == "torch":
        if mode.zero_stage or mode.offload != "none":
            name = "zero_stage" if mode.zero_stage else "offload"
            raise ConfigError(f"{where}: mode.{name}", "is DeepSpeed's", "mode=zero1, zero2 or zero3")
        return
    _check_deepspeed_layout(mode, layout, where)
    if recipe.precision == "fp16" and machine.device == "cpu":
        raise ConfigError(
            "recipe.precision", f"fp16 under {where} needs a GPU (machine {machine.name})", "fp32 or bf16"
        )
    if mode.zero_stage and recipe.optimizer == "adafactor":
        raise ConfigError(
            "recipe.optimizer",
            f"adafactor needs whole matrices, {where} steps on flat shards",
            "adamw, sgd, or mode=fsdp",
        )


def _check_deepspeed_layout(mode: Mode, layout: Layout, where: str) -> None:
    if layout.tp > 1 or mode.shard != "none" or mode.replicate > 1:
        raise ConfigError(where, "engine=deepspeed has no tp, shard or replicate here", "zero1, zero2, zero3, or pp")
    if mode.zero_stage == 0:
        raise ConfigError(f"{where}: mode.engine", "deepspeed runs ZeRO here", "mode=zero1, zero2 or zero3")
    if layout.pp > 1:
        raise ConfigError(where, f"zero_stage={mode.zero_stage} with pp={layout.pp}", "pp=1")
    if mode.offload == "all" and mode.zero_stage != 3:
        raise ConfigError(f"{where}: mode.offload", "all includes parameters", "mode=zero3, or offload=optimizer")


def check_installed(mode: Mode, recipe: Recipe) -> None:
    """Raise ConfigError, with the command that installs it, where a cell needs a package that is not here."""
    for needed, package, where, extra in (
        (mode.engine == "deepspeed", "deepspeed", f"mode={mode.name}", "deepspeed"),
        (recipe.method == "lora", "peft", "recipe.method=lora", "lora"),
        (recipe.optimizer == "adamw8bit", "bitsandbytes", "recipe.optimizer=adamw8bit", ""),
    ):
        if needed and importlib.util.find_spec(package) is None:
            command = f"pip install 'cardscale[{extra}]'" if extra else f"pip install {package}"
            raise ConfigError(where, f"needs the package {package}", command)
