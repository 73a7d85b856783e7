"""The `import` command: measurements from elsewhere into a study, as records of status `imported`."""

from __future__ import annotations

import json
from collections.abc import Collection
from pathlib import Path

from rich.console import Console

from configs.errors import ConfigError, choose
from configs.schema import Config
from launch.importers.files import Imported
from launch.importers.nccl_tests import import_nccl_tests
from launch.importers.training import import_hf_trainer, import_measurements
from launch.run import study_folder
from launch.study.collectives import store_link_model

KINDS = ("nccl-tests", "hf-trainer", "measurements")


def import_command(words: list[str], config: Config, console: Console, stated: Collection[str] = ()) -> int:
    """`import KIND FILE...` into the study that `config` names; returns the exit code.

    stated: the fields that the command line gives a value, as against those that have one by default. Raises
    ConfigError for a kind or file that is none. A file is imported wholly or not at all.
    """
    if len(words) < 2:
        raise ConfigError("import", "needs a kind and a file", f"cardscale import {KINDS[0]} FILE [study=NAME]")
    kind = choose("import", words[0], KINDS)
    study = study_folder(config)
    found = [_import_one(kind, Path(word), study, config, stated) for word in words[1:]]
    model = store_link_model(study) if kind == "nccl-tests" else None
    for item in found:
        line = f"{item.file}: {kind}, {item.rows} rows in {len(item.records)} records -> {study}"
        console.print(line, markup=False, highlight=False, soft_wrap=True)
        for text in item.warnings:
            console.print(f"  warning: {text}", markup=False, highlight=False, soft_wrap=True, style="yellow")
        for text in item.notes:
            console.print(f"  {text}", markup=False, highlight=False, soft_wrap=True)
    if config.format == "json":
        print(
            json.dumps(
                {
                    "study": str(study),
                    "links": None if model is None else str(model),
                    "files": [
                        {
                            "file": item.file,
                            "rows": item.rows,
                            "cells": [record.cell_id for record in item.records],
                            "notes": item.notes,
                            "warnings": item.warnings,
                        }
                        for item in found
                    ],
                },
                ensure_ascii=False,
            )
        )
    return 0


def _import_one(kind: str, path: Path, study: Path, config: Config, stated: Collection[str]) -> Imported:
    if kind == "hf-trainer":
        return import_hf_trainer(path, study, config, set(stated))
    return import_nccl_tests(path, study) if kind == "nccl-tests" else import_measurements(path, study)
