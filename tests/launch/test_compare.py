"""`cardscale compare` as a person and a script call it."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from results.record import Record
from results.store import write_record

CardScale = Callable[..., subprocess.CompletedProcess[str]]


def _write(folder: Path, study: str, cards: int, rate: float) -> None:
    step = 4096 / rate
    write_record(
        folder / "results" / "runs" / study,
        Record(
            study=study,
            cell_id=f"m-ddp-{cards}",
            benchmark="finetune",
            status="ok",
            started_at="2026-01-31T00:00:00.000+00:00",
            wall_s=1.0,
            card_hours=0.0,
            workload={"model": "m", "seq_len": 128, "scaling": "strong"},
            parallel={"mode": "ddp", "cards": cards},
            throughput={
                "tokens_per_s": rate,
                "step_time_s": {"median": step, "ci95_low": step * 0.99, "ci95_high": step * 1.01, "cv": 0.02},
            },
        ),
    )


@pytest.fixture
def studies(tmp_path: Path) -> Path:
    """After is a fifth slower on one card, level on two, and has four cards that before has not."""
    for study, rates in (("before", {1: 1000.0, 2: 1900.0}), ("after", {1: 800.0, 2: 1905.0, 4: 3000.0})):
        for cards, rate in rates.items():
            _write(tmp_path, study, cards, rate)
    return tmp_path


def test_a_person_reads_which_cells_really_differ(cardscale: CardScale, studies: Path) -> None:
    done = cardscale("compare", "a=before", "b=after")
    assert done.returncode == 0, done.stderr
    assert "significantly faster than before in 0 of 2 shared cells and slower in 1" in " ".join(done.stdout.split())
    assert "1 of these differences rest on single runs" in " ".join(done.stdout.split())
    assert "slower: real in these runs" in done.stdout
    assert "may be chance" in done.stdout
    assert "only in after: m ddp on 4" in done.stdout


def test_a_script_gets_the_same_as_json(cardscale: CardScale, studies: Path) -> None:
    found = json.loads(cardscale("compare", "a=before", "b=after", "format=json").stdout)
    assert [(cell["cards"], cell["differs"]) for cell in found["cells"]] == [(1, True), (2, False)]
    slower = found["cells"][0]
    assert slower["ratio"] == pytest.approx(0.8)
    assert slower["ratio_interval"]["low"] < 0.8 < slower["ratio_interval"]["high"] < 1
    assert (found["only_a"], found["only_b"]) == ([], [{"model": "m", "mode": "ddp", "cards": 4}])


def test_it_says_so_in_chinese(cardscale: CardScale, studies: Path) -> None:
    assert "显著快于 before 的有 0 个，显著慢的有 1 个" in cardscale("compare", "a=before", "b=after", "lang=zh").stdout


def test_a_csv_can_stand_for_a_study(cardscale: CardScale, studies: Path) -> None:
    (studies / "quoted.csv").write_text("model,mode,cards,tokens_per_s\nm,ddp,1,2000\n")
    found = json.loads(cardscale("compare", "a=before", "b=quoted.csv", "format=json").stdout)
    [cell] = found["cells"]
    assert (cell["ratio"], cell["p_value"], cell["basis"]) == (pytest.approx(2), None, "")


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["a=before"], "b: is not given"),
        ([], "a: is not given"),
        (["a=before", "b=before"], "b: before is a as well"),
        (["a=before", "b=nowhere"], "study: results/runs/nowhere does not exist"),
        (["a=before", "b=other.csv"], "b: other.csv shares no measured cell with before"),
    ],
)
def test_what_cannot_be_compared_is_one_line(words: list[str], line: str, cardscale: CardScale, studies: Path) -> None:
    (studies / "other.csv").write_text("model,mode,cards,tokens_per_s\nm,tp,1,2000\n")
    done = cardscale("compare", *words)
    assert done.returncode == 2
    assert done.stderr.startswith(line)
    assert done.stderr.count("\n") == 1
