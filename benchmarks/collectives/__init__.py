"""The collectives suite: time, bandwidth and correctness of torch.distributed's operations, size by size.

Runs inside the ranks, on whatever backend the default process group has: NCCL on cards, Gloo on processors. Every
size's result is checked; a fast wrong answer shows in `wrong`.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from typing import Any

import psutil
import torch
import torch.distributed as dist

from benchmarks.collectives.ops import (
    CALLS,
    COPIED_OUT_OF_PLACE,
    DTYPES,
    NOT_IN_PLACE,
    Buffers,
    buffers,
    count_wrong,
    fill,
)
from benchmarks.collectives.patterns import needed_bytes as pattern_bytes
from benchmarks.collectives.patterns import pattern_call, traffic
from benchmarks.collectives.timing import MIN_ITERS, Call, Row, Where, agree, measured, synchronise
from benchmarks.ranks import Heartbeat
from configs.cell import Cell
from configs.errors import ConfigError
from results.bandwidth import DTYPE_BYTES, Sizes, call_sizes, check_collectives, size_list

MEMORY_SHARE = 0.8  # of what is free; the rest is left to everybody else on the host


def collectives(cell: Cell, device: torch.device, heartbeat: Heartbeat) -> dict[str, Any] | None:
    """The benchmark as the ranks run it; rank 0 returns the record's `collectives` section."""
    step = 0

    def beat(row: Row) -> None:
        nonlocal step
        step += 1
        size = f"{row['bytes']} bytes" if "bytes" in row else "not measured"
        heartbeat.beat(f"{row.get('pattern') or row['op']} {row['dtype']} {size}", step)

    rows = measure(cell, device, beat)
    return {"collectives": rows} if dist.get_rank() == 0 else None


def measure(cell: Cell, device: torch.device, on_row: Callable[[Row], None] | None = None) -> list[Row]:
    """Measure `cell.benchmark.collectives` on `device` in the default process group; every rank calls this.

    Returns the same rows on every rank and calls `on_row` with each as it is finished. A measured row has op, dtype,
    in_place, ranks, nodes, backend, bytes and count (NCCL tests' conventions), wrong (elements, over all ranks), the
    figures of `collective_timing.summary`, and for a training pattern its name as `pattern`. A row without time_us says
    why: `unsupported` (the backend lacks it) or `skipped` (memory, time).

    Raises ConfigError on one rank, unknown names and sizes of which not even the smallest fits into memory.
    """
    check_collectives(cell.benchmark.collectives, cell.cards)
    where = Where(dist.get_rank(), dist.get_world_size(), cell.cluster.nodes, str(dist.get_backend()), device)
    rows: list[Row] = []
    for row in _all_rows(cell, where):
        rows.append(row)
        if on_row is not None:
            on_row(row)
    return rows


def _all_rows(cell: Cell, where: Where) -> Iterator[Row]:
    settings = cell.benchmark.collectives
    started = time.monotonic()
    memory_bytes = int(agree(free_bytes(where.device) * MEMORY_SHARE, dist.ReduceOp.MIN, where.device))
    for op in settings.ops:
        for dtype in settings.dtypes:
            reason = unsupported(op, dtype, where)
            if reason:
                yield where.row(op, dtype, None, unsupported=reason)
                continue
            for in_place in placements(op, settings.in_place, settings.out_of_place):
                yield from _series(cell, where, op, dtype, in_place, memory_bytes, started)
    yield from _patterns(cell, where, memory_bytes, started)


def placements(op: str, in_place: bool, out_of_place: bool) -> list[bool]:
    """The forms to measure, out of place first as NCCL tests do; an op that has no form in place is never left out."""
    if op in NOT_IN_PLACE:
        return [False]
    return [form for form, wanted in ((False, out_of_place), (True, in_place)) if wanted]


def unsupported(op: str, dtype: str, where: Where) -> str:
    """Why this backend cannot do `op` on `dtype`, or "" where it can; asked on all ranks with a tiny call.

    Gloo has gained operations over torch versions (reduce_scatter came late), so the only safe answer is to try.
    """
    sizes = call_sizes(op, 64 * where.ranks, DTYPE_BYTES[dtype], where.ranks)
    elements = max(sizes.send_elements, sizes.receive_elements)
    memory = [torch.zeros(elements, dtype=DTYPES[dtype], device=where.device) for _ in range(2)]
    reason = ""
    try:
        CALLS[op](buffers(memory, op, sizes, where.rank))
        synchronise(where.device)
    except (RuntimeError, ValueError, NotImplementedError, AttributeError) as error:
        reason = " ".join(str(error).split()) or type(error).__name__
    fails = agree(float(bool(reason)), dist.ReduceOp.MAX, where.device)
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
    elements = max(max(size.send_elements, size.receive_elements) for size in fitting)
    memory = [torch.empty(elements, dtype=DTYPES[dtype], device=where.device) for _ in range(1 if in_place else 2)]
    previous: Row | None = None
    for size in fitting:
        expected_us = previous["time_us"] * size.bytes / previous["bytes"] if previous else 0.0
        if _too_late(cell, where, started, expected_us):
            bound = f"measure.max_seconds={cell.measure.max_seconds:g} would be passed"
            yield where.row(op, dtype, in_place, skipped=f"{size.bytes} bytes and more: {bound}")
            break
        call = _call(op, size, buffers(memory, op, size, where.rank), where)
        previous = where.row(op, dtype, in_place, **measured(call, settings, where), **_note(op, in_place))
        yield previous
    if len(fitting) < len(sizes):
        bound = f"do not fit into the {memory_bytes / 2**20:.0f} MiB that a rank can use"
        yield where.row(op, dtype, in_place, skipped=f"{sizes[len(fitting)].bytes} bytes and more {bound}")


def _patterns(cell: Cell, where: Where, memory_bytes: int, started: float) -> Iterator[Row]:
    for kind in traffic(cell):
        row = where.row(kind.op, kind.dtype, kind.op == "all_reduce", pattern=kind.pattern, calls=len(kind.elements))
        reason = unsupported(kind.op, kind.dtype, where)
        if reason:
            yield row | {"unsupported": reason}
        elif pattern_bytes(kind) > memory_bytes:
            yield row | {"skipped": f"{kind.bytes} bytes do not fit into the {memory_bytes / 2**20:.0f} MiB of a rank"}
        elif _too_late(cell, where, started, 0.0):
            yield row | {"skipped": f"measure.max_seconds={cell.measure.max_seconds:g} is spent"}
        else:
            yield row | measured(pattern_call(kind, where), cell.benchmark.collectives, where)


def _call(op: str, sizes: Sizes, b: Buffers, where: Where) -> Call:
    return Call(
        op,
        sizes.bytes,
        sizes.count,
        run=lambda: CALLS[op](b),
        fill=lambda: fill(op, b, where.rank, where.ranks),
        count_wrong=lambda: count_wrong(op, b, sizes, where.rank, where.ranks),
    )


def _too_late(cell: Cell, where: Where, started: float, expected_us: float) -> bool:
    """Whether the fewest calls of a size that takes `expected_us` would pass the cell's bound in seconds."""
    spent_s = agree(time.monotonic() - started, dist.ReduceOp.MAX, where.device)
    return spent_s + (1 + MIN_ITERS) * expected_us / 1e6 > cell.measure.max_seconds


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


def _note(op: str, in_place: bool) -> Row:
    if in_place or op not in COPIED_OUT_OF_PLACE:
        return {}
    return {"note": "torch has this in place only: the time includes a copy into the output"}
