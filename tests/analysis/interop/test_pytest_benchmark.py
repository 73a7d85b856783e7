"""A study as pytest-benchmark's JSON: its statistics are held to pytest-benchmark's own."""

from __future__ import annotations

import json
from typing import Any

import pandas as pd
import pytest
from pytest_benchmark.stats import Stats

from analysis.interop.pytest_benchmark import benchmark_document, step_statistics


def _cell(cell_id: str, steps: list[float] | None, **columns: Any) -> dict[str, Any]:
    return {
        "cell_id": cell_id,
        "study": "s",
        "status": "ok",
        "benchmark": "finetune",
        "started_at": "2026-01-31T00:00:00.000+00:00",
        "workload.model": "m",
        "parallel.mode": "ddp",
        "parallel.cards": 2,
        "throughput.tokens_per_s": 100.0,
        "throughput.step_times_s": steps,
        **columns,
    }


def _document(*cells: dict[str, Any]) -> dict[str, Any]:
    return benchmark_document(pd.DataFrame(cells)).document


def test_five_steps_by_hand() -> None:
    """1, 2, 3, 4, 10: quartiles 0.25 x 1 + 0.75 x 2 and 0.75 x 4 + 0.25 x 10; fences 1.75 - 5.625 and 5.5 + 5.625."""
    found = step_statistics([3.0, 1.0, 10.0, 2.0, 4.0])
    assert (found["min"], found["median"], found["max"], found["mean"]) == (1, 3, 10, 4)
    assert (found["q1"], found["q3"], found["iqr"]) == (1.75, 5.5, 3.75)
    assert found["stddev"] == pytest.approx(12.5**0.5)
    assert (found["ld15iqr"], found["hd15iqr"]) == (1, 10)
    assert found["outliers"] == "1;0"
    assert (found["ops"], found["total"], found["rounds"]) == (0.25, 20, 5)
    assert found["data"] == [3.0, 1.0, 10.0, 2.0, 4.0]


@pytest.mark.parametrize("count", [1, 2, 3, 4, 5, 6, 7, 8, 9, 23])
def test_statistics_are_those_of_pytest_benchmark(count: int) -> None:
    steps = [0.2 + (i * 37 % 11) / 50 + (0.9 if i == 4 else 0) for i in range(count)]
    stats = Stats()
    for step in steps:
        stats.update(step)
    found = step_statistics(steps)
    for name, value in stats.as_dict().items():
        assert found[name] == pytest.approx(value), name


def test_no_step_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one step"):
        step_statistics([])


def test_a_name_says_the_work_and_not_the_study_or_the_machine() -> None:
    first = _document(_cell("m-ddp-2-aaaa", [1.0, 1.1], **{"device.name": "A100"}))
    other = _document(_cell("m-ddp-2-bbbb", [2.0, 2.1], study="t", **{"device.name": "H100"}))
    [before], [after] = first["benchmarks"], other["benchmarks"]
    assert before["fullname"] == after["fullname"]
    assert before["name"] == "m[ddp-2]"
    assert before["extra_info"]["device"] == "A100"


def test_repeats_and_cells_that_differ_elsewhere_keep_names_of_their_own() -> None:
    cells = [
        _cell("m-ddp-2-aaaa", [1.0], **{"workload.repeat": 0}),
        _cell("m-ddp-2-r1-bbbb", [1.0], **{"workload.repeat": 1}),
        _cell("m-ddp-2-cccc", [1.0], **{"workload.repeat": 0}),
    ]
    names = [bench["name"] for bench in _document(*cells)["benchmarks"]]
    assert names == ["m[ddp-2-aaaa]", "m[ddp-2-r1]", "m[ddp-2-cccc]"]
    fullnames = [bench["fullname"] for bench in _document(*cells)["benchmarks"]]
    assert len(set(fullnames)) == 3


def test_only_measured_training_cells_are_exported_and_those_without_steps_are_said() -> None:
    made = benchmark_document(
        pd.DataFrame(
            [
                _cell("good", [1.0, 2.0]),
                _cell("imported", None, status="imported"),
                _cell("failed", [1.0], status="failed"),
                _cell("links", [1.0], benchmark="collectives"),
            ]
        )
    )
    assert [bench["extra_info"]["cell_id"] for bench in made.document["benchmarks"]] == ["good"]
    assert made.left_out == ("imported: has no step times",)


def test_the_document_is_strict_json_and_the_same_every_time() -> None:
    cells = [_cell("a", [1.0], **{"memory.device_used_gib": float("nan")}), _cell("b", [2.0], **{"parallel.cards": 4})]
    texts = {json.dumps(_document(*cells), allow_nan=False) for _ in range(2)}
    assert len(texts) == 1
