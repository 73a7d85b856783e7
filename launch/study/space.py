"""Disk space set aside before a cell starts, so that what it measured can be written on a disk that filled up since."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from benchmarks.files import RESERVE_FILE

RESERVE_BYTES = 2 * 2**20
T = TypeVar("T")


def reserve(folder: Path, size: int = RESERVE_BYTES) -> None:
    """Take `size` bytes of disk in `folder`. Raises OSError where the disk has no room or cannot be written."""
    path = folder / RESERVE_FILE
    try:
        with path.open("wb") as file:
            if hasattr(os, "posix_fallocate"):
                os.posix_fallocate(file.fileno(), 0, size)
            else:
                file.write(b"\0" * size)
    except OSError:
        release(folder)
        raise


def release(folder: Path) -> None:
    """Give the space back."""
    with contextlib.suppress(OSError):
        (folder / RESERVE_FILE).unlink()


def written(folder: Path, write: Callable[[], T]) -> T:
    """write(), and once more with the reserve of `folder` given back where the disk is full."""
    try:
        return write()
    except OSError:
        release(folder)
        return write()
