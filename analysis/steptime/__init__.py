"""One training step as the sum of what it waits for: compute, memory, bubble, exposed communication, optimizer.

Plain numbers in, arrays out: many jobs, each at many guesses of what is not known of the machine, in one evaluation.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace

import numpy as np
from numpy.typing import NDArray

from analysis.links.collective_time import Group, Network, collective_parts_s
from analysis.steptime.communication import BACKWARD, NOTHING, PASSES, Collective
from configs.errors import choose
from configs.layout import SCHEDULES

Floats = NDArray[np.float64]
Values = float | Floats  # one value, or one a guess
CallParts = Callable[[str, float, Group], tuple[float, float]]  # (latency, transfer) seconds of op, bytes, group
BACKWARD_SHARE = 2 / 3  # of a pass through the model: two matrix products for every one of the forward


@dataclass(frozen=True)
class Job:
    """What the busiest rank does in one step.

    flops, memory_bytes: of one micro-batch, forward and backward, with what is recomputed; memory_bytes: what the
    kernels between the matrix products read and write. parameters: that its optimizer updates. optimizer_bytes: read
    and written for each of them. tokens: of the whole job in one step. chunks: model parts a rank holds under the
    interleaved schedule.
    """

    flops: float
    memory_bytes: float
    micro_batches: int
    collectives: tuple[Collective, ...]
    parameters: float
    optimizer_bytes: float
    tokens: float
    cards: int
    stages: int = 1
    schedule: str = "1f1b"
    chunks: int = 2


@dataclass(frozen=True)
class Rates:
    """How fast the machine is. peak_tflops: dense, of the precision in use. memory_gbps: GB/s of the card's memory.

    compute_efficiency: of the peak, in the matrix products. memory_efficiency, link_efficiency: of the stated
    bandwidths. overlap: the share of a window that can hide communication. step_overhead_s, micro_batch_overhead_s:
    launches, logging, data, whatever the step waits for besides. straggler_cv: standard deviation over mean of a rank's
    compute. All but the first two may be arrays of one shape, one value a guess.
    """

    peak_tflops: float
    memory_gbps: float
    compute_efficiency: Values = 0.62
    memory_efficiency: Values = 0.8
    link_efficiency: Values = 0.75
    overlap: Values = 0.75
    step_overhead_s: Values = 0.015
    micro_batch_overhead_s: Values = 0.0
    straggler_cv: Values = 0.005


@dataclass(frozen=True)
class Breakdown:
    """Where a step goes, seconds, shape (jobs, guesses); hidden_comm_s overlaps compute and is not part of the total.

    compute_s: matrix products. memory_s: the kernels between them, which wait for the card's memory.
    """

    compute_s: Floats
    memory_s: Floats
    bubble_s: Floats
    exposed_comm_s: Floats
    hidden_comm_s: Floats
    optimizer_s: Floats
    straggler_s: Floats
    overhead_s: Floats

    @property
    def total_s(self) -> Floats:
        waited = self.compute_s + self.memory_s + self.bubble_s + self.exposed_comm_s
        return waited + self.optimizer_s + self.straggler_s + self.overhead_s

    def first_guess(self) -> dict[str, Floats]:
        """Every part at the first guess, by name, shape (jobs,)."""
        return {field.name: getattr(self, field.name)[:, 0] for field in fields(self)}


def compute_s(flops: Values, peak_tflops: float, efficiency: Values) -> Values:
    """Seconds for `flops` at a share of the peak."""
    return flops / (peak_tflops * 1e12 * efficiency)


def memory_s(size_bytes: Values, memory_gbps: float, efficiency: Values) -> Values:
    """Seconds of kernels that wait for memory: the optimizer's update, norms, activations, the loss."""
    return size_bytes / (memory_gbps * 1e9 * efficiency)


def bubble_ratio(stages: int, micro_batches: int, schedule: str = "1f1b", chunks: int = 2) -> float:
    """Idle over busy time of a stage: (p-1)/m under GPipe and 1F1B (Narayanan et al. 2021), the same over the chunks a
    rank holds when they are interleaved, a third of it with zero-bubble's split backward (Qi et al. 2023, ZB-H1).
    """
    choose("schedule", schedule, SCHEDULES)
    divided = {"interleaved": chunks, "zero_bubble": 3}.get(schedule, 1)
    return (stages - 1) / (micro_batches * divided)


def bubble_fraction(stages: int, micro_batches: int, schedule: str = "1f1b", chunks: int = 2) -> float:
    """Idle share of the pipeline's whole time: (p-1)/(m+p-1) under GPipe and 1F1B."""
    ratio = bubble_ratio(stages, micro_batches, schedule, chunks)
    return ratio / (1 + ratio)


