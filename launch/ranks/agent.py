"""Run one cell's ranks on this node, warm, to their end, and tell how they ended: measured, or the first cause."""

from __future__ import annotations

import contextlib
import multiprocessing
import multiprocessing.forkserver
import os
import shutil
import socket
import threading
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.device.sampler import DeviceSampler
from benchmarks.outcome import first_cause, hint, is_effect, rank_errors, read_measurement, status_of
from benchmarks.registry import path_of
from configs.cell import Cell, to_dict
from configs.compose import CONFIG_DIR
from launch.ranks.heartbeats import Beats, read_beats
from launch.ranks.memory_kills import MemoryKills
from launch.ranks.survivors import end_survivors
from launch.ranks.watch import Watch, reached
from launch.study.interrupts import Interrupts, Stopped
from launch.study.space import release, reserve
from results.record import Error

if TYPE_CHECKING:
    from launch.ranks.elastic import Death, Rendezvous

LOG_TAIL_BYTES = 4000
PRELOAD = ["benchmarks.warm"]
HOME = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Ending:
    """How the ranks of one cell ended: what rank 0 measured, or the first cause of the failure."""

    measurement: dict[str, Any] | None
    status: str
    error: Error | None
    device: dict[str, Any] | None = None  # what the sampler saw of this node's cards meanwhile


@dataclass(frozen=True)
class Node:
    """What this node adds to a cell: how its agents meet, which variables its ranks get, who else tells of failures.

    meeting: None, one node of its own. peers: other nodes' accounts once this node's ranks have ended; `lost` says
    which node has vanished, while they run.
    """

    meeting: Rendezvous | None = None
    environment: Mapping[str, str] = field(default_factory=dict)
    peers: Callable[[list[dict[str, Any]]], list[dict[str, Any]]] = lambda own: own
    lost: Callable[[], Error | None] = lambda: None


def warm_up() -> None:
    """Start the fork server now, in the background, with torch and transformers imported in it; again if it has died.

    Its interpreter looks for modules in the folder it starts in, and the user's may hold an `analysis.py` of their own:
    it starts in a folder that holds only YAML. (A folder that is gone by the time torch loads is no choice: MKL ends
    the process then.)
    """
    multiprocessing.set_forkserver_preload(PRELOAD)
    here = Path.cwd()
    os.chdir(Path(CONFIG_DIR) / "prices")
    try:
        path = os.pathsep.join(p for p in _import_paths() if p)
        with _environment({"PYTHONPATH": path, "OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", "1")}):
            multiprocessing.forkserver.ensure_running()
    finally:
        os.chdir(here)


def _import_paths() -> list[str]:
    """Where the five packages are, ahead of everything: an editable checkout or site-packages."""
    return [str(HOME), *os.environ.get("PYTHONPATH", "").split(os.pathsep)]


@contextlib.contextmanager
def _environment(variables: dict[str, str]) -> Iterator[None]:
    before = dict(os.environ)
    os.environ.update(variables)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


