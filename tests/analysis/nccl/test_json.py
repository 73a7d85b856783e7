"""The JSON of NCCL tests and RCCL tests, whole and cut off. Hand-made in the forms that their sources write."""

from __future__ import annotations

import json
from typing import Any

from analysis.nccl.json import looks_like_json
from analysis.nccl.tests import read_log


def body(time: float, wrong: Any = 0.0) -> dict[str, Any]:
    return {"time": time, "alg_bw": 171.72, "bus_bw": 300.51, "nwrong": wrong}


def document(**fields: Any) -> dict[str, Any]:
    """As src/util.cu of NCCL tests writes it: the root is a word, booleans are words."""
    devices = [
        {
            "rank": rank,
            "group": 0,
            "pid": 4000 + rank,
            "hostname": f"node{rank // 4}",
            "device": rank % 4,
            "device_hex": "0000:18:00",
            "device_info": "NVIDIA H800",
        }
        for rank in range(8)
    ]
    result = {"size": 33554432, "count": 8388608, "type": "float", "redop": "sum", "root": "    -1"}
    result |= {"out_of_place": body(195.4), "in_place": body(195.41), "actual_iterations": 20, "experiment_name": ""}
    return {
        "version": 2,
        "start_time": "2026-01-02 03:04:05",
        "args": ["/opt/nccl-tests/build/all_reduce_perf", "-b", "32M"],
        "env": ["HOME=/home/someone", "API_TOKEN=secret", "NCCL_ALGO=Ring"],
        "nccl_version": 22805,
        "config": {"nthreads": 1, "ngpus": 1, "validation": 1, "parallel_init": "false", "devices": devices},
        "results": [result],
        "out_of_bounds": {"count": 0, "okay": "true"},
        "average_bus_bandwidth": {"bandwidth": 300.5, "okay": "unchecked"},
        "errors": [],
        **fields,
    }


def test_a_run_is_read_with_its_devices_and_average() -> None:
    log = read_log(json.dumps(document()))
    [run] = log.runs
    assert (run.op, run.ranks, run.nodes, run.device) == ("all_reduce", 8, 2, "NVIDIA H800")
    assert [(row["in_place"], row["time_us"], row["wrong"]) for row in run.rows] == [
        (False, 195.4, 0),
        (True, 195.41, 0),
    ]
    assert log.nccl_version == "2.28.5"
    assert any("average busbw 300.5 GB/s is the mean over the size list" in note for note in run.notes)


def test_only_variables_of_nccl_and_cuda_are_taken_from_the_environment() -> None:
    assert read_log(json.dumps(document())).runs[0].environment == {"NCCL_ALGO": "Ring"}


def test_nan_is_a_word_there_and_not_a_number_here() -> None:
    data = document()
    data["results"][0]["in_place"] = {"time": "nan", "alg_bw": "nan", "bus_bw": "nan", "nwrong": None}
    rows = read_log(json.dumps(data)).rows
    assert (rows[1]["time_us"], rows[1]["busbw_gbps"], rows[1]["wrong"]) == (None, None, None)


def test_a_placement_that_was_not_run_is_null() -> None:
    data = document()
    data["results"][0]["out_of_place"] = None
    assert [row["in_place"] for row in read_log(json.dumps(data)).rows] == [True]


def test_the_spread_over_iterations_is_kept() -> None:
    data = document()
    spread = {"min_us": 190.0, "max_us": 220.0, "avg_us": 195.4, "p50_us": 195.0, "p95_us": 210.0, "p99_us": 219.0}
    data["results"][0]["out_of_place_per_iter"] = spread
    row = read_log(json.dumps(data)).rows[0]
    assert (row["time_min_us"], row["time_max_us"], row["time_p99_us"]) == (190.0, 220.0, 219.0)


def test_a_time_on_the_processor_is_read_under_its_own_name() -> None:
    data = document()
    data["results"][0]["in_place"] = {"cpu_time": 12.5, "alg_bw": 1.0, "bus_bw": 1.0, "nwrong": None}
    assert read_log(json.dumps(data)).rows[1]["time_us"] == 12.5


def test_a_file_that_ends_in_the_middle_gives_its_whole_results() -> None:
    data = document()
    data["results"] = [data["results"][0] | {"size": 2**power} for power in (20, 21, 22)]
    text = json.dumps(data)
    log = read_log(text[: text.rindex('"in_place"')])
    assert [row["bytes"] for row in log.rows] == [2**20, 2**20, 2**21, 2**21]
    assert log.runs[0].ranks == 8
    assert "not whole" in log.warnings[0]


def test_two_runs_in_one_file_are_two_runs() -> None:
    second = document(args=["all_gather_perf"])
    second["results"][0] |= {"count": 1048576, "redop": "none"}
    log = read_log(json.dumps(document()) + "\n" + json.dumps(second))
    assert [run.op for run in log.runs] == ["all_reduce", "all_gather"]


def test_lines_of_rccl_tests_pair_up_by_size() -> None:
    """The line is from ROCm/rccl-tests pull request 93: 1024 bytes on 4 devices, busbw 1.5 x algbw."""
    line = {
        "#wrong": "0",
        "algBw": 0.05337739748698796,
        "busBw": 0.08006609623048194,
        "gpus": 4,
        "inPlace": 0,
        "name": "AllReduce",
        "redop": "sum",
        "size": 1024,
        "time": 19.184150000000002,
        "type": "float",
    }
    log = read_log("\n".join(json.dumps(line | {"inPlace": place}) for place in (0, 1)))
    [run] = log.runs
    assert (run.op, run.ranks, [row["in_place"] for row in run.rows]) == ("all_reduce", 4, [False, True])
    assert run.rows[0]["busbw_gbps"] / run.rows[0]["algbw_gbps"] > 1.49


def test_an_mpi_prefix_is_not_json() -> None:
    assert not looks_like_json("[1,0]<stdout>:# nThread 1")