def exposed_s(communication: Values, window_s: Values, overlap: Values) -> Floats:
    """What of the communication does not fit into the share of a window that can hide it."""
    return np.maximum(communication - np.asarray(window_s, dtype=np.float64) * overlap, 0.0)


def slowest_of(ranks: int) -> float:
    """How many standard deviations the slowest of `ranks` normal ranks lies above the mean: sqrt(2 ln n), 0 for one."""
    return math.sqrt(2 * math.log(ranks))


def step_times(jobs: Sequence[Job], rates: Rates, network: Network | CallParts) -> Breakdown:
    """Where a step of each of `jobs` goes at each guess in `rates`, on `network`; parts of shape (jobs, guesses).

    network: stated links, or a function that gives the time of a call.
    """
    sent = np.array([_by_window(job, network) for job in jobs], dtype=np.float64).reshape(len(jobs), 3, 2)
    unhidden, gradients, gathers = (
        sent[:, window, :1] + sent[:, window, 1:] / rates.link_efficiency for window in range(3)
    )
    micro_batches = _column(jobs, "micro_batches")
    compute = compute_s(_column(jobs, "flops") * micro_batches, rates.peak_tflops, rates.compute_efficiency)
    memory = memory_s(_column(jobs, "memory_bytes") * micro_batches, rates.memory_gbps, rates.memory_efficiency)
    passes = np.asarray(compute + memory, dtype=np.float64)
    bubble = np.array([[bubble_ratio(j.stages, j.micro_batches, j.schedule, j.chunks)] for j in jobs])
    late = np.array([[slowest_of(job.cards)] for job in jobs])
    # All passes hide the gathers; the last backward hides the gradients in what the gathers leave of it.
    left = np.maximum(passes * rates.overlap - gathers, 0.0)
    window = np.minimum(left, passes / micro_batches * BACKWARD_SHARE * rates.overlap)
    exposed = unhidden + exposed_s(gathers, passes, rates.overlap) + np.maximum(gradients - window, 0.0)
    update = _column(jobs, "parameters") * _column(jobs, "optimizer_bytes")
    parts = Breakdown(
        compute_s=np.asarray(compute),
        memory_s=np.asarray(memory),
        bubble_s=passes * bubble,
        exposed_comm_s=exposed,
        hidden_comm_s=unhidden + gradients + gathers - exposed,
        optimizer_s=np.asarray(memory_s(update, rates.memory_gbps, rates.memory_efficiency)),
        straggler_s=passes * rates.straggler_cv * late,
        overhead_s=rates.step_overhead_s + micro_batches * rates.micro_batch_overhead_s,
    )
    shape = np.broadcast_shapes(*(np.shape(getattr(parts, field.name)) for field in fields(parts)))
    return Breakdown(*(np.broadcast_to(getattr(parts, field.name), shape) for field in fields(parts)))


def calibrated_efficiency(job: Job, rates: Rates, network: Network | CallParts, measured_s: float) -> float:
    """The compute efficiency at which the model's step takes `measured_s`, everything else taken from `rates`.

    For one card, where little but compute is left. Above 1 the stated peak or FLOPs are wrong, which the caller should
    see; NaN where the rest alone takes longer than was measured.
    """
    rest = float(step_times([job], replace(rates, compute_efficiency=np.inf), network).total_s[0, 0])
    low, high = 1e-4, 1e2
    if measured_s <= rest:
        return float("nan")
    for _ in range(60):
        middle = math.sqrt(low * high)
        at_middle = step_times([job], replace(rates, compute_efficiency=middle), network).total_s[0, 0]
        low, high = (middle, high) if at_middle > measured_s else (low, middle)
    return math.sqrt(low * high)


def _by_window(job: Job, network: Network | CallParts) -> list[tuple[float, float]]:
    """(latency, transfer) seconds a step of what hides behind nothing, the last backward, and all passes."""
    sums = {NOTHING: [0.0, 0.0], BACKWARD: [0.0, 0.0], PASSES: [0.0, 0.0]}
    for call in job.collectives:
        if isinstance(network, Network):
            latency, transfer = collective_parts_s(call.op, call.size_bytes, call.of, network)
        else:
            latency, transfer = network(call.op, call.size_bytes, call.of)
        sums[call.hides_behind][0] += call.times * latency
        sums[call.hides_behind][1] += call.times * transfer
    return [(sums[window][0], sums[window][1]) for window in (NOTHING, BACKWARD, PASSES)]


def _column(jobs: Sequence[Job], name: str) -> Floats:
    return np.array([[getattr(job, name)] for job in jobs], dtype=np.float64)
