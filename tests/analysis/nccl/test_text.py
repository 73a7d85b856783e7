"""Tables found in text as people paste it: prefixes, debug lines, wrapped lines, broken tails, versions of columns."""

from __future__ import annotations

import random
import textwrap

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from analysis.nccl.columns import IN_PLACE, OUT_OF_PLACE
from analysis.nccl.text import read_text, without_prefix

HEAD = """\
#                                                              out-of-place                       in-place
#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)
"""
ROWS = """\
     1048576        262144     float     sum      -1    27.76   37.78   66.11      0    27.49   38.15   66.76      0
     2097152        524288     float     sum      -1    40.66   51.58   90.27      0    40.36   51.97   90.94      0
     4194304       1048576     float     sum      -1    53.24   78.78  137.87      0    52.85   79.36  138.88      0
"""
TIMES = [(27.76, 27.49), (40.66, 40.36), (53.24, 52.85)]
DEBUG = "node1:100:120 [1] NCCL INFO Channel 00/0 : 1[21000] -> 0[1000] via P2P/direct pointer"


def times(text: str) -> list[tuple[float | None, float | None]]:
    """(out of place, in place) of every row."""
    rows = [row for section in read_text(text).sections for row in section.rows]
    return [tuple(row.groups.get(p, {}).get("time") for p in (OUT_OF_PLACE, IN_PLACE)) for row in rows]


def test_both_groups_of_a_clean_table_are_read_by_name() -> None:
    [section] = read_text(HEAD + ROWS).sections
    assert section.rows[0].groups[IN_PLACE] == {"time": 27.49, "algbw": 38.15, "busbw": 66.76, "wrong": 0}
    assert (section.rows[2].size, section.rows[2].count, section.rows[2].root) == (4194304, 1048576, -1)


def test_debug_lines_between_rows_are_skipped_and_counted() -> None:
    lines = ROWS.splitlines()
    log = read_text(HEAD + "\n".join([lines[0], DEBUG, lines[1], DEBUG, lines[2]]))
    assert times(HEAD + "\n".join([lines[0], DEBUG, lines[1], DEBUG, lines[2]])) == TIMES
    assert [number for number, _ in log.skipped] == [5, 7]


def test_a_debug_line_inside_a_row_does_not_cost_the_row() -> None:
    first, rest = ROWS[:60], ROWS[60:]
    assert times(f"{HEAD}{first} {DEBUG}\n{rest}") == TIMES


@pytest.mark.parametrize(
    "prefix",
    [
        "[1,0]<stdout>:",
        "[1,0]<stdout>: ",
        "[1,12]<stderr>:",
        " 0: ",
        "12: ",
        "2024-05-01T12:00:00.123Z ",
        "[2024-05-01 12:00:00] ",
        "launcher-1  | ",
        "node-7: ",
        "2024-05-01T12:00:00Z [1,0]<stdout>:",
    ],
)
def test_launcher_prefixes_are_taken_off(prefix: str) -> None:
    assert times(textwrap.indent(HEAD + ROWS, prefix, lambda _: True)) == TIMES


def test_a_prefix_is_not_taken_for_a_size() -> None:
    assert without_prefix("[1,0]<stdout>:           8             2     float").split()[0] == "8"


def test_windows_line_ends_and_colours_do_not_matter() -> None:
    assert times("\x1b[0m" + (HEAD + ROWS).replace("\n", "\r\n")) == TIMES


@pytest.mark.parametrize("width", [60, 64, 72, 79, 80, 81, 96, 100, 111])
def test_lines_wrapped_by_a_terminal_are_put_together_again(width: int) -> None:
    wrapped = [line[i : i + width] for line in (HEAD + ROWS).splitlines() for i in range(0, len(line), width)]
    assert times("\n".join(wrapped)) == TIMES


@pytest.mark.parametrize("width", [20, 33, 40, 50])
def test_a_table_wrapped_beyond_repair_gives_no_wrong_number(width: int) -> None:
    wrapped = [line[i : i + width] for line in (HEAD + ROWS).splitlines() for i in range(0, len(line), width)]
    assert set(times("\n".join(wrapped))) <= {*TIMES, *((out, None) for out, _ in TIMES)}


def test_the_header_of_old_versions_has_an_error_and_no_root() -> None:
    text = """\
#                                                       out-of-place                       in-place
#       size         count      type   redop     time   algbw   busbw  error     time   algbw   busbw  error
#        (B)    (elements)                       (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)
     1048576        262144     float     sum    27.76   37.78   66.11  2e-07    27.49   38.15   66.76  0e+00
"""
    [section] = read_text(text).sections
    assert section.rows[0].groups[OUT_OF_PLACE] == {"time": 27.76, "algbw": 37.78, "busbw": 66.11, "error": 2e-07}
    assert section.rows[0].root is None


def test_an_old_all_gather_has_no_redop_column() -> None:
    text = """\
#       size         count      type     time   algbw   busbw  error     time   algbw   busbw  error
       65536          2048     float    52.01    1.26    1.10  0e+00    50.09    1.31    1.14  0e+00
"""
    assert times(text) == [(52.01, 50.09)]


