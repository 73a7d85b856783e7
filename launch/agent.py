"""Start a cell's ranks through torchrun's own elastic agent, warm, and tell how they ended."""

from __future__ import annotations

import contextlib
import logging
import multiprocessing
import multiprocessing.forkserver
import os
import shutil
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from benchmarks.registry import BENCHMARKS
from configs.cell import Cell, to_dict
from configs.compose import CONFIG_DIR
from launch.heartbeats import Beats
from launch.watch import Watch
from results.record import Error

MONITOR_INTERVAL_S = 0.02


@dataclass(frozen=True)
class Ending:
    """How the ranks of one cell ended: what rank 0 measured, or the first cause of the failure."""

    measurement: dict[str, Any] | None
    status: str
    error: Error | None


def warm_up() -> None:
    """Start the fork server now, in the background, with torch and transformers imported in it.

    Its interpreter looks for modules in the folder it starts in, and the user's may hold an `analysis.py` of their own:
    it starts in a folder that holds only YAML.
    """
    multiprocessing.set_forkserver_preload(["benchmarks.warm"])
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
    return [str(Path(__file__).resolve().parent.parent), *os.environ.get("PYTHONPATH", "").split(os.pathsep)]


@contextlib.contextmanager
def _environment(variables: dict[str, str]) -> Iterator[None]:
    before = dict(os.environ)
    os.environ.update(variables)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


def run_ranks(cell: Cell, folder: Path, on_beats: Callable[[Beats], None]) -> Ending:
    """Run the cell's ranks to their end; `folder` is its own, emptied first. on_beats is told of the ranks' progress.

    Never raises for what happens in a rank. KeyboardInterrupt and SystemExit of the launcher itself pass through, after
    the ranks are gone.
    """
    from torch.distributed.elastic.multiprocessing.api import SignalException
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
    from torch.distributed.launcher.api import elastic_launch

    from benchmarks.outcome import read_measurement
    from benchmarks.ranks import enter

    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    logging.getLogger("torch.distributed.elastic").setLevel(logging.CRITICAL)
    failure: BaseException | None = None
    with Watch(cell, folder, on_beats) as watch:
        try:
            elastic_launch(_launch_config(cell, folder), enter)(
                to_dict(cell), str(folder), BENCHMARKS[cell.benchmark.name]
            )
        except SignalException as stop:
            raise KeyboardInterrupt(str(stop)) from None
        except ChildFailedError as error:
            failure = error
        except (RuntimeError, OSError, TimeoutError) as error:  # the agent's own trouble: rendezvous, ports, processes
            failure = error
    measurement = read_measurement(folder)
    if measurement is not None:
        return Ending(measurement, "ok", None)
    return _explained(failure, folder, watch.verdict)


def _launch_config(cell: Cell, folder: Path) -> Any:
    from torch.distributed.elastic.multiprocessing import DefaultLogsSpecs, Std
    from torch.distributed.launcher.api import LaunchConfig

    cluster = cell.cluster
    settings: dict[str, Any] = {
        "min_nodes": cluster.nodes,
        "max_nodes": cluster.nodes,
        "nproc_per_node": cell.cards // cluster.nodes,
        "run_id": uuid.uuid4().hex if cluster.nodes == 1 else cell.cell_id,
        "rdzv_backend": "c10d",
        # port 0: the agent takes a free one, so that sweeps on one machine do not meet
        "rdzv_endpoint": cluster.rendezvous or "localhost:0",
        "rdzv_configs": {"timeout": cell.measure.start_timeout_s},
        "max_restarts": 0,  # a restarted cell would be a second measurement under one name
        "monitor_interval": MONITOR_INTERVAL_S,
        "start_method": "forkserver",
        "logs_specs": DefaultLogsSpecs(log_dir=str(folder / "logs"), redirects=Std.ALL),
        "shutdown_timeout": 5,
    }
    if cluster.nodes == 1:
        settings["local_addr"] = "127.0.0.1"  # the host's own name may not resolve
    known = {field.name for field in fields(LaunchConfig)}
    return LaunchConfig(**{name: value for name, value in settings.items() if name in known})


def _explained(failure: BaseException | None, folder: Path, watched: Error | None) -> Ending:
    """The first cause among the watch's verdict, the ranks' own accounts and the agent's."""
    from benchmarks.outcome import first_cause, hint, rank_errors, status_of

    if watched is not None:
        return Ending(None, "timeout", watched)
    accounts = rank_errors(folder)
    told = {account["rank"] for account in accounts}
    for rank, child in getattr(failure, "failures", {}).items():
        if rank not in told and child.exitcode != 0:
            accounts.append(
                {
                    "rank": rank,
                    "kind": child.signal_name() if child.exitcode < 0 else f"exit code {child.exitcode}",
                    "message": f"rank {rank} (process {child.pid}) ended without a word",
                    # noticed only after it happened, later than the peers' complaints: the second is what we know
                    "time": float(child.timestamp),
                    "traceback": log_tail(folder, rank),
                }
            )
    error = first_cause(accounts)
    if error is None:
        message = str(failure) if failure else "the ranks ended without a measurement"
        error = Error(type(failure).__name__ if failure else "no measurement", message, hint=hint("", message))
    return Ending(None, status_of(error), error)


def log_tail(folder: Path, rank: int, size: int = 4000) -> str:
    """The end of a rank's standard error, whatever bytes it holds."""
    files = sorted((folder / "logs").glob(f"**/{rank}/stderr.log"))
    return files[-1].read_bytes()[-size:].decode("utf-8", "replace") if files else ""
