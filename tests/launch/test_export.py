"""`cardscale export`, and the other tools reading what it wrote."""

from __future__ import annotations

import csv
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from launch.mlflow_runs import run_content
from results.record import Error, Record
from results.store import write_record

CardScale = Callable[..., subprocess.CompletedProcess[str]]
STEPS = [2.0, 2.1, 1.9, 2.0, 2.05]


def _record(study: str, cards: int, steps: list[float], **fields: Any) -> Record:
    return Record(
        study=study,
        cell_id=f"m-ddp-{cards}-{study}{cards}",
        benchmark="finetune",
        status=fields.pop("status", "ok"),
        started_at="2026-01-31T00:00:00.000+00:00",
        wall_s=1.0,
        card_hours=cards / 3600,
        workload={"model": "m", "seq_len": 128, "scaling": "strong", "repeat": 0},
        parallel={"mode": "ddp", "cards": cards, "nodes": 1},
        throughput={"tokens_per_s": 4096 / 2.0, "step_times_s": steps, "steps": len(steps)} if steps else {},
        device={"name": "=HYPERLINK(1)"},
        **fields,
    )


@pytest.fixture
def studies(tmp_path: Path) -> Path:
    """Two studies of the same two cells, the second a tenth slower; the first has a failed cell too."""
    for study, factor in (("before", 1.0), ("after", 1.1)):
        for cards in (1, 2):
            steps = [step * factor / cards for step in STEPS]
            write_record(tmp_path / "results" / "runs" / study, _record(study, cards, steps))
    failed = _record("before", 4, [], status="oom", error=Error("OutOfMemoryError", "no room", rank=3))
    write_record(tmp_path / "results" / "runs" / "before", failed)
    return tmp_path


def _compare(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    tool = Path(sys.executable).parent / "pytest-benchmark"
    return subprocess.run(
        [str(tool), "compare", *words], cwd=folder, capture_output=True, text=True, timeout=120, check=False
    )


def test_pytest_benchmark_compares_two_exported_studies(cardscale: CardScale, studies: Path) -> None:
    for study in ("before", "after"):
        done = cardscale("export", f"study={study}", "to=pytest-benchmark", f"out={study}.json")
        assert done.returncode == 0, done.stderr
        assert done.stdout == ""
        assert f"{study}: 2 cells as pytest-benchmark -> {study}.json" in done.stderr
    done = _compare(studies, "before.json", "after.json", "--csv=compared.csv", "--columns=median,rounds")
    assert done.returncode == 0, done.stderr
    assert "Failed to load" not in done.stdout + done.stderr
    with (studies / "compared.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert sorted(float(row["median"]) for row in rows) == pytest.approx([1.0, 1.1, 2.0, 2.2])
    assert {row["rounds"] for row in rows} == {"5"}


def test_the_comparison_joins_the_same_work_of_both_studies(cardscale: CardScale, studies: Path) -> None:
    for study in ("before", "after"):
        assert cardscale("export", f"study={study}", "to=pytest-benchmark", f"out={study}.json").returncode == 0
    done = _compare(studies, "before.json", "after.json")
    groups = [line for line in done.stdout.splitlines() if "benchmark 'm[" in line]
    assert len(groups) == 2
    assert all("2 tests" in line for line in groups)


def test_csv_and_parquet_hold_every_cell_of_the_study(cardscale: CardScale, studies: Path) -> None:
    for form in ("csv", "parquet"):
        assert cardscale("export", "study=before", f"to={form}", f"out=sub/study.{form}").returncode == 0
    table, frame = pd.read_csv(studies / "sub/study.csv"), pd.read_parquet(studies / "sub/study.parquet")
    assert list(table["status"]) == list(frame["status"]) == ["ok", "ok", "oom"]
    assert list(table["throughput.tokens_per_s"][:2]) == [2048, 2048]
    assert table["device.name"][0] == "'=HYPERLINK(1)"  # no spreadsheet runs it
    assert list(frame["throughput.step_times_s"][0]) == STEPS
    assert sorted(path.name for path in (studies / "sub").iterdir()) == ["study.csv", "study.parquet"]


def test_a_measurement_csv_can_be_exported(cardscale: CardScale, tmp_path: Path) -> None:
    (tmp_path / "m.csv").write_text("mode,cards,tokens_per_s\nddp,1,10\n")
    done = cardscale("export", "source=m.csv", "to=parquet", "out=m.parquet", "format=json")
    assert json.loads(done.stdout) == {"to": "parquet", "out": "m.parquet", "cells": 1, "left_out": []}
    assert pd.read_parquet(tmp_path / "m.parquet")["throughput.tokens_per_s"].item() == 10


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["study=before", "out=x"], "to: '' is unknown; known: pytest-benchmark, csv, parquet, mlflow"),
        (["study=before", "to=pytest-bench", "out=x"], "to: 'pytest-bench' is unknown; did you mean pytest-benchmark?"),
        (["study=before", "to=csv"], "out: is not given; the file to write, as in out=before.csv"),
        (["study=before", "to=csv", "out=results"], "out: results is a folder"),
        (["study=before", "to=csv", "out=m.csv/x.csv"], "out: m.csv/x.csv cannot be written"),
        (["study=nowhere", "to=csv", "out=x"], "study: results/runs/nowhere does not exist"),
        (["source=m.csv", "to=pytest-benchmark", "out=x"], "to: m has no cell with step times"),
    ],
)
def test_what_cannot_be_exported_is_one_line(words: list[str], line: str, cardscale: CardScale, studies: Path) -> None:
    (studies / "m.csv").write_text("mode,cards,tokens_per_s\nddp,1,10\n")
    done = cardscale("export", *words)
    assert done.returncode == 2
    assert done.stderr.startswith(line)
    assert done.stderr.count("\n") == 1
    assert sorted(path.name for path in studies.iterdir()) == ["m.csv", "results"]


