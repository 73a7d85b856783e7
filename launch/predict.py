"""The `predict` command: throughput at counts that were not measured, from a study or a measurement CSV."""

from __future__ import annotations

import json
import sys

from rich.console import Console

from analysis.predict import predict
from analysis.tables.prediction import prediction_view
from analysis.text import sayer
from configs.errors import choose
from configs.schema import Config
from launch.render.csv import json_rows
from launch.render.text import print_table
from launch.study.load import load_study

FORMATS = ("text", "json")


def predict_command(configs: list[Config], console: Console) -> int:
    """Predict every series of the source at the counts of the grid; returns 0. Raises ConfigError as its parts do."""
    first = configs[0]
    choose("format", first.format, FORMATS)
    study = load_study(first)
    for sentence in study.left_out:
        console.print(f"warning: {sentence}", markup=False, highlight=False)
    counts = sorted({config.cards for config in configs})
    table = predict(study.cells, counts)
    if first.format == "json":
        print(json.dumps(json_rows(table), ensure_ascii=False, allow_nan=False, indent=1))
    else:
        print_table(Console(file=sys.stdout, highlight=False), prediction_view(study.name, table), sayer(first.lang))
    return 0