def test_an_old_all_to_all_leaves_its_redop_blank() -> None:
    text = """\
#       size         count      type   redop     time   algbw   busbw  error     time   algbw   busbw  error
       65536          2048     float            52.01    1.26    1.10  0e+00    50.09    1.31    1.14    N/A
"""
    [section] = read_text(text).sections
    assert times(text) == [(52.01, 50.09)]
    assert section.rows[0].groups[IN_PLACE]["error"] is None


def test_the_columns_of_a_per_iteration_report_are_read_too() -> None:
    text = """\
#       size  count   type  redop root   time  algbw  busbw #wrong i_min i_max i_p99 i_cv%   time  algbw  busbw #wrong i_min i_max i_p99 i_cv%
     1048576 262144  float    sum   -1  27.76  37.78  66.11      0  26.1  31.0  30.9  2.10  27.49  38.15  66.76      0  26.0  30.0  29.9  2.00
"""  # noqa: E501
    [section] = read_text(text).sections
    group = section.rows[0].groups[IN_PLACE]
    assert (group["time"], group["min"], group["max"], group["p99"]) == (27.49, 26.0, 30.0, 29.9)


def test_a_cpu_time_and_a_time_stamp_column_are_understood() -> None:
    head = (
        "#  size  count  type  redop  root  cputime  algbw  busbw  #wrong  cputime  algbw  busbw  #wrong  timestamp\n"
    )
    row = "1048576 262144 float sum -1 27.76 37.78 66.11 0 27.49 38.15 66.76 0  2026-01-02 03:04:05\n"
    assert times(head + row + row) == [(27.76, 27.49)] * 2


def test_a_table_with_one_group_of_columns_is_that_group() -> None:
    head = "#                                                   in-place\n"
    head += "#       size         count      type   redop    root     time   algbw   busbw #wrong\n"
    row = "     1048576        262144     float     sum      -1    27.49   38.15   66.76      0\n"
    assert times(head + row) == [(None, 27.49)]


def test_a_blank_first_group_is_told_by_where_the_numbers_stand() -> None:
    """NCCL tests leave the out-of-place columns blank when they replay a trace."""
    row = "     1048576        262144     float     sum      -1" + " " * 32 + "    27.49   38.15   66.76      0\n"
    assert times(HEAD + row) == [(None, 27.49)]


def test_a_row_cut_off_in_its_second_group_keeps_the_first() -> None:
    text = HEAD + ROWS.splitlines()[0] + "\n" + ROWS.splitlines()[1][:100]
    assert times(text) == [TIMES[0], (40.66, None)]
    assert [line for line, _ in read_text(text).broken] == [5]


def test_a_row_cut_off_in_its_first_group_is_reported_and_not_read() -> None:
    text = HEAD + ROWS.splitlines()[0] + "\n" + ROWS.splitlines()[1][:65]
    assert times(text) == [TIMES[0]]
    assert [line for line, _ in read_text(text).broken] == [5]


def test_rows_of_two_ranks_on_one_line_are_two_rows() -> None:
    lines = ROWS.splitlines()
    assert times(HEAD + lines[0] + lines[1] + "\n" + lines[2]) == TIMES


def test_a_table_without_its_head_is_read_by_its_number_of_columns() -> None:
    assert times(ROWS) == TIMES


def test_a_second_run_in_the_file_is_a_section_of_its_own() -> None:
    start = "# nThread 1 nGpus 1 minBytes 8 maxBytes 32\n# Using devices\n"
    device = "#  Rank  {0} Group  0 Pid   4000 on  node1 device  {0} [0x10] NVIDIA H800\n"
    one = start + device.format(0) + device.format(1)
    log = read_text(one + HEAD + ROWS + one + device.format(2) + HEAD + ROWS)
    assert [(len(section.devices), len(section.rows)) for section in log.sections] == [(2, 3), (3, 3)]


def test_the_program_is_read_from_its_own_line_or_the_command() -> None:
    said = "# Collective test starting: alltoall_perf\n"
    typed = "$ mpirun -np 8 ./build/all_gather_perf -b 8 -e 8G -f 2 -g 1\n"
    assert [s.program for s in read_text(said + HEAD + ROWS + typed + HEAD + ROWS).sections] == [
        "alltoall",
        "all_gather",
    ]


@settings(max_examples=100, deadline=None)
@given(st.integers(min_value=0, max_value=2**32), st.integers(min_value=60, max_value=130), st.booleans())
def test_no_row_is_lost_whatever_width_and_debug_lines(seed: int, width: int, debug: bool) -> None:
    """Times are drawn, bandwidths follow from them as NCCL tests compute and round them."""
    draw = random.Random(seed)
    text, expected = HEAD, []
    for power in range(10, 10 + draw.randint(1, 8)):
        size, out, into = 2**power, round(draw.uniform(5, 99), 2), round(draw.uniform(5, 99), 2)
        columns = [f"{t:7.2f}  {size / t / 1e3:6.2f}  {size / t / 1e3 * 1.75:6.2f}       0" for t in (out, into)]
        text += f"{size:12d}  {size // 4:12d}     float     sum      -1  {columns[0]}  {columns[1]}\n"
        expected.append((out, into))
    lines = []
    for line in text.splitlines():
        lines += [line[i : i + width] for i in range(0, len(line), width)]
        lines += [DEBUG] * (debug and draw.random() < 0.3)
    assert times("\n".join(lines)) == expected
