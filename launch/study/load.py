"""Reads what a report is about: a study's folder or a measurement CSV, with whatever had to be left out of it."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd

from configs.errors import ConfigError
from configs.schema import Config
from launch.run import study_folder
from results.store import collectives_frame, matmul_frame, read_measurements, read_study, records


@dataclass(frozen=True)
class Study:
    """A study as frames: `cells` one row a cell (dotted columns), `collectives` one a size of a call, `matmul` one a
    product.
    """

    name: str
    folder: Path | None  # None: from a measurement CSV
    cells: pd.DataFrame
    collectives: pd.DataFrame
    matmul: pd.DataFrame = field(default_factory=pd.DataFrame)
    left_out: tuple[str, ...] = ()  # damaged records, columns of a CSV that nobody reads
    settings: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)  # by cell_id: the config that it ran with


def load_study(config: Config) -> Study:
    """Read `config.source` if given, else the study's folder. Raises ConfigError where there is nothing to read."""
    check_one_source(config)
    if config.source is not None:
        path = Path(config.source).expanduser()
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            cells = read_measurements(path)
        return Study(path.stem, None, cells, pd.DataFrame(), left_out=_said(caught))
    folder = study_folder(config)
    if not folder.is_dir():
        known = sorted(p.name for p in folder.parent.glob("*") if (p / "cells").is_dir())
        raise ConfigError("study", f"{folder} does not exist", f"there are: {', '.join(known) or 'none'}")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        cells = read_study(folder)
        collectives, matmul = collectives_frame(folder), matmul_frame(folder)
        settings = {record.cell_id: record.config for record in records(folder)}
        kinds = {cell_id: config.get("machine", {}).get("device") for cell_id, config in settings.items()}
    if len(cells):
        cells["machine.device"] = cells["cell_id"].map(kinds)
    return Study(folder.name, folder, cells, collectives, matmul, _said(caught), settings)


def check_one_source(config: Config) -> None:
    """Refuse a CSV and a study at once: one of them would be ignored. Raises ConfigError."""
    if config.source is not None and config.study_name != Config().study_name:
        raise ConfigError("source", f"{config.source} and study={config.study_name} are two sources", "one of them")


def _said(caught: list[warnings.WarningMessage]) -> tuple[str, ...]:
    """What our own readers warned of, each once."""
    texts = [str(w.message) for w in caught if issubclass(w.category, UserWarning)]
    return tuple(dict.fromkeys(texts))
