"""The `export` command: a study in the form of another tool, as a file or as runs of a tracking server."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable
from pathlib import Path

from rich.console import Console
from rich.text import Text

from analysis.interop.pytest_benchmark import benchmark_document
from analysis.report import in_order
from configs.errors import ConfigError, choose
from configs.schema import Config
from launch.mlflow_runs import log_runs
from launch.render.csv import write_csv
from launch.study.load import Study, load_study
from results.store import write_json_atomically, write_parquet

FORMATS = ("text", "json")
TOOLS = ("pytest-benchmark", "csv", "parquet", "mlflow")


def export_command(configs: list[Config], console: Console) -> int:
    """Write the study or measurement CSV that `configs` names as `to` into `out`; returns 0.

    Raises ConfigError where `to` is no form, `out` cannot be written, or there is nothing to export.
    """
    config = configs[0]
    choose("format", config.format, FORMATS)
    tool = choose("to", config.to or "", TOOLS)
    study = load_study(config)
    for sentence in study.left_out:
        console.print(Text(f"warning: {sentence}"), soft_wrap=True)
    if study.cells.empty:
        raise ConfigError("study", f"{study.name} has no record to export", "a study that `cardscale run` measured")
    left_out: tuple[str, ...] = ()
    if tool == "mlflow":
        count, where = log_runs(study.name, in_order(study.cells), config.out)
    else:
        path = _out(config, tool)
        count, left_out = EXPORTS[tool](study, path)
        where = str(path)
    for sentence in left_out:
        console.print(Text(f"not exported: {sentence}"), soft_wrap=True)
    console.print(Text(f"{study.name}: {count} cells as {tool} -> {where}"), soft_wrap=True)
    if config.format == "json":
        print(json.dumps({"to": tool, "out": where, "cells": count, "left_out": left_out}, ensure_ascii=False))
    return 0


def export_benchmarks(study: Study, path: Path) -> tuple[int, tuple[str, ...]]:
    """The measured cells as pytest-benchmark's JSON; returns their number and what was left out, with the reason."""
    made = benchmark_document(in_order(study.cells))
    count = len(made.document["benchmarks"])
    if not count:
        raise ConfigError("to", f"{study.name} has no cell with step times", "csv and parquet take cells without them")
    _written(path, lambda draft: write_json_atomically(draft, made.document))
    return count, made.left_out


def export_csv(study: Study, path: Path) -> tuple[int, tuple[str, ...]]:
    """Every cell as a row of a CSV with the record's dotted names; lists, such as step times, have no column there."""
    cells = in_order(study.cells)
    flat = cells[[c for c in cells.columns if not cells[c].map(lambda v: isinstance(v, (list, dict))).any()]]
    _written(path, lambda draft: write_csv(flat, draft))
    return len(flat), ()


def export_parquet(study: Study, path: Path) -> tuple[int, tuple[str, ...]]:
    """Every cell as a row of a Parquet file with the record's dotted names, step times included."""
    cells = in_order(study.cells)
    _written(path, lambda draft: write_parquet(cells, draft))
    return len(cells), ()


EXPORTS: dict[str, Callable[[Study, Path], tuple[int, tuple[str, ...]]]] = {
    "pytest-benchmark": export_benchmarks,
    "csv": export_csv,
    "parquet": export_parquet,
}


def _out(config: Config, tool: str) -> Path:
    """The file to write. Raises ConfigError where none is named or a folder stands there."""
    if not config.out:
        ending = {"pytest-benchmark": "json"}.get(tool, tool)
        raise ConfigError("out", "is not given", f"the file to write, as in out={config.study_name}.{ending}")
    path = Path(config.out).expanduser()
    if path.is_dir():
        raise ConfigError("out", f"{path} is a folder", "the file to write")
    return path


def _written(path: Path, write: Callable[[Path], None]) -> None:
    """Let `write` fill a draft beside `path`, then put it in place: a reader sees the old file or the new one, whole.

    Raises ConfigError where the folder cannot be written or is full.
    """
    draft = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        os.close(handle)
        draft = Path(name)
        write(draft)
        draft.chmod(0o644)  # mkstemp's 0600 would hide the file from colleagues
        draft.replace(path)
    except OSError as error:
        raise ConfigError("out", f"{path} cannot be written: {error.strerror}", "a writable file") from None
    finally:
        if draft is not None:
            draft.unlink(missing_ok=True)
