"""The `plan` command: whether a grid of cells fits its cards, and what would make it fit. Needs no card, no torch."""

from __future__ import annotations

import json
import sys

from rich.console import Console

from analysis.tables.plan import plan_json, plan_tables
from analysis.text import sayer
from analysis.vram.plan import INVALID, plan
from configs.errors import ConfigError, choose
from configs.groups import load_group
from configs.schema import Config, Mode
from launch.render.text import print_table

FORMATS = ("text", "json")


def plan_command(configs: list[Config], console: Console) -> int:
    """Plan the grid and print it; returns 0. Raises ConfigError if not one cell of the grid is legal.

    Cells that are not legal are listed with their reason beside the others.
    """
    first = configs[0]
    choose("format", first.format, FORMATS)
    say = sayer(first.lang)
    planned = plan(configs, load_group(Mode))
    wrong = [one.reason for one in planned if one.verdict == INVALID]
    if len(wrong) == len(planned):
        for reason in wrong[:-1]:
            console.print(reason, markup=False, highlight=False, soft_wrap=True)
        raise _refused(wrong[-1])
    if first.format == "json":
        print(json.dumps(plan_json(planned), ensure_ascii=False, allow_nan=False, indent=1))
        return 0
    out = Console(file=sys.stdout, highlight=False)
    for table in plan_tables(planned):
        print_table(out, table, say)
    return 0


def _refused(reason: str) -> ConfigError:
    where, _, what = reason.partition(": ")
    return ConfigError(where, what)
