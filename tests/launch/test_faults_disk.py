"""The results' disk fills up, or turns read-only: what was measured is kept, and nothing more is started."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from benchmarks.files import RESERVE_FILE
from benchmarks.outcome import make_record
from launch.study.sweep import Summary
from results.store import find_record, read_study
from tests.launch.conftest import fault_cell

RunSweep = Callable[..., Summary]


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 8 MiB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    made = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", str(folder)], capture_output=True, text=True
    )
    if made.returncode:
        pytest.skip(f"no file system can be mounted here: {made.stderr.strip()}")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def fill(folder: Path) -> None:
    with (folder / "ballast").open("ab", buffering=0) as file, contextlib.suppress(OSError):
        while True:
            file.write(b"\0" * 4096)


def test_a_measurement_is_kept_though_the_disk_filled_up_in_its_cell(run_sweep: RunSweep, small_disk: Path) -> None:
    study = small_disk / "s"
    full = fault_cell("fills_disk", "cards=1", f"+cluster.env.FAULT_DISK='{small_disk}'")
    later = fault_cell("good", "cards=2")
    summary = run_sweep([full, later], folder=study)
    record = find_record(study, full.cell_id)
    assert record is not None
    assert record.error is None
    assert record.status == "ok"
    assert summary.measured == 1
    assert [label for label, _ in summary.left] == [later.label]
    assert "No space left on device" in summary.left[0][1]
    assert summary.exit_code == 1


def test_the_sweep_goes_on_where_there_is_room_again(run_sweep: RunSweep, small_disk: Path) -> None:
    study = small_disk / "s"
    cells = [fault_cell("good", f"cards={cards}") for cards in (1, 2)]
    (small_disk / "ballast").write_bytes(b"\0" * (7 * 2**20))
    assert run_sweep(cells, folder=study).measured == 0
    (small_disk / "ballast").unlink()
    assert run_sweep(cells, folder=study).measured == 2


def test_a_folder_that_turns_read_only_stops_the_sweep_before_it_costs(run_sweep: RunSweep, small_disk: Path) -> None:
    study = small_disk / "s"
    cells = [fault_cell("good", f"cards={cards}") for cards in (1, 2)]
    run_sweep(cells[:1], folder=study)
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    summary = run_sweep(cells, folder=study)
    assert (summary.measured, summary.skipped) == (0, 1)
    assert "Read-only file system" in summary.left[0][1]
    assert list(read_study(study)["status"]) == ["ok"]


def test_a_record_that_finds_no_room_goes_elsewhere_and_says_where(
    run_sweep: RunSweep, small_disk: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    study = small_disk / "s"
    cell = fault_cell("good", "cards=1", "+cluster.env.FAULT_SECONDS='0.5'")

    def made_on_a_full_disk(*arguments: object, **more: object) -> object:
        """Somebody else takes the room that was set aside as soon as it is there."""
        (study / RESERVE_FILE).unlink()
        fill(small_disk)
        return make_record(*arguments, **more)  # type: ignore[arg-type]

    monkeypatch.setattr("launch.study.visits.make_record", made_on_a_full_disk)
    summary = run_sweep([cell], folder=study)
    rescued = next((tmp_path / "cardscale-rescued").glob("s/cells/*/record.json"))
    assert json.loads(rescued.read_text())["status"] == "ok"
    assert summary.exit_code == 1


@pytest.mark.skipif(os.geteuid() == 0, reason="root writes everywhere")
def test_a_folder_without_write_permission_is_said_in_one_line(run_sweep: RunSweep, tmp_path: Path) -> None:
    study = tmp_path / "s"
    study.mkdir(mode=0o500)
    summary = run_sweep([fault_cell("good", "cards=1")], folder=study)
    assert "Permission denied" in summary.left[0][1]
