"""From a cell and what its ranks left behind to its record, with the first cause where it failed."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from benchmarks.device.samples import with_energy_per_token
from benchmarks.files import MEASUREMENT_FILE
from benchmarks.meters.environment import environment, processor
from configs.cell import Cell, to_dict
from configs.machines import describes
from configs.schema import Machine
from results.record import Error, Record

# What a rank says when another one left first: an effect, never the cause.
_EFFECT = re.compile(
    r"connection (was )?(closed|reset|refused)|closed by peer|broken pipe|socket (closed|timeout)|remote process exited"
    r"|peer closed|timed? ?out|SIGTERM|watchdog|ProcessGroup.*abort|DistNetworkError|DistBackendError|ncclRemoteError",
    re.IGNORECASE,
)
_DEVICE_MEMORY = re.compile(r"\bout of memory|CUBLAS_STATUS_ALLOC_FAILED", re.IGNORECASE)
_HOST_MEMORY = re.compile(r"can't allocate memory|not enough memory|Cannot allocate memory", re.IGNORECASE)
_OUT_OF_MEMORY_KINDS = ("OutOfMemoryError", "MemoryError", "HostOutOfMemory")
_DISK_FULL = re.compile(r"No space left on device|Disk quota exceeded", re.IGNORECASE)
_PORT_TAKEN = re.compile(r"EADDRINUSE|address already in use", re.IGNORECASE)


def now() -> str:
    return datetime.now(timezone.utc).isoformat(timespec="milliseconds")


def read_measurement(folder: Path) -> dict[str, Any] | None:
    """What rank 0 measured, or None where it did not get that far."""
    found = _read(folder / MEASUREMENT_FILE)
    return found if isinstance(found, dict) else None


def rank_errors(folder: Path) -> list[dict[str, Any]]:
    """Every rank's own account of its end; one that cannot be read is none."""
    return [account for path in sorted(folder.glob("rank*.error.json")) if (account := _read(path)) is not None]


def _read(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8", errors="replace"))
    except (OSError, ValueError):
        return None


def is_effect(account: Mapping[str, Any]) -> bool:
    """Whether an account only tells of a peer that is gone."""
    return bool(_EFFECT.search(f"{account['kind']} {account['message']}"))


def first_cause(accounts: list[dict[str, Any]]) -> Error | None:
    """The account that explains the others: the earliest that is not a peer's disappearance, else the earliest.

    An account has rank, kind, message, traceback, time, and may have host, log (the end of the rank's output).
    """
    if not accounts:
        return None
    chosen = min(accounts, key=lambda account: (is_effect(account), account["time"]))
    return Error(
        kind=chosen["kind"],
        message=chosen["message"],
        rank=chosen.get("rank"),
        hint=hint(chosen["kind"], chosen["message"]),
        log_tail="\n".join(text.strip() for key in ("log", "traceback") if (text := chosen.get(key))),
        host=chosen.get("host", ""),
    )


def status_of(error: Error) -> str:
    """oom needs an allocator's own words or the kernel's count: a kill by an unknown hand stays `failed`."""
    if error.kind in _OUT_OF_MEMORY_KINDS or _says_memory(error.message):
        return "oom"
    return "failed"


def _says_memory(message: str) -> bool:
    return bool(_DEVICE_MEMORY.search(message) or _HOST_MEMORY.search(message))


def hint(kind: str, message: str) -> str:
    """What a person can do about it; empty where nothing is known."""
    if kind == "HostOutOfMemory" or _HOST_MEMORY.search(message):
        return "the host's memory ran out, not the card's: fewer ranks on this machine, or a larger memory limit"
    if kind in _OUT_OF_MEMORY_KINDS or _DEVICE_MEMORY.search(message):
        return "smaller micro_batch, recipe.checkpointing=full, mode=fsdp, or more cards"
    if kind in ("SIGKILL", "exit code 137"):
        return "killed by an unknown hand: a scheduler, a person, a memory limit that left no trace; dmesg may tell"
    if kind == "SIGBUS":
        return "often shared memory that is too small: a container's /dev/shm"
    if kind == "NonFiniteLoss":
        return "lower recipe.learning_rate, or another precision"
    if _DISK_FULL.search(message):
        return "free space where results_dir is, then the same command again"
    if _PORT_TAKEN.search(message):
        return "not the configuration's fault: a port was taken; the same command again"
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
    spending: dict[str, Any] | None = None,
    circumstances: dict[str, Any] | None = None,
) -> Record:
    """The cell's record; `measurement` holds the sections that the benchmark filled.

    spending: attempt, idle_card_hours (cards paid for and not used meanwhile), earlier_card_hours (of the attempts that
    this record replaces). circumstances: what else the environment section says of this attempt.
    """
    found = measurement or {}
    throughput = found.get("throughput", {})
    device = device or (processor() if cell.machine.device == "cpu" else {})
    return Record(
        study=study,
        cell_id=cell.cell_id,
        benchmark=cell.benchmark.name,
        status=status,
        started_at=started_at,
        wall_s=wall_s,
        card_hours=cell.cards * wall_s / 3600,
        error=error,
        workload=_workload(cell, device) | found.get("workload", {}),
        parallel=_parallel(cell),
        throughput=of_this_card(throughput, cell.machine, device.get("name")),
        memory=_memory(found),
        device=with_energy_per_token(device, throughput.get("tokens_per_s")),
        collectives=found.get("collectives", []),
        storage=found.get("storage", []),
        matmul=found.get("matmul", []),
        loss=found.get("loss", {}),
        environment=environment(os.environ, cell.cluster.env) | (circumstances or {}),
        spending=spending or {},
        config=to_dict(cell),
    )


def of_this_card(throughput: dict[str, Any], machine: Machine, card_name: str | None) -> dict[str, Any]:
    """`throughput` with MFU blank, and why, where the card is not the one whose peak `machine` states."""
    if throughput.get("mfu") is None or describes(machine, card_name):
        return throughput
    why = f"the card is {card_name}, and the peak is that of machine={machine.name}"
    return throughput | {"mfu": None, "mfu_causal": None, "mfu_blank_because": why}


def _memory(measured: Mapping[str, Any]) -> dict[str, Any]:
    """What was measured; `predicted` is for the launcher to fill, and null in a record that torchrun alone made."""
    memory: dict[str, Any] = measured.get("memory", {})
    return memory | {"predicted": None} if memory else memory


def _workload(cell: Cell, device: Mapping[str, Any]) -> dict[str, Any]:
    is_bf16, in_hardware = cell.recipe.precision.startswith("bf16"), device.get("bf16_in_hardware")
    return {
        "model": cell.model.name,
        "parameters": None,
        "recipe": cell.recipe.name,
        "precision": cell.recipe.precision,
        "precision_emulated": False if not is_bf16 else None if in_hardware is None else not in_hardware,
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
