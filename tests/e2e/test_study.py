"""A study from one command to its tables, resumed, damaged, and with a rank killed in the middle."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from results.store import read_study

CardScale = Callable[..., subprocess.CompletedProcess[str]]
QUICK = ("seq_len=16", "measure.min_steps=2", "measure.max_steps=3", "measure.warmup_steps=1", "study=s")
BIN = Path(sys.executable).parent


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which a small grid was measured."""
    folder = tmp_path_factory.mktemp("measured")
    done = subprocess.run(
        [str(BIN / "cardscale"), "run", "-m", "mode=ddp,pp", "cards=1,2", *QUICK],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "4 measured, 0 already there, 0 failed" in done.stderr
    return folder


def study(folder: Path) -> Path:
    return folder / "results" / "runs" / "s"


def test_each_cell_leaves_one_record_of_the_agreed_form(measured: Path) -> None:
    files = sorted(study(measured).glob("cells/*/record.json"))
    assert len(files) == 4
    for file in files:
        record = json.loads(file.read_text())
        assert record["status"] == "ok"
        assert record["throughput"]["tokens_per_s"] > 0
        assert record["throughput"]["step_time_s"]["median"] > 0
        assert record["loss"]["last"] < record["loss"]["first"]
        assert record["memory"]["device_used_gib"] > 0


def test_the_frame_is_written_beside_the_cells(measured: Path) -> None:
    assert (study(measured) / "study.csv").exists()
    assert (study(measured) / "study.parquet").exists()
    assert len(read_study(study(measured))) == 4


def test_the_same_command_again_measures_nothing(measured: Path, cardscale: CardScale) -> None:
    done = cardscale("run", "-m", "mode=ddp,pp", "cards=1,2", "format=json", *QUICK, cwd=measured)
    assert done.returncode == 0
    assert "0 measured, 4 already there, 0 failed" in done.stderr
    said = json.loads(done.stdout)
    assert (said["measured"], said["already_there"], said["failed"], said["exit_code"]) == (0, 4, 0, 0)
    assert [(cell["status"], cell["tokens_per_s"] > 0, cell["error"]) for cell in said["cells"]] == [
        ("ok", True, None)
    ] * 4


def test_a_damaged_record_is_measured_again_and_the_others_are_kept(measured: Path, cardscale: CardScale) -> None:
    file = next(study(measured).glob("cells/tiny-ddp-1-*/record.json"))
    file.write_text("{half a rec")
    done = cardscale("run", "-m", "mode=ddp,pp", "cards=1,2", *QUICK, cwd=measured)
    assert done.returncode == 0
    assert "warning: damaged record skipped" in done.stderr
    assert "1 measured, 3 already there" in done.stderr
    assert "Traceback" not in done.stderr


def test_torchrun_by_hand_gives_a_record_equal_in_form(measured: Path) -> None:
    words = ["mode=ddp", "study=by_hand", *QUICK[:-1]]
    subprocess.run(
        [str(BIN / "torchrun"), "--standalone", "--nproc-per-node", "2", "-m", "benchmarks.finetune", *words],
        cwd=measured,
        check=True,
        capture_output=True,
    )
    by_hand = json.loads(next((measured / "results/runs/by_hand").glob("cells/*/record.json")).read_text())
    launched = json.loads(next(study(measured).glob("cells/tiny-ddp-2-*/record.json")).read_text())
    assert by_hand["cell_id"] == launched["cell_id"]
    for section in ("workload", "parallel", "throughput", "memory", "device", "loss", "environment"):
        assert by_hand[section].keys() == launched[section].keys(), section
    assert by_hand["loss"]["steps"] == pytest.approx(launched["loss"]["steps"], rel=1e-6)


def test_killing_a_rank_costs_exactly_its_cell(tmp_path: Path) -> None:
    command = [str(BIN / "cardscale"), "run", "-m", "mode=ddp", "cards=1,2,4", "study=s", "seq_len=16"]
    command += ["measure.max_steps=2000", "measure.min_steps=2", "measure.max_seconds=6", "measure.rel_ci=0"]
    launcher = subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True)
    victim = _wait_for_rank(study(tmp_path), "tiny-ddp-2-", rank=1)
    os.kill(victim, signal.SIGKILL)
    _, said = launcher.communicate(timeout=300)
    assert launcher.returncode == 1, said
    assert "2 measured, 0 already there, 1 failed" in said
    frame = read_study(study(tmp_path)).set_index("parallel.cards")
    assert frame["status"].to_dict() == {1: "ok", 2: "failed", 4: "ok"}
    assert frame.loc[2, "error.kind"] == "SIGKILL"
    assert frame.loc[2, "error.rank"] == 1
    assert not psutil.pid_exists(victim)


def _wait_for_rank(folder: Path, cell: str, rank: int) -> int:
    """The process id of a rank once it is measuring."""
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        for path in folder.glob(f"cells/{cell}*/ranks/rank{rank}.heartbeat"):
            text = path.read_text()
            if '"measure"' in text:
                return int(json.loads(text)["pid"])
        time.sleep(0.05)
    raise AssertionError(f"rank {rank} of {cell} did not start measuring")
