"""The `predict` command: throughput at counts that were not measured, from a study or a measurement CSV."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator

import pandas as pd
from rich.console import Console

from analysis.links import LinkModel, fit_links
from analysis.predict import predict
from analysis.scaling.series import is_measured, texts
from analysis.steptime.study import predict_study
from analysis.tables.prediction import prediction_view
from analysis.text import sayer
from configs.cell import Cell, from_dict
from configs.errors import ConfigError, choose
from configs.schema import Config, Machine
from launch.render.csv import json_rows
from launch.render.text import print_table
from launch.study.load import Study, load_study
from results.store import records

FORMATS = ("text", "json")


def predict_command(configs: list[Config], console: Console) -> int:
    """Predict every series of the source at the counts of the grid; returns 0. Raises ConfigError as its parts do."""
    first = configs[0]
    choose("format", first.format, FORMATS)
    study = load_study(first)
    for sentence in study.left_out:
        console.print(f"warning: {sentence}", markup=False, highlight=False)
    counts = sorted({config.cards for config in configs})
    table = predict(study.cells, counts) if study.folder is None else _of_study(study, first.machine, counts, console)
    if first.format == "json":
        print(json.dumps(json_rows(table), ensure_ascii=False, allow_nan=False, indent=1))
    else:
        print_table(Console(file=sys.stdout, highlight=False), prediction_view(study.name, table), sayer(first.lang))
    return 0


def _of_study(study: Study, machine: Machine, counts: list[int], console: Console) -> pd.DataFrame:
    """From the step-time model where a cell's config is known, from the measurements alone for the rest."""
    cells = dict(_cells(study))
    stated = machine if machine.name != Machine().name else None  # named on the command line
    table, used, skipped = predict_study(study.cells, cells, counts, _links(study, console), stated)
    for sentence in skipped:
        console.print(f"warning: {sentence}", markup=False, highlight=False)
    rest = study.cells[~used]
    if len(rest) and (is_measured(rest) & texts(rest, "benchmark").isin(["", "finetune"]).to_numpy()).any():
        alone = predict(rest, counts)
        table = pd.concat([table, alone], ignore_index=True) if len(table) else alone
    if table.empty and used.any():
        raise ConfigError("cards", "no measured mode allows any of these counts", skipped[0])
    if table.empty:
        raise ConfigError("study", f"{study.name} holds no measured fine-tune cell", "one good cell of a mode at least")
    return table


def _cells(study: Study) -> Iterator[tuple[str, Cell]]:
    """(cell_id, cell) of every record that holds a whole config; imported ones do not."""
    if study.folder is None:
        return
    for record in records(study.folder):
        if record.benchmark == "finetune" and record.config:
            yield record.cell_id, from_dict(Cell, record.config, f"record {record.cell_id}")


def _links(study: Study, console: Console) -> LinkModel | None:
    """The curves of the study's collectives; None where it measured none, or too few sizes."""
    if study.collectives.empty:
        return None
    try:
        return fit_links(study.collectives)
    except ConfigError as error:
        console.print(f"warning: the links are not fitted: {error}", markup=False, highlight=False)
        return None
