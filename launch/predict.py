"""The `predict` command: throughput at counts that were not measured, from a study or a measurement CSV."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from dataclasses import replace

import pandas as pd
from rich.console import Console

from analysis.links import LinkModel, fit_links
from analysis.predict import predict
from analysis.scaling.series import is_measured, numbers, texts
from analysis.steptime.study import predict_study
from analysis.steptime.unmeasured import predict_from_matmul
from analysis.tables.prediction import prediction_view
from analysis.text import sayer
from configs.cell import Cell, from_dict, resolve
from configs.errors import ConfigError, choose
from configs.schema import Config, Machine, Mode, WhatIf
from launch.render.csv import json_rows
from launch.render.text import print_table
from launch.study.load import Study, load_study

FORMATS = ("text", "json")


def predict_command(configs: list[Config], console: Console) -> int:
    """Predict every series of the source at the counts of the grid; returns 0. Raises ConfigError as its parts do."""
    first = configs[0]
    choose("format", first.format, FORMATS)
    study = load_study(first)
    for sentence in study.left_out:
        _warn(console, sentence)
    counts = sorted({config.cards for config in configs})
    if study.folder is None and first.whatif != WhatIf():
        raise ConfigError("whatif", f"needs to know what {study.name} sends over its links", "study=NAME, not source=")
    table = predict(study.cells, counts) if study.folder is None else _of_study(study, configs, counts, console)
    if first.format == "json":
        print(json.dumps(json_rows(table), ensure_ascii=False, allow_nan=False, indent=1))
    else:
        print_table(Console(file=sys.stdout, highlight=False), prediction_view(study.name, table), sayer(first.lang))
    return 0


def _of_study(study: Study, configs: list[Config], counts: list[int], console: Console) -> pd.DataFrame:
    """From the step-time model where a cell's config is known, from the measurements alone for the rest."""
    config, modes = configs[0], asked_modes(configs)
    cells = dict(_cells(study, console))
    stated = config.machine if config.machine.name != Machine().name else None  # named on the command line
    links = _links(study, console)
    table, used, skipped = predict_study(study.cells, cells, counts, links, stated, config.whatif, modes)
    for sentence in skipped:
        _warn(console, sentence)
    rest = study.cells[~used]
    if len(rest) and (is_measured(rest) & texts(rest, "benchmark").isin(["", "finetune"]).to_numpy()).any():
        if config.whatif != WhatIf():
            _warn(
                console,
                "whatif leaves out imported cells, LoRA, hybrid sharding and offloading: it does not apply",
            )
        else:
            alone = predict(rest, counts)
            table = pd.concat([table, alone], ignore_index=True) if len(table) else alone
    if table.empty and used.any():
        raise ConfigError("cards", "no measured mode allows any of these counts", skipped[0])
    if table.empty and len(study.matmul):
        table, skipped = _from_products(study, configs, counts, links)
        for sentence in skipped:
            _warn(console, sentence)
    if table.empty:
        raise ConfigError("study", f"{study.name} holds no measured fine-tune cell", "one good cell of a mode at least")
    return table


def asked_modes(configs: list[Config]) -> list[Mode]:
    """The modes that the command line names; the default alone is nobody's wish."""
    modes = {config.mode.name: config.mode for config in configs}
    return list(modes.values()) if len(modes) > 1 or Mode().name not in modes else []


def _from_products(
    study: Study, configs: list[Config], counts: list[int], links: LinkModel | None
) -> tuple[pd.DataFrame, list[str]]:
    """The command line's workload in its modes, at the rate of the study's matrix products."""
    first = study.matmul[study.matmul["device"] == study.matmul["device"].iloc[0]]
    record = study.cells[study.cells["cell_id"] == first["cell_id"].iloc[0]]
    config = configs[0]
    machine = config.machine
    if machine.name == Machine().name:
        machine = from_dict(Machine, study.settings[record["cell_id"].iloc[0]].get("machine", {}), "config.machine")
    cell = resolve(replace(config, mode=Mode(), cards=1, cluster=replace(config.cluster, nodes=1)))
    modes = asked_modes(configs) or [config.mode]
    cores = float(numbers(record, "device.cores")[0])
    return predict_from_matmul(first, cell, modes, counts, links, machine, config.whatif, cores)


def _cells(study: Study, console: Console) -> Iterator[tuple[str, Cell]]:
    """(cell_id, cell) of every fine-tune record whose config can be read; imported ones hold none."""
    for cell_id, settings in study.settings.items():
        if not {"model", "mode", "recipe", "cards"} <= set(settings):
            continue
        try:
            yield cell_id, from_dict(Cell, settings, "config")
        except (ConfigError, TypeError) as error:  # of another version
            _warn(console, f"{cell_id} is predicted from its measurement alone: {error}")


def _warn(console: Console, sentence: str) -> None:
    console.print(f"warning: {sentence}", markup=False, highlight=False)


def _links(study: Study, console: Console) -> LinkModel | None:
    """The curves of the study's collectives; None where it measured none, or too few sizes."""
    if study.collectives.empty:
        return None
    try:
        return fit_links(study.collectives)
    except ConfigError as error:
        _warn(console, f"the links are not fitted: {error}")
        return None
