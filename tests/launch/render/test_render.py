from __future__ import annotations

import csv
import io
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from rich.cells import cell_len
from rich.console import Console

from analysis.tables import Column, Estimate, Group, Row, Span, Table
from analysis.text import sayer
from launch.render.cells import cell_text, formatted
from launch.render.csv import json_rows, neutral, write_csv
from launch.render.markdown import markdown
from launch.render.text import print_table


def _table(*columns: Column, rows: list[tuple[object, ...]], marks: str = "", stub: int = 1) -> Table:
    made = tuple(Row(tuple(row), ("",) * (len(row) - 1) + (marks,)) for row in rows)  # type: ignore[arg-type]
    return Table("t", "Title", columns, (Group("heading", made),), ("a note",), stub)


def _printed(table: Table, width: int) -> list[str]:
    out = io.StringIO()
    print_table(Console(file=out, width=width), table, sayer("en"))
    return out.getvalue().splitlines()


TIERS = tuple(Column(f"tier{i}", f"tier {i}", "CNY", "money") for i in range(20))
WIDE = _table(
    Column("mode", "mode"), Column("cards", "cards", form="count"), *TIERS,
    rows=[("ddp", n, *(Span(1000.0 * n, 2000.0 * n) for _ in TIERS)) for n in (1, 2, 4, 8)], stub=2,
)  # fmt: skip


@pytest.mark.parametrize("width", [40, 80, 120, 200])
def test_no_line_is_wider_than_the_terminal(width: int) -> None:
    assert max(map(cell_len, _printed(WIDE, width))) <= width


@pytest.mark.parametrize("width", [40, 80, 120])
def test_a_table_too_wide_is_split_and_each_part_names_its_rows(width: int) -> None:
    lines = _printed(WIDE, width)
    text = "\n".join(lines)
    assert text.count("8,000–16,000") == len(TIERS)  # every tier's figure for 8 cards, none of them broken
    blocks = [line for line in lines if line.startswith("───")]
    assert len(blocks) > 1
    assert len([line for line in lines if line.startswith("ddp ")]) == 4 * len(blocks)


def test_an_optional_column_gives_way_and_is_named() -> None:
    columns = (Column("a", "first", form="count"), Column("b", "second", form="count", rank=1))
    lines = _printed(_table(*columns, rows=[(123456789, 987654321)]), 15)
    assert "123,456,789" in "\n".join(lines) and "987,654,321" not in "\n".join(lines)
    assert "Left out at this width: second." in " ".join(" ".join(lines).split())


def test_numbers_are_right_aligned_and_stand_under_each_other_despite_footnote_marks() -> None:
    table = Table(
        "t", "T", (Column("x", "x", form="count"),),
        (Group("", (Row((5,), ("a,b",)), Row((1234,), ("",)))),),
    )  # fmt: skip
    lines = _printed(table, 80)
    assert lines[3:5] == ["    5 a,b", "1,234"]


def test_a_long_reason_is_folded_under_itself() -> None:
    table = _table(Column("c", "cell"), Column("r", "reason"), rows=[("x", "word " * 30)])
    lines = [line for line in _printed(table, 40) if "word" in line]
    assert len(lines) > 3
    assert all(line.index("word") == lines[0].index("word") for line in lines)


def test_chinese_headers_keep_the_columns_aligned() -> None:
    table = _table(Column("c", "卡数", form="count"), Column("s", "状态"), rows=[(8, "正常"), (16, "显存不足")])
    rows = [line for line in _printed(table, 80) if "正常" in line or "不足" in line]
    assert [cell_len(line[: line.index(text)]) for line, text in zip(rows, ("正常", "显存"), strict=True)] == [6, 6]


def test_what_was_not_measured_is_blank_and_not_zero() -> None:
    assert [cell_text(value, 2) for value in (None, Span(None, None), Estimate(None, None, None))] == ["", "", ""]
    assert cell_text(0.0, 2) == "0.00"


def test_equal_ends_of_a_range_are_one_figure() -> None:
    assert cell_text(Span(2.0, 2.0), 2) == "2.00"
    assert cell_text(Span(2.0, 3.5), 2) == "2.00–3.50"


def test_an_interval_stands_in_brackets_behind_its_value() -> None:
    assert cell_text(Estimate(1234.5, 1200.0, 1300.0), 1) == "1,234.5 [1,200.0, 1,300.0]"


def test_a_column_has_one_number_of_decimals() -> None:
    table = _table(Column("m", "m", form="money"), rows=[(Span(20, 35),), (Span(160, 280),)])
    assert formatted(table) == [["20.00–35.00"], ["160.00–280.00"]]


def test_text_cannot_end_a_markdown_cell_or_open_a_tag() -> None:
    text = markdown(_table(Column("x", "x"), rows=[("a|b <script>alert(1)</script> [x](http://y) *b*",)]))
    line = next(line for line in text.splitlines() if "script" in line)
    assert line.replace("\\|", "").count("|") == 2
    assert "\\<script\\>" in line
    assert "[x]\\(" in line


def test_markdown_carries_the_heading_the_marks_and_the_notes() -> None:
    text = markdown(_table(Column("x", "x", "GiB", "count"), rows=[(3,)], marks="a"))
    assert "## Title" in text and "**heading**" in text and "| x (GiB) |" in text
    assert "| 3 <sup>a</sup> |" in text and "- a note" in text


@pytest.mark.parametrize("text", ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1"])
def test_a_formula_in_a_text_is_neutralised(text: str, tmp_path: Path) -> None:
    write_csv(pd.DataFrame({"mode": [text], "cards": [-1]}), tmp_path / "t.csv")
    with (tmp_path / "t.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.reader(file))
    assert rows[1][0].startswith("'")
    assert rows[1][1] == "-1"  # a negative number is no formula


def test_a_text_of_several_lines_stays_one_row(tmp_path: Path) -> None:
    write_csv(pd.DataFrame({"error.message": ["one\r\ntwo\x1b[0m"]}), tmp_path / "t.csv")
    assert (tmp_path / "t.csv").read_text(encoding="utf-8").splitlines() == ["error.message", "one two [0m"]


def test_a_harmless_text_is_left_alone() -> None:
    assert neutral("ddp-1") == "ddp-1"
    assert neutral(-1.5) == -1.5


def test_ends_of_an_interval_become_one_json_object() -> None:
    frame = pd.DataFrame(
        {
            "cards": [4.0],
            "cost_low": [1.5],
            "cost_high": [2.5],
            "step_s": [1.0],
            "step_low_s": [0.5],
            "step_high_s": [3.0],
        }
    )
    assert json_rows(frame) == [
        {"cards": 4, "cost": {"low": 1.5, "high": 2.5}, "step_s": 1, "step_s_interval": {"low": 0.5, "high": 3}}
    ]


def test_blank_is_null_in_json_whatever_its_kind() -> None:
    frame = pd.DataFrame({"a": [np.nan], "b": [None], "c": [pd.NA], "d": [np.True_], "e": [np.inf]})
    assert json_rows(frame) == [{"a": None, "b": None, "c": None, "d": True, "e": None}]
