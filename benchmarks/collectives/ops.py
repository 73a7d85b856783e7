"""One collective call each: the buffers it takes, how torch is asked for it, and what must come out of it.

Adding a collective is one entry in CALLS here and one in results.bandwidth.BUS_FACTORS.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import Tensor

from results.bandwidth import Sizes

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
ROOT = 0
NOT_IN_PLACE = ("all_to_all", "send_recv")  # as in NCCL tests: the output would overwrite what is still to be sent
COPIED_OUT_OF_PLACE = ("all_reduce", "broadcast", "reduce")  # torch offers these in place only: a copy comes first
REDUCTIONS = ("all_reduce", "reduce_scatter", "reduce")
CHECK_ELEMENTS = 1 << 24  # compared at once, so that a check needs little memory of its own
# torch 2.13 has new names for these two and warns at the old ones.
ALL_GATHER = getattr(dist, "all_gather_single", None) or dist.all_gather_into_tensor
REDUCE_SCATTER = getattr(dist, "reduce_scatter_single", None) or dist.reduce_scatter_tensor

# All values are whole numbers up to 256: bf16 (8 significant bits) and fp16 (11) hold them and their sums exactly.
ADDEND_PERIOD = 7
ADDENDS = 36  # at most so many ranks add something other than 0 to one element: 36 x 6 = 216
ORIGIN_PERIOD = 251  # prime, so that the values of two ranks, or of two blocks, do not fall on each other


@dataclass(frozen=True)
class Buffers:
    """Send and receive buffers of one call. In place, one is (a part of) the other."""

    send: Tensor
    receive: Tensor
    in_place: bool


def buffers(memory: list[Tensor], op: str, sizes: Sizes, rank: int) -> Buffers:
    """Cut the buffers of one call out of `memory`: one flat tensor for a call in place, two for one out of place."""
    in_place = len(memory) == 1
    if not in_place:
        return Buffers(memory[0][: sizes.send_elements], memory[1][: sizes.receive_elements], False)
    whole = memory[0][: max(sizes.send_elements, sizes.receive_elements)]
    part = whole[rank * sizes.count : (rank + 1) * sizes.count]
    if op == "all_gather":
        return Buffers(part, whole, True)
    if op == "reduce_scatter":
        return Buffers(whole, part, True)
    return Buffers(whole, whole, True)


def _all_reduce(b: Buffers) -> None:
    dist.all_reduce(_copied(b))


def _all_gather(b: Buffers) -> None:
    ALL_GATHER(b.receive, b.send)


def _reduce_scatter(b: Buffers) -> None:
    REDUCE_SCATTER(b.receive, b.send)


def _all_to_all(b: Buffers) -> None:
    dist.all_to_all_single(b.receive, b.send)


def _broadcast(b: Buffers) -> None:
    dist.broadcast(_copied(b) if dist.get_rank() == ROOT else b.receive, ROOT)


def _reduce(b: Buffers) -> None:
    dist.reduce(_copied(b), ROOT)


def _send_recv(b: Buffers) -> None:
    rank, ranks = dist.get_rank(), dist.get_world_size()
    pair = [  # receive first: Gloo sends when it hears that the peer is ready, which else waits behind our own data
        dist.P2POp(dist.irecv, b.receive, (rank - 1) % ranks),
        dist.P2POp(dist.isend, b.send, (rank + 1) % ranks),
    ]
    for work in dist.batch_isend_irecv(pair):
        work.wait()


def _copied(b: Buffers) -> Tensor:
    if not b.in_place:
        b.receive.copy_(b.send)
    return b.receive


CALLS: dict[str, Callable[[Buffers], None]] = {
    "all_reduce": _all_reduce,
    "all_gather": _all_gather,
    "reduce_scatter": _reduce_scatter,
    "all_to_all": _all_to_all,
    "broadcast": _broadcast,
    "reduce": _reduce,
    "send_recv": _send_recv,
}


def fill(op: str, b: Buffers, rank: int, ranks: int) -> None:
    """Give the call its input, and spoil the output so that what was left there cannot pass for a result."""
    b.receive.fill_(-1)
    _write(b.send, addends(rank, ranks) if op in REDUCTIONS else origin(rank))


def count_wrong(op: str, b: Buffers, sizes: Sizes, rank: int, ranks: int) -> int:
    """How many elements of this rank's output are not what `op` defines. Only the root has a result of `reduce`."""
    if op == "reduce" and rank != ROOT:
        return 0
    if op in REDUCTIONS:
        offset = rank * sizes.count if op == "reduce_scatter" else 0
        return _differing(b.receive, torch.roll(sums(ranks), -offset))
    if op == "broadcast":
        return _differing(b.receive, origin(ROOT))
    if op == "send_recv":
        return _differing(b.receive, origin((rank - 1) % ranks))
    offset = rank * sizes.count if op == "all_to_all" else 0
    return sum(
        _differing(block, torch.roll(origin(source), -offset))
        for source, block in enumerate(b.receive.view(ranks, sizes.count))
    )


def addends(rank: int, ranks: int) -> Tensor:
    """One period of what `rank` adds: small whole numbers that differ over ranks and places. Shape (period,)."""
    index = torch.arange(ADDEND_PERIOD * ranks)
    return torch.where((index + rank) % ranks < ADDENDS, (index + rank) % ADDEND_PERIOD, 0)


def sums(ranks: int) -> Tensor:
    """One period of the sum over all ranks, at most 216. Shape (period,)."""
    return torch.stack([addends(rank, ranks) for rank in range(ranks)]).sum(0)


def origin(rank: int) -> Tensor:
    """One period of values that tell which rank, and which place of its buffer, an element came from."""
    return (torch.arange(ORIGIN_PERIOD) + 13 * rank) % ORIGIN_PERIOD


def _write(target: Tensor, period: Tensor) -> None:
    values = period.to(target)
    rows, rest = divmod(target.numel(), values.numel())
    target[: rows * values.numel()].view(rows, values.numel()).copy_(values.expand(rows, -1))
    target[rows * values.numel() :].copy_(values[:rest])


def _differing(result: Tensor, period: Tensor) -> int:
    values = period.to(result)
    step = max(CHECK_ELEMENTS // values.numel(), 1) * values.numel()
    wrong = 0
    for chunk in result.split(step):
        rows, rest = divmod(chunk.numel(), values.numel())
        wrong += int((chunk[: rows * values.numel()].view(rows, -1) != values).sum()) if rows else 0
        wrong += int((chunk[rows * values.numel() :] != values[:rest]).sum())
    return wrong
