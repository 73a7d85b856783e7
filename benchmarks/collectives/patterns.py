"""What training really sends: the collectives of one step's gradients, one sharded layer, one split activation.

Sizes come from the cell's own model, precision and batch, so a pattern's time can be set beside a step's.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import torch
import torch.distributed as dist

from benchmarks.collectives.ops import ALL_GATHER, DTYPES, REDUCE_SCATTER, Buffers, count_wrong, fill
from benchmarks.collectives.timing import Call, Where
from configs.cell import Cell
from results.bandwidth import DTYPE_BYTES, call_sizes

FIRST_BUCKET_BYTES = 1 << 20  # torch DDP's own first bucket, so that communication starts early

# precision -> (gradients under DDP, parameters gathered by FSDP, gradients scattered by FSDP, activations)
_DTYPES = {
    "fp32": ("fp32", "fp32", "fp32", "fp32"),
    "bf16": ("fp32", "bf16", "fp32", "bf16"),
    "bf16_pure": ("bf16", "bf16", "bf16", "bf16"),
    "fp16": ("fp32", "fp16", "fp32", "fp16"),
}


@dataclass(frozen=True)
class Traffic:
    """One pattern: calls of `op`, each of so many elements over all ranks, in flight together."""

    pattern: str
    op: str
    dtype: str
    elements: tuple[int, ...]

    @property
    def bytes(self) -> int:
        return sum(self.elements) * DTYPE_BYTES[self.dtype]


def traffic(cell: Cell) -> list[Traffic]:
    """What the patterns asked for in `cell` send, in the order of benchmark.collectives.patterns."""
    gradients, gathered, scattered, activations = _DTYPES[cell.recipe.precision]
    found: list[Traffic] = []
    for name in cell.benchmark.collectives.patterns:
        if name == "tp_activation":
            elements = cell.micro_batch * cell.seq_len * cell.shape.hidden
            found.append(Traffic(name, "all_reduce", activations, (elements,)))
            continue
        parameters = _parameters(cell)
        if name == "ddp_buckets":
            cap = int(cell.benchmark.collectives.bucket_mib * 2**20)
            everything = [count for _, count in parameters]
            found.append(Traffic(name, "all_reduce", gradients, buckets(everything, DTYPE_BYTES[gradients], cap)))
        else:
            layer = sum(count for path, count in parameters if ".layers.0." in path)
            found.append(Traffic(name, "all_gather", gathered, (layer,)))
            found.append(Traffic(name, "reduce_scatter", scattered, (layer,)))
    return found


def buckets(parameters: Sequence[int], element_bytes: int, cap_bytes: int) -> tuple[int, ...]:
    """Elements of each of DDP's gradient buckets: last parameters first, a bucket is closed when it reaches its cap.

    The first bucket's cap is 1 MiB (or the cap, where that is less), as in torch.nn.parallel.DistributedDataParallel.
    """
    filled: list[int] = []
    current, limit = 0, min(FIRST_BUCKET_BYTES, cap_bytes)
    for elements in reversed(parameters):
        current += elements
        if current * element_bytes >= limit:
            filled.append(current)
            current, limit = 0, cap_bytes
    return (*filled, current) if current else tuple(filled)


def pattern_call(kind: Traffic, where: Where) -> Call:
    """`kind` on this rank's device; its buffers are allocated here. FSDP's parts are padded to 16 bytes a rank."""
    dtype = DTYPES[kind.dtype]
    padded = [_padded(kind, elements, where.ranks) for elements in kind.elements]
    sizes = [call_sizes(kind.op, n * DTYPE_BYTES[kind.dtype], DTYPE_BYTES[kind.dtype], where.ranks) for n in padded]
    if kind.op == "all_reduce":
        tensors = [torch.empty(size.send_elements, dtype=dtype, device=where.device) for size in sizes]
        calls = [Buffers(tensor, tensor, True) for tensor in tensors]
    else:
        calls = [
            Buffers(
                torch.empty(size.send_elements, dtype=dtype, device=where.device),
                torch.empty(size.receive_elements, dtype=dtype, device=where.device),
                False,
            )
            for size in sizes
        ]

    def run() -> None:
        for work in [_start(kind.op, b) for b in calls]:
            work.wait()

    def refill() -> None:
        for b in calls:
            fill(kind.op, b, where.rank, where.ranks)

    def wrong() -> int:
        pairs = zip(calls, sizes, strict=True)
        return sum(count_wrong(kind.op, b, size, where.rank, where.ranks) for b, size in pairs)

    return Call(kind.op, sum(s.bytes for s in sizes), sum(s.count for s in sizes), run, refill, wrong)


def needed_bytes(kind: Traffic) -> int:
    """Memory of a rank for `kind`: its buffers, and as much again for the backend's scratch space."""
    return kind.bytes * (2 if kind.op == "all_reduce" else 3)


def _start(op: str, b: Buffers) -> dist.Work:
    if op == "all_reduce":
        return dist.all_reduce(b.receive, async_op=True)
    if op == "all_gather":
        return ALL_GATHER(b.receive, b.send, async_op=True)
    return REDUCE_SCATTER(b.receive, b.send, async_op=True)


def _padded(kind: Traffic, elements: int, ranks: int) -> int:
    if kind.op == "all_reduce":
        return elements
    block = 16 // DTYPE_BYTES[kind.dtype] * ranks
    return -(-elements // block) * block


def _parameters(cell: Cell) -> Iterable[tuple[str, int]]:
    """(path, elements) of every parameter, in the model's own order; a tied one once."""
    from benchmarks.training.model import (  # transformers takes seconds, most cells need none
        build_on_meta,
        transformers_config,
    )

    config = transformers_config(cell.model)
    model = build_on_meta(config, range(config.num_hidden_layers), torch.float32, cell.recipe.attention)
    return [(path, parameter.numel()) for path, parameter in model.named_parameters()]
