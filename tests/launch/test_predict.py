"""`cardscale predict` on a measurement CSV and on a study."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from configs.cell import resolve, to_dict
from configs.compose import compose_config
from results.record import Record
from results.store import write_record

CardScale = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "measured.csv"
    path.write_text("mode,cards,tokens_per_s\nfsdp,8,46000\nfsdp,16,90000\n")
    return path


def test_a_script_gets_a_list_of_cells(cardscale: CardScale, source: Path) -> None:
    done = cardscale("predict", f"source={source}", "cards=32,64", "format=json")
    assert done.returncode == 0, done.stderr
    cells = json.loads(done.stdout)
    assert [cell["cards"] for cell in cells] == [32, 64]
    for cell in cells:
        assert cell["low"] < cell["tokens_per_s"] < cell["high"]
        assert 0 < cell["efficiency"] <= 1
        assert cell["method"]


def test_a_person_is_told_that_it_was_not_measured(cardscale: CardScale, source: Path) -> None:
    done = cardscale("predict", f"source={source}", "cards=32")
    assert done.stdout.startswith("Predicted, not measured: measured")
    assert "relative to 8 cards" in done.stdout


def test_a_source_without_a_good_row_is_refused(cardscale: CardScale, tmp_path: Path) -> None:
    (tmp_path / "bad.csv").write_text("mode,cards,tokens_per_s,status\nddp,8,,oom\n")
    done = cardscale("predict", "source=bad.csv", "cards=32")
    assert done.returncode == 2
    assert done.stderr.startswith("source: holds no measured throughput")


def test_a_what_if_needs_a_study(cardscale: CardScale, source: Path) -> None:
    done = cardscale("predict", f"source={source}", "cards=32", "whatif.rails=4")
    assert done.returncode == 2
    assert done.stderr.startswith("whatif: needs to know what measured sends over its links")


def write_cell(study: Path, cards: int, status: str = "ok") -> None:
    """A finished fine-tune cell of the tiny model under DDP, of 1 s on one card and nearly half of it on two."""
    cell = resolve(compose_config([f"cards={cards}"]))
    step_s = 1.0 / cards + 0.02
    good = status == "ok"
    record = Record(
        study=study.name,
        cell_id=f"ddp-{cards}",
        benchmark="finetune",
        status=status,
        started_at="2026-01-01T00:00:00+00:00",
        wall_s=1.0,
        card_hours=0.1,
        workload={"model": "tiny", "seq_len": 128, "global_batch_tokens": 2048, "scaling": "strong"},
        parallel={"mode": "ddp", "cards": cards, "nodes": 1},
        throughput={"tokens_per_s": 2048 / step_s, "step_time_s": {"median": step_s}} if good else {},
        device={"name": "card"},
        config=to_dict(cell),
    )
    write_record(study, record)


def test_a_study_is_predicted_with_its_basis(cardscale: CardScale, tmp_path: Path) -> None:
    for cards in (1, 2):
        write_cell(tmp_path / "results/runs/mine", cards)
    done = cardscale("predict", "study=mine", "cards=4,8", "format=json")
    assert done.returncode == 0, done.stderr
    cells = json.loads(done.stdout)
    assert [(cell["mode"], cell["model"], cell["cards"]) for cell in cells] == [("ddp", "tiny", 4), ("ddp", "tiny", 8)]
    for cell in cells:
        assert 0 < cell["low"] < cell["tokens_per_s"] < cell["high"]
        assert cell["method"].startswith(
            "step-time model, calibrated on ddp at 1 and 2 cards; links in the node assumed"
        )


def test_a_study_without_a_good_cell_is_refused(cardscale: CardScale, tmp_path: Path) -> None:
    write_cell(tmp_path / "results/runs/mine", 1, "oom")
    done = cardscale("predict", "study=mine", "cards=4")
    assert done.returncode == 2
    assert done.stderr.strip() == ("study: mine holds no measured fine-tune cell; one good cell of a mode at least")


def write_products(study: Path) -> None:
    """A finished matmul cell: three squares at 0.01 TFLOP/s."""
    cell = resolve(compose_config(["benchmark=matmul"]))
    record = Record(
        study=study.name,
        cell_id="matmul-1",
        benchmark="matmul",
        status="ok",
        started_at="2026-01-01T00:00:00+00:00",
        wall_s=1.0,
        card_hours=0.1,
        parallel={"mode": "ddp", "cards": 1, "nodes": 1},
        device={"name": "card", "cores": 2},
        matmul=[{"dtype": "fp32", "m": n, "n": n, "k": n, "time_us": 2 * n**3 / 1e4} for n in (256, 512, 1024)],
        config=to_dict(cell),
    )
    write_record(study, record)


def test_a_study_of_matrix_products_alone_predicts_the_workload_of_the_command_line(
    cardscale: CardScale, tmp_path: Path
) -> None:
    write_products(tmp_path / "results/runs/mine")
    done = cardscale("predict", "study=mine", "mode=ddp,tp", "cards=2", "format=json")
    assert done.returncode == 0, done.stderr
    cells = json.loads(done.stdout)
    assert [cell["mode"] for cell in cells] == ["ddp", "tp"]
    for cell in cells:
        assert cell["high"] / cell["low"] > 3
        assert "compute from 3 matrix products in fp32" in cell["method"]
