"""The life of one rank: environment, device, process group, heartbeat, measurement file, error file, a quiet end."""

from __future__ import annotations

import contextlib
import ctypes
import faulthandler
import json
import multiprocessing
import multiprocessing.forkserver
import os
import signal
import socket
import sys
import time
import traceback
from collections.abc import Callable, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from benchmarks.files import MEASUREMENT_FILE, RESERVE_FILE
from configs.cell import Cell, from_dict
from results.store import write_json_atomically

HEARTBEAT_BYTES = 512
PEERS_WAIT_S = 60.0  # how much longer than the launcher a rank waits for its peers: the launcher knows who is stuck
_PR_SET_PDEATHSIG = 1


class Heartbeat:
    """A rank's latest sign of life, one fixed-size JSON line in a file of its own that the launcher polls."""

    def __init__(self, path: Path, rank: int) -> None:
        self._file = os.open(path, os.O_CREAT | os.O_TRUNC | os.O_WRONLY, 0o644)
        self._rank = rank
        self._started: float | None = None
        self.beat("start")

    def joined(self) -> None:
        """Note the time at which this rank was past its first collective with all others."""
        self._started = time.time()

    def beat(self, phase: str, step: int = 0, **facts: float) -> None:
        fixed = {"rank": self._rank, "pid": os.getpid(), "started": self._started}
        line = json.dumps({**fixed, "phase": phase, "step": step, "time": time.time(), **facts})
        os.pwrite(self._file, line.encode().ljust(HEARTBEAT_BYTES - 1) + b"\n", 0)

    def close(self) -> None:
        os.close(self._file)


# A benchmark is a function of the cell, this rank's device and its heartbeat; rank 0's return is the measurement: the
# record's sections by name. It beats at least once a step, with the phase "warmup" or "measure".
Benchmark = Callable[[Cell, torch.device, Heartbeat], "dict[str, Any] | None"]


def enter(cell_data: Mapping[str, Any], folder: str, benchmark_path: str, environment: Mapping[str, str]) -> None:
    """A rank's whole life, as the elastic agent starts it. `benchmark_path` is "module:function".

    environment: what the launcher adds for this node, such as the network interface; the cell's own variables win.
    Raises whatever the benchmark raises, after writing it to the rank's error file.
    """
    die_with_parent()
    stand_apart()
    cell: Cell = from_dict(Cell, cell_data)
    os.environ.update({**environment, **cell.cluster.env})
    module, function = benchmark_path.split(":")
    try:
        benchmark = getattr(__import__(module, fromlist=[function]), function)
    except BaseException as error:
        write_error(Path(folder), int(os.environ["RANK"]), error)
        raise
    run_rank(cell, Path(folder), benchmark)


def run_rank(cell: Cell, folder: Path, benchmark: Benchmark) -> dict[str, Any] | None:
    """Run `benchmark` on this rank between process group set-up and tear-down; rank 0 writes the measurement file.

    Returns rank 0's measurement, None elsewhere. Once the measurement is on disk, no trouble at the end undoes it.
    """
    rank = int(os.environ["RANK"])
    folder.mkdir(parents=True, exist_ok=True)
    heartbeat = Heartbeat(folder / f"rank{rank}.heartbeat", rank)
    faulthandler.enable()  # a crash below Python leaves its stack in the rank's log
    stacks = (folder / f"rank{rank}.stacks").open("w")
    faulthandler.register(signal.SIGUSR1, file=stacks, all_threads=True)
    try:
        check_world(cell)
        device = pick_device(cell)
        torch.set_num_threads(cell.cluster.threads_per_rank)
        start_process_group(cell, device)
        dist.barrier()
        heartbeat.joined()
        heartbeat.beat("joined")
        measurement = benchmark(cell, device, heartbeat)
        if rank == 0:
            write_measurement(folder, measurement)
        heartbeat.beat("done")
    except BaseException as error:
        write_error(folder, rank, error)
        raise
    leave(heartbeat)
    faulthandler.unregister(signal.SIGUSR1)
    stacks.close()
    return measurement


