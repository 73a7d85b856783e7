"""A study that was zipped, moved and unpacked elsewhere reports the same numbers and the same citation."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

from results.record import Record
from results.store import write_record

CardScale = Callable[..., subprocess.CompletedProcess[str]]


def test_a_study_from_an_archive_reports_the_same_numbers(cardscale: CardScale, tmp_path: Path) -> None:
    here, there = tmp_path / "results" / "runs", tmp_path / "elsewhere"
    for cards, rate in ((1, 1000.0), (2, 1900.0)):
        record = Record(
            study="s",
            cell_id=f"m-ddp-{cards}",
            benchmark="finetune",
            status="ok",
            started_at="2026-01-31T00:00:00.000+00:00",
            wall_s=1.0,
            card_hours=0.0,
            workload={"model": "m", "scaling": "strong", "data_set_tokens": 36_000_000},
            parallel={"mode": "ddp", "cards": cards},
            throughput={"tokens_per_s": rate},
        )
        write_record(here / "s", record)
    shutil.unpack_archive(shutil.make_archive(str(tmp_path / "s"), "zip", here), there)
    shutil.copytree(here, tmp_path / "kept")
    before = cardscale("report", "study=s", "format=json")
    shutil.rmtree(here)
    after = cardscale("report", "study=s", f"results_dir={there}", "format=json")
    assert json.loads(before.stdout)["scaling"][1]["speedup"] == 1.9
    assert json.loads(after.stdout) == json.loads(before.stdout)
    cardscale("report", "study=s", f"results_dir={tmp_path / 'kept'}")
    files = [folder / "s" / "report" / "citation.bib" for folder in (there, tmp_path / "kept")]
    assert files[0].read_text() == files[1].read_text()
    assert "2 cells on" in files[0].read_text()
