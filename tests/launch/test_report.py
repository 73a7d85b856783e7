"""The report as a person runs it: a CSV with hand-computed costs, studies that went well, badly, nowhere."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from results.record import Error, Record
from results.store import write_record

Run = Callable[..., subprocess.CompletedProcess[str]]

# An epoch of 36 million tokens: 10 h at 1,000 tokens/s, 2.5 h at 4,000 (3.6x would be 2.78 h).
CSV = """model,mode,cards,nodes,gpu,tokens_per_s,peak_vram_gib,status
m,ddp,1,1,NVIDIA A100-SXM4-80GB,1000,60,ok
m,ddp,4,1,NVIDIA A100-SXM4-80GB,3600,61,ok
m,ddp,8,1,NVIDIA A100-SXM4-80GB,,,oom
"""


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "quick.csv"
    path.write_text(CSV, encoding="utf-8")
    return path


def _record(cell: str, cards: int, **sections: Any) -> Record:
    return Record(
        study="s",
        cell_id=cell,
        benchmark="finetune",
        status=sections.pop("status", "ok"),
        started_at="2026-01-31T00:00:00.000+00:00",
        wall_s=1.0,
        card_hours=cards / 3600,
        error=sections.pop("error", None),
        workload={"model": "m", "data_set_tokens": 36_000_000, "scaling": "strong", "seq_len": 128},
        parallel={"mode": "ddp", "cards": cards, "nodes": 1},
        throughput=sections.pop("throughput", {}),
        config={"machine": {"device": "cpu"}},
    )


@pytest.fixture
def study(tmp_path: Path) -> Path:
    folder = tmp_path / "results" / "runs" / "s"
    for cards, rate in ((1, 1000.0), (2, 1900.0)):
        steps = [2.0, 2.1, 1.9, 2.0, 2.05]
        step = {"median": 2.0, "ci95_low": 1.9, "ci95_high": 2.1, "cv": 0.03}
        throughput = {"tokens_per_s": rate, "step_time_s": step, "step_times_s": steps}
        write_record(folder, _record(f"m-ddp-{cards}", cards, throughput=throughput))
    error = Error("SIGKILL", "rank 3 was killed", rank=3, hint="dmesg may tell")
    write_record(folder, _record("m-ddp-4", 4, status="failed", error=error))
    return folder


def test_a_measurement_csv_gives_hand_computed_costs(cardscale: Run, source: Path) -> None:
    done = cardscale("report", "source=quick.csv", "workload.epoch_tokens=36e6", "format=json")
    assert done.returncode == 0, done.stderr
    tables = json.loads(done.stdout)
    cost = {(row["cards"], row["tier"]): row["cost_per_epoch"] for row in tables["cost"] if row["tokens_per_s"]}
    assert cost[1, "hourly"] == {"low": 200, "high": 350}  # 10 h
    assert cost[4, "hourly"] == {"low": 240, "high": 420}  # 36e6 / 3600 / 3600 = 2.78 h: 3 h x 4 cards
    assert cost[4, "hourly_8card_node"] == {"low": 336, "high": 714}  # 3 h x 8 x 20 x 0.70, x 35 x 0.85
    assert cost[1, "monthly"] == {"low": 8000, "high": 12000}
    scaling = {row["cards"]: row for row in tables["scaling"]}
    assert scaling[4]["speedup"] == pytest.approx(3.6)
    assert scaling[4]["efficiency"] == pytest.approx(0.9)
    assert scaling[8]["speedup"] is None
    assert [row["status"] for row in tables["failures"]] == ["oom"]


def test_a_measurement_csv_is_reported_without_writing_anything(cardscale: Run, source: Path, tmp_path: Path) -> None:
    done = cardscale("report", "source=quick.csv", "workload.epoch_tokens=36e6")
    assert done.returncode == 0
    assert "nothing written" in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["quick.csv"]


def test_report_dir_says_where_the_files_of_a_csv_go(cardscale: Run, source: Path, tmp_path: Path) -> None:
    cardscale("report", "source=quick.csv", "report_dir=out")
    written = {path.name for path in (tmp_path / "out").iterdir()}
    assert {
        "scaling.csv",
        "cost.csv",
        "report.md",
        "report.html",
        "report.json",
        "methods.md",
        "citation.bib",
    } <= written


@pytest.mark.parametrize("width", ["80", "120"])
def test_the_tables_fit_the_terminal(cardscale: Run, study: Path, width: str) -> None:
    done = cardscale("report", "study=s", COLUMNS=width)
    assert done.returncode == 0, done.stderr
    assert max(map(len, done.stdout.splitlines())) <= int(width)
    # 10 h at 1,000 tokens/s; 10.5 h at the slow end of the step time, billed as 11 h: 200 to 385.
    for figure in ("1,900", "95.0", "relative to 1 card", "200–385", "rank 3: SIGKILL: rank 3 was killed"):
        assert figure in " ".join(done.stdout.split()), figure


def test_json_stands_alone_on_standard_output(cardscale: Run, study: Path) -> None:
    done = cardscale("report", "study=s", "format=json")
    assert set(json.loads(done.stdout)) >= {"scaling", "cost", "collectives", "failures"}
    assert "written into results/runs/s/report: " in done.stderr


def test_the_files_hold_every_digit_and_every_cell(cardscale: Run, study: Path) -> None:
    assert cardscale("report", "study=s").returncode == 0
    scaling = pd.read_csv(study / "report" / "scaling.csv")
    assert list(scaling["cards"]) == [1, 2, 4]
    assert scaling["speedup"][1] == pytest.approx(1.9, rel=1e-12)
    markdown = (study / "report" / "report.md").read_text(encoding="utf-8")
    assert "## Scaling" in markdown and "rank 3: SIGKILL" in markdown
    for name in ("scaling", "cost", "failures"):
        csv, parquet = (study / "report" / f"{name}.{kind}" for kind in ("csv", "parquet"))
        assert len(pd.read_parquet(parquet)) == len(pd.read_csv(csv)) > 0


def test_a_study_of_failures_alone_is_still_reported(cardscale: Run, tmp_path: Path) -> None:
    folder = tmp_path / "results" / "runs" / "bad"
    write_record(folder, _record("m-ddp-1", 1, status="oom", error=Error("OutOfMemoryError", "2 GiB too many", rank=0)))
    done = cardscale("report", "study=bad")
    assert done.returncode == 0, done.stderr
    assert "No cell was measured" in done.stdout
    assert "rank 0: OutOfMemoryError: 2 GiB too many" in done.stdout


def test_a_damaged_record_is_named_and_the_rest_reported(cardscale: Run, study: Path) -> None:
    (study / "cells" / "m-ddp-2" / "record.json").write_text('{"schema_version": 1,', encoding="utf-8")
    done = cardscale("report", "study=s")
    assert done.returncode == 0
    assert "damaged record skipped" in done.stdout and "1,000" in done.stdout


def test_a_study_that_does_not_exist_names_those_that_do(cardscale: Run, study: Path) -> None:
    done = cardscale("report", "study=t")
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.strip().endswith("there are: s")


def test_a_report_in_chinese_has_chinese_headings(cardscale: Run, study: Path) -> None:
    done = cardscale("report", "study=s", "lang=zh")
    assert "扩展性报告：s" in done.stdout and "相对于 1 张卡" in done.stdout


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("lang=fr", "lang: 'fr' is unknown"),
        ("format=xml", "format: 'xml' is unknown"),
        ("prices=none", "prices: 'none'"),
    ],
)
def test_a_wrong_choice_is_one_line_and_exit_code_2(cardscale: Run, study: Path, word: str, message: str) -> None:
    done = cardscale("report", "study=s", word)
    assert done.returncode == 2
    assert message in done.stderr and len(done.stderr.strip().splitlines()) == 1


def test_files_of_an_earlier_report_go_and_other_files_stay(cardscale: Run, study: Path) -> None:
    folder = study / "report"
    folder.mkdir()
    (folder / "failures.csv").write_text("of a report when a cell had failed", encoding="utf-8")
    (folder / ".written").write_text("failures.csv\n", encoding="utf-8")
    (folder / "notes.csv").write_text("mine", encoding="utf-8")
    (study / "cells" / "m-ddp-4" / "record.json").unlink()
    assert cardscale("report", "study=s").returncode == 0
    assert not (folder / "failures.csv").exists()
    assert (folder / "notes.csv").read_text(encoding="utf-8") == "mine"
    assert "scaling.csv" in (folder / ".written").read_text(encoding="utf-8").splitlines()


def test_a_listing_from_elsewhere_removes_nothing_outside_the_report(
    cardscale: Run, study: Path, tmp_path: Path
) -> None:
    outside = tmp_path / "precious.txt"
    outside.write_text("mine", encoding="utf-8")
    (study / "report").mkdir()
    (study / "report" / ".written").write_text("../../../../precious.txt\n", encoding="utf-8")
    assert cardscale("report", "study=s").returncode == 0
    assert outside.exists()
