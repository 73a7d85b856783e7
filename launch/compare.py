"""The `compare` command: two studies, or measurement CSVs, cell by cell, with the significance of each difference."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path

from rich.console import Console
from rich.text import Text

from analysis.scaling.compare import Comparison, compare_studies
from analysis.tables import plain
from analysis.tables.compare import compare_summary, compare_view
from analysis.text import sayer
from configs.errors import ConfigError, choose
from configs.schema import Config
from launch.render.csv import json_rows
from launch.render.text import print_table
from launch.study.load import Study, load_study

FORMATS = ("text", "json")


def compare_command(configs: list[Config], console: Console) -> int:
    """Hold study `b` against study `a`; returns 0, whatever the difference.

    Raises ConfigError where one of the two is not given or not there, or where they share no measured cell.
    """
    config = configs[0]
    choose("format", config.format, FORMATS)
    a, b = _load(config, "a"), _load(config, "b")
    for study in (a, b):
        for sentence in study.left_out:
            console.print(Text(f"warning: {study.name}: {sentence}"), soft_wrap=True)
    found = compare_studies(a.cells, b.cells)
    if found.cells.empty:
        where = "what both must share: model, mode, cards, sequence, batch, recipe, precision, scaling"
        raise ConfigError("b", f"{config.b} shares no measured cell with {config.a}", where)
    names = (str(config.a), str(config.b))
    if config.format == "json":
        print(json.dumps(compare_json(found, *names), ensure_ascii=False, allow_nan=False, indent=1))
    else:
        print_comparison(found, *names, Console(file=sys.stdout, highlight=False), config.lang)
    return 0


def compare_json(found: Comparison, a: str, b: str) -> dict[str, object]:
    """The comparison for a script: the shared cells, and what only one of the two has."""
    alone = {
        f"only_{side}": [dict(zip(("model", "mode", "cards"), (m, k, int(n)), strict=True)) for m, k, n in cells]
        for side, cells in (("a", found.only_a), ("b", found.only_b))
    }
    return {"a": a, "b": b, "cells": json_rows(found.cells), **alone}


def print_comparison(found: Comparison, a: str, b: str, out: Console, lang: str) -> None:
    """The comparison for a person at a terminal."""
    say = sayer(lang)
    out.print(Text(compare_summary(found.cells, a, b, say)))
    out.print()
    print_table(out, compare_view(found.cells, a, b, say), say)
    for study, cells in ((a, found.only_a), (b, found.only_b)):
        if cells:
            listed = ", ".join(say("compare.cell", model=plain(m), mode=plain(k), cards=n).strip() for m, k, n in cells)
            out.print(Text(say("compare.only", study=plain(study), cells=listed)))


def _load(config: Config, side: str) -> Study:
    """The study, or the CSV where the name ends so, that `a` or `b` names."""
    name = getattr(config, side)
    if not name:
        raise ConfigError(side, "is not given", "two studies or measurement CSVs: a=before b=after")
    if side == "b" and name == config.a:
        raise ConfigError("b", f"{name} is a as well", "two different studies")
    if Path(name).suffix.lower() == ".csv":
        return load_study(replace(config, source=name, study_name=Config().study_name))
    return load_study(replace(config, source=None, study_name=name))
