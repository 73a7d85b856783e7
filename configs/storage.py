"""What `benchmark=storage` may be asked for, and whether the disk has room for it."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from configs.errors import ConfigError, choose
from configs.schema import Storage

TESTS = (
    "write_fsync",
    "read_sequential",
    "read_random",
    "safetensors_load",
    "checkpoint_save",
    "checkpoint_load",
    "data_loader",
)
DIRECT_BYTES = 4096  # reads and writes past the page cache must be multiples of a disk block
FREE_SHARE = 0.9  # of the free space, at most: a full disk stops everybody who shares it
SLACK_BYTES = 64 * 2**20  # heads of files, metadata of checkpoints


def check_storage(settings: Storage, ranks_per_node: int) -> Path:
    """The folder to test. Raises ConfigError where the settings, the folder or its free space do not allow the test."""
    where = "benchmark.storage"
    for test in settings.tests:
        choose(f"{where}.tests", test, TESTS)
    choose(f"{where}.fio", settings.fio, ("auto", "off"))
    for name in ("block_kib", "random_block_kib"):
        block = getattr(settings, name) * 1024
        if block < DIRECT_BYTES or block % DIRECT_BYTES:
            raise ConfigError(f"{where}.{name}", f"{getattr(settings, name)} is no block", "a multiple of 4")
    if not settings.size_mib * 1024 >= settings.block_kib:
        raise ConfigError(
            f"{where}.size_mib", f"{settings.size_mib:g} is less than a block", "at least block_kib / 1024"
        )
    if not settings.max_seconds > 0:
        raise ConfigError(f"{where}.max_seconds", f"{settings.max_seconds} is not a positive time")
    if settings.workers < 0:
        raise ConfigError(f"{where}.workers", f"{settings.workers} is not a number of processes", "0 or more")
    folder = Path(settings.path or ".").expanduser()
    if not folder.is_dir():
        raise ConfigError(f"{where}.path", f"{folder} is not a folder", "a folder on the storage to be tested")
    if not os.access(folder, os.W_OK):
        raise ConfigError(f"{where}.path", f"{folder} cannot be written", "a writable folder")
    check_space(folder, settings, ranks_per_node)
    return folder


def check_space(folder: Path, settings: Storage, ranks_per_node: int) -> None:
    """Refuse a test that would leave less than a tenth of the free space. One test's files exist at a time."""
    needed = settings.size_mib * 2**20 * ranks_per_node + SLACK_BYTES
    free = shutil.disk_usage(folder).free
    if needed > FREE_SHARE * free:
        most = max((FREE_SHARE * free - SLACK_BYTES) / ranks_per_node / 2**20, 0)
        raise ConfigError(
            "benchmark.storage.size_mib",
            f"{settings.size_mib:g} on {ranks_per_node} ranks needs {needed / 2**30:.3g} GiB, "
            f"{folder} has {free / 2**30:.3g} GiB free",
            f"at most {most:.0f} here",
        )
