"""Time a collective over all ranks and check its result: one size, one row."""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from configs.schema import Collectives
from results.bandwidth import algbw_gbps, busbw_gbps

Row = dict[str, Any]
MIN_ITERS = 3


@dataclass(frozen=True)
class Where:
    """What every row of a cell has in common."""

    rank: int
    ranks: int
    nodes: int
    backend: str
    device: torch.device

    def row(self, op: str, dtype: str, in_place: bool | None, **more: Any) -> Row:
        common = {"ranks": self.ranks, "nodes": self.nodes, "backend": self.backend}
        return {"op": op, "dtype": dtype, "in_place": in_place, **common, **more}


@dataclass(frozen=True)
class Call:
    """Something to time: `run` does it once, `fill` gives it fresh input, `count_wrong` checks what came out."""

    op: str
    bytes: int
    count: int
    run: Callable[[], None]
    fill: Callable[[], None]
    count_wrong: Callable[[], int]


def measured(call: Call, settings: Collectives, where: Where) -> Row:
    """Warm up, time, check. The calls follow each other without a barrier between them, as in NCCL tests.

    Where a call is slow, fewer iterations are run, so that one size takes about `max_seconds_per_size`; three at least.
    """
    call.fill()
    first_s = agree(float(timed(call.run, 1, where.device)[0]), dist.ReduceOp.MAX, where.device)
    affordable = int(settings.max_seconds_per_size / first_s) if first_s > 0 else settings.iters
    for _ in range(min(settings.warmup_iters - 1, affordable)):
        call.run()
    iters = min(settings.iters, max(MIN_ITERS, affordable))
    synchronise(where.device)
    dist.barrier()
    times_us = _gather(timed(call.run, iters, where.device), where) * 1e6
    call.fill()  # the timed calls left their own results behind
    call.run()
    synchronise(where.device)
    wrong = int(agree(float(call.count_wrong()), dist.ReduceOp.SUM, where.device))
    return {"bytes": call.bytes, "count": call.count, **summary(call.op, call.bytes, times_us), "wrong": wrong}


def summary(op: str, size_bytes: int, times_us: Tensor) -> Row:
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
        "iters": iters,
        "time_us": median,
        "time_mean_us": float(whole.mean()),
        "time_p99_us": float(whole.sort().values[math.ceil(0.99 * iters) - 1]),
        "time_min_us": float(times_us.min()),
        "time_max_us": float(times_us.max()),
        "rank_mean_min_us": float(by_rank.min()),
        "rank_mean_max_us": float(by_rank.max()),
        "slowest_rank": int(by_rank.argmax()),
        "algbw_gbps": algbw_gbps(size_bytes, median),
        "busbw_gbps": busbw_gbps(op, size_bytes, median, len(times_us)),
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
    synchronise(device)
    seconds = [start.elapsed_time(end) / 1e3 for start, end in itertools.pairwise(events)]
    return torch.tensor(seconds, dtype=torch.float64)


def synchronise(device: torch.device) -> None:
    if device.type != "cpu":
        torch.accelerator.synchronize(device)


def agree(value: float, op: dist.ReduceOp.RedOpType, device: torch.device) -> float:
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
