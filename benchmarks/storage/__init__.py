"""The storage benchmark: block reads and writes, and what training does with files, all ranks at once.

Where the page cache could not be kept out, the row says so: `cache` is direct, evicted, cached, or fsync for writes.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import torch
import torch.distributed as dist
from torch.distributed.checkpoint.api import CheckpointException

from benchmarks.ranks import Heartbeat
from benchmarks.storage import block_io, fio, training_io
from benchmarks.storage.block_io import Transfer
from benchmarks.storage.scratch import PREFIX, remove_stale, scratch
from configs.cell import Cell
from configs.storage import check_storage

Row = dict[str, Any]
BLOCK_TESTS = ("write_fsync", "read_sequential", "read_random")
MEMORY_SHARE = 0.5  # of what is free, for the tests that hold what they load


def storage(cell: Cell, device: torch.device, heartbeat: Heartbeat) -> dict[str, Any] | None:
    """The benchmark as the ranks run it; rank 0 returns the record's `storage` section."""
    step = 0

    def beat(test: str) -> None:
        nonlocal step
        step += 1
        heartbeat.beat(test, step)

    rows = measure(cell, device, beat)
    return {"storage": rows} if dist.get_rank() == 0 else None


def measure(cell: Cell, device: torch.device, on_test: Callable[[str], None] | None = None) -> list[Row]:
    """Run `cell.benchmark.storage` in the default process group; every rank calls this, all return the same rows.

    A row: test, ranks, file_system, cache, tool, bytes (of all ranks), time_s (of the slowest), gbps = bytes / time_s
    in powers of ten, rank_gbps_min and rank_gbps_max; for random reads iops, latency_us and latency_p99_us; for the
    data loader tokens_per_s. A test that could not run has `failed` or `skipped` with the reason instead of figures.

    Raises ConfigError where the folder is none, cannot be written, or has no room; RuntimeError where every test that
    was tried has failed.
    """
    settings = cell.benchmark.storage
    rank, ranks = dist.get_rank(), dist.get_world_size()
    parent = check_storage(settings, int(os.environ.get("LOCAL_WORLD_SIZE", ranks)))
    if int(os.environ.get("LOCAL_RANK", rank)) == 0:
        remove_stale(parent)
    name = [PREFIX + uuid.uuid4().hex[:12]]
    dist.broadcast_object_list(name, src=0)
    dist.barrier()
    rows = []
    with scratch(parent, name[0]) as folder:
        tests = _tests(cell, folder, rank, device)
        shared = _one_file_system(folder, rank)
        for test in _in_order(settings.tests):
            if on_test is not None:
                on_test(test)
            reason = _why_not(test, cell, shared)
            if reason:
                rows.append({"test": test, "ranks": ranks, "skipped": reason})
                continue
            rows.append(_together(test, tests[test], ranks) | _place(folder))
        dist.barrier()
    failures = [row["failed"] for row in rows if "failed" in row]
    if failures and not any("gbps" in row for row in rows):
        raise RuntimeError(f"no storage test could be done: {failures[0]}")
    return rows


def _tests(cell: Cell, folder: Path, rank: int, device: torch.device) -> dict[str, Callable[[], Transfer]]:
    """What each test does on this rank."""
    settings = cell.benchmark.storage
    block, random_block = settings.block_kib * 1024, settings.random_block_kib * 1024
    size = int(settings.size_mib * 2**20) // block * block
    seconds = settings.max_seconds
    path = folder / f"rank{rank}.blocks"
    direct = block_io.supports_direct(folder)
    by_fio = settings.fio == "auto" and fio.available()

    def whole_file() -> Path:
        if not path.exists() or path.stat().st_size < size:
            block_io.write(path, size, block, direct, float("inf"))
        return path

    def read(test: str, read_block: int, own: Callable[[], Transfer]) -> Transfer:
        file = whole_file()
        return fio.run(test, file, size, read_block, direct, seconds) if by_fio else own()

    return {
        "write_fsync": lambda: (
            fio.run("write_fsync", path, size, block, direct, seconds)
            if by_fio
            else block_io.write(path, size, block, direct, seconds)
        ),
        "read_sequential": lambda: read(
            "read_sequential", block, lambda: block_io.read_sequential(whole_file(), block, direct, seconds)
        ),
        "read_random": lambda: read(
            "read_random",
            random_block,
            lambda: block_io.read_random(whole_file(), random_block, direct, seconds, seed=rank),
        ),
        "safetensors_load": lambda: training_io.safetensors_load(folder, size, rank, device),
        "checkpoint_save": lambda: training_io.checkpoint_save(folder, size, rank, device),
        "checkpoint_load": lambda: training_io.checkpoint_load(folder, size, rank, device),
        "data_loader": lambda: training_io.data_loader(
            folder, size, rank, cell.seq_len, cell.micro_batch, settings.workers, seconds
        ),
    }


