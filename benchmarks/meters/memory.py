"""Peak memory of every rank, each kind under its own name; the largest rank decides."""

from __future__ import annotations

import resource
import sys
from typing import Any

import torch
import torch.distributed as dist

_GIB = 2**30


def reset_peak(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)


def memory_by_rank(device: torch.device) -> dict[str, Any]:
    """The record's memory section, gathered over the ranks; every rank calls this.

    On a card: peak allocated and reserved by torch's caching allocator, and used on the device as its driver tells.
    On a CPU: the peak resident set of the rank's process, which holds the libraries too.
    """
    if device.type == "cuda":
        free, total = torch.cuda.mem_get_info(device)
        mine = [
            torch.cuda.max_memory_allocated(device) / _GIB,
            torch.cuda.max_memory_reserved(device) / _GIB,
            (total - free) / _GIB,
            total / _GIB,
        ]
    else:
        unit = 1 if sys.platform == "darwin" else 1024
        mine = [float("nan"), float("nan"), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / _GIB]
        mine.append(float("nan"))
    row = torch.tensor(mine, dtype=torch.float32, device=device)
    rows = [torch.empty_like(row) for _ in range(dist.get_world_size())]
    dist.all_gather(rows, row)
    names = ("peak_allocated_gib", "peak_reserved_gib", "device_used_gib", "card_gib")
    by_rank = [dict(zip(names, each.tolist(), strict=True)) for each in rows]
    largest = {name: max(rank[name] for rank in by_rank) for name in names[:3]}
    smallest_card = min(rank["card_gib"] for rank in by_rank)
    source = "driver" if device.type == "cuda" else "peak resident set of the rank's process"
    return {**largest, "card_gib": smallest_card, "device_used_source": source, "by_rank": by_rank}
