"""The collectives suite: time, bandwidth and correctness of torch.distributed's operations, size by size.

Runs inside the ranks, on whatever backend the default process group has: NCCL on cards, Gloo on processors. Every
size's result is checked; a fast wrong answer shows in `wrong`.
"""

from __future__ import annotations

import itertools
import math
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import psutil
import torch
import torch.distributed as dist
from torch import Tensor

from benchmarks.collective_ops import (
    CALLS,
    COPIED_OUT_OF_PLACE,
    DTYPES,
    NOT_IN_PLACE,
    Buffers,
    buffers,
    count_wrong,
    fill,
)
from configs.cell import Cell
from configs.errors import ConfigError, choose
from results.bandwidth import DTYPE_BYTES, OPS, Sizes, algbw_gbps, busbw_gbps, call_sizes, size_list

Row = dict[str, Any]
MIN_ITERS = 3
MEMORY_SHARE = 0.8  # of what is free; the rest is left to the backend's own scratch space and to everybody else


@dataclass(frozen=True)
class Where:
    """What every row of this cell has in common."""

    rank: int
    ranks: int
    nodes: int
    backend: str
    device: torch.device

    def row(self, op: str, dtype: str, in_place: bool | None, **more: Any) -> Row:
        common = {"ranks": self.ranks, "nodes": self.nodes, "backend": self.backend}
        return {"op": op, "dtype": dtype, "in_place": in_place, **common, **more}


def measure(cell: Cell, on_row: Callable[[Row], None] | None = None) -> list[Row]:
    """Measure `cell.benchmark.collectives` in the default process group; every rank calls this.

    Returns the rows on rank 0 and an empty list elsewhere; `on_row` is called on rank 0 with each row as it is
    finished. A measured row has op, dtype, in_place, ranks, nodes, backend, bytes and count (NCCL tests' conventions),
    iters, wrong (elements, all ranks), the times of `summary`, and algbw_gbps and busbw_gbps from its time_us. A row
    without time_us says why: `unsupported` (the backend lacks it) or `skipped` (memory, time).

    Raises ConfigError on one rank, unknown names and sizes of which not even the smallest fits into memory.
    """
    where = _where(cell)
    settings = cell.benchmark.collectives
    check(cell)
    started = time.monotonic()
    rows: list[Row] = []

    def keep(row: Row) -> None:
        if where.rank == 0:
            rows.append(row)
            if on_row is not None:
                on_row(row)

    memory_bytes = _agree(free_bytes(where.device) * MEMORY_SHARE, dist.ReduceOp.MIN, where.device)
    for op in settings.ops:
        for dtype in settings.dtypes:
            reason = unsupported(op, dtype, where)
            if reason:
                keep(where.row(op, dtype, None, unsupported=reason))
                continue
            for in_place in placements(op, settings.in_place, settings.out_of_place):
                for row in _series(cell, where, op, dtype, in_place, int(memory_bytes), started):
                    keep(row)
    return rows


def check(cell: Cell) -> None:
    """Refuse what cannot be measured, before anything is allocated."""
    settings = cell.benchmark.collectives
    where = "benchmark.collectives"
    for op in settings.ops:
        choose(f"{where}.ops", op, OPS)
    for dtype in settings.dtypes:
        choose(f"{where}.dtypes", dtype, DTYPE_BYTES)
    size_list(settings.min_bytes, settings.max_bytes, settings.factor, settings.step_bytes)
    if cell.cards < 2:
        raise ConfigError("cards", f"{cell.cards}: one rank moves no data", "2 or more for benchmark=collectives")
    for name, value in (("iters", settings.iters), ("warmup_iters", settings.warmup_iters)):
        if value < 1:
            raise ConfigError(f"{where}.{name}", f"{value} is not a number of iterations", "1 or more")
    if not (settings.in_place or settings.out_of_place):
        raise ConfigError(where, "in_place and out_of_place are both off", "at least one of them on")


def placements(op: str, in_place: bool, out_of_place: bool) -> list[bool]:
    """The forms to measure, out of place first as NCCL tests do; an op that has no form in place is never empty."""
    if op in NOT_IN_PLACE:
        return [False]
    return [form for form, wanted in ((False, out_of_place), (True, in_place)) if wanted]


