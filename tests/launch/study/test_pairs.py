"""A record of pairs, said in words."""

from __future__ import annotations

import io
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.console import Console

from configs.machines import load_machines
from launch.study.pairs import promise_of, say_pairs
from results.record import Record
from results.store import write_record

TOPOLOGY = {"links": [["X", "NV12"], ["NV12", "X"]], "links_up": [12, 12]}


def record(rate: float, **more: Any) -> Record:
    rows = [
        {"source": a, "target": b, "direction": "one", "nodes": 1, "busbw_gbps": rate, "wrong": 0}
        for a, b in ((0, 1), (1, 0))
    ]
    return Record(
        study="s",
        cell_id="pairs-2-x",
        benchmark="pairs",
        status="ok",
        started_at="2026-01-01T00:00:00+00:00",
        wall_s=1.0,
        card_hours=0.0,
        collectives=rows,
        config={"machine": asdict(load_machines()["a100_80g"])},
        **{"environment": {"topology": TOPOLOGY}, **more},
    )


def said(study: Path, one: Record) -> str:
    write_record(study, one)
    written = io.StringIO()
    say_pairs(study, [one.cell_id], Console(file=written, width=120))
    return written.getvalue()


def test_the_matrix_is_printed_with_the_share_of_the_promise(tmp_path: Path) -> None:
    text = said(tmp_path, record(240))
    assert "2 pairs over NV12: 240 to 240 GB/s, 80% to 80% of what is promised." in text
    assert "from the rank of the row to that of the column" in text


def test_a_link_that_does_not_keep_its_promise_is_named(tmp_path: Path) -> None:
    assert "0>1: below the promise, 20 GB/s of 300 promised." in said(tmp_path, record(20))


def test_a_record_without_a_topology_is_held_to_the_machine_alone() -> None:
    promise = promise_of(record(240, environment={}))
    assert (promise.intra_gbps, promise.links) == (300, ())


def test_a_cell_that_was_not_measured_says_nothing(tmp_path: Path) -> None:
    study = io.StringIO()
    say_pairs(tmp_path, ["pairs-2-none"], Console(file=study))
    assert study.getvalue() == ""
