"""torchrun's own local agent, told apart in three points: logs by rank, which ranks died first, and a quick end.

The stock agent reports one failed rank, the first it happens to see, and waits half a minute for peers that do not
react to SIGTERM. On a machine that is paid by the minute, and with a cause to be found, both matter.
"""

from __future__ import annotations

import contextlib
import inspect
import logging
import os
import pickle
import signal
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch.distributed.elastic.rendezvous.registry as rendezvous
from torch.distributed.elastic.agent.server.api import RunResult, WorkerSpec, WorkerState
from torch.distributed.elastic.agent.server.local_elastic_agent import LocalElasticAgent
from torch.distributed.elastic.events import Event
from torch.distributed.elastic.multiprocessing import SignalException
from torch.distributed.elastic.multiprocessing.api import LogsDest, LogsSpecs
from torch.distributed.elastic.rendezvous import RendezvousParameters

from launch.study.interrupts import Interrupts, Stopped

MONITOR_INTERVAL_S = 0.02
SETTLE_S = 1.0  # what the dead whose death is an effect are given for the cause to show
TERM_S = 2.0  # from SIGTERM to SIGKILL


@dataclass(frozen=True)
class Death:
    """A rank that ended by itself, not by the agent's hand. code: negative is a signal, as subprocess has it."""

    rank: int
    pid: int
    code: int
    time: float

    @property
    def kind(self) -> str:
        if self.code < 0:
            with contextlib.suppress(ValueError):
                return signal.Signals(-self.code).name
        return f"exit code {self.code}"


@dataclass(frozen=True)
class Rendezvous:
    """How the agents of a cell's nodes meet. endpoint "host:0" takes a free port; is_host None lets torch find out."""

    run_id: str
    nodes: int
    endpoint: str
    local_addr: str | None
    is_host: bool | None
    timeout_s: float


class RankLogs(LogsSpecs):  # type: ignore[misc]
    """Each rank's output in two flat files of the cell's folder: rank3.out.log, rank3.err.log."""

    def __init__(self, folder: Path) -> None:
        super().__init__(str(folder))
        self._folder = folder

    def reify(self, envs: dict[int, dict[str, str]]) -> LogsDest:
        paths = {local: self._folder / f"rank{env['RANK']}" for local, env in envs.items()}
        for env in envs.values():
            env["TORCHELASTIC_ERROR_FILE"] = ""  # the ranks write accounts of their own
        return LogsDest(
            stdouts={local: f"{path}.out.log" for local, path in paths.items()},
            stderrs={local: f"{path}.err.log" for local, path in paths.items()},
            error_files=dict.fromkeys(paths, os.devnull),
        )

    @property
    def root_log_dir(self) -> str:
        return str(self._folder)


