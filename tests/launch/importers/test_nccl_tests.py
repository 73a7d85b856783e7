"""Importing outside measurements into a study, as a person does it."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

import results
from configs.errors import ConfigError
from launch.importers.nccl_tests import import_nccl_tests, rated_link_gbps
from launch.study.collectives import load_link_model
from results.store import collectives_frame, read_study, records

CardScale = Callable[..., subprocess.CompletedProcess[str]]
LOGS = Path(results.__file__).parent / "reference" / "nccl_tests"
NVSWITCH = LOGS / "all_reduce_8gpu_nvswitch.log"


def test_every_published_log_becomes_a_record_with_all_its_rows(tmp_path: Path) -> None:
    logs = sorted(LOGS.glob("*.log"))
    rows = sum(import_nccl_tests(log, tmp_path / "s").rows for log in logs)
    frame = collectives_frame(tmp_path / "s")
    assert len(list(records(tmp_path / "s"))) == len(logs) == 8
    assert len(frame) == rows == 76  # 4 + 10 + 10 + 12 + 22 + 6 + 4 + 8


def test_an_imported_record_says_what_it_is_and_where_it_came_from(tmp_path: Path) -> None:
    [record] = import_nccl_tests(NVSWITCH, tmp_path / "s").records
    assert (record.status, record.benchmark, record.card_hours) == ("imported", "collectives", 0)
    assert record.parallel == {"cards": 8, "nodes": 1}
    assert record.device["name"] == "NVIDIA H800"
    assert record.environment["import"]["file"] == "all_reduce_8gpu_nvswitch.log"
    assert str(tmp_path) not in json.dumps(record.environment)


def test_importing_a_file_again_replaces_its_records(tmp_path: Path) -> None:
    for _ in range(2):
        import_nccl_tests(NVSWITCH, tmp_path / "s")
    assert len(read_study(tmp_path / "s")) == 1


def test_a_bus_bandwidth_above_the_cards_rated_links_is_noted(tmp_path: Path) -> None:
    """The H800's links are 200 GB/s a direction; the log shows 300.5."""
    notes = import_nccl_tests(NVSWITCH, tmp_path / "s").notes
    assert any("300.5 GB/s is above the links' 200" in note for note in notes)


def test_a_card_that_no_machine_names_has_no_rated_links() -> None:
    assert rated_link_gbps("Voodoo 2") is None
    assert rated_link_gbps(None) is None


def test_the_command_imports_files_and_fits_their_links(cardscale: CardScale, tmp_path: Path) -> None:
    done = cardscale("import", "nccl-tests", *map(str, sorted(LOGS.glob("*.log"))), "study=logs")
    assert done.returncode == 0, done.stderr
    assert done.stdout == ""
    assert "all_reduce_8gpu_nvswitch.log: nccl-tests, 22 rows in 1 records -> results/runs/logs" in done.stderr
    assert "measured no communication" in done.stderr
    model = load_link_model(tmp_path / "results" / "runs" / "logs")
    assert model is not None
    assert {(curve.ranks, curve.nodes) for curve in model.curves} >= {(8, 1), (72, 18), (2, 2)}


def test_json_goes_to_standard_output_alone(cardscale: CardScale) -> None:
    done = cardscale("import", "nccl-tests", str(NVSWITCH), "study=logs", "format=json")
    [file] = json.loads(done.stdout)["files"]
    assert (file["rows"], len(file["cells"])) == (22, 1)


def test_a_file_whose_name_has_an_equals_sign_is_a_file(cardscale: CardScale, tmp_path: Path) -> None:
    shutil.copy(NVSWITCH, tmp_path / "a=b.log")
    assert cardscale("import", "nccl-tests", "a=b.log").returncode == 0


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["import"], "import: needs a kind and a file"),
        (["import", "nccl-tests"], "import: needs a kind and a file"),
        (["import", "nccl-test", "x.log"], "import: 'nccl-test' is unknown; did you mean nccl-tests?"),
        (["import", "nccl-tests", "nowhere.log"], "nowhere.log: does not exist"),
        (["import", "nccl-tests", "."], "cannot be read"),
        (["import", "nccl-tests", "empty.log"], "empty.log: is empty"),
    ],
)
def test_what_cannot_be_imported_is_one_line_and_leaves_nothing(
    words: list[str], line: str, cardscale: CardScale, tmp_path: Path
) -> None:
    (tmp_path / "empty.log").touch()
    done = cardscale(*words)
    assert done.returncode == 2
    assert line in done.stderr
    assert done.stderr.count("\n") == 1
    assert [path.name for path in tmp_path.iterdir()] == ["empty.log"]


def test_a_binary_file_is_no_log(tmp_path: Path) -> None:
    (tmp_path / "x.bin").write_bytes(bytes(range(256)) * 100)
    with pytest.raises(ConfigError, match="has no result table"):
        import_nccl_tests(tmp_path / "x.bin", tmp_path / "s")


def test_a_study_that_cannot_be_written_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "s").write_text("a file where the folder should be")
    with pytest.raises(ConfigError, match="cannot be written: Not a directory; a writable folder"):
        import_nccl_tests(NVSWITCH, tmp_path / "s")


def test_a_full_disk_leaves_no_half_import(tmp_path: Path) -> None:
    """A file system of 4 KiB; the record takes more."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=4k", "tmpfs", str(disk)], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip(f"a small file system cannot be mounted here: {mounted.stderr.decode().strip()}")
    try:
        with pytest.raises(ConfigError, match="No space left on device"):
            import_nccl_tests(NVSWITCH, disk / "s")
        assert list(disk.iterdir()) == []
    finally:
        subprocess.run(["umount", str(disk)], check=True)
