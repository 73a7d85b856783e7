"""The `run` command: check every cell of the grid, warm the ranks up, measure what is missing, say how it went."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console

from configs.cell import Cell, resolve
from configs.errors import ConfigError
from configs.schema import Config
from launch.agent import warm_up
from launch.collectives import store_link_model, write_nccl_tests_files
from launch.progress import Progress
from launch.sweep import RETRY, must_run, sweep
from results.bandwidth import check_collectives
from results.store import find_record, read_study, write_tables


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
            if cell.benchmark.name == "collectives":
                check_collectives(cell.benchmark.collectives, cell.cards)
            cells.setdefault(cell.cell_id, cell)
        except ConfigError as error:
            wrong.append(error)
    return list(cells.values()), wrong


def run_command(configs: list[Config], console: Console) -> int:
    """Measure the grid; returns the exit code. Raises ConfigError before anything starts if a cell is illegal."""
    first = configs[0]
    study = study_folder(first)
    if first.retry not in RETRY:
        must_run(None, first.retry)
    cells, wrong = resolve_grid(configs)
    if wrong:
        for error in wrong[:-1]:
            console.print(str(error), markup=False, highlight=False)
        raise wrong[-1]
    try:
        study.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError("results_dir", f"{study} cannot be made: {error.strerror}", "a writable folder") from None
    if any(must_run(find_record(study, cell.cell_id), first.retry) for cell in cells):
        warm_up()
    with Progress(len(cells), console) as progress:
        summary = sweep(study, cells, first.retry, progress)
    write_tables(study, read_study(study))
    if any(cell.benchmark.name == "collectives" for cell in cells):
        write_nccl_tests_files(study)
        store_link_model(study)
    console.print(
        f"{summary.measured} measured, {summary.skipped} already there, {summary.failed} failed -> {study}",
        highlight=False,
    )
    return summary.exit_code
