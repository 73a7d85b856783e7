"""A study as the JSON of pytest-benchmark, so that `pytest-benchmark compare` tracks step times from study to study.

The layout is that of pytest-benchmark's own `--benchmark-json`: one benchmark a measured cell, its rounds the measured
optimizer steps in seconds. A benchmark's name says what work it was and not where it ran, because the comparison joins
files by name.
"""

from __future__ import annotations

import statistics
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from analysis.scaling.series import is_measured, texts
from results.record import finite

LAYOUT_VERSION = "5.0.0"  # the release of pytest-benchmark whose fields these are
STEPS = "throughput.step_times_s"
# What else a row says, beside its times; blank where the study has no such figure.
_EXTRA = {
    "study": "study",
    "cell_id": "cell_id",
    "device": "device.name",
    "tokens_per_s": "throughput.tokens_per_s",
    "peak_reserved_gib": "memory.peak_reserved_gib",
    "device_used_gib": "memory.device_used_gib",
    "started_at": "started_at",
}
_PARAMS = {
    "model": "workload.model",
    "mode": "parallel.mode",
    "cards": "parallel.cards",
    "seq_len": "workload.seq_len",
    "global_batch_tokens": "workload.global_batch_tokens",
    "recipe": "workload.recipe",
    "precision": "workload.precision",
    "scaling": "workload.scaling",
    "repeat": "workload.repeat",
}


@dataclass(frozen=True)
class Benchmarks:
    """document: what pytest-benchmark reads. left_out: a sentence for each measured cell that has no step times."""

    document: dict[str, Any]
    left_out: tuple[str, ...]


def benchmark_document(cells: pd.DataFrame) -> Benchmarks:
    """The measured fine-tuning cells of a study's frame as pytest-benchmark's JSON, in the frame's order.

    The same frame gives the same document: `datetime` is when the last of its cells started.
    """
    training = texts(cells, "benchmark").isin(["", "finetune"]).to_numpy()
    rows = cells[is_measured(cells) & training].to_dict("records")
    timed = [row for row in rows if _steps(row)]
    left_out = [f"{row.get('cell_id')}: has no step times" for row in rows if not _steps(row)]
    names = [_name(row) for row in timed]
    twice = {name for name in names if names.count(name) > 1}
    benchmarks = [_benchmark(row, name, name in twice) for row, name in zip(timed, names, strict=True)]
    first = timed[0] if timed else {}
    document = {
        "machine_info": {
            "node": _plain(first.get("environment.host")),
            "processor": _plain(first.get("device.name")),
            "system": _plain(first.get("environment.platform")),
            "python_version": _plain(first.get("environment.python")),
            "cpu": {"brand_raw": _plain(first.get("environment.cpu.model"))},
        },
        "commit_info": {
            "id": _plain(first.get("environment.git")) or "unknown",
            "time": None,
            "author_time": None,
            "dirty": False,
            "project": "cardscale",
            "branch": "(unknown)",
        },
        "benchmarks": benchmarks,
        "datetime": max((str(row.get("started_at") or "") for row in timed), default=""),
        "version": LAYOUT_VERSION,
    }
    return Benchmarks(finite(document), tuple(left_out))


def step_statistics(steps_s: Sequence[float]) -> dict[str, Any]:
    """pytest-benchmark's statistics of one benchmark's rounds, in seconds; `ops` are steps per second.

    Quartiles are its own: medians of the halves for an even number of steps, Mendenhall and Sincich's interpolation
    (method 3 of Wikipedia's "Quartile") for an odd one. Raises ValueError where there is no step.
    """
    if not steps_s:
        raise ValueError("a benchmark needs at least one step")
    data = sorted(steps_s)
    mean, total = statistics.mean(data), sum(data)
    stddev = statistics.stdev(data) if len(data) > 1 else 0.0
    q1, q3 = _quartiles(data)
    iqr = q3 - q1
    low, high = q1 - 1.5 * iqr, q3 + 1.5 * iqr
    outside_stddev = sum(not mean - stddev <= step <= mean + stddev for step in data)
    outside_iqr = sum(not low <= step <= high for step in data)
    return {
        "min": data[0],
        "max": data[-1],
        "mean": mean,
        "stddev": stddev,
        "rounds": len(data),
        "median": statistics.median(data),
        "iqr": iqr,
        "q1": q1,
        "q3": q3,
        "iqr_outliers": outside_iqr,
        "stddev_outliers": outside_stddev,
        "outliers": f"{outside_stddev};{outside_iqr}",
        "ld15iqr": data[bisect_left(data, low)],
        "hd15iqr": data[bisect_right(data, high) - 1],
        "ops": len(data) / total if total else 0.0,
        "total": total,
        "data": list(steps_s),
        "iterations": 1,
    }


def _quartiles(data: list[float]) -> tuple[float, float]:
    count = len(data)
    if count == 1:
        return data[0], data[0]
    if count % 2 == 0:
        return statistics.median(data[: count // 2]), statistics.median(data[count // 2 :])
    n = count // 4
    if count % 4 == 1:
        return 0.25 * data[n - 1] + 0.75 * data[n], 0.75 * data[3 * n] + 0.25 * data[3 * n + 1]
    return 0.75 * data[n] + 0.25 * data[n + 1], 0.25 * data[3 * n + 1] + 0.75 * data[3 * n + 2]


def _benchmark(row: dict[Any, Any], name: str, ambiguous: bool) -> dict[str, Any]:
    """One benchmark. Cells that differ in what the name leaves out are told apart by their cell's hash."""
    params = {key: value for key, column in _PARAMS.items() if (value := _plain(row.get(column))) is not None}
    mark = f"-{str(row.get('cell_id')).rpartition('-')[2]}" if ambiguous else ""
    repeat = f"-r{params['repeat']}" if params.get("repeat") else ""
    short = f"{params.get('model', 'model')}[{params.get('mode', '')}-{params.get('cards', '')}{repeat}{mark}]"
    return {
        "group": short,
        "name": short,
        "fullname": name + mark,
        "params": params,
        "param": f"{params.get('mode', '')}-{params.get('cards', '')}",
        "extra_info": {key: value for key, column in _EXTRA.items() if (value := _plain(row.get(column))) is not None},
        "options": {},
        "stats": step_statistics(_steps(row)),
    }


def _name(row: dict[Any, Any]) -> str:
    """The work of a cell in one line, the same in every study: `cardscale::model[mode=ddp,cards=8,...]`."""
    params = [f"{key}={_plain(row.get(column))}" for key, column in _PARAMS.items() if key != "model"]
    return f"cardscale::{_plain(row.get('workload.model'))}[{','.join(params)}]"


def _steps(row: dict[Any, Any]) -> list[float]:
    """The measured steps; none where the record has no list of them, as an imported one has not."""
    steps = row.get(STEPS)
    return [float(step) for step in steps] if isinstance(steps, list) else []


def _plain(value: Any) -> Any:
    """A frame's cell as JSON has it: blank is None, a whole number an integer (a blank elsewhere made it a float)."""
    if hasattr(value, "item"):
        value = value.item()
    if isinstance(value, float):
        return None if value != value else int(value) if value.is_integer() else value
    return value
