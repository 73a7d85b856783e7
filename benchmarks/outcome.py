"""From a cell and what its ranks left behind to its record, with the first cause where it failed."""

from __future__ import annotations

import json
import os
import re
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from benchmarks.environment import environment, processor
from benchmarks.ranks import MEASUREMENT_FILE
from configs.cell import Cell, to_dict
from results.record import Error, Record

# What a rank says when another one left first: an effect, never the cause.
_SECONDARY = re.compile(
    r"connection (was )?(closed|reset)|closed by peer|broken pipe|socket (closed|timeout)|remote process exited"
    r"|peer closed|timed? ?out|SIGTERM|watchdog|ProcessGroup.*abort|DistNetworkError|DistBackendError",
    re.IGNORECASE,
)
_OUT_OF_MEMORY = re.compile(
    r"out of memory|can't allocate memory|not enough memory|CUBLAS_STATUS_ALLOC_FAILED", re.IGNORECASE
)


def now() -> str:
    return datetime.now(timezone.utc).isoformat(timespec="milliseconds")


def read_measurement(folder: Path) -> dict[str, Any] | None:
    """What rank 0 measured, or None where it did not get that far."""
    path = folder / MEASUREMENT_FILE
    if not path.exists():
        return None
    content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return content


def rank_errors(folder: Path) -> list[dict[str, Any]]:
    """Every rank's own account of its end."""
    return [json.loads(path.read_text(encoding="utf-8")) for path in sorted(folder.glob("rank*.error.json"))]


def first_cause(accounts: list[dict[str, Any]]) -> Error | None:
    """The account that explains the others: the earliest that is not a peer's disappearance, else the earliest."""
    if not accounts:
        return None
    chosen = min(accounts, key=lambda a: (bool(_SECONDARY.search(f"{a['kind']} {a['message']}")), a["time"]))
    return Error(
        kind=chosen["kind"],
        message=chosen["message"],
        rank=chosen.get("rank"),
        hint=hint(chosen["kind"], chosen["message"]),
        log_tail=chosen.get("traceback", ""),
    )


def status_of(error: Error) -> str:
    """oom needs an allocator's own words: a kill by an unknown hand stays `failed`."""
    if error.kind in ("OutOfMemoryError", "MemoryError") or _OUT_OF_MEMORY.search(error.message):
        return "oom"
    return "failed"


def hint(kind: str, message: str) -> str:
    if kind in ("OutOfMemoryError", "MemoryError") or _OUT_OF_MEMORY.search(message):
        return "smaller micro_batch, recipe.checkpointing=full, mode=fsdp, or more cards"
    if kind == "SIGKILL":
        return "killed from outside: the kernel's memory killer, a scheduler, or a person; dmesg may tell"
    if kind == "NonFiniteLoss":
        return "lower recipe.learning_rate, or another precision"
    return ""


def make_record(
    study: str,
    cell: Cell,
    status: str,
    started_at: str,
    wall_s: float,
    measurement: dict[str, Any] | None = None,
    error: Error | None = None,
    device: dict[str, Any] | None = None,
) -> Record:
    """The cell's record; `measurement` holds the sections that the benchmark filled."""
    found = measurement or {}
    return Record(
        study=study,
        cell_id=cell.cell_id,
        benchmark=cell.benchmark.name,
        status=status,
        started_at=started_at,
        wall_s=wall_s,
        card_hours=cell.cards * wall_s / 3600,
        error=error,
        workload=_workload(cell) | found.get("workload", {}),
        parallel=_parallel(cell),
        throughput=found.get("throughput", {}),
        memory=found.get("memory", {}),
        device=device or (processor() if cell.machine.device == "cpu" else {}),
        collectives=found.get("collectives", []),
        loss=found.get("loss", {}),
        environment=environment(os.environ, cell.cluster.env),
        config=to_dict(cell),
    )


def _workload(cell: Cell) -> dict[str, Any]:
    return {
        "model": cell.model.name,
        "parameters": None,
        "recipe": cell.recipe.name,
        "precision": cell.recipe.precision,
        "seq_len": cell.seq_len,
        "micro_batch": cell.micro_batch,
        "grad_accum": cell.grad_accum,
        "global_batch_tokens": cell.global_batch_tokens,
        "scaling": cell.scaling,
        "repeat": cell.repeat,
    }


def _parallel(cell: Cell) -> dict[str, Any]:
    layout = cell.layout
    return {
        "mode": cell.mode.name,
        "engine": cell.mode.engine,
        "cards": cell.cards,
        "nodes": cell.cluster.nodes,
        "dp": layout.dp,
        "tp": layout.tp,
        "pp": layout.pp,
        "schedule": cell.mode.schedule if layout.pp > 1 else None,
        "zero_stage": cell.mode.zero_stage,
        "threads_per_rank": cell.cluster.threads_per_rank,
    }
