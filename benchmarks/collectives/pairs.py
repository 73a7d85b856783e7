"""Point-to-point bandwidth, pair by pair: one sends to one while all others wait, so that a weak link cannot hide.

A collective runs at the pace of its slowest link and does not say which that is. Runs inside the ranks.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from benchmarks.collectives import free_bytes
from benchmarks.collectives.timing import MIN_ITERS, Row, agree, synchronise, timed
from benchmarks.ranks import Heartbeat
from configs.cell import Cell
from configs.errors import ConfigError
from configs.pairs import check_pairs
from results.bandwidth import algbw_gbps

CARD_BYTES, PROCESSOR_BYTES = 256 * 2**20, 8 * 2**20  # large enough that latency does not count
MEMORY_SHARE = 0.4  # of what is free, for each of the two buffers
ELEMENT_BYTES = 4
MARKS = 251  # whole numbers that fp32 holds, one for each sender


def pairs(cell: Cell, device: torch.device, heartbeat: Heartbeat) -> dict[str, Any] | None:
    """The benchmark as the ranks run it; rank 0 returns the rows as the record's `collectives` section."""
    done = 0

    def beat(row: Row) -> None:
        nonlocal done
        done += 1
        heartbeat.beat(row["pattern"], done)

    rows = measure(cell, device, beat)
    return {"collectives": rows} if dist.get_rank() == 0 else None


def measure(cell: Cell, device: torch.device, on_row: Callable[[Row], None] | None = None) -> list[Row]:
    """Measure every ordered pair of ranks, then every pair with both directions at once; all ranks call this.

    Returns the same rows on every rank: op send_recv, pattern "pair 0>1" or "pair 0<>1", source, target, direction (one
    or both), nodes (1 inside a node, 2 across), bytes, iters, time_us (median over calls, of the slower side),
    time_min_us, time_max_us, algbw_gbps = busbw_gbps (bytes over time, of one direction), wrong (elements).

    Raises ConfigError on one rank, or where not even a small message fits into memory.
    """
    settings, ranks = cell.benchmark.pairs, dist.get_world_size()
    check_pairs(settings, ranks)
    elements = _elements(settings.bytes, device)
    outgoing = torch.full((elements,), float(dist.get_rank() % MARKS), device=device)
    incoming = torch.empty_like(outgoing)
    per_node = ranks // cell.cluster.nodes
    rows = []
    both = itertools.combinations(range(ranks), 2) if settings.both_directions else ()
    for source, target, direction in (
        *((a, b, "one") for a, b in itertools.permutations(range(ranks), 2)),
        *((a, b, "both") for a, b in both),
    ):
        found = _measure_one(source, target, direction, outgoing, incoming, settings, device)
        arrow = ">" if direction == "one" else "<>"
        row: Row = {
            "op": "send_recv",
            "pattern": f"pair {source}{arrow}{target}",
            "dtype": "fp32",
            "in_place": False,
            "ranks": 2,
            "nodes": 1 if source // per_node == target // per_node else 2,
            "backend": str(dist.get_backend()),
            "source": source,
            "target": target,
            "direction": direction,
            "bytes": elements * ELEMENT_BYTES,
            "count": elements,
            **found,
        }
        rows.append(row)
        if on_row is not None:
            on_row(row)
    return rows


def _elements(wanted: int | None, device: torch.device) -> int:
    """Elements of a message: as asked for, bounded by what every rank has room for."""
    default = PROCESSOR_BYTES if device.type == "cpu" else CARD_BYTES
    room = int(agree(free_bytes(device) * MEMORY_SHARE, dist.ReduceOp.MIN, device))
    elements = min(wanted or default, room) // ELEMENT_BYTES
    if elements < 1:
        raise ConfigError("benchmark.pairs.bytes", f"{wanted} do not fit into memory", f"at most {room}")
    return elements


def _measure_one(
    source: int, target: int, direction: str, outgoing: Tensor, incoming: Tensor, settings: Any, device: torch.device
) -> Row:
    """Time one pair while the others wait; the figures are agreed on by all ranks."""
    rank = dist.get_rank()
    dist.barrier()
    times_us = torch.zeros(0, dtype=torch.float64)
    wrong = 0
    if rank in (source, target):
        peer = target if rank == source else source
        receives = direction == "both" or rank == target
        sends = direction == "both" or rank == source

        def call() -> None:
            """Send and receive as this rank's part is; both at once, where it is both."""
            work = [dist.P2POp(dist.isend, outgoing, peer)] if sends else []
            work += [dist.P2POp(dist.irecv, incoming, peer)] if receives else []
            for each in dist.batch_isend_irecv(work):
                each.wait()

        incoming.fill_(-1.0)
        timed(call, 1, device)  # makes the connection
        for _ in range(settings.warmup_iters - 1):
            call()
        iters = _agreed_iters(rank, source, target, float(timed(call, 1, device)[0]), settings, device)
        times_us = timed(call, iters, device) * 1e6
        if receives:
            wrong = int((incoming != float(peer % MARKS)).sum())
    measures = [float(times_us.quantile(0.5)), float(times_us.max()), -float(times_us.min())] if len(times_us) else None
    told = torch.tensor([*(measures or [0.0, 0.0, float("-inf")]), float(len(times_us))], dtype=torch.float64)
    told = told.to(device)
    dist.all_reduce(told, dist.ReduceOp.MAX)
    median, longest, shortest, iters_done = told.tolist()
    total_wrong = int(agree(float(wrong), dist.ReduceOp.SUM, device))
    rate = algbw_gbps(outgoing.numel() * ELEMENT_BYTES, median)
    return {
        "iters": int(iters_done),
        "time_us": median,
        "time_min_us": -shortest,
        "time_max_us": longest,
        "algbw_gbps": rate,
        "busbw_gbps": rate,
        "wrong": total_wrong,
    }


def _agreed_iters(rank: int, source: int, target: int, call_s: float, settings: Any, device: torch.device) -> int:
    """How many calls the pair makes: fewer where one is slow, the same on both sides. The receiver decides."""
    affordable = int(settings.max_seconds_per_pair / call_s) if call_s > 0 else settings.iters
    iters = torch.tensor([min(settings.iters, max(MIN_ITERS, affordable))], device=device)
    if rank == target:
        dist.send(iters, source)
    else:
        dist.recv(iters, target)
    synchronise(device)
    return int(iters.item())