def unsupported(op: str, dtype: str, where: Where) -> str:
    """Why this backend cannot do `op` on `dtype`, or "" where it can; asked on all ranks with a tiny call.

    Gloo has gained operations over torch versions (reduce_scatter came late), so the only safe answer is to try.
    """
    sizes = call_sizes(op, 64 * where.ranks, DTYPE_BYTES[dtype], where.ranks)
    memory = [torch.zeros(max(sizes.send_elements, sizes.receive_elements), dtype=DTYPES[dtype], device=where.device)]
    reason = ""
    try:
        CALLS[op](buffers(memory * 2, op, sizes, where.rank))
        _synchronise(where.device)
    except (RuntimeError, ValueError, NotImplementedError, AttributeError) as error:
        reason = " ".join(str(error).split()) or type(error).__name__
    fails = _agree(float(bool(reason)), dist.ReduceOp.MAX, where.device)
    return (reason or "another rank cannot") if fails else ""


def _series(
    cell: Cell, where: Where, op: str, dtype: str, in_place: bool, memory_bytes: int, started: float
) -> Iterator[Row]:
    """All sizes of one op, type and placement, smallest first."""
    settings = cell.benchmark.collectives
    wanted = size_list(settings.min_bytes, settings.max_bytes, settings.factor, settings.step_bytes)
    rounded = [call_sizes(op, size, DTYPE_BYTES[dtype], where.ranks) for size in wanted]
    sizes = [size for size in dict.fromkeys(rounded) if size.bytes]
    fitting = [size for size in sizes if needed_bytes(size, DTYPE_BYTES[dtype], in_place) <= memory_bytes]
    if sizes and not fitting:
        raise ConfigError(
            "benchmark.collectives.min_bytes",
            f"{sizes[0].bytes} bytes of {op} do not fit into memory",
            f"a rank can use {memory_bytes / 2**20:.0f} MiB",
        )
    if not fitting:
        yield where.row(op, dtype, in_place, skipped="every size is below 16 bytes a rank: rounded down to nothing")
        return
    elements = [max(size.send_elements, size.receive_elements) for size in fitting]
    memory = [torch.empty(max(elements), dtype=DTYPES[dtype], device=where.device) for _ in range(1 if in_place else 2)]
    previous: Row | None = None
    for size in fitting:
        spent = _agree(time.monotonic() - started, dist.ReduceOp.MAX, where.device)
        if previous is not None:
            growth = size.bytes / previous["bytes"]
            spent += (1 + MIN_ITERS) * growth * previous["time_us"] / 1e6
        if spent > cell.measure.max_seconds:
            bound = f"measure.max_seconds={cell.measure.max_seconds:g} would be passed"
            yield where.row(op, dtype, in_place, skipped=f"{size.bytes} bytes and more: {bound}")
            break
        previous = _one_size(cell, where, op, dtype, size, buffers(memory, op, size, where.rank))
        yield previous
    if len(fitting) < len(sizes):
        bound = f"do not fit into the {memory_bytes / 2**20:.0f} MiB that a rank can use"
        yield where.row(op, dtype, in_place, skipped=f"{sizes[len(fitting)].bytes} bytes and more {bound}")


def _one_size(cell: Cell, where: Where, op: str, dtype: str, sizes: Sizes, b: Buffers) -> Row:
    """Warm up, time, check. The calls follow each other without a barrier between them, as in NCCL tests."""
    settings = cell.benchmark.collectives

    def call() -> None:
        CALLS[op](b)

    fill(op, b, where.rank, where.ranks)
    first_s = _agree(float(timed(call, 1, where.device)[0]), dist.ReduceOp.MAX, where.device)
    affordable = int(settings.max_seconds_per_size / first_s) if first_s > 0 else settings.iters
    for _ in range(min(settings.warmup_iters - 1, affordable)):
        call()
    iters = min(settings.iters, max(MIN_ITERS, affordable))
    _synchronise(where.device)
    dist.barrier()
    times_us = _gather(timed(call, iters, where.device), where) * 1e6
    fill(op, b, where.rank, where.ranks)  # the timed calls left their own results behind
    call()
    _synchronise(where.device)
    wrong = count_wrong(op, b, sizes, where.rank, where.ranks)
    wrong = int(_agree(float(wrong), dist.ReduceOp.SUM, where.device))
    return where.row(op, dtype, b.in_place, **summary(op, sizes, times_us, where.ranks), wrong=wrong) | _note(op, b)