def run_ranks(
    cell: Cell,
    folder: Path,
    on_beats: Callable[[Beats], None],
    interrupts: Interrupts | None = None,
    deadline: float | None = None,
    node: Node | None = None,
    stop: threading.Event | None = None,
) -> Ending:
    """Run the cell's ranks to their end; `folder` is its own, emptied first. on_beats is told of the ranks' progress.

    deadline: time.time() at which the cell is ended although it works. stop: set by another thread, ends the cell.
    Never raises for what happens in a rank, nor when `interrupts` or `stop` end it: the status is `interrupted` then,
    unless the measurement was there already. Raises OSError where the folder cannot be written.
    """
    if folder.exists():
        shutil.rmtree(folder)
    folder.mkdir(parents=True)
    reserve(folder)
    node = node or Node()
    variables = {**os.environ, **node.environment, **cell.cluster.env}
    nodes = cell.cluster.nodes
    with DeviceSampler(cell.machine.device, cell.cards // nodes, variables, nodes) as sampler:

        def told(beats: Beats) -> None:
            sampler.observe(beats)
            on_beats(beats)

        ending = _run(cell, folder, told, interrupts, deadline, node, stop)
    return replace(ending, device=sampler.summary())


def _run(
    cell: Cell,
    folder: Path,
    on_beats: Callable[[Beats], None],
    interrupts: Interrupts | None,
    deadline: float | None,
    node: Node,
    stop: threading.Event | None,
) -> Ending:
    from launch.ranks.elastic import run_agent

    interrupts = interrupts or Interrupts()
    kills = MemoryKills()
    trouble: Exception | None = None
    stopped: Stopped | None = None
    deaths: list[Death] = []
    with Watch(cell, folder, on_beats, deadline, node.lost) as watch:
        try:
            with interrupts.interruptible():
                deaths = run_agent(
                    node.meeting or _alone(cell),
                    cell.cards // cell.cluster.nodes,
                    _enter,
                    (to_dict(cell), str(folder), path_of(cell.benchmark.name), dict(node.environment)),
                    folder,
                    interrupts,
                    stop or threading.Event(),
                    lambda dead: watch.verdict is not None or _explained(dead, folder),
                )
        except Stopped as stop_signal:
            stopped = stop_signal
        except (RuntimeError, OSError, EOFError) as own:  # the agent's: rendezvous, ports, processes
            trouble = own
        finally:
            end_survivors(folder)
    release(folder)
    measurement = read_measurement(folder)
    if measurement is not None and (watch.verdict is None or watch.verdict.measured):  # whatever came after it
        return Ending(measurement, "ok", None)
    if watch.verdict is not None:
        return Ending(None, watch.verdict.status, watch.verdict.error)
    if stopped is not None:
        where = reached(read_beats(folder))
        return Ending(None, "interrupted", Error("interrupted", f"cut {where}: the launcher got {stopped}"))
    error = _cause(folder, node, deaths, trouble, kills)
    return Ending(None, status_of(error), error)


def _enter(*arguments: Any) -> None:
    """`benchmarks.ranks.enter`, found when it is called: the launcher itself has no need of it."""
    from benchmarks.ranks import enter

    enter(*arguments)


def _alone(cell: Cell) -> Rendezvous:
    """A cell of one node: port 0, so that sweeps on one machine do not meet; and the host's name need not resolve."""
    from launch.ranks.elastic import Rendezvous

    return Rendezvous(uuid.uuid4().hex, 1, "127.0.0.1:0", "127.0.0.1", None, cell.measure.start_timeout_s)


def _explained(deaths: list[Death], folder: Path) -> bool:
    """Whether the cause is among these: a death without a word, or an account that does not blame a peer."""
    accounts = {account["rank"]: account for account in rank_errors(folder)}
    return any(death.rank not in accounts for death in deaths) or any(not is_effect(a) for a in accounts.values())


def _cause(folder: Path, node: Node, deaths: list[Death], trouble: Exception | None, kills: MemoryKills) -> Error:
    """The first cause among the ranks' accounts, on all nodes, the deaths without one, and the agent's own trouble."""
    accounts = rank_errors(folder)
    told = {account["rank"] for account in accounts}
    accounts += [_silent(death, folder, kills) for death in deaths if death.rank not in told]
    for account in accounts:
        account["log"] = log_tail(folder, account["rank"])
    error = first_cause(node.peers(accounts))
    if error is not None:
        return error
    kind, message = type(trouble).__name__, str(trouble)
    if trouble is None:
        kind, message = "no measurement", "the ranks ended without one"
    elif trouble.__cause__ is not None:
        message = f"{message} ({trouble.__cause__})"
    return Error(kind, message, hint=hint(kind, message), host=socket.gethostname(), log_tail=_all_tails(folder))


def _silent(death: Death, folder: Path, kills: MemoryKills) -> dict[str, Any]:
    """What can be said for a rank that ended without a word of its own."""
    evidence = kills.evidence() if death.kind == "SIGKILL" else ""
    last = next((beat for beat in read_beats(folder) if beat["rank"] == death.rank), None)
    place = f" in phase {last['phase']}, step {last['step']}" if last else " before it was set up"
    return {
        "rank": death.rank,
        "host": socket.gethostname(),
        "kind": "HostOutOfMemory" if evidence else death.kind,
        "message": f"process {death.pid} ended without a word{place}" + (f": {evidence}" if evidence else ""),
        "traceback": "",
        "time": death.time,
        "silent": True,
    }


def log_tail(folder: Path, rank: int, size: int = LOG_TAIL_BYTES) -> str:
    """The end of a rank's standard error, whatever bytes it holds, without the list of modules that crashes print."""
    try:
        with (folder / f"rank{rank}.err.log").open("rb") as file:
            file.seek(0, os.SEEK_END)
            file.seek(max(file.tell() - 4 * size, 0))
            text = file.read().decode("utf-8", "replace")
    except OSError:
        return ""
    return "\n".join(line for line in text.splitlines() if not line.startswith("Extension modules:"))[-size:]


def _all_tails(folder: Path) -> str:
    """The ends of all ranks' logs, each under its rank, where nobody gave an account."""
    ranks = sorted(int(path.name[4:].split(".")[0]) for path in folder.glob("rank*.err.log"))
    tails = {rank: log_tail(folder, rank, 1000).strip() for rank in ranks}
    return "\n".join(f"rank {rank}:\n{tail}" for rank, tail in tails.items() if tail)
