"""`cardscale predict` on a measurement CSV."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

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
