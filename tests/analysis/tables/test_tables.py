from __future__ import annotations

import math

import pytest

from analysis.tables import (
    Column,
    Estimate,
    Footnotes,
    Group,
    Row,
    Span,
    Table,
    decimals,
    ends,
    money_decimals,
    plain,
    without_blank_columns,
)


def test_a_remark_keeps_the_letter_it_was_given_first() -> None:
    footnotes = Footnotes()
    assert footnotes.mark(["slow", "hot"]) == "a,b"
    assert footnotes.mark(["hot"]) == "b"
    assert footnotes.lines == ["a: slow", "b: hot"]


def test_the_twenty_seventh_remark_is_called_aa() -> None:
    footnotes = Footnotes()
    assert footnotes.mark(str(i) for i in range(27)).split(",")[-2:] == ["z", "aa"]


def test_a_terminal_escape_and_a_line_break_do_not_reach_a_table() -> None:
    assert plain("\x1b[31mOut of\nmemory\x07 ") == "[31mOut of memory"


@pytest.mark.parametrize("blank", [None, math.nan, ""])
def test_what_is_blank_stays_blank(blank: object) -> None:
    assert plain(blank) == ""


def test_the_smallest_number_of_a_column_keeps_two_digits_and_the_middle_one_three() -> None:
    assert decimals([0.621, 1.64, 69.3]) == 2  # 0.62; 1.64
    assert decimals([5.1, 1234.0, 99999.0]) == 1  # 5.1
    assert decimals([346.0, 12501.7]) == 0
    assert decimals([]) == 0


def test_money_has_cents_below_a_hundred_and_two_digits_below_one() -> None:
    assert money_decimals([112.5, 240.0]) == 0
    assert money_decimals([20.0, 280.0]) == 2
    assert money_decimals([0.0123, 5.0]) == 3  # 0.012
    assert money_decimals([0.0]) == 0


def test_the_ends_of_spans_and_intervals_count_among_a_columns_numbers() -> None:
    assert ends([Span(1, 2), Estimate(3, None, 4), None, "text", 5]) == [1, 2, 3, 4, 5]


def test_a_column_in_which_nothing_is_known_is_dropped_unless_it_is_kept() -> None:
    columns = (Column("cards", "cards"), Column("mfu", "MFU"), Column("cost", "cost"), Column("note", "note"))
    row = Row((4, None, Span(None, None), "a"), ("",) * 4)
    table = without_blank_columns(Table("t", "T", columns, (Group("", (row,)),)), keep=("mfu",))
    assert [column.key for column in table.columns] == ["cards", "mfu", "note"]
    assert table.rows[0].values == (4, None, "a")
