"""Two studies side by side, with differences and errors worked out by hand."""

from __future__ import annotations

import math
from typing import Any

import pandas as pd
import pytest
from scipy import stats

from analysis.scaling.compare import compare_studies


def _cells(*rates: float, cards: int = 2, half_width: float | None = None, **fields: Any) -> pd.DataFrame:
    """Runs of one cell. half_width: of the steps' 95 % interval, on the logarithm."""
    rows = []
    for rate in rates:
        step = 1000 / rate
        ends = {} if half_width is None else {"low": step * math.exp(-half_width), "high": step * math.exp(half_width)}
        rows.append(
            {
                "status": "ok",
                "workload.model": "m",
                "parallel.mode": "ddp",
                "parallel.cards": cards,
                "throughput.tokens_per_s": rate,
                "throughput.step_time_s.median": step,
                **{f"throughput.step_time_s.ci95_{end}": value for end, value in ends.items()},
                **fields,
            }
        )
    return pd.DataFrame(rows)


def test_single_runs_are_compared_by_the_intervals_of_their_steps() -> None:
    """Errors of 0.0196/1.96 = 0.01 each: a difference of log 1.1 with an error of 0.01 x sqrt 2."""
    [row] = compare_studies(_cells(1000, half_width=0.0196), _cells(1100, half_width=0.0196)).cells.to_dict("records")
    assert row["ratio"] == pytest.approx(1.1)
    half = 1.959964 * 0.01 * math.sqrt(2)
    assert row["ratio_low"] == pytest.approx(1.1 * math.exp(-half))
    assert row["ratio_high"] == pytest.approx(1.1 * math.exp(half))
    assert row["differs"]
    assert (row["basis"], row["runs_a"], row["runs_b"]) == ("steps", 1, 1)


def test_a_difference_within_the_intervals_is_chance() -> None:
    """log 1.01 = 0.00995 over an error of 0.0141: z = 0.704, p = 0.482."""
    [row] = compare_studies(_cells(1000, half_width=0.0196), _cells(1010, half_width=0.0196)).cells.to_dict("records")
    assert row["p_value"] == pytest.approx(2 * stats.norm.sf(math.log(1.01) / (0.01 * math.sqrt(2))))
    assert not row["differs"]
    assert row["ratio_low"] < 1 < row["ratio_high"]


def test_repeats_are_compared_by_welchs_t() -> None:
    a, b = [1000.0, 1020.0, 990.0], [900.0, 905.0, 930.0, 890.0]
    [row] = compare_studies(_cells(*a), _cells(*b)).cells.to_dict("records")
    welch = stats.ttest_ind([math.log(rate) for rate in b], [math.log(rate) for rate in a], equal_var=False)
    interval = welch.confidence_interval(0.95)
    assert row["p_value"] == pytest.approx(welch.pvalue)
    assert [row["ratio_low"], row["ratio_high"]] == pytest.approx([math.exp(interval.low), math.exp(interval.high)])
    assert (row["basis"], row["runs_a"], row["runs_b"]) == ("runs", 3, 4)
    assert row["ratio"] < 1 and row["differs"]


def test_without_intervals_or_repeats_nothing_is_claimed() -> None:
    [row] = compare_studies(_cells(1000), _cells(2000)).cells.to_dict("records")
    assert row["ratio"] == pytest.approx(2)
    assert math.isnan(row["p_value"])
    assert (row["differs"], row["basis"]) == (False, "")


def test_many_cells_need_stronger_evidence_each() -> None:
    """p = 0.03 in each of four cells: times four after Holm, no longer significant."""
    error = math.log(1.02) / stats.norm.isf(0.015) / math.sqrt(2) * 1.96
    one = [_cells(1000, cards=n, half_width=error) for n in (1, 2, 4, 8)]
    two = [_cells(1020, cards=n, half_width=error) for n in (1, 2, 4, 8)]
    alone = compare_studies(one[0], two[0]).cells
    together = compare_studies(pd.concat(one), pd.concat(two)).cells
    assert alone["p_value"].item() == pytest.approx(0.03, rel=1e-3)
    assert alone["differs"].all() and not together["differs"].any()
    assert together["p_value"].tolist() == pytest.approx([0.12] * 4, rel=1e-3)


def test_other_work_does_not_match_but_another_card_does() -> None:
    a = pd.concat([_cells(1000, cards=n, **{"workload.seq_len": 512.0, "device.name": "A100"}) for n in (1, 2)])
    b = pd.concat(
        [
            _cells(2000, cards=1, **{"workload.seq_len": 512, "device.name": "H100"}),
            _cells(2000, cards=2, **{"workload.seq_len": 2048, "device.name": "H100"}),
        ]
    )
    found = compare_studies(a, b)
    assert found.cells["cards"].tolist() == [1]
    assert found.only_a == found.only_b == (("m", "ddp", "2"),)


def test_what_only_one_study_records_does_not_keep_cells_apart() -> None:
    a = _cells(1000, **{"workload.recipe": "full_bf16", "workload.micro_batch": 2})
    assert len(compare_studies(a, _cells(1000)).cells) == 1


def test_two_devices_of_one_study_are_no_repeats_of_each_other() -> None:
    a, b = (
        pd.concat([_cells(rate * factor, **{"device.name": name}) for name, rate in (("A100", 1000), ("H100", 2000))])
        for factor in (1, 1.5)
    )
    cells = compare_studies(a, b).cells
    assert cells["device"].tolist() == ["A100", "H100"]
    assert cells["ratio"].tolist() == pytest.approx([1.5, 1.5])
    assert cells["runs_a"].tolist() == [1, 1]


def test_a_cell_that_failed_has_nothing_to_compare() -> None:
    found = compare_studies(_cells(1000), _cells(1000, status="oom"))
    assert found.cells.empty
    assert found.only_a == (("m", "ddp", "2"),)


def test_two_empty_studies_share_nothing() -> None:
    assert compare_studies(pd.DataFrame(), pd.DataFrame()).cells.empty


def test_order_of_rows_changes_nothing() -> None:
    a = pd.concat([_cells(1000.0 * n, cards=n, half_width=0.01) for n in (1, 2, 4)])
    b = pd.concat([_cells(1100.0 * n, cards=n, half_width=0.01) for n in (1, 2, 4)])
    pd.testing.assert_frame_equal(compare_studies(a, b).cells, compare_studies(a[::-1], b[::-1]).cells)
