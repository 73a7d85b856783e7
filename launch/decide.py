"""The `decide` command: workload, deadline, budget and price sheets into a decision and its reasons."""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path

import pandas as pd
from rich.console import Console

from analysis.cost.cells import numbers
from analysis.cost.options import merge_repeats
from analysis.cost.report_costs import Terms, considered, costs_of, limits_of
from analysis.decision import Decision, decide
from analysis.decision.assumed import assumed_epoch, assumed_sheet
from analysis.prices import Quote
from configs.errors import ConfigError, choose
from configs.machines import load_machines
from configs.schema import Config
from launch.render.decision import print_decision
from launch.run import study_folder
from launch.study.load import check_one_source
from launch.study.sheets import DEFAULT_SHEET, load_sheets
from results.store import read_measurements, read_study

FORMATS = ("text", "json")


def decide_command(configs: list[Config], console: Console) -> int:
    """Decide and print: format=text for people, format=json one object, both on standard output. Returns 0.

    That nothing meets the constraints is an answer, not an error. Raises ConfigError for wrong input.
    """
    config = configs[0]
    choose("format", config.format, FORMATS)
    if len({(c.study_name, c.source, tuple(c.price_sheets)) for c in configs}) > 1:
        raise ConfigError("decide", "the words name several studies or price lists", "one study at a time")
    decision = make_decision(config, cells_of(config), load_sheets(config.price_sheets))
    if config.format == "json":
        print(json.dumps(decision.to_json(), ensure_ascii=False, allow_nan=False, indent=1))
    else:
        print_decision(decision, Console(file=sys.stdout, highlight=False), config.lang)
    return 0


def cells_of(config: Config) -> pd.DataFrame:
    """The cells that `config` names: its measurement CSV, else its study. Raises ConfigError where there are none."""
    check_one_source(config)
    if config.source is not None:
        return read_measurements(Path(config.source).expanduser())
    cells = read_study(study_folder(config))
    if cells.empty:
        raise ConfigError("study", f"{config.study_name} holds no records", "measure it first, or source=FILE.csv")
    return cells


def make_decision(config: Config, cells: pd.DataFrame, quotes: list[Quote]) -> Decision:
    """The decision for the workload of `config` among `cells` (a study's columns) at `quotes`.

    Repeats count as one cell. With decide.predict, counts that were not measured are predicted and considered too.
    """
    terms, cells = terms_of(config), merge_repeats(cells)
    tokens = epoch_tokens(config, cells)
    rows = costs_of(considered(cells, tokens, terms), quotes, tokens, terms)
    assumed = (*assumed_epoch(tokens, config.workload.epoch_tokens), *terms.assumed)
    return decide(rows, limits_of(terms), config.decide.objective, quotes, config.lang, assumed)


def terms_of(config: Config) -> Terms:
    """What `config` says of the job and its costs, with what has to be assumed where it says nothing."""
    machines = load_machines()
    return Terms(
        config.workload,
        config.costs,
        config.decide,
        card_names={name: machine.card_names for name, machine in machines.items()},
        card_memory={name: machine.card_memory_gib for name, machine in machines.items() if machine.card_memory_gib},
        cards_per_node=config.machine.cards_per_node,
        assumed=tuple(assumed_sheet(config.price_sheets, DEFAULT_SHEET)),
    )


def epoch_tokens(config: Config, cells: pd.DataFrame) -> float:
    """Target tokens of one epoch: the workload's, else those of the data set that the study measured."""
    stated = config.workload.epoch_tokens
    if stated is not None:
        if not 0 < stated < math.inf:
            raise ConfigError("workload.epoch_tokens", f"{stated!r} is not an amount", "target tokens above zero")
        return stated
    measured = set(numbers(cells, "workload.data_set_tokens"))
    measured = {tokens for tokens in measured if tokens > 0}
    if len(measured) != 1:
        raise ConfigError("workload.epoch_tokens", "is not stated", "the target tokens of one epoch of your data")
    return float(measured.pop())
