"""Reads and writes past the page cache, and what it holds."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from benchmarks.storage.block_io import (
    IN_MEMORY,
    WrongData,
    evict,
    file_system,
    read_random,
    read_sequential,
    resident_share,
    supports_direct,
    write,
)

MIB = 2**20


@pytest.fixture(params=["direct", "buffered"])
def direct(request: pytest.FixtureRequest, tmp_path: Path) -> bool:
    if request.param == "direct" and not supports_direct(tmp_path):
        pytest.skip(f"{file_system(tmp_path)} has no direct access")
    return bool(request.param == "direct")


def test_a_file_is_written_and_read_whole(tmp_path: Path, direct: bool) -> None:
    written = write(tmp_path / "f", 4 * MIB, MIB, direct, 60)
    read = read_sequential(tmp_path / "f", MIB, direct, 60)
    assert (written.bytes, written.operations, (tmp_path / "f").stat().st_size) == (4 * MIB, 4, 4 * MIB)
    assert (read.bytes, read.operations) == (4 * MIB, 4)


def test_random_reads_read_every_block_once(tmp_path: Path, direct: bool) -> None:
    write(tmp_path / "f", MIB, MIB, direct, 60)
    read = read_random(tmp_path / "f", 4096, direct, 60, seed=1)
    assert (read.operations, len(read.latencies_us), read.bytes) == (256, 256, MIB)


def test_time_that_is_up_ends_a_test_after_one_block(tmp_path: Path, direct: bool) -> None:
    assert write(tmp_path / "f", 4 * MIB, MIB, direct, 1e-9).operations == 1
    write(tmp_path / "g", 4 * MIB, MIB, direct, 60)
    assert read_sequential(tmp_path / "g", MIB, direct, 1e-9).operations == 1


def test_a_block_that_comes_back_different_is_an_error_and_no_speed(tmp_path: Path, direct: bool) -> None:
    write(tmp_path / "f", 4 * MIB, MIB, direct, 60)
    with (tmp_path / "f").open("r+b") as file:
        file.seek(2 * MIB)
        file.write(b"\xff" * 8)
    with pytest.raises(WrongData, match="block at 2097152"):
        read_sequential(tmp_path / "f", MIB, direct, 60)


def test_what_was_just_written_is_in_the_page_cache_until_it_is_evicted(tmp_path: Path) -> None:
    if file_system(tmp_path) in IN_MEMORY:
        pytest.skip("a file system in memory has nothing else to keep it in")
    write(tmp_path / "f", 4 * MIB, MIB, False, 60)
    assert resident_share(tmp_path / "f") == 1
    assert evict([tmp_path / "f"]) == "evicted"
    assert resident_share(tmp_path / "f") < 0.05


def test_data_that_repeats_would_flatter_a_compressing_file_system(tmp_path: Path) -> None:
    import zlib

    write(tmp_path / "f", MIB, MIB, False, 60)
    data = (tmp_path / "f").read_bytes()
    assert len(zlib.compress(data)) > 0.98 * len(data)


def test_a_full_disk_is_an_error(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(disk)]
    mounted = subprocess.run(mount, capture_output=True, text=True, check=False)
    if mounted.returncode:
        pytest.skip(f"a small file system cannot be mounted here: {mounted.stderr.strip()}")
    try:
        with pytest.raises(OSError, match="No space left"):
            write(disk / "f", 4 * MIB, MIB // 2, False, 60)
    finally:
        subprocess.run(["umount", str(disk)], check=True)
