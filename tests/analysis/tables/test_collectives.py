from __future__ import annotations

import pandas as pd

from analysis.tables.collectives import collectives_summary, collectives_view
from analysis.text import sayer

EN = sayer("en")


def _rows(*rows: tuple[str, int, float, float], **columns: object) -> pd.DataFrame:
    frame = pd.DataFrame(rows, columns=["op", "bytes", "time_us", "busbw_gbps"])
    return frame.assign(**{"dtype": "fp32", "ranks": 8, "cards": 8, "nodes": 1, "wrong": 0, **columns})


def test_placements_are_kept_apart() -> None:
    frame = pd.concat([_rows(("all_reduce", 8, 10.0, 1.0), in_place=flag) for flag in (True, False)])
    headings = [group.heading for group in collectives_view(frame, EN).groups]
    assert headings == ["all_reduce · fp32 · in place · 8 cards", "all_reduce · fp32 · out of place · 8 cards"]


def test_a_call_that_was_skipped_is_a_remark_with_its_reason() -> None:
    frame = _rows(("all_reduce", 8, 10.0, 1.0), ("all_gather", 8, float("nan"), float("nan")))
    frame["unsupported"] = [None, "gloo cannot"]
    table = collectives_view(frame, EN)
    assert len(table.rows) == 1
    assert "all_gather · fp32 · 8 cards: not measured: gloo cannot" in table.notes


def test_a_bandwidth_above_what_all_gather_reaches_is_explained() -> None:
    frame = _rows(("all_reduce", 8, 10.0, 480.0), ("all_gather", 8, 10.0, 360.0))
    assert any("the switch reduces" in note for note in collectives_view(frame, EN).notes)
    assert any("由交换机做归约" in note for note in collectives_view(frame, sayer("zh"), "zh").notes)


def test_the_summary_gives_the_smallest_sizes_latency_and_the_best_bandwidth() -> None:
    frame = _rows(("all_reduce", 8, 12.0, 0.1), ("all_reduce", 1024, 20.0, 90.0), ("all_reduce", 4096, 90.0, 80.0))
    row = collectives_summary(frame, EN).rows[0]
    assert row.values == ("all_reduce · fp32 · 8 cards", 8, 12.0, 90.0, 1024, 0)


def test_wrong_elements_turn_a_row_red() -> None:
    frame = _rows(("all_reduce", 8, 12.0, 0.1), wrong=3)
    assert [table.rows[0].tone for table in (collectives_view(frame, EN), collectives_summary(frame, EN))] == [
        "failed",
        "failed",
    ]


def test_a_bandwidth_of_zero_on_one_rank_is_no_fault() -> None:
    frame = _rows(("all_reduce", 8, 12.0, 0.0), cards=1, ranks=1)
    assert any("One rank moves no data" in note for note in collectives_view(frame, EN).notes)
