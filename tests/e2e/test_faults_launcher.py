"""The launcher is interrupted, terminated, killed; another one works on the same study: nothing is lost or left."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from results.store import read_study
from tests.e2e.launchers import fault, measuring, start, until
from tests.launch.conftest import processes_with

LONG = ("+cluster.env.FAULT_SECONDS='0.2','600'", "cards=2", "study=s")  # the second cell would go on for ten minutes


@pytest.fixture
def mark() -> Iterator[str]:
    mark = f"mark-{os.urandom(8).hex()}"
    yield mark
    until(lambda: not processes_with(mark), "the end of every process that the launcher started")


def statuses(study: Path) -> list[str]:
    return sorted(read_study(study)["status"])


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_stopping_signal_ends_the_running_cell_and_writes_all_records(
    tmp_path: Path, mark: str, number: signal.Signals
) -> None:
    launcher = start(tmp_path, mark, "-m", fault("good"), *LONG)
    study = tmp_path / "results" / "runs" / "s"
    until(lambda: len(list(study.glob("cells/*/record.json"))) == 1, "the first cell's record")
    measuring(study)
    until(lambda: len(list(study.glob("cells/*/ranks"))) == 2 and measuring(study), "the second cell's first step")
    launcher.send_signal(number)
    _, said = launcher.communicate(timeout=120)
    assert launcher.returncode == 130, said
    assert "Traceback" not in said
    assert "1 measured, 0 already there, 0 failed, 1 interrupted ->" in said
    assert statuses(study) == ["interrupted", "ok"]
    frame = read_study(study).set_index("status")
    assert number.name in frame.loc["interrupted", "error.message"]
    assert frame.loc["interrupted", "card_hours"] > 0


def test_a_killed_launcher_leaves_no_rank_and_its_cell_is_measured_by_the_next(tmp_path: Path, mark: str) -> None:
    study = tmp_path / "results" / "runs" / "s"
    words = (fault("good"), "cards=2", "study=s", "+cluster.env.FAULT_SECONDS='600'")
    launcher = start(tmp_path, mark, *words)
    rank = measuring(study)
    launcher.kill()
    launcher.communicate(timeout=120)
    until(lambda: not processes_with(mark), "the end of the killed launcher's ranks")
    cell = next(study.glob("cells/*"))
    assert not (cell / "record.json").exists()
    (cell / ".record.json.abcd").write_text('{"half a rec')  # what a reboot in the middle of a write leaves
    again = start(tmp_path, mark, *words)
    until(lambda: measuring(study) != rank, "a step of the next attempt")
    again.terminate()
    _, said = again.communicate(timeout=300)
    record = read_study(study).iloc[0]
    assert (record["status"], record["spending.attempt"]) == ("interrupted", 2), said
    assert record["spending.earlier_card_hours"] > 0
    assert not list(cell.glob(".record.json.*"))


def test_two_sweeps_on_one_study_measure_each_cell_once(tmp_path: Path, mark: str) -> None:
    words = ("-m", fault("good"), "cards=1", "study=s", "+cluster.env.FAULT_SECONDS='1','2','3'")
    both = [start(tmp_path, mark, *words) for _ in range(2)]
    said = [each.communicate(timeout=300)[1] for each in both]
    assert [each.returncode for each in both] == [0, 0], said
    counts = [
        int(line.split(" measured")[0].split()[-1])
        for text in said
        for line in text.splitlines()
        if " measured, " in line
    ]
    assert sum(counts) == 3
    assert statuses(tmp_path / "results" / "runs" / "s") == ["ok", "ok", "ok"]
    assert any("is being measured by process" in text for text in said)
