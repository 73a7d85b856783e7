"""What logs of NCCL tests mean, on the published ones and on the traps that people reported."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import results
from analysis.nccl.tests import Log, in_switch_notes, read_log
from configs.errors import ConfigError
from results.nccl_format import as_nccl_tests_json, as_nccl_tests_text

LOGS = Path(results.__file__).parent / "reference" / "nccl_tests"
HEAD = (
    "#       size         count      type   redop    root"
    "     time   algbw   busbw #wrong     time   algbw   busbw #wrong\n"
)
OLD_HEAD = "#       size         count      type     time   algbw   busbw  error     time   algbw   busbw  error\n"

# file: op, ranks, nodes, device, rows (size x placement), the row with the peak bus bandwidth
PUBLISHED = {
    "all_reduce_8gpu_nvswitch.log": ("all_reduce", 8, 1, "NVIDIA H800", 22, (33554432, 195.40, 300.52)),
    "all_reduce_8gpu_latency.log": ("all_reduce", 8, None, None, 12, (32768, 7.39, 7.76)),
    "all_reduce_72gpu_nvl72.log": ("all_reduce", 72, 18, "NVIDIA GB200", 10, (8589934592, 20006, 846.82)),
    "all_reduce_2node_ib.log": ("all_reduce", 2, 2, "NVIDIA H100 80GB HBM3", 10, (33554432, 808.2, 41.52)),
    "all_reduce_2gpu_nvlink_bridge.log": ("all_reduce", 2, None, None, 4, (2147483648, 18524, 115.93)),
    "reduce_scatter_8gpu_zero_sizes.log": ("reduce_scatter", 8, None, None, 8, (256, 24.01, 0.01)),
    "all_reduce_mpi_prefix.log": ("all_reduce", 8, 1, "NVIDIA H100 80GB HBM3", 6, (8, 12.90, 0.0)),
    "all_reduce_without_mpi.log": ("all_reduce", 1, 1, "Tesla V100-SXM2-16GB", 4, (1310720000, 3434.9, 0.0)),
}


def published(name: str) -> Log:
    return read_log((LOGS / name).read_text(), name)


def table(row: str, head: str = HEAD, times: int = 1) -> str:
    return head + row * times


def device(rank: int, host: str = "node1") -> str:
    return f"#  Rank {rank:2d} Group  0 Pid   4000 on  {host} device  0 [0x10] NVIDIA H100\n"


def test_every_published_log_is_tested_here() -> None:
    assert {path.name for path in LOGS.glob("*.log")} == set(PUBLISHED)


@pytest.mark.parametrize("name", PUBLISHED)
def test_a_published_log_loses_no_row(name: str) -> None:
    """Two rows, out of place and in place, for each line that begins with size, count and type."""
    text = (LOGS / name).read_text()
    lines = [line for line in text.replace("[1,0]<stdout>:", "").splitlines() if " float " in line]
    assert len(published(name).rows) == 2 * len(lines) == PUBLISHED[name][4]


@pytest.mark.parametrize("name", PUBLISHED)
def test_a_published_log_tells_op_ranks_nodes_and_device(name: str) -> None:
    [run] = published(name).runs
    assert (run.op, run.ranks, run.nodes, run.device) == PUBLISHED[name][:4]


@pytest.mark.parametrize("name", PUBLISHED)
def test_a_published_logs_figures_are_kept(name: str) -> None:
    best = max(published(name).rows, key=lambda row: row["busbw_gbps"])
    assert (best["bytes"], best["time_us"], best["busbw_gbps"]) == PUBLISHED[name][5]


def test_op_and_ranks_need_no_file_name() -> None:
    for name, (op, ranks, *_) in PUBLISHED.items():
        [run] = read_log((LOGS / name).read_text(), "log.txt").runs
        assert (run.op, run.ranks) == (op, ranks)


def test_processes_that_are_all_rank_zero_measured_no_communication() -> None:
    [run] = published("all_reduce_without_mpi.log").runs
    assert "measured no communication: 2 processes ran alone" in run.warnings[0]


def test_one_rank_moves_no_data() -> None:
    row = "  1048576  262144  float  sum  -1  27.76  37.77  0.00  0  27.76  37.77  0.00  0\n"
    [run] = read_log(device(0) + table(row)).runs
    assert run.ranks == 1
    assert "one rank moves no data" in run.warnings[0]


def test_bus_bandwidth_zero_beside_an_algbw_is_no_broken_network() -> None:
    row = "  1048576  262144  float  sum  -1  27.76  37.77  0.00  0  27.76  37.77  0.00  0\n"
    [run] = read_log(table(row)).runs
    assert any("measured no communication" in warning for warning in run.warnings)


def test_bandwidths_that_round_to_zero_are_no_warning() -> None:
    assert published("all_reduce_mpi_prefix.log").runs[0].warnings == []


def test_the_average_is_labelled_with_its_size_list_and_the_peak_is_given() -> None:
    """65.9 beside a large-message value of 237 is what the public report shows (aws-k8s-tester 503)."""
    notes = published("all_reduce_8gpu_nvswitch.log").runs[0].notes
    assert "peak busbw 300.5 GB/s at 32 MiB, in place" in notes
    average = "average busbw 100.9 GB/s is the mean over the size list (32 KiB to 32 MiB), not a speed of the links"
    assert average in notes


def test_a_log_without_its_average_line_is_said_to_be_cut_off() -> None:
    assert any("no average line" in note for note in published("all_reduce_2node_ib.log").runs[0].notes)


def test_two_nodes_are_not_extended_to_more() -> None:
    assert any("do not plan a larger cluster" in note for note in published("all_reduce_2node_ib.log").runs[0].notes)
    assert not any("larger cluster" in note for note in published("all_reduce_72gpu_nvl72.log").runs[0].notes)


def test_sizes_rounded_down_to_nothing_are_rows_and_explained() -> None:
    [run] = published("reduce_scatter_8gpu_zero_sizes.log").runs
    assert "4 rows have size 0: less than 16 bytes a rank is rounded down to nothing" in run.notes


def test_an_old_all_gather_has_its_algbw_restated() -> None:
    """4 ranks, 1 GB in 1 ms. Old: algbw = busbw = 0.75 x 1000 GB/s. Now algbw is 1000 (NVIDIA/nccl-tests issue 45)."""
    row = "  1000000000  62500000  float  1000.0  750.00  750.00  0e+00  1000.0  750.00  750.00  0e+00\n"
    [run] = read_log("# all_gather_perf\n" + table(row, OLD_HEAD)).runs
    assert (run.rows[0]["algbw_gbps"], run.rows[0]["busbw_gbps"], run.ranks) == (1000, 750, 4)
    assert "algbw equals busbw" in run.warnings[0]


def test_a_new_all_gather_is_left_as_it_is() -> None:
    row = "  1000000000  62500000  float  1000.0  1000.0  750.00  0e+00  1000.0  1000.0  750.00  0e+00\n"
    [run] = read_log("# all_gather_perf\n" + table(row, OLD_HEAD)).runs
    assert (run.rows[0]["algbw_gbps"], run.warnings) == (1000, [])


def test_equal_bandwidths_of_a_broadcast_are_its_formula_and_no_old_convention() -> None:
    row = "  1048576  262144  float  none  0  27.76  37.77  37.77  0  27.76  37.77  37.77  0\n"
    [run] = read_log(table(row)).runs
    assert (run.op, run.warnings) == ("broadcast", [])


@pytest.mark.parametrize(
    ("columns", "op"),
    [
        ("262144  float  sum  -1", "all_reduce"),
        ("65536  float  sum  -1", "reduce_scatter"),
        ("65536  float  none  -1", "all_gather"),
        ("262144  float  sum  0", "reduce"),
        ("262144  float  none  0", "broadcast"),
        ("262144  float  none  -1", "send_recv"),
    ],
)
def test_the_op_is_told_by_count_redop_and_root(columns: str, op: str) -> None:
    row = f"  1048576  {columns}  27.76  37.77  37.77  0  27.76  37.77  37.77  0\n"
    assert read_log(table(row)).runs[0].op == op


def test_an_all_to_all_is_told_by_its_unchecked_in_place_column() -> None:
    row = "  1048576  65536  float  none  -1  27.76  37.77  28.33  0  27.76  37.77  28.33  N/A\n"
    [run] = read_log(table(row)).runs
    assert (run.op, run.ranks) == ("all_to_all", 4)
    assert "all_gather would look the same" in run.notes[0]


def test_a_named_op_wins_over_what_its_columns_look_like() -> None:
    row = "  1048576  65536  float  none  -1  27.76  37.77  28.33  0  27.76  37.77  28.33  0\n"
    [run] = read_log("# Collective test starting: alltoall_perf\n" + table(row)).runs
    assert run.op == "all_to_all"


def test_times_of_nccl_one_are_milliseconds() -> None:
    """10^7 bytes in 0.064 ms is 156 GB/s (NVIDIA/nccl issue 120)."""
    head = "#  bytes  N  type  op  time  algbw  busbw  res  time  algbw  busbw  res\n"
    [run] = read_log(
        head + "  10000000  10000000  char  sum  0.064  157.38  0.00  0e+00  0.005  2083.77  0.00  0e+00"
    ).runs
    assert run.rows[0]["time_us"] == pytest.approx(64)


def test_wrong_elements_are_warned_of() -> None:
    row = "  1048576  262144  float  sum  -1  27.76  37.77  66.11  3  27.76  37.77  66.11  0\n"
    assert any("3 wrong elements in 1 rows" in warning for warning in read_log(table(row)).runs[0].warnings)


def test_an_unchecked_result_is_not_a_right_one() -> None:
    row = "  1048576  262144  float  sum  -1  27.76  37.77  66.11  N/A  27.76  37.77  66.11  N/A\n"
    assert [row["wrong"] for row in read_log(table(row)).rows] == [None, None]


def test_all_reduce_above_all_gather_is_flagged_as_in_switch_reduction() -> None:
    rows = [
        {"op": "all_reduce", "ranks": 8, "nodes": 1, "busbw_gbps": 480.0},
        {"op": "all_gather", "ranks": 8, "nodes": 1, "busbw_gbps": 360.0},
    ]
    [note] = in_switch_notes(rows)
    assert "480 GB/s on 8 ranks is above the 360 of all_gather" in note


def test_a_value_above_the_link_rate_is_flagged_and_not_changed() -> None:
    """480 on a link of 450 (NVIDIA/nccl-tests issue 239)."""
    rows = [{"op": "all_reduce", "ranks": 8, "nodes": 1, "busbw_gbps": 480.0}]
    [note] = in_switch_notes(rows, link_gbps=450)
    assert "busbw 480 GB/s is above the links' 450" in note
    assert rows[0]["busbw_gbps"] == 480.0


def test_a_value_below_the_link_rate_is_not_flagged() -> None:
    assert in_switch_notes([{"op": "all_reduce", "ranks": 8, "nodes": 1, "busbw_gbps": 300.5}], 450) == []


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "log.txt: is empty"),
        (" \n\n", "log.txt: is empty"),
        (HEAD, "a table's head and no result below it"),
        ("make: *** No rule to make target\n", "has no result table"),
        (HEAD + "  1048576  262144  float  sum  -1  27.7", "line 2 is cut off"),
        ('{"version": 2, "results": [{"size": 10', "is cut off"),
    ],
)
def test_a_log_without_results_is_one_clear_line(text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message) as caught:
        read_log(text, "log.txt")
    assert "\n" not in str(caught.value)


def test_half_a_log_gives_its_whole_rows_and_a_warning() -> None:
    text = (LOGS / "all_reduce_8gpu_nvswitch.log").read_text()
    half = text[: text.index("8388608       2097152") + 60]
    log = read_log(half)
    assert len(log.rows) == 16
    assert "line 24 is not whole and was left out" in log.warnings[0]


def measured(op: str, in_place: bool, **fields: object) -> dict[str, object]:
    base = {"op": op, "dtype": "bf16", "in_place": in_place, "ranks": 4, "nodes": 2, "backend": "nccl", "iters": 20}
    return {**base, "bytes": 2**20, "count": 2**19, "time_us": 100.0, "algbw_gbps": 10.48576, "wrong": 0, **fields}


def test_our_own_text_reads_back() -> None:
    rows = [measured("all_reduce", place, busbw_gbps=15.73) for place in (False, True)]
    rows += [measured("all_to_all", False, count=2**17, busbw_gbps=7.86)]
    log = read_log(as_nccl_tests_text(rows, ["H100"] * 4))
    told = [(run.op, run.ranks, run.nodes, run.device, len(run.rows)) for run in log.runs]
    assert told == [("all_reduce", 4, 2, "H100", 2), ("all_to_all", 4, 2, "H100", 1)]
    assert [row["dtype"] for row in log.rows] == ["bf16"] * 3


def test_our_own_json_reads_back() -> None:
    rows = [measured("all_reduce", place, busbw_gbps=15.73) for place in (False, True)]
    [document] = as_nccl_tests_json(rows)
    [run] = read_log(json.dumps(document)).runs
    assert (run.op, run.ranks, run.nodes, len(run.rows)) == ("all_reduce", 4, 2, 2)
    assert run.rows[0]["busbw_gbps"] == 15.73
