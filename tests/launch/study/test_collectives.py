"""What lies beside a study whose collectives were measured."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from analysis.nccl.tests import read_log
from configs.errors import ConfigError
from launch.study.collectives import LINKS_FILE, load_link_model, store_link_model
from results.store import collectives_frame

CardScale = Callable[..., subprocess.CompletedProcess[str]]
QUICK = ("benchmark.collectives.max_bytes=65536", "benchmark.collectives.iters=5", "study=s")


def test_a_run_leaves_rows_links_and_files_for_other_tools(cardscale: CardScale, tmp_path: Path) -> None:
    ops = "benchmark.collectives.ops=[all_reduce,all_to_all]"
    done = cardscale("run", "benchmark=collectives", "cards=2", ops, *QUICK)
    assert done.returncode == 0, done.stderr
    study = tmp_path / "results" / "runs" / "s"
    frame = collectives_frame(study)
    assert frame["wrong"].sum() == 0
    model = load_link_model(study)
    assert model is not None
    assert {curve.op for curve in model.curves} == {"all_reduce", "all_to_all"}
    [folder] = (study / "cells").iterdir()
    assert len(read_log((folder / "nccl_tests.txt").read_text()).rows) == len(frame)
    document = json.loads((folder / "nccl_tests_all_reduce_perf.json").read_text())
    assert [result["size"] for result in document["results"]] == [1024, 4096, 16384, 65536]


def test_one_rank_is_refused_before_anything_starts(cardscale: CardScale, tmp_path: Path) -> None:
    done = cardscale("run", "benchmark=collectives", "cards=1", *QUICK)
    assert (done.returncode, done.stderr) == (
        2,
        "cards: 1: one rank moves no data; 2 or more for benchmark=collectives\n",
    )
    assert list(tmp_path.iterdir()) == []


def test_a_study_without_collectives_has_no_links(tmp_path: Path) -> None:
    (tmp_path / LINKS_FILE).write_text("{}")
    assert store_link_model(tmp_path) is None
    assert load_link_model(tmp_path) is None


def test_a_damaged_link_model_is_one_line(tmp_path: Path) -> None:
    (tmp_path / LINKS_FILE).write_text('{"curves": [')
    with pytest.raises(ConfigError, match="cannot be read"):
        load_link_model(tmp_path)
