"""A study's measured cells as the step-time model needs them: which of them it has terms for, and the job of each."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analysis.scaling import HIGH, LOW, MEDIAN
from analysis.scaling.series import is_measured, label_series, numbers
from analysis.steptime import Job, Rates
from analysis.steptime.plan import plan_job
from analysis.steptime.target import Target
from configs.cell import Cell
from configs.errors import ConfigError
from configs.schema import Machine


@dataclass(frozen=True)
class Measured:
    """One measured cell. mode: the family's name. series: its number, from `label_series`."""

    cell: Cell
    series: int
    model: str
    mode: str
    scaling: str
    device: str
    cores: float
    nodes: int
    step_s: float
    noise: float
    tokens_per_s: float


def why_not_modelled(cell: Cell) -> str | None:
    """What of the cell the step-time model has no terms for; None where it has all."""
    if cell.benchmark.name != "finetune":
        return f"benchmark={cell.benchmark.name}"
    if cell.recipe.method != "full":
        return f"recipe.method={cell.recipe.method}"
    if cell.mode.replicate > 1:
        return f"mode.replicate={cell.mode.replicate}"
    if cell.mode.offload != "none":
        return f"mode.offload={cell.mode.offload}"
    try:
        _ = cell.shape
    except ConfigError as error:  # fields of another family than Llama's
        return str(error)
    return None


def measured_cells(frame: pd.DataFrame, cells: Mapping[str, Cell]) -> tuple[list[Measured], NDArray[np.bool_]]:
    """The measured cells of `frame` that the model has terms for, and which of its rows they are."""
    if frame.empty:
        return [], np.zeros(0, dtype=bool)
    labels = label_series(frame)
    step, low, high = (numbers(frame, name) for name in (MEDIAN, LOW, HIGH))
    rate, nodes = numbers(frame, "throughput.tokens_per_s"), numbers(frame, "parallel.nodes")
    cores = numbers(frame, "device.cores")
    good = is_measured(frame) & (step > 0)
    found = []
    for at, (cell_id, label) in enumerate(zip(frame["cell_id"], labels.to_dict("records"), strict=True)):
        cell = cells.get(cell_id)
        good[at] = good[at] and cell is not None and why_not_modelled(cell) is None
        if cell is None or not good[at]:
            continue
        within = math.log(high[at] / low[at]) / (2 * 1.96) if high[at] > low[at] > 0 else 0.0
        found.append(
            Measured(
                cell=cell,
                series=int(label["series"]),
                model=str(label["model"]),
                mode=str(label["mode"]),
                scaling=str(label["scaling"]),
                device=str(label["device"]),
                cores=float(cores[at]),
                nodes=int(nodes[at]) if nodes[at] >= 1 else 1,
                step_s=float(step[at]),
                noise=within,
                tokens_per_s=float(rate[at]),
            )
        )
    return found, good


def same_compute(measured: Sequence[Measured]) -> Iterator[list[Measured]]:
    """The cells of one model, recipe, sequence length and card: what one tells of compute holds for all."""
    groups: dict[tuple[object, ...], list[Measured]] = {}
    for one in measured:
        cell = one.cell
        key = (one.model, one.device, cell.seq_len, repr(cell.recipe), cell.cluster.threads_per_rank)
        groups.setdefault(key, []).append(one)
    yield from groups.values()


def own_rates(machine: Machine, together: Sequence[Measured]) -> Rates:
    """The machine's, or those of a machine whose every second is compute where its sheet says nothing of it."""
    precision = together[0].cell.recipe.precision
    peak = machine.peak_tflops.get({"bf16_pure": "bf16"}.get(precision, precision))
    if peak and machine.memory_gbps:
        return Rates(peak_tflops=peak, memory_gbps=machine.memory_gbps)
    smallest = min(together, key=lambda one: one.cell.cards)
    job = job_of(smallest, machine.cards_per_node)
    return Rates(peak_tflops=job.flops * job.micro_batches / smallest.step_s / 1e12, memory_gbps=math.inf)


def job_of(one: Measured, per_node: int) -> Job:
    cell, on_node = one.cell, one.cell.cards // one.nodes if one.nodes > 1 else max(per_node, one.cell.cards)
    target = Target(cell.mode, cell.layout, cell.micro_batch, cell.grad_accum, ())
    return job_at(one, target, on_node)


def job_at(like: Measured, target: Target, per_node: int) -> Job:
    """The job of `target`; where ranks are more than a processor's cores they take turns, and all compute stretches."""
    cell = like.cell
    job = plan_job(cell.shape, target.mode, target.layout, cell.recipe, target.batch(cell.seq_len), per_node)
    ranks = min(target.layout.world_size, per_node)
    turns = max(1.0, ranks * cell.cluster.threads_per_rank / like.cores) if like.cores > 0 else 1.0
    return replace(job, flops=job.flops * turns, memory_bytes=job.memory_bytes * turns)