def test_a_cells_numbers_are_metrics_and_what_it_is_are_parameters() -> None:
    row = {
        "cell_id": "c",
        "parallel.cards": 8.0,
        "workload.model": "m",
        "throughput.tokens_per_s": 100.0,
        "throughput.mfu": float("nan"),
        "throughput.stopped_by": "rel_ci",
        "throughput.step_times_s": [1.0],
        "device.throttled": False,
        "error.message": "x" * 600,
    }
    params, metrics, tags = run_content(row)
    assert metrics == {"throughput.tokens_per_s": 100.0}
    assert tags == {"cardscale.cell_id": "c"}
    assert params.pop("error.message") == "x" * 500
    assert params == {
        "parallel.cards": "8",
        "workload.model": "m",
        "throughput.stopped_by": "rel_ci",
        "device.throttled": "False",
    }


def test_without_mlflow_one_line_says_how_to_install_it(cardscale: CardScale, studies: Path) -> None:
    """A package of that name that cannot be found, whether or not one is installed here."""
    (studies / "hide").mkdir()
    (studies / "hide" / "sitecustomize.py").write_text(
        "import importlib.util as u\nfind = u.find_spec\n"
        "u.find_spec = lambda name, *more: None if name == 'mlflow' else find(name, *more)\n"
    )
    path = [str(studies / "hide"), *filter(None, [os.environ.get("PYTHONPATH")])]
    done = cardscale("export", "study=before", "to=mlflow", "out=runs", PYTHONPATH=os.pathsep.join(path))
    assert done.returncode == 2
    assert done.stderr == "to: mlflow is not installed; pip install 'cardscale[mlflow]'\n"


def test_mlflow_holds_one_run_a_cell_however_often_it_is_exported(
    cardscale: CardScale, studies: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mlflow = pytest.importorskip("mlflow")
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")  # newer releases want a database unless told
    for _ in range(2):
        done = cardscale("export", "study=before", "to=mlflow", "out=runs")
        assert done.returncode == 0, done.stderr
    client = mlflow.MlflowClient((studies / "runs").as_uri())
    experiment = client.get_experiment_by_name("before")
    runs = {run.data.params["parallel.cards"]: run for run in client.search_runs([experiment.experiment_id])}
    assert sorted(runs) == ["1", "2", "4"]
    assert runs["2"].data.metrics["throughput.tokens_per_s"] == 2048
    history = client.get_metric_history(runs["2"].info.run_id, "step_time_s")
    assert [point.value for point in history] == pytest.approx([step / 2 for step in STEPS])
    assert (runs["2"].info.status, runs["4"].info.status) == ("FINISHED", "FAILED")
