"""A study as runs of MLflow, one run a cell, where MLflow is installed."""

from __future__ import annotations

import importlib
import importlib.util
from pathlib import Path
from typing import Any

import pandas as pd

from configs.errors import ConfigError
from results.record import MEASURED

# Sections whose numbers are results; everything else describes the cell and becomes a parameter.
_METRICS = ("throughput.", "memory.", "device.", "loss.", "wall_s", "card_hours")
_TAGS = ("cell_id", "study", "benchmark", "status", "started_at")
LONGEST_PARAM = 500  # characters, what MLflow's oldest stores take


def log_runs(name: str, cells: pd.DataFrame, tracking: str | None) -> tuple[int, str]:
    """Log every row of `cells` into the experiment `name`; returns the number of runs and the tracking URI.

    tracking: a tracking URI or a folder; newer releases of MLflow take a folder only with MLFLOW_ALLOW_FILE_STORE=true.
    None is what MLflow's own settings (MLFLOW_TRACKING_URI) say. A run that an
    earlier export made of the same cell is replaced. Raises ConfigError where MLflow is missing or cannot be reached.
    """
    if importlib.util.find_spec("mlflow") is None:
        raise ConfigError("to", "mlflow is not installed", "pip install 'cardscale[mlflow]'")
    mlflow: Any = importlib.import_module("mlflow")
    try:
        if tracking:
            mlflow.set_tracking_uri(tracking if "://" in tracking else Path(tracking).expanduser().resolve().as_uri())
        experiment = mlflow.set_experiment(name)
        client = mlflow.MlflowClient()
        for row in cells.to_dict("records"):
            _remove_earlier(client, experiment.experiment_id, str(row["cell_id"]))
            _log_run(client, experiment.experiment_id, row)
    except (mlflow.exceptions.MlflowException, OSError) as error:
        raise ConfigError("out", f"MLflow: {error}", "a tracking URI such as sqlite:///mlflow.db") from None
    return len(cells), str(mlflow.get_tracking_uri())


def run_content(row: dict[Any, Any]) -> tuple[dict[str, str], dict[str, float], dict[str, str]]:
    """(parameters, metrics, tags) of a cell. Names are the record's; blanks, and lists such as step times, are left."""
    params: dict[str, str] = {}
    metrics: dict[str, float] = {}
    tags: dict[str, str] = {}
    for key, value in row.items():
        column = str(key)
        if value is None or value == "" or value != value or isinstance(value, (list, dict)):
            continue
        is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
        if column in _TAGS:
            tags[f"cardscale.{column}"] = str(value)
        elif is_number and column.startswith(_METRICS):
            metrics[column] = float(value)
        else:
            whole = isinstance(value, float) and value.is_integer()
            params[column] = str(int(value) if whole else value)[:LONGEST_PARAM]
    return params, metrics, tags


def _remove_earlier(client: Any, experiment_id: str, cell_id: str) -> None:
    for run in client.search_runs([experiment_id], f"tags.`cardscale.cell_id` = '{cell_id}'"):
        client.delete_run(run.info.run_id)


def _log_run(client: Any, experiment_id: str, row: dict[Any, Any]) -> None:
    params, metrics, tags = run_content(row)
    run = client.create_run(experiment_id, run_name=str(row["cell_id"]), tags=tags)
    for key, text in params.items():
        client.log_param(run.info.run_id, key, text)
    for key, number in metrics.items():
        client.log_metric(run.info.run_id, key, number)
    steps = row.get("throughput.step_times_s")
    for step, seconds in enumerate(steps if isinstance(steps, list) else []):
        client.log_metric(run.info.run_id, "step_time_s", float(seconds), step=step)
    client.set_terminated(run.info.run_id, "FINISHED" if row.get("status") in MEASURED else "FAILED")