def _place(folder: Path) -> Row:
    """What was tested; a path says nothing to others, the type of the file system does."""
    kind = block_io.file_system(folder)
    note = {"note": f"{kind} is memory: this is no disk's speed"} if kind in block_io.IN_MEMORY else {}
    return {"file_system": kind, **note}


def _in_order(tests: list[str]) -> list[str]:
    """The order that leaves one test's files at a time: what reads a file comes after what writes it."""
    order = ["write_fsync", "read_sequential", "read_random", "safetensors_load"]
    wanted = [test for test in order if test in tests]
    wanted += ["checkpoint_save"] if {"checkpoint_save", "checkpoint_load"} & set(tests) else []
    return wanted + [test for test in ("checkpoint_load", "data_loader") if test in tests]


def _why_not(test: str, cell: Cell, shared: bool) -> str:
    """Why `test` cannot be run on these ranks, the same on all of them; "" where it can."""
    if test in BLOCK_TESTS:
        return ""
    if test.startswith("checkpoint") and not shared:
        return "the folder is not one file system over all nodes"
    local = int(os.environ.get("LOCAL_WORLD_SIZE", dist.get_world_size()))
    limit = torch.tensor([MEMORY_SHARE * psutil.virtual_memory().available / local])
    limits: list[float] = [0.0] * dist.get_world_size()
    dist.all_gather_object(limits, float(limit))
    needed = 2 * cell.benchmark.storage.size_mib * 2**20
    if test != "data_loader" and needed > min(limits):
        return (
            f"{needed / 2**20:.0f} MiB do not fit into the {min(limits) / 2**20:.0f} MiB of memory that a rank can use"
        )
    return ""


def _one_file_system(folder: Path, rank: int) -> bool:
    """Whether a file that rank 0 writes is seen by every rank."""
    marker = folder / "shared"
    if rank == 0:
        marker.touch()
    dist.barrier()
    seen: list[bool] = [False] * dist.get_world_size()
    dist.all_gather_object(seen, marker.exists())
    return all(seen)


def _together(test: str, run: Callable[[], Transfer], ranks: int) -> Row:
    """Run `test` on all ranks at once; one row. A rank's failure is the row's, and no other rank waits for it."""
    dist.barrier()
    mine: Transfer | str
    try:
        mine = run()
    except (Exception, CheckpointException) as error:  # whatever it is: the other ranks wait for this one's word
        mine = f"{type(error).__name__}: {error}"
    everyone: list[Any] = [None] * ranks
    dist.all_gather_object(everyone, mine)
    failures = [f"rank {rank}: {item}" for rank, item in enumerate(everyone) if isinstance(item, str)]
    if failures:
        return {"test": test, "ranks": ranks, "failed": " ".join(failures[0].split())[:300]}
    return row(test, everyone)


def row(test: str, transfers: list[Transfer]) -> Row:
    """One row from every rank's part, which ran at the same time: together they are as slow as the slowest."""
    total, slowest = sum(t.bytes for t in transfers), max(t.seconds for t in transfers)
    rates = [t.bytes / t.seconds / 1e9 for t in transfers]
    caches = {t.cache for t in transfers}
    found: Row = {
        "test": test,
        "ranks": len(transfers),
        "cache": "cached" if "cached" in caches else caches.pop(),
        "tool": transfers[0].tool,
        "bytes": total,
        "time_s": slowest,
        "gbps": total / slowest / 1e9,
        "rank_gbps_min": min(rates),
        "rank_gbps_max": max(rates),
    }
    if test == "read_random":
        found["iops"] = sum(t.operations for t in transfers) / slowest
        latencies = np.concatenate([t.latencies_us for t in transfers])
        if latencies.size:
            found |= {"latency_us": float(np.median(latencies)), "latency_p99_us": float(np.quantile(latencies, 0.99))}
        else:
            found |= {key: max(t.facts[key] for t in transfers if key in t.facts) for key in transfers[0].facts}
    if test == "data_loader":
        found["tokens_per_s"] = sum(t.facts["tokens"] for t in transfers) / slowest
    return found
