"""A few more steps under torch's profiler, after the timed ones: the shares of compute and of bare communication."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from torch.autograd import DeviceType
from torch.profiler import ProfilerActivity, profile, record_function, schedule

from benchmarks.meters.spans import Span, length, minus, within
from configs.cell import Cell

_STEP = "cardscale step"
WARM = 1  # the profiler's own start-up falls into the first step


def profiled_tail(step: Callable[[int], float], first: int, cell: Cell, device: torch.device) -> dict[str, Any]:
    """Run `measure.profile_steps` steps more from number `first`; the record's fractions, the same on every rank.

    compute_fraction, comm_fraction: share of the step in which a rank computes, or a collective or a send or receive of
    its own is under way; exposed_comm_fraction: communication with no compute beside it. Means over the ranks.
    bubble_fraction, with a pipeline: share of the stages' time in which they compute nothing. On a CPU, what Python
    does between two operations is not compute.
    """
    if not cell.measure.meters or cell.measure.profile_steps < 1:
        return {}
    activities = [ProfilerActivity.CPU] + ([ProfilerActivity.CUDA] if device.type == "cuda" else [])
    plan = schedule(wait=0, warmup=WARM, active=cell.measure.profile_steps)
    with profile(activities=activities, schedule=plan, acc_events=True) as profiler:
        for number in range(first, first + WARM + cell.measure.profile_steps):
            with record_function(_STEP):
                step(number)
                if device.type != "cpu":
                    torch.accelerator.synchronize(device)
            profiler.step()
    spans = device_spans if device.type == "cuda" else host_spans
    shares = torch.tensor(fractions(*spans(profiler.events())), device=device)
    dist.all_reduce(shares)
    compute, communication, exposed = (shares / dist.get_world_size()).tolist()
    found = {"compute_fraction": compute, "comm_fraction": communication, "exposed_comm_fraction": exposed}
    return found | ({"bubble_fraction": 1 - compute} if cell.layout.pp > 1 else {})


def fractions(window: list[Span], compute: list[Span], communication: list[Span]) -> tuple[float, float, float]:
    """(compute, communication, communication without compute) as shares of the windows' length."""
    whole = length(window)
    if not whole:
        return (float("nan"),) * 3
    busy = [span for part in window for span in within(compute, part)]
    exchanging = [span for part in window for span in within(communication, part)]
    return length(busy) / whole, length(exchanging) / whole, length(minus(exchanging, busy)) / whole


def device_spans(events: Any) -> tuple[list[Span], list[Span], list[Span]]:
    """The steps, compute kernels (copies included) and NCCL kernels on a card."""
    kernels = [event for event in events if event.device_type == DeviceType.CUDA and not event.name.startswith(_STEP)]
    compute = [_span(event) for event in kernels if "nccl" not in event.name.lower()]
    communication = [_span(event) for event in kernels if "nccl" in event.name.lower()]
    return _steps(events), compute, communication


def host_spans(events: Any) -> tuple[list[Span], list[Span], list[Span]]:
    """The steps, innermost tensor operations, and Gloo's transfers from their start to their end."""
    compute = [_span(e) for e in events if e.name.startswith("aten::") and not e.is_async and not e.cpu_children]
    communication = [_span(e) for e in events if e.is_async and e.name.startswith("gloo:")]
    return _steps(events), compute, communication


def _steps(events: Any) -> list[Span]:
    return [_span(e) for e in events if e.name == _STEP and e.device_type == DeviceType.CPU]


def _span(event: Any) -> Span:
    return event.time_range.start, event.time_range.end
