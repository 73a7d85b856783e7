"""Measure the cells of a study one after another. A cell's end, whatever it is, is a record; the next one follows."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from configs.cell import Cell
from configs.errors import choose
from launch.agent import Ending, run_ranks
from launch.heartbeats import Beats
from launch.progress import Progress
from results.record import Error, Record
from results.store import cell_folder, find_record, write_record

RETRY = ("none", "failed", "oom", "all")
_TRANSIENT = ("failed", "timeout", "interrupted")


@dataclass(frozen=True)
class Summary:
    """How a sweep ended, in counts of cells."""

    measured: int
    skipped: int
    failed: int
    interrupted: bool

    @property
    def exit_code(self) -> int:
        if self.interrupted:
            return 130
        return 1 if self.failed else 0


def must_run(record: Record | None, retry: str) -> bool:
    """Whether a cell with this record is measured (again) under `retry`.

    none: only what has no record. failed: also failures that another try may mend. oom: also what ran out of memory,
    a deterministic end. all: everything.
    """
    choose("retry", retry, RETRY)
    if record is None or retry == "all":
        return True
    if record.status in _TRANSIENT:
        return retry in ("failed", "oom")
    return record.status in ("oom", "infeasible") and retry == "oom"


def in_order(cells: list[Cell]) -> list[Cell]:
    """Cheapest first: what one card shows is known before eight are kept waiting."""
    return sorted(cells, key=lambda cell: (cell.cards, cell.benchmark.name != "finetune"))


def sweep(study: Path, cells: list[Cell], retry: str, progress: Progress) -> Summary:
    """Measure what is missing of `cells` into `study`. Records are written before anything else can happen."""
    measured = skipped = failed = 0
    for number, cell in enumerate(in_order(cells), start=1):
        record = find_record(study, cell.cell_id)
        if record is not None and not must_run(record, retry):
            progress.skipped(number, cell, record)
            skipped += 1
            failed += record.error is not None
            continue
        progress.begin(number, cell)
        try:
            record = measure_cell(study, cell, progress.beats)
        except KeyboardInterrupt:
            return Summary(measured, skipped, failed, interrupted=True)
        progress.end(record)
        measured += record.status == "ok"
        failed += record.status != "ok"
    return Summary(measured, skipped, failed, interrupted=False)


def measure_cell(study: Path, cell: Cell, on_beats: Callable[[Beats], None]) -> Record:
    """Run one cell and write its record, whatever happens. An interrupt is recorded and passed on."""
    from benchmarks.outcome import make_record, now

    started_at, started = now(), time.monotonic()

    def written(ending: Ending) -> Record:
        record = make_record(
            study.name,
            cell,
            ending.status,
            started_at,
            time.monotonic() - started,
            measurement=ending.measurement,
            error=ending.error,
        )
        write_record(study, record)
        return record

    try:
        ending = run_ranks(cell, cell_folder(study, cell.cell_id) / "ranks", on_beats)
    except KeyboardInterrupt:
        written(Ending(None, "interrupted", Error("interrupted", "the launcher was asked to stop")))
        raise
    return written(ending)
