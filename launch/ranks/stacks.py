"""Where hanging ranks stand, by py-spy where it is there and by their own fault handler else, and whom to blame."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import psutil

from launch.ranks.heartbeats import Beats

PY_SPY_S = 20.0
FAULTHANDLER_S = 1.0  # what a rank is given to write its stacks
STACK_BYTES = 8000

# Frames in which a rank waits for its peers: torch's collectives, and the backward pass that DDP and FSDP hook into.
_WAITING = re.compile(r"distributed_c10d|_engine_run_backward|fsdp_collectives|fsdp_param_group|pipelining/")


@dataclass(frozen=True)
class Standing:
    """One rank at the moment of the verdict. waits: in a collective, as far as its stack tells."""

    rank: int
    stopped: bool
    waits: bool
    last_beat: float
    stack: str


def standings(folder: Path, beats: Beats) -> list[Standing]:
    """Where each rank with a heartbeat stands; a stopped one is left stopped while py-spy reads it."""
    states = {beat["rank"]: _is_stopped(beat["pid"]) for beat in beats}
    stacks = _by_py_spy(beats)
    missing = [beat for beat in beats if not stacks.get(beat["rank"])]
    stacks |= _by_fault_handler(folder, missing)
    return [
        Standing(
            rank=beat["rank"],
            stopped=states[beat["rank"]],
            waits=bool(_WAITING.search(stacks.get(beat["rank"], ""))),
            last_beat=beat["time"],
            stack=stacks.get(beat["rank"], ""),
        )
        for beat in beats
    ]


def blamed(stands: list[Standing]) -> Standing:
    """A stopped rank, else one that does not wait for its peers, else the one that has been silent longest."""
    return min(stands, key=lambda standing: (not standing.stopped, standing.waits, standing.last_beat))


def _is_stopped(pid: int) -> bool:
    with contextlib.suppress(psutil.Error):
        return psutil.Process(pid).status() in (psutil.STATUS_STOPPED, psutil.STATUS_TRACING_STOP)
    return False


def _py_spy() -> str | None:
    beside = Path(sys.executable).with_name("py-spy")
    return str(beside) if beside.exists() else shutil.which("py-spy")


def _by_py_spy(beats: Beats) -> dict[int, str]:
    """Python stacks by rank. Without pausing the process: it reads a stopped one, and waits for none."""
    command = _py_spy()
    if command is None:
        return {}
    dumps = {
        beat["rank"]: subprocess.Popen(
            [command, "dump", "--nonblocking", "--pid", str(beat["pid"])],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        for beat in beats
    }
    stacks = {}
    deadline = time.monotonic() + PY_SPY_S
    for rank, dump in dumps.items():
        try:
            output, _ = dump.communicate(timeout=max(deadline - time.monotonic(), 0.1))
        except subprocess.TimeoutExpired:
            dump.kill()
            output, _ = dump.communicate()
        if dump.returncode == 0:
            stacks[rank] = output.decode("utf-8", "replace")[:STACK_BYTES]
    return stacks


def _by_fault_handler(folder: Path, beats: Beats) -> dict[int, str]:
    """Ask the ranks for their own stacks; a stopped one has to go on for that."""
    if not beats:
        return {}
    for beat in beats:
        for number in (signal.SIGUSR1, signal.SIGCONT):
            with contextlib.suppress(ProcessLookupError):
                os.kill(beat["pid"], number)
    time.sleep(FAULTHANDLER_S)
    stacks = {}
    for beat in beats:
        with contextlib.suppress(OSError):
            text = (folder / f"rank{beat['rank']}.stacks").read_bytes().decode("utf-8", "replace")
            stacks[beat["rank"]] = text[:STACK_BYTES]
    return stacks
