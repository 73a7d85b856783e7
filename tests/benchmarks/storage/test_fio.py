"""fio's JSON, in the form that fio 3.33 writes it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from benchmarks.storage.fio import parse


def document(**fields: Any) -> dict[str, Any]:
    """A random read of 32 MiB in blocks of 4 KiB, figures as fio 3.33 gave them; times in ns."""
    read = {"io_bytes": 33554432, "bw_bytes": 35620416, "iops": 8696.39, "runtime": 942, "total_ios": 8192}
    read["clat_ns"] = {"percentile": {"50.000000": 46336, "99.000000": 1400832}}
    write = {"io_bytes": 0, "runtime": 0, "total_ios": 0, "clat_ns": {"min": 0}}
    return {"fio version": "fio-3.33", "jobs": [{"jobname": "t", "error": 0, "read": read, "write": write, **fields}]}


def test_bytes_time_operations_and_latencies_are_read() -> None:
    found = parse(json.dumps(document()), "randread", "direct")
    assert (found.bytes, found.seconds, found.operations) == (33554432, 0.942, 8192)
    assert found.facts == {"latency_us": 46.336, "latency_p99_us": 1400.832}
    assert (found.tool, found.cache) == ("fio", "direct")


def test_the_rate_is_the_one_that_fio_prints() -> None:
    found = parse(json.dumps(document()), "randread", "direct")
    assert found.bytes / found.seconds == pytest.approx(35620416, rel=0.001)


def test_a_write_is_read_from_its_own_section() -> None:
    write = {"io_bytes": 1048576, "runtime": 500, "total_ios": 1}
    assert parse(json.dumps(document(write=write)), "write", "fsync").bytes == 1048576


def test_warnings_before_the_json_are_skipped() -> None:
    text = "fio: this platform does not support process shared mutexes\n" + json.dumps(document())
    assert parse(text, "randread", "direct").operations == 8192


@pytest.mark.parametrize("text", ["", "fio: no such file", '{"jobs": []}', '{"jobs": [{"read": {}}]}', '{"jobs"'])
def test_anything_else_is_an_error(text: str) -> None:
    with pytest.raises(OSError, match="not the JSON it should be"):
        parse(text, "randread", "direct")


def test_a_job_that_failed_is_an_error() -> None:
    with pytest.raises(OSError, match="fio: error 28"):
        parse(json.dumps(document(error=28)), "randread", "direct")
