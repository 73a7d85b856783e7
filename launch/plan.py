"""The `plan` command: whether a grid of cells fits its cards, and what would make it fit. Needs no card, no torch."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import replace

from rich.console import Console

from analysis.tables.plan import plan_json, plan_tables
from analysis.tables.serving import serving_json, serving_tables
from analysis.text import sayer
from analysis.vram.inference import plan_serving
from analysis.vram.plan import INVALID, plan
from configs.errors import ConfigError, choose
from configs.groups import load_group
from configs.schema import Config, Mode
from launch.render.text import print_table

FORMATS = ("text", "json")
TASKS = ("training", "inference")


def plan_command(configs: list[Config], console: Console) -> int:
    """Plan the grid and print it; returns 0. Raises ConfigError if not one cell of the grid is legal.

    Cells that are not legal are listed with their reason beside the others.
    """
    first = configs[0]
    choose("format", first.format, FORMATS)
    if len({choose("plan.task", config.plan.task, TASKS) for config in configs}) > 1:
        raise ConfigError("plan.task", "is a sweep", "training or inference, one at a time")
    say = sayer(first.lang)
    configs = training_once(configs)
    if first.plan.task == "inference":
        served = plan_serving(configs)
        refuse([one.reason for one in served if one.verdict == INVALID], len(served), console)
        cells, tables = serving_json(served), serving_tables(served)
    else:
        planned = plan(configs, load_group(Mode))
        refuse([one.reason for one in planned if one.verdict == INVALID], len(planned), console)
        cells, tables = plan_json(planned), plan_tables(planned)
    if first.format == "json":
        print(json.dumps(cells, ensure_ascii=False, allow_nan=False, indent=1))
        return 0
    out = Console(file=sys.stdout, highlight=False)
    for table in tables:
        print_table(out, table, say)
    return 0


def training_once(configs: Sequence[Config]) -> list[Config]:
    """The cells of a grid that train or serve, each once: a preset's collectives and repeats need nothing else.

    Raises ConfigError where there is none.
    """
    once = {repr(replace(c, repeat=0)): c for c in configs if c.benchmark.name == "finetune"}
    if not once:
        raise ConfigError("benchmark", f"{configs[0].benchmark.name} has no memory to plan", "benchmark=finetune")
    return list(once.values())


def refuse(wrong: Sequence[str], cells: int, console: Console) -> None:
    """Raise ConfigError where all of the grid's `cells` are wrong, each reason on a line."""
    if len(wrong) < cells:
        return
    for reason in wrong[:-1]:
        console.print(reason, markup=False, highlight=False, soft_wrap=True)
    where, _, what = wrong[-1].partition(": ")
    raise ConfigError(where, what)
