"""Warm up until steady, then measure until the interval of the median step is narrow enough or the bound is spent."""

from __future__ import annotations

import itertools
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.distributed as dist

from configs.schema import Measure
from results.statistics import relative_width, summarise

STEADY = 0.10  # warm-up ends when the last three steps lie within this share of their median
CHUNK_S = 0.5  # ranks agree on going on about this often, and outside the timed steps


@dataclass(frozen=True)
class Steps:
    """Step times in seconds, of the slowest rank at each step, and what came before them."""

    times_s: list[float]
    by_rank_median_s: list[float]
    warmup_times_s: list[float]
    data_wait_fraction: float
    stopped_by: str  # rel_ci | max_steps | max_seconds


class StepClock:
    """Times steps at their borders: events on an accelerator (no synchronisation inside), else the clock."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.marks: list[torch.Event | float] = []

    def mark(self) -> None:
        if self.device.type == "cpu":
            self.marks.append(time.perf_counter())
            return
        event = torch.Event(self.device, enable_timing=True)
        event.record()
        self.marks.append(event)

    def take(self) -> list[float]:
        """Seconds between the marks so far; waits for the device and forgets the marks."""
        marks, self.marks = self.marks, []
        if self.device.type == "cpu":
            return [b - a for a, b in itertools.pairwise(marks)]
        torch.accelerator.synchronize(self.device)
        return [a.elapsed_time(b) / 1000 for a, b in itertools.pairwise(marks)]


def run_steps(
    step: Callable[[int], float], measure: Measure, device: torch.device, on_chunk: Callable[[str, int, float], None]
) -> Steps:
    """Call `step(number)` until the measurement is done; it returns the seconds spent waiting for data.

    Every rank calls this with the same `measure`. The chunk in which nothing but steps happens is timed; whether to go
    on is agreed between chunks. on_chunk(phase, steps so far, median step in seconds) is told of progress.
    """
    clock = StepClock(device)
    warmup: list[float] = []
    while not _steady(warmup, measure):
        warmup += _slowest(_timed(step, clock, len(warmup), 1)[0], device)
        on_chunk("warmup", len(warmup), warmup[-1])

    times: list[float] = []
    own: list[float] = []
    waited = 0.0
    stopped_by = ""
    started = time.monotonic()
    while not stopped_by:
        typical = statistics.median(times or warmup[-2:])
        room = measure.max_steps - len(times)
        floor = measure.min_steps - len(times) if len(times) < measure.min_steps else 1
        count = max(1, min(room, max(floor, int(CHUNK_S / max(typical, 1e-6)))))
        chunk, wait = _timed(step, clock, len(warmup) + len(times), count)
        waited += wait
        own += chunk
        times += _slowest(chunk, device)
        on_chunk("measure", len(times), statistics.median(times))
        stopped_by = _agreed(_verdict(times, measure, time.monotonic() - started), device)
    by_rank = _gather(statistics.median(own), device)
    return Steps(times, by_rank, warmup, waited / max(sum(own), 1e-12), stopped_by)


def _timed(step: Callable[[int], float], clock: StepClock, first: int, count: int) -> tuple[list[float], float]:
    waited = 0.0
    clock.mark()
    for number in range(first, first + count):
        waited += step(number)
        clock.mark()
    return clock.take(), waited


def _steady(times: list[float], measure: Measure) -> bool:
    if len(times) >= measure.max_warmup_steps:
        return True
    if len(times) < max(measure.warmup_steps, 1):
        return False
    recent = times[-3:]
    middle = statistics.median(recent)
    return len(recent) < 3 or max(abs(t - middle) for t in recent) <= STEADY * middle


_VERDICTS = ("", "rel_ci", "max_steps", "max_seconds")


def _verdict(times: list[float], measure: Measure, elapsed_s: float) -> str:
    if len(times) >= measure.max_steps:
        return "max_steps"
    if len(times) < measure.min_steps:
        return "max_seconds" if elapsed_s > 10 * measure.max_seconds else ""
    if elapsed_s >= measure.max_seconds:
        return "max_seconds"
    return "rel_ci" if relative_width(summarise(times)) <= measure.rel_ci else ""


def _agreed(verdict: str, device: torch.device) -> str:
    """Rank 0's verdict, on every rank: clocks differ, and one rank that goes on alone would hang."""
    flag = torch.tensor([_VERDICTS.index(verdict)], device=device)
    dist.broadcast(flag, src=0)
    return _VERDICTS[int(flag.item())]


def _slowest(times: list[float], device: torch.device) -> list[float]:
    """Each step's time on its slowest rank: the job is as fast as that."""
    worst = torch.tensor(times, dtype=torch.float64 if device.type != "mps" else torch.float32, device=device)
    dist.all_reduce(worst, op=dist.ReduceOp.MAX)
    return worst.tolist()


def _gather(value: float, device: torch.device) -> list[float]:
    mine = torch.tensor([value], device=device)
    every = [torch.empty_like(mine) for _ in range(dist.get_world_size())]
    dist.all_gather(every, mine)
    return [float(each.item()) for each in every]