def summary(op: str, sizes: Sizes, times_us: Tensor, ranks: int) -> Row:
    """The numbers of one size from `times_us`, shape (ranks, iterations), of calls that followed each other.

    An iteration is over when its last rank is through, and lasts from the end of the one before: so the iterations add
    up to the slowest rank's whole time, though a rank that only sends runs ahead of the others. time_us, time_mean_us
    and time_p99_us are taken over these; time_min_us and time_max_us over all calls of all ranks.
    """
    whole = times_us.cumsum(dim=1).max(dim=0).values.diff(prepend=times_us.new_zeros(1))
    by_rank = times_us.mean(dim=1)
    iters = whole.numel()
    median = float(whole.quantile(0.5))
    return {
        "bytes": sizes.bytes,
        "count": sizes.count,
        "iters": iters,
        "time_us": median,
        "time_mean_us": float(whole.mean()),
        "time_p99_us": float(whole.sort().values[math.ceil(0.99 * iters) - 1]),
        "time_min_us": float(times_us.min()),
        "time_max_us": float(times_us.max()),
        "rank_mean_min_us": float(by_rank.min()),
        "rank_mean_max_us": float(by_rank.max()),
        "slowest_rank": int(by_rank.argmax()),
        "algbw_gbps": algbw_gbps(sizes.bytes, median),
        "busbw_gbps": busbw_gbps(op, sizes.bytes, median, ranks),
    }


def timed(call: Callable[[], None], iters: int, device: torch.device) -> Tensor:
    """Seconds of each of `iters` calls in a row, float64 on the processor.

    On a card the clock is the stream's own events, so that work is timed and not its launch.
    """
    if device.type == "cpu":
        ticks = [time.perf_counter()]
        for _ in range(iters):
            call()
            ticks.append(time.perf_counter())
        return torch.tensor(ticks, dtype=torch.float64).diff()
    events = [torch.Event(device, enable_timing=True) for _ in range(iters + 1)]
    events[0].record()
    for event in events[1:]:
        call()
        event.record()
    _synchronise(device)
    seconds = [start.elapsed_time(end) / 1e3 for start, end in itertools.pairwise(events)]
    return torch.tensor(seconds, dtype=torch.float64)


def needed_bytes(sizes: Sizes, element_bytes: int, in_place: bool) -> int:
    """What one call takes: its buffers and as much again for the backend's scratch space."""
    whole = max(sizes.send_elements, sizes.receive_elements) * element_bytes
    return whole * (2 if in_place else 3)


def free_bytes(device: torch.device) -> float:
    """Memory that this rank may use: the card's free memory, or its share of what the host has available."""
    if device.type == "cpu":
        local = int(os.environ.get("LOCAL_WORLD_SIZE", dist.get_world_size()))
        return psutil.virtual_memory().available / local
    return float(torch.get_device_module(device).mem_get_info(device)[0])


def _where(cell: Cell) -> Where:
    device = torch.device("cpu")
    if cell.machine.device != "cpu":
        device = torch.device(cell.machine.device, torch.accelerator.current_device_index())
    return Where(dist.get_rank(), dist.get_world_size(), cell.cluster.nodes, str(dist.get_backend()), device)


def _note(op: str, b: Buffers) -> Row:
    if b.in_place or op not in COPIED_OUT_OF_PLACE:
        return {}
    return {"note": "torch has this in place only: the time includes a copy into the output"}


def _synchronise(device: torch.device) -> None:
    if device.type != "cpu":
        torch.accelerator.synchronize()


def _agree(value: float, op: dist.ReduceOp.RedOpType, device: torch.device) -> float:
    """The same number on every rank, so that all take the same branch."""
    shared = torch.tensor([value], dtype=torch.float64, device=device)
    dist.all_reduce(shared, op)
    return float(shared.item())


def _gather(times_s: Tensor, where: Where) -> Tensor:
    """Every rank's times, shape (ranks, iterations), on the processor."""
    mine = times_s.to(where.device)
    everyone = [torch.empty_like(mine) for _ in range(where.ranks)]
    dist.all_gather(everyone, mine)
    return torch.stack(everyone).cpu()
