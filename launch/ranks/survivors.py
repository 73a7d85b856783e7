"""Ends whatever a cell's ranks have left behind: processes that they started, and ranks that nobody waits for."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from pathlib import Path

import psutil

from launch.ranks.heartbeats import read_beats

PATIENCE_S = 5.0


def end_survivors(folder: Path) -> list[int]:
    """Kill every process in the sessions of the ranks that wrote heartbeats in `folder`; returns their ids.

    Each rank leads a session of its own, which its children are in even after it has died. Waits until they are gone:
    the next cell is to find the memory free.
    """
    sessions = {int(beat["pid"]) for beat in read_beats(folder)}
    killed = []
    deadline = time.monotonic() + PATIENCE_S
    while left := _members(sessions):
        for pid in left:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        killed += left
        if time.monotonic() > deadline:
            break
        time.sleep(0.01)
    return sorted(set(killed))


def _members(sessions: set[int]) -> list[int]:
    found = []
    for pid in psutil.pids() if sessions else []:
        with contextlib.suppress(OSError, psutil.Error):
            if os.getsid(pid) in sessions and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE:
                found.append(pid)
    return found