def leave(heartbeat: Heartbeat) -> None:
    """Leave the process group together. A peer that is already gone cannot harm a finished measurement."""
    try:
        dist.barrier()
        dist.destroy_process_group()
    except RuntimeError as error:
        print(f"tear-down: {error}", file=sys.stderr)
    heartbeat.close()


def check_world(cell: Cell) -> None:
    """The ranks that came must be the ranks that were planned: fewer would be reported as if they were all."""
    world = int(os.environ["WORLD_SIZE"])
    if world != cell.cards:
        raise RuntimeError(f"cards={cell.cards} were planned and {world} ranks started")


def pick_device(cell: Cell) -> torch.device:
    """This rank's device by its *local* rank. Raises if the machine asked for has no such accelerator."""
    if cell.machine.device == "cpu":
        return torch.device("cpu")
    local_rank = int(os.environ.get("LOCAL_RANK", "0"))
    count = torch.cuda.device_count()
    if local_rank >= count:
        raise RuntimeError(f"rank {os.environ['RANK']} needs local card {local_rank}; {count} are visible")
    torch.cuda.set_device(local_rank)
    return torch.device("cuda", local_rank)


def start_process_group(cell: Cell, device: torch.device) -> None:
    if device.type == "cpu" and cell.cluster.nodes == 1 and sys.platform == "linux":
        # Gloo looks up the host's own name, which on many rented machines does not resolve
        os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    dist.init_process_group(
        backend="gloo" if device.type == "cpu" else "nccl",
        timeout=timedelta(seconds=max(cell.measure.step_timeout_s, cell.measure.warmup_timeout_s) + PEERS_WAIT_S),
        device_id=None if device.type == "cpu" else device,
    )


def write_measurement(folder: Path, measurement: dict[str, Any] | None) -> None:
    (folder / RESERVE_FILE).unlink(missing_ok=True)
    write_json_atomically(folder / MEASUREMENT_FILE, measurement)


def write_error(folder: Path, rank: int, error: BaseException) -> None:
    """The rank's own account of its end, for the launcher to find the first cause among all ranks'."""
    account = {
        "rank": rank,
        "host": socket.gethostname(),
        "kind": type(error).__name__,
        "message": str(error)[:4000],
        "traceback": "".join(traceback.format_exception(error))[-8000:],
        "time": time.time(),
    }
    try:
        (folder / RESERVE_FILE).unlink(missing_ok=True)
        write_json_atomically(folder / f"rank{rank}.error.json", account)
    except OSError as trouble:  # the account is lost, the error is not: it goes on to the agent and the rank's log
        print(f"rank {rank} could not write its account: {trouble}", file=sys.stderr)


def die_with_parent() -> None:
    """Ask the kernel to kill this rank when the fork server dies, as that does with its launcher: no rank is left.

    The fork server lives as long as anybody holds the writing end of a pipe from the launcher, and hands that end to
    every process that it forks: a rank that kept it would keep its own parent alive.
    """
    if sys.platform != "linux":
        return
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    server = multiprocessing.forkserver._forkserver
    if (lifeline := getattr(server, "_forkserver_alive_fd", None)) is not None:
        os.close(lifeline)
        server._forkserver_alive_fd = None
    launcher = multiprocessing.parent_process()
    if launcher is not None and not launcher.is_alive():  # it died before all this
        os._exit(1)


def stand_apart() -> None:
    """A session of its own, so that a terminal's Ctrl-C reaches the launcher alone, which ends the ranks in order.

    And the first to go when memory runs out: a killed rank is a record, a killed launcher is the end of the sweep.
    """
    with contextlib.suppress(OSError):  # already a session's leader
        os.setsid()
    with contextlib.suppress(OSError):  # only Linux has it
        Path("/proc/self/oom_score_adj").write_text("1000")
