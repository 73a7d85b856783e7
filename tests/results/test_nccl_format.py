"""The text and JSON that tools for NCCL tests read."""

from __future__ import annotations

from results.nccl_format import as_nccl_tests_json, as_nccl_tests_text


def row(**fields: object) -> dict[str, object]:
    base = {"op": "all_reduce", "dtype": "fp32", "in_place": False, "ranks": 8, "nodes": 1, "backend": "nccl"}
    figures = {"bytes": 33554432, "count": 8388608, "iters": 20, "wrong": 0}
    return {**base, **figures, "time_us": 195.4, "algbw_gbps": 171.72, "busbw_gbps": 300.51, **fields}


def table_lines(text: str) -> list[list[str]]:
    return [line.split() for line in text.splitlines() if line and not line.startswith("#")]


def test_a_row_has_the_thirteen_columns_of_nccl_tests() -> None:
    text = as_nccl_tests_text([row(), row(in_place=True, time_us=195.41)])
    numbers = ["195.40", "171.72", "300.51", "0", "195.41", "171.72", "300.51", "0"]
    assert table_lines(text) == [["33554432", "8388608", "float", "sum", "-1", *numbers]]


def test_a_placement_that_was_not_measured_is_not_a_number() -> None:
    [cells] = table_lines(as_nccl_tests_text([row(in_place=True)]))
    assert cells[5:9] == ["N/A"] * 4
    assert cells[9] == "195.40"


def test_each_op_is_a_table_of_its_own() -> None:
    text = as_nccl_tests_text([row(), row(op="broadcast")])
    assert "# Collective test starting: all_reduce_perf" in text
    assert "# Collective test starting: broadcast_perf" in text
    assert table_lines(text)[1][3:5] == ["none", "0"]


def test_wrong_elements_fail_the_table() -> None:
    assert "# Out of bounds values : 3 FAILED" in as_nccl_tests_text([row(wrong=3)])


def test_every_rank_is_listed_on_its_node() -> None:
    text = as_nccl_tests_text([row(nodes=2)], devices=["NVIDIA H800"] * 8)
    assert "#  Rank  4 Group  0 Pid      0 on      node2 device  0 [0x00] NVIDIA H800" in text


def test_an_unsupported_op_is_a_comment_and_not_a_row() -> None:
    text = as_nccl_tests_text([{"op": "reduce_scatter", "dtype": "bf16", "unsupported": "no such call"}])
    assert table_lines(text) == []
    assert "# not measured (bf16): no such call" in text


def test_the_json_has_the_keys_of_nccl_tests_version_two() -> None:
    [document] = as_nccl_tests_json([row(), row(in_place=True)])
    assert document["version"] == 2
    assert document["args"] == ["all_reduce_perf"]
    [result] = document["results"]
    assert result["out_of_place"] == {"time": 195.4, "alg_bw": 171.72, "bus_bw": 300.51, "nwrong": 0.0}
    assert (result["type"], result["redop"], result["root"]) == ("float", "sum", "    -1")
    assert len(document["config"]["devices"]) == 8
