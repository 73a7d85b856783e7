"""What a collective's bandwidth means: the formulas and size conventions of NCCL tests, in one place.

Shared by the ranks that measure and the analysis that reads. Source of every formula: NVIDIA/nccl-tests,
doc/PERFORMANCE.md (algorithm and bus bandwidth) and src/*.cu (which buffer is "the size"). Rates are GB/s in powers of
ten; sizes are bytes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from configs.errors import ConfigError, choose
from configs.schema import Collectives

# What one rank's links must carry at least, as a multiple of the size: busbw / algbw for n ranks.
BUS_FACTORS: dict[str, Callable[[int], float]] = {
    "all_reduce": lambda n: 2 * (n - 1) / n,
    "all_gather": lambda n: (n - 1) / n,
    "reduce_scatter": lambda n: (n - 1) / n,
    "all_to_all": lambda n: (n - 1) / n,
    "broadcast": lambda n: 1.0,
    "reduce": lambda n: 1.0,
    "send_recv": lambda n: 1.0,
}
OPS = tuple(BUS_FACTORS)
SHARED_OUT = ("all_gather", "reduce_scatter", "all_to_all")  # the size is the whole buffer, a rank calls with its part
DTYPE_BYTES = {"fp32": 4, "bf16": 2, "fp16": 2}
PATTERNS = ("ddp_buckets", "fsdp_layer", "tp_activation")  # what training sends, made of these ops
ALIGNMENT_BYTES = 16  # NCCL tests round a rank's part down to this


@dataclass(frozen=True)
class Sizes:
    """One call: `bytes` is NCCL tests' size column, `count` its count column (what a rank passes to the call)."""

    bytes: int
    count: int
    send_elements: int
    receive_elements: int


def bus_factor(op: str, ranks: int) -> float:
    """busbw / algbw of `op` over `ranks`. 0 for the collectives on one rank, which moves no data."""
    choose("op", op, OPS)
    if ranks < 1:
        raise ConfigError("ranks", f"{ranks} is not a number of ranks", "a positive whole number")
    return BUS_FACTORS[op](ranks)


def algbw_gbps(size_bytes: float, time_us: float) -> float:
    """Size over time in GB/s (10^9 bytes a second). 0 where the time is: an empty call has no bandwidth."""
    return size_bytes / time_us / 1e3 if time_us > 0 else 0.0


def busbw_gbps(op: str, size_bytes: float, time_us: float, ranks: int) -> float:
    """algbw x bus_factor: what can be compared with a link's rate whatever the number of ranks, GB/s."""
    return algbw_gbps(size_bytes, time_us) * bus_factor(op, ranks)


def call_sizes(op: str, requested_bytes: int, element_bytes: int, ranks: int) -> Sizes:
    """The buffers of a call of about `requested_bytes`, rounded down as NCCL tests do.

    all_gather, reduce_scatter and all_to_all: the size is the total over ranks and each rank's part is a multiple of 16
    bytes, so a request below 16 bytes a rank is rounded to nothing (`bytes` is 0). The others: every rank holds all.
    """
    choose("op", op, OPS)
    elements = requested_bytes // element_bytes
    if op not in SHARED_OUT:
        return Sizes(elements * element_bytes, elements, elements, elements)
    block = ALIGNMENT_BYTES // element_bytes
    part = elements // ranks // block * block
    whole = part * ranks
    send = part if op == "all_gather" else whole
    receive = part if op == "reduce_scatter" else whole
    return Sizes(whole * element_bytes, part, send, receive)


def size_list(min_bytes: int, max_bytes: int, factor: int, step_bytes: int | None = None) -> list[int]:
    """Sizes from `min_bytes` to `max_bytes`, multiplied by `factor`, or added to by `step_bytes` where that is given.

    Raises ConfigError on bounds that are swapped or not positive and on a factor or step that does not grow.
    """
    where = "benchmark.collectives"
    if not 0 < min_bytes <= max_bytes:
        raise ConfigError(f"{where}.min_bytes", f"{min_bytes} (max_bytes {max_bytes})", "0 < min_bytes <= max_bytes")
    if step_bytes is not None:
        if step_bytes < 1:
            raise ConfigError(f"{where}.step_bytes", f"{step_bytes} does not grow", "1 or more, or null for a factor")
        return list(range(min_bytes, max_bytes + 1, step_bytes))
    if factor < 2:
        raise ConfigError(f"{where}.factor", f"{factor} does not grow", "2 or more")
    sizes = [min_bytes]
    while sizes[-1] * factor <= max_bytes:
        sizes.append(sizes[-1] * factor)
    return sizes


def check_collectives(settings: Collectives, cards: int) -> None:
    """Refuse what cannot be measured, before anything starts: unknown names, no sizes, no iterations, one rank."""
    where = "benchmark.collectives"
    for op in settings.ops:
        choose(f"{where}.ops", op, OPS)
    for dtype in settings.dtypes:
        choose(f"{where}.dtypes", dtype, DTYPE_BYTES)
    for pattern in settings.patterns:
        choose(f"{where}.patterns", pattern, PATTERNS)
    size_list(settings.min_bytes, settings.max_bytes, settings.factor, settings.step_bytes)
    if cards < 2:
        raise ConfigError("cards", f"{cards}: one rank moves no data", "2 or more for benchmark=collectives")
    for name in ("iters", "warmup_iters", "bucket_mib", "max_seconds_per_size"):
        if not getattr(settings, name) > 0:
            raise ConfigError(f"{where}.{name}", f"{getattr(settings, name)} is out of range", "more than 0")
    if not (settings.in_place or settings.out_of_place):
        raise ConfigError(where, "in_place and out_of_place are both off", "at least one of them on")
