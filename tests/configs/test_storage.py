"""What benchmark=storage may be asked for."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

from configs.errors import ConfigError
from configs.schema import Storage
from configs.storage import TESTS, check_storage


def test_the_default_is_every_test_in_the_working_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert Storage().tests == list(TESTS)
    assert check_storage(Storage(size_mib=1), 1) == Path()


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"tests": ["read"]}, "known: write_fsync, read_sequential"),
        ({"fio": "yes"}, "known: auto, off"),
        ({"block_kib": 3}, "block_kib: 3 is no block; a multiple of 4"),
        ({"random_block_kib": 0}, "random_block_kib"),
        ({"size_mib": 0.5}, "0.5 is less than a block"),
        ({"size_mib": float("nan")}, "size_mib"),
        ({"max_seconds": 0}, "not a positive time"),
        ({"workers": -1}, "not a number of processes"),
        ({"path": "/nowhere/at/all"}, "/nowhere/at/all is not a folder"),
    ],
)
def test_what_cannot_be_tested_is_refused(fields: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=message):
        check_storage(Storage(**{"path": str(tmp_path), **fields}), 1)


def test_a_test_that_would_fill_the_disk_is_refused_with_the_size_that_fits(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"needs 9.77e\+06 GiB, .* GiB free; at most \d+ here"):
        check_storage(Storage(path=str(tmp_path), size_mib=1e10), 1)


def test_a_read_only_file_system_is_refused(tmp_path: Path) -> None:
    """Root may write anywhere but there."""
    mount = ["mount", "-t", "tmpfs", "-o", "ro,size=1m", "tmpfs", str(tmp_path)]
    mounted = subprocess.run(mount, capture_output=True, text=True, check=False)
    if mounted.returncode:
        pytest.skip(f"a file system cannot be mounted here: {mounted.stderr.strip()}")
    try:
        with pytest.raises(ConfigError, match="cannot be written; a writable folder"):
            check_storage(Storage(path=str(tmp_path), size_mib=1), 1)
    finally:
        subprocess.run(["umount", str(tmp_path)], check=True)
