"""A folder for a storage test that is gone afterwards, whatever ends the test.

Three layers: the context removes it; a guard process removes it when the rank is killed and can do nothing any more;
and the next test removes what a dead host left, told by a lock that nobody holds.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

PREFIX = ".cardscale-storage-"
LOCK = "lock"

# Runs without site-packages, so that it is there in milliseconds. Its standard input ends when the rank does.
_GUARD = "import shutil, sys; sys.stdin.buffer.read(); shutil.rmtree(sys.argv[1], ignore_errors=True)"


@contextlib.contextmanager
def scratch(parent: Path, name: str) -> Iterator[Path]:
    """`parent`/`name`, shared by the ranks that ask for the same name; removed when the first of them leaves.

    Leave it together: behind a barrier where all went well, and otherwise the job is over anyway.
    """
    folder = parent / name
    folder.mkdir(exist_ok=True)
    lock = os.open(folder / LOCK, os.O_CREAT | os.O_RDWR, 0o600)
    guard = None
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        fcntl.flock(lock, fcntl.LOCK_SH)
        guard = subprocess.Popen(
            [sys.executable, "-S", "-c", _GUARD, str(folder.resolve())],
            stdin=subprocess.PIPE,
            start_new_session=True,  # a signal to the rank's group must not reach it
        )
        for number in before:
            signal.signal(number, _leave)
        yield folder
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        shutil.rmtree(folder, ignore_errors=True)
        os.close(lock)
        if guard is not None and guard.stdin is not None:
            guard.stdin.close()
            guard.wait()


def remove_stale(parent: Path) -> list[Path]:
    """Remove folders of tests that no process holds any more; returns them."""
    removed = []
    for folder in parent.glob(f"{PREFIX}*"):
        with contextlib.suppress(OSError):
            lock = os.open(folder / LOCK, os.O_RDWR)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)  # raises where a running test holds it
                shutil.rmtree(folder, ignore_errors=True)
                removed.append(folder)
            finally:
                os.close(lock)
    return removed


def _leave(number: int, frame: object) -> None:
    """End as on an exception, so that the folder is removed on the way out."""
    raise SystemExit(128 + number)
