"""Benchmarks that go wrong on purpose, named by import path: `benchmark.name=tests.launch.faults:NAME`.

A fault strikes the rank FAULT_RANK (a variable of the cell, 1 unless said) after its first step; the others go on into
the collective that it never joins.
"""

from __future__ import annotations

import contextlib
import errno
import os
import pickle
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from benchmarks.ranks import Heartbeat
from configs.cell import Cell

Fault = Callable[[], object]


def good(cell: Cell, device: torch.device, heartbeat: Heartbeat) -> dict[str, Any]:
    """Nothing goes wrong: a few steps, FAULT_SECONDS long in all."""
    seconds = float(os.environ.get("FAULT_SECONDS", "0"))
    end = time.monotonic() + seconds
    step = 0
    while step < 2 or _together(time.monotonic() < end):
        step += 1
        _together(True)
        heartbeat.beat("measure", step, tokens_per_s=1000.0)
        time.sleep(min(seconds, 0.01))
    return {"throughput": {"tokens_per_s": 1000.0, "steps": step}}


def struck(fault: Fault) -> Callable[..., dict[str, Any]]:
    def benchmark(cell: Cell, device: torch.device, heartbeat: Heartbeat) -> dict[str, Any]:
        _together(True)
        heartbeat.beat("measure", 1, tokens_per_s=1000.0)
        if dist.get_rank() == int(os.environ.get("FAULT_RANK", "1")) % dist.get_world_size():
            fault()
        _together(True)
        return {"throughput": {"tokens_per_s": 1000.0}}

    return benchmark


def _together(go_on: bool) -> bool:
    """A collective: what rank 0 says."""
    flag = torch.tensor([float(go_on)])
    dist.broadcast(flag, src=0)
    return bool(flag.item())


def _raise() -> None:
    print("\x80\xff odd bytes and \N{BOX DRAWINGS LIGHT HORIZONTAL}".encode("latin-1", "replace"), file=sys.stderr)
    os.write(2, b"last words: \xff\xfe \xe2\x94")
    raise ValueError("the data set is empty")


def _out_of_memory() -> None:
    """A real one: more than the rank may have under a limit of its address space."""
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + 2**28, used + 2**28))
    torch.ones(2**31)


def _eat_memory() -> None:
    """Until the kernel ends it: run under a control group's limit."""
    kept = []
    while True:
        kept.append(b"x" * 2**26)


def _device_out_of_memory() -> None:
    raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 GiB.")


def _disk_full() -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def _stubborn_child() -> None:
    """Dies and leaves a child that does not react to SIGTERM."""
    subprocess.Popen(["sh", "-c", "trap '' TERM; sleep 600"])
    raise ValueError("gone, and a child stays")


def _slow_peer() -> None:
    """Never joins its peers' collective, and is in none itself."""
    time.sleep(3600)


def _leave() -> None:
    """Ends one step early, without an error."""
    dist.destroy_process_group()
    os._exit(0)


raises = struck(_raise)
out_of_memory = struck(_out_of_memory)
eats_memory = struck(_eat_memory)
device_out_of_memory = struck(_device_out_of_memory)
memory_error = struck(lambda: (_ for _ in ()).throw(MemoryError()))
disk_full = struck(_disk_full)
killed = struck(lambda: os.kill(os.getpid(), signal.SIGKILL))
exits_137 = struck(lambda: os._exit(137))
segfaults = struck(lambda: os.kill(os.getpid(), signal.SIGSEGV))
stops = struck(lambda: os.kill(os.getpid(), signal.SIGSTOP))
stubborn_child = struck(_stubborn_child)
slow_peer = struck(_slow_peer)
leaves = struck(_leave)


def aborts_after(cell: Cell, device: torch.device, heartbeat: Heartbeat) -> dict[str, Any]:
    """Everything is measured; the tear-down of another rank goes wrong."""
    _together(True)
    if dist.get_rank() == 1:
        time.sleep(0.2)  # so that rank 0 is waiting in its tear-down
        os.abort()
    return {"throughput": {"tokens_per_s": 1000.0}}


def killed_and_peer_cut_off(cell: Cell, device: torch.device, heartbeat: Heartbeat) -> dict[str, Any]:
    """Rank 1 is killed; rank 0, which loses it, ends while it still writes the traceback that torch's agent reads."""
    pickle.dump = lambda *_: os._exit(1)  # the file is open by then, and empty
    return killed(cell, device, heartbeat)


def fails_at_once(cell: Cell, device: torch.device, heartbeat: Heartbeat) -> dict[str, Any]:
    raise ValueError("at once")


def fills_disk(cell: Cell, device: torch.device, heartbeat: Heartbeat) -> dict[str, Any]:
    """Writes to the results' disk until it is full, then measures all the same."""
    if dist.get_rank() == 0:
        ballast = Path(os.environ["FAULT_DISK"], "ballast")
        with ballast.open("wb", buffering=0) as file, contextlib.suppress(OSError):
            while True:
                file.write(b"\0" * 4096)
    return good(cell, device, heartbeat)
