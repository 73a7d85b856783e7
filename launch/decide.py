"""The `decide` command: workload, deadline, budget and price sheets into a decision and its reasons."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterable
from pathlib import Path

import pandas as pd
import yaml
from rich.console import Console

from analysis.cost import cost_table
from analysis.cost.cells import numbers
from analysis.cost.options import merge_repeats, with_predictions
from analysis.decision import Decision, decide
from analysis.decision.choice import Constraints
from analysis.prices import Quote
from analysis.prices.currency import parse_rates
from configs.compose import CONFIG_DIR
from configs.errors import ConfigError, choose
from configs.schema import Config
from launch.render.decision import print_decision
from launch.run import study_folder
from launch.study.sheets import load_sheets
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
    cells, options, workload = merge_repeats(cells), config.decide, config.workload
    tokens = epoch_tokens(config, cells)
    if options.predict:
        on_offer, per_node = options.card_counts, config.machine.cards_per_node
        cells = with_predictions(cells, tokens, workload.epochs, workload.deadline_hours, on_offer, per_node)
    rows = cost_table(
        cells,
        quotes,
        tokens,
        workload.epochs,
        config.costs,
        parse_rates(options.rates),
        options.currency,
        card_names(),
    )
    constraints = Constraints(
        deadline_hours=workload.deadline_hours,
        budget=workload.budget,
        max_memory_share=options.max_memory_share,
        card_counts=tuple(options.card_counts) or None,
        model=options.model,
    )
    return decide(rows, constraints, options.objective, quotes, config.lang)


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


def card_names() -> dict[str, Iterable[str]]:
    """What drivers call the card of each machine that comes with cardscale."""
    machines = (yaml.safe_load(path.read_text(encoding="utf-8")) for path in Path(CONFIG_DIR, "machine").glob("*.yaml"))
    return {machine["name"]: machine.get("card_names") or () for machine in machines}