class CellAgent(LocalElasticAgent):  # type: ignore[misc]
    """One cell's agent on this node. `deaths` are the ranks that ended badly before the agent ended the others."""

    def __init__(
        self,
        spec: WorkerSpec,
        logs: LogsSpecs,
        interrupts: Interrupts,
        stop: threading.Event,
        explained: Callable[[list[Death]], bool],
    ) -> None:
        known = inspect.signature(LocalElasticAgent.__init__).parameters
        limit = {"shutdown_timeout": int(TERM_S)} if "shutdown_timeout" in known else {}
        super().__init__(spec, logs, start_method="forkserver", exit_barrier_timeout=60, **limit)
        self._interrupts, self._stop, self._explained = interrupts, stop, explained
        self.deaths: list[Death] = []

    @property
    def processes(self) -> list[Any]:
        """The rank processes that were started, local rank by local rank."""
        context = getattr(self._pcontext, "_pc", None)
        return list(context.processes) if context is not None else []

    def _start_workers(self, worker_group: Any) -> dict[int, Any]:
        with self._interrupts.held():  # a rank that starts while a signal is raised would be nobody's
            started: dict[int, Any] = super()._start_workers(worker_group)
            self._interrupts.install()
        return started

    def _monitor_workers(self, worker_group: Any) -> Any:
        if self._stop.is_set():
            raise Stopped("stop")
        if self._dead():
            deadline = time.monotonic() + SETTLE_S
            while not self._explained(self._dead()) and any(p.is_alive() for p in self.processes):
                if time.monotonic() > deadline:
                    break
                time.sleep(MONITOR_INTERVAL_S)
            self.deaths = self._dead()
            end(self.processes)
            return RunResult(WorkerState.FAILED)  # the deaths and the ranks' own accounts say the rest
        try:
            result = super()._monitor_workers(worker_group)
        except (
            EOFError,
            pickle.UnpicklingError,
        ):  # torch reads a rank's pickled traceback: cut off, by SIGTERM or a full disk
            result = RunResult(WorkerState.FAILED)
        if result.is_failed():  # one has died since our look, and the agent has ended the others with SIGTERM
            self.deaths = [d for d in self._dead() if d.code != -signal.SIGTERM or d.rank in result.failures]
        return result

    def _shutdown(self, *args: Any, **kwargs: Any) -> None:
        end(self.processes)
        super()._shutdown(*args, **kwargs)

    def _construct_event(self, state: str, source: Any, *args: Any, **kwargs: Any) -> Event:
        """Events go nowhere here, and the stock ones look the host's full name up, each: seconds without a server."""
        return Event(f"torchelastic.worker.status.{state}", source)

    def _dead(self) -> list[Death]:
        first = self._worker_group.workers[0].global_rank if self._worker_group.workers else 0
        seen = {death.rank: death for death in self.deaths}
        for local, process in enumerate(self.processes):
            if process.exitcode not in (None, 0) and first + local not in seen:
                seen[first + local] = Death(first + local, process.pid, process.exitcode, time.time())
        self.deaths = [seen[rank] for rank in sorted(seen)]
        return self.deaths


def end(processes: list[Any]) -> None:
    """End `processes`, stopped ones too: SIGTERM, and SIGKILL for what is still there after TERM_S."""
    for number, wait_s in ((signal.SIGTERM, TERM_S), (signal.SIGKILL, TERM_S)):
        alive = [process for process in processes if process.is_alive()]
        for process in alive:
            for each in (number, signal.SIGCONT):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(process.pid, each)
        deadline = time.monotonic() + wait_s
        for process in alive:
            process.join(max(deadline - time.monotonic(), 0))


def run_agent(
    meeting: Rendezvous,
    ranks: int,
    entry: Callable[..., Any],
    arguments: tuple[Any, ...],
    logs: Path,
    interrupts: Interrupts,
    stop: threading.Event,
    explained: Callable[[list[Death]], bool],
) -> list[Death]:
    """Start `ranks` processes of entry(*arguments) on this node and stay until all have ended; returns the deaths.

    explained(deaths): whether these tell the cause, so that nobody else's word has to be waited for. Raises Stopped
    when asked to stop, and RuntimeError, OSError or TimeoutError where the agents do not meet; no rank is left then.
    """
    logging.getLogger("torch.distributed.elastic").setLevel(logging.CRITICAL)
    os.environ["TORCHELASTIC_SIGNALS_TO_HANDLE"] = ""  # the launcher has its own
    host = {} if meeting.is_host is None else {"is_host": meeting.is_host}
    parameters = RendezvousParameters(
        backend="c10d",
        endpoint=meeting.endpoint,
        run_id=meeting.run_id,
        min_nodes=meeting.nodes,
        max_nodes=meeting.nodes,
        local_addr=meeting.local_addr,
        join_timeout=int(max(meeting.timeout_s, 1)),
        **host,
    )
    handler = rendezvous.get_rendezvous_handler(parameters)
    spec = WorkerSpec(
        role="rank",
        local_world_size=ranks,
        entrypoint=entry,
        args=arguments,
        rdzv_handler=handler,
        max_restarts=0,  # a restarted cell would be a second measurement under one name
        monitor_interval=MONITOR_INTERVAL_S,
        local_addr=meeting.local_addr,
    )
    agent = CellAgent(spec, RankLogs(logs), interrupts, stop, explained)
    try:
        agent.run()
    except SignalException as error:  # an older torch's handler was faster than ours
        raise Stopped(str(error)) from None
    finally:
        end(agent.processes)
        with contextlib.suppress(RuntimeError, OSError):
            handler.shutdown()
    return agent.deaths
