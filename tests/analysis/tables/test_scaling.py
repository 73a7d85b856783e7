from __future__ import annotations

from typing import Any

import pandas as pd
import pytest

from analysis.scaling import scaling_table
from analysis.tables import Estimate, Table
from analysis.tables.scaling import scaling_view
from analysis.text import sayer


def _cells(cards: list[int], rates: list[float], **columns: Any) -> pd.DataFrame:
    frame = pd.DataFrame({"parallel.cards": cards, "throughput.tokens_per_s": rates, "parallel.mode": "ddp"})
    frame["cell_id"] = [f"cell{n}" for n in cards]
    return frame.assign(**{"status": "ok", "workload.model": "m", **columns})


def _view(frame: pd.DataFrame, lang: str = "en") -> Table:
    return scaling_view(scaling_table(frame), frame, sayer(lang), lang)


def _values(table: Table, key: str) -> list[Any]:
    place = [column.key for column in table.columns].index(key)
    return [row.values[place] for row in table.rows]


def test_the_heading_names_the_base_even_where_it_is_not_one_card() -> None:
    table = _view(_cells([2, 4], [100.0, 180.0]))
    assert "relative to 2 cards" in table.groups[0].heading
    # 180 / 100 = 1.8 times, at twice the cards: 90 %
    assert _values(table, "speedup") == pytest.approx([1.0, 1.8])
    assert _values(table, "efficiency_pct") == pytest.approx([100.0, 90.0])


def test_steps_below_a_second_are_shown_in_milliseconds_with_their_interval() -> None:
    columns = {
        "throughput.step_time_s.median": [0.5],
        "throughput.step_time_s.ci95_low": [0.4],
        "throughput.step_time_s.ci95_high": [0.7],
    }
    table = _view(_cells([1], [100.0], **columns))
    step = _values(table, "step_time")[0]
    assert isinstance(step, Estimate)
    assert (step.value, step.low, step.high) == pytest.approx((500, 400, 700))
    assert next(c.unit for c in table.columns if c.key == "step_time") == "ms [95 %]"


def test_a_cell_that_failed_keeps_its_row_with_nothing_in_it() -> None:
    table = _view(_cells([1, 2], [100.0, float("nan")], status=["ok", "oom"]))
    assert _values(table, "status") == ["ok", "oom"]
    assert _values(table, "tokens_per_s") == [100.0, None]
    assert table.rows[1].tone == "failed"


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ({"memory.device_used_gib": 1.0}, "what the driver reports as used on the card"),
        (
            {"memory.device_used_gib": 1.0, "memory.device_used_source": "peak resident set of the rank's process"},
            "the peak resident set of a rank's process",
        ),
        ({"memory.peak_reserved_gib": 1.0, "memory.peak_allocated_gib": 0.5}, "what PyTorch's allocator reserved"),
        ({"memory.device_used_gib": 1.0, "status": "imported"}, "as the imported file states it (peak_vram_gib)"),
    ],
)
def test_the_kind_of_memory_is_named(columns: dict[str, Any], said: str) -> None:
    table = _view(_cells([1], [100.0], **columns))
    assert _values(table, "peak_gib") == [1.0]
    assert any(said in note for note in table.notes)


def test_a_pipeline_of_one_stage_is_the_base_of_its_longer_ones() -> None:
    frame = _cells([1, 2, 4], [100.0, 150.0, 200.0], **{"parallel.mode": "pp"})
    frame["parallel.schedule"] = [None, "1f1b", "1f1b"]
    table = _view(frame)
    assert [group.heading for group in table.groups] == ["m · pp · relative to 1 card"]


def test_two_schedules_are_two_series_and_share_no_base() -> None:
    frame = _cells([2, 4, 2, 4], [100.0, 150.0, 110.0, 190.0], **{"parallel.mode": "pp"})
    frame["parallel.schedule"] = ["1f1b", "1f1b", "gpipe", "gpipe"]
    assert len(_view(frame).groups) == 2


def test_flags_are_letters_explained_below_the_table() -> None:
    table = _view(_cells([1, 2], [100.0, 90.0]))
    assert _values(table, "marks") == ["", "a"]
    assert "a: slower than with fewer cards" in table.notes


def test_chinese_has_no_english_left_in_its_headings_and_footnotes() -> None:
    table = _view(_cells([1, 2], [100.0, 90.0]), "zh")
    assert table.title == "扩展性"
    assert table.groups[0].heading == "m · ddp · 相对于 1 张卡"
    assert "a: 比更少的卡还慢" in table.notes
