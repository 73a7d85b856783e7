"""The `run` command: check every cell of the grid, warm the ranks up, measure what is missing, say how it went."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

from rich.console import Console

from configs.cell import Cell, resolve
from configs.engines import check_installed
from configs.errors import ConfigError, choose
from configs.matmul import check_matmul
from configs.pairs import check_pairs
from configs.schema import Config
from configs.storage import check_storage
from launch.ranks.agent import warm_up
from launch.ranks.cards import check_cards, visible_cards
from launch.study.budget import check_budget, find_tariff
from launch.study.collectives import store_link_model, write_nccl_tests_files
from launch.study.interrupts import Interrupts
from launch.study.memory import GATES, cannot_fit
from launch.study.pairs import say_pairs
from launch.study.progress import Progress
from launch.study.sheets import DEFAULT_SHEET, load_sheets
from launch.study.single_card import one_card_record, say_verdict
from launch.study.sweep import RETRY, Summary, Terms, must_run, sweep
from results.bandwidth import check_collectives
from results.store import find_record, read_study, records, write_tables

FORMATS = ("text", "json")


def study_folder(config: Config) -> Path:
    """Where a study's records are: results_dir/NAME. Raises ConfigError for a name that is a path or empty."""
    name = config.study_name
    if not name or name in (".", "..") or "/" in name or "\\" in name or len(name) > 100:
        raise ConfigError("study", f"{name!r} is not a folder's name", "a plain name of at most 100 characters")
    return Path(config.results_dir).expanduser() / name


def resolve_grid(configs: list[Config]) -> tuple[list[Cell], list[ConfigError]]:
    """The legal cells of a grid, each once, and what is wrong with the others."""
    cells: dict[str, Cell] = {}
    wrong = []
    for config in configs:
        try:
            cell = resolve(config)
            if cell.benchmark.name == "finetune":
                check_installed(cell.mode, cell.recipe)
            if cell.benchmark.name == "collectives":
                check_collectives(cell.benchmark.collectives, cell.cards)
            if cell.benchmark.name == "storage":
                check_storage(cell.benchmark.storage, cell.cards // cell.cluster.nodes)
            if cell.benchmark.name == "pairs":
                check_pairs(cell.benchmark.pairs, cell.cards)
            if cell.benchmark.name == "matmul":
                check_matmul(cell.benchmark.matmul)
            cells.setdefault(cell.cell_id, cell)
        except ConfigError as error:
            wrong.append(error)
    return list(cells.values()), wrong


def run_command(configs: list[Config], console: Console) -> int:
    """Measure the grid; returns the exit code. Raises ConfigError before anything starts if a cell is illegal."""
    first = configs[0]
    choose("format", first.format, FORMATS)
    study = study_folder(first)
    cells, wrong = resolve_grid(configs)
    if wrong:
        for error in wrong[:-1]:
            console.print(str(error), markup=False, highlight=False)
        raise wrong[-1]
    missing = [cell for cell in cells if must_run(find_record(study, cell.cell_id), first.retry)]
    check_cards(cell for cell in missing if first.gate == "off" or cannot_fit(cell) is None)
    try:
        study.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError("results_dir", f"{study} cannot be made: {error.strerror}", "a writable folder") from None
    terms = terms_of(first, cells)
    if missing:
        warm_up()
    with Interrupts() as interrupts, Progress(len(cells), console) as progress:
        summary = sweep(study, cells, terms, progress, interrupts)
    try:
        write_tables(study, read_study(study))
        if any(cell.benchmark.name == "collectives" for cell in cells):
            write_nccl_tests_files(study)
            store_link_model(study)
        say_pairs(study, [cell.cell_id for cell in cells if cell.benchmark.name == "pairs"], console)
    except OSError as error:
        console.print(f"warning: {study}: no tables were written: {error.strerror}", markup=False, highlight=False)
    say_summary(summary, study, progress.meter, console)
    alone = one_card_record(records(study)) if {cell.cards for cell in cells} == {1} else None
    if alone is not None:
        say_verdict(alone, console)
    if first.format == "json":
        print(json.dumps(outcome_json(summary, study, cells), ensure_ascii=False, allow_nan=False, indent=1))
    return summary.exit_code


def terms_of(config: Config, cells: list[Cell]) -> Terms:
    """What the sweep may use and spend. Raises ConfigError for a budget that is none, or a tier that is not known."""
    choose("retry", config.retry, RETRY)
    choose("gate", config.gate, GATES)
    check_budget(config.budget)
    cards = rented_cards(config, cells)
    tariff = None
    if config.budget.tier is not None or config.budget.money is not None:
        tariff = find_tariff(config.budget, load_sheets(config.price_sheets), cards)
        if not config.price_sheets:
            said = f"the budget is kept at the example prices of {DEFAULT_SHEET}: prices= is not stated"
            warnings.warn(said, stacklevel=2)
    return Terms(config.retry, cards, config.budget, tariff, config.pack, config.gate == "on")


def rented_cards(config: Config, cells: list[Cell]) -> int:
    """How many cards are paid for while the sweep runs: what the budget says, else what can be seen, else is used."""
    most = max(cell.cards for cell in cells)
    named = config.budget.cards
    if named is not None and named < most:
        raise ConfigError("budget.cards", f"{named} cards are fewer than the study's {most}", f"at least {most}")
    if named is not None or config.machine.device == "cpu":
        return named or most
    return max(visible_cards() * config.cluster.nodes, most)


def say_summary(summary: Summary, study: Path, meter: str, console: Console) -> None:
    """The sweep's last words: counts, what it cost, and what was not come to, with the reason."""
    for why in dict.fromkeys(why for _, why in summary.left):
        labels = [label for label, reason in summary.left if reason == why]
        console.print(f"not measured: {', '.join(labels)}: {why}", markup=False, highlight=False)
    if meter:
        console.print(meter, highlight=False)
    cut = f", {summary.cut} interrupted" if summary.cut else ""
    console.print(
        f"{summary.measured} measured, {summary.skipped} already there, {summary.failed} failed{cut} -> {study}",
        highlight=False,
    )


def outcome_json(summary: Summary, study: Path, cells: list[Cell]) -> dict[str, Any]:
    """How the sweep went, for scripts: counts, what was not come to, and each cell's status, rate and first cause.

    tokens_per_s is null for a cell without one; card_hours is what the cell's last attempt took.
    """
    found = []
    for cell in cells:
        record = find_record(study, cell.cell_id)
        if record is not None:
            found.append(
                {
                    "cell_id": cell.cell_id,
                    "label": cell.label,
                    "status": record.status,
                    "tokens_per_s": record.throughput.get("tokens_per_s"),
                    "card_hours": record.card_hours,
                    "error": None if record.error is None else f"{record.error.kind}: {record.error.message}",
                }
            )
    return {
        "study": str(study),
        "measured": summary.measured,
        "already_there": summary.skipped,
        "failed": summary.failed,
        "interrupted": summary.cut,
        "not_measured": [{"label": label, "why": why} for label, why in summary.left],
        "exit_code": summary.exit_code,
        "cells": found,
    }
