"""The matmul benchmark: FLOP/s that the card reaches in matrix products, of the model's own shapes and of squares.

All ranks multiply at once, as they do in training, so a node that throttles under load shows it; a row is of the
slowest rank.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist

from benchmarks.collectives.ops import DTYPES
from benchmarks.collectives.timing import MIN_ITERS, agree, synchronise, timed
from benchmarks.ranks import Heartbeat
from configs.cell import Cell
from configs.errors import ConfigError
from configs.layout import ModelShape
from configs.matmul import check_matmul
from results.statistics import summarise

Row = dict[str, Any]
SQUARES = {"cpu": (256, 512, 1024)}
CARD_SQUARES = (1024, 2048, 4096, 8192)
FORWARD, INPUT_GRADIENT, WEIGHT_GRADIENT, SQUARE = "forward", "input_gradient", "weight_gradient", "square"


@dataclass(frozen=True)
class Product:
    """(m, k) x (k, n). calls: how often one micro-batch of the whole model takes it; 0 for a square."""

    shape: str
    role: str
    m: int
    n: int
    k: int
    calls: int

    @property
    def flops(self) -> int:
        return 2 * self.m * self.n * self.k


def matmul(cell: Cell, device: torch.device, heartbeat: Heartbeat) -> dict[str, Any] | None:
    """The benchmark as the ranks run it; rank 0 returns the record's `matmul` section."""
    step = 0

    def beat(row: Row) -> None:
        nonlocal step
        step += 1
        heartbeat.beat(f"{row['shape']} {row['role']} {row['dtype']}", step)

    rows = measure(cell, device, beat)
    return {"matmul": rows} if dist.get_rank() == 0 else None


def measure(cell: Cell, device: torch.device, on_row: Callable[[Row], None] | None = None) -> list[Row]:
    """Time every product of `cell` in every type; every rank calls this, all return the same rows.

    A row: shape, role (forward, input_gradient, weight_gradient or square), m, n, k, dtype, calls (a micro-batch),
    ranks, iters, time_us with time_low_us and time_high_us (95 %, of the slowest rank's median), tflops with tflops_low
    and tflops_high (of one card), share_of_peak (None where the machine states no peak). Without figures: `skipped`.
    Raises ConfigError for settings that allow no measurement.
    """
    settings = cell.benchmark.matmul
    check_matmul(settings)
    rows = []
    for dtype in settings.dtypes or [cell.recipe.precision.split("_")[0]]:
        for product in products(cell, device.type):
            row = _measured(cell, product, dtype, device)
            if on_row is not None:
                on_row(row)
            rows.append(row)
    if not any("tflops" in row for row in rows):
        raise ConfigError("benchmark.matmul", f"no product could be measured: {rows[0]['skipped']}", "smaller shapes")
    return rows


def products(cell: Cell, device: str) -> list[Product]:
    """What `cell.benchmark.matmul` asks for, the model's first."""
    settings = cell.benchmark.matmul
    sides = settings.squares if settings.squares is not None else SQUARES.get(device, CARD_SQUARES)
    own = layer_products(cell.shape, cell.micro_batch * cell.seq_len) if settings.layers else []
    return [*own, *(Product(f"{side}", SQUARE, side, side, side, 0) for side in sides)]


def layer_products(shape: ModelShape, tokens: int) -> list[Product]:
    """The linear layers of one micro-batch of `tokens`: y = x W^T, dx = dy W, dW = dy^T x, as torch multiplies them."""
    queries, keys = shape.heads * shape.head_dim, shape.kv_heads * shape.head_dim
    linear = (
        ("query", shape.hidden, queries, shape.layers),
        ("key, value", shape.hidden, keys, 2 * shape.layers),
        ("attention output", queries, shape.hidden, shape.layers),
        ("gate, up", shape.hidden, shape.intermediate, 2 * shape.layers),
        ("down", shape.intermediate, shape.hidden, shape.layers),
        ("head", shape.hidden, shape.vocab, 1),
    )
    found = []
    for name, inputs, outputs, calls in linear:
        found.append(Product(name, FORWARD, tokens, outputs, inputs, calls))
        found.append(Product(name, INPUT_GRADIENT, tokens, inputs, outputs, calls))
        found.append(Product(name, WEIGHT_GRADIENT, outputs, inputs, tokens, calls))
    return found


def operands(product: Product, dtype: torch.dtype, device: torch.device) -> tuple[torch.Tensor, torch.Tensor]:
    """The two factors, laid out as training has them: the weight transposed forward, the gradient for the weight."""
    m, n, k = product.m, product.n, product.k
    if product.role == FORWARD:
        return _random(m, k, dtype, device), _random(n, k, dtype, device).t()
    if product.role == WEIGHT_GRADIENT:
        return _random(k, m, dtype, device).t(), _random(k, n, dtype, device)
    return _random(m, k, dtype, device), _random(k, n, dtype, device)


def _random(rows: int, columns: int, dtype: torch.dtype, device: torch.device) -> torch.Tensor:
    # Real numbers: a card draws less power on zeros and clocks higher than it does in training.
    return torch.randn(rows, columns, device=device).to(dtype)


def _measured(cell: Cell, product: Product, dtype: str, device: torch.device) -> Row:
    settings = cell.benchmark.matmul
    row: Row = {"shape": product.shape, "role": product.role, "m": product.m, "n": product.n, "k": product.k}
    row |= {"dtype": dtype, "calls": product.calls, "ranks": dist.get_world_size()}
    try:
        left, right = operands(product, DTYPES[dtype], device)
        out = torch.empty(product.m, product.n, dtype=DTYPES[dtype], device=device)
        torch.mm(left, right, out=out)
        reason = ""
    except RuntimeError as error:  # memory, or a type that this device does not multiply
        reason = " ".join(str(error).split())[:200]
    if agree(float(bool(reason)), dist.ReduceOp.MAX, device):
        return row | {"skipped": reason or "another rank cannot"}

    def run() -> None:
        torch.mm(left, right, out=out)

    first_s = agree(float(timed(run, settings.warmup_iters, device).min()), dist.ReduceOp.MAX, device)
    affordable = int(settings.max_seconds_per_shape / first_s) if first_s > 0 else settings.iters
    iters = min(settings.iters, max(MIN_ITERS, affordable))
    synchronise(device)
    dist.barrier()
    own = summarise(timed(run, iters, device).tolist())
    slowest = [agree(value or 0.0, dist.ReduceOp.MAX, device) for value in (own.median, own.ci95_low, own.ci95_high)]
    time_us, low_us, high_us = (1e6 * value for value in slowest)
    rate, low, high = (product.flops / us / 1e6 if us > 0 else None for us in (time_us, high_us, low_us))
    peak = cell.machine.peak_tflops.get(dtype)
    times = {"iters": iters, "time_us": time_us, "time_low_us": low_us, "time_high_us": high_us}
    rates = {"tflops": rate, "tflops_low": low, "tflops_high": high}
    return row | times | rates | {"share_of_peak": rate / peak if peak and rate else None}
