"""Who is measuring a cell: a lock that dies with its holder, and the note that a killed launcher leaves."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import socket
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path

LOCK_FILE, ATTEMPT_FILE = ".lock", "attempt.json"


@dataclass(frozen=True)
class Attempt:
    """A measurement that was begun and has no record: its launcher was killed, or its machine went down."""

    started_at: str
    cards: int
    wall_s: float  # until the last sign of life


@contextlib.contextmanager
def claim(folder: Path, wait: bool = False) -> Iterator[str]:
    """Hold the cell in `folder` against other sweeps. Gives "" where it is ours, else who has it.

    wait: until the other one is done. The lock goes with its process, however that ends. A file system without locks
    (some cluster ones) counts as ours: there, one sweep a study is for the user to see to.
    """
    folder.mkdir(parents=True, exist_ok=True)
    file = os.open(folder / LOCK_FILE, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except BlockingIOError:
            yield os.pread(file, 200, 0).decode("utf-8", "replace").strip("\0 \n") or "another sweep"
            return
        except OSError:
            yield ""
            return
        os.truncate(file, 0)
        os.pwrite(file, f"process {os.getpid()} on {socket.gethostname()}".encode(), 0)
        yield ""
    finally:
        os.close(file)


def note_attempt(folder: Path, cards: int) -> None:
    """Say on disk that a measurement has begun, for the case that nobody lives to write its record."""
    started = {"started_at": datetime.now(timezone.utc).isoformat(timespec="milliseconds"), "cards": cards}
    (folder / ATTEMPT_FILE).write_text(json.dumps(started | {"time": time.time()}))


def close_attempt(folder: Path) -> None:
    (folder / ATTEMPT_FILE).unlink(missing_ok=True)


def abandoned(folder: Path) -> Attempt | None:
    """The attempt that a claimed cell was left in; None where there is none. Half-written files of it are removed."""
    for partial in folder.glob(".record.json.*"):
        partial.unlink(missing_ok=True)
    path = folder / ATTEMPT_FILE
    try:
        noted = json.loads(path.read_text())
        begun = float(noted["time"])
        started_at, cards = str(noted["started_at"]), int(noted["cards"])
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError):  # cut short by the same event
        begun = path.stat().st_mtime
        started_at, cards = datetime.fromtimestamp(begun, timezone.utc).isoformat(timespec="milliseconds"), 0
    signs = [file.stat().st_mtime for file in folder.glob("ranks/*")]
    return Attempt(started_at, cards, max([0.0, *(sign - begun for sign in signs)]))
