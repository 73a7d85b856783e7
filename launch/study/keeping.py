"""Keep a record whatever the disk does: with its cell's cost so far, and never a good one lost to a bad one."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path

from benchmarks.outcome import make_record
from configs.cell import Cell
from launch.study.claims import Attempt, abandoned, close_attempt
from launch.study.space import written
from results.record import MEASURED, Error, Record
from results.store import cell_folder, find_record, write_record


class StudyUnwritable(Exception):
    """The study's folder takes no more records: a full disk, a read-only one. Says where a finished record went."""


def keep(study: Path, record: Record, before: Record | None) -> Record:
    """Write `record` in the place of `before`, with what the cell took until now; returns what is kept.

    A measurement is not given up for a later attempt that failed. Raises StudyUnwritable.
    """
    record = replace(record, spending={"attempt": attempts(before) + 1, **record.spending})
    record.spending["earlier_card_hours"] = paid(before)
    kept = record
    if before is not None and before.status in MEASURED and record.status not in MEASURED:
        taken = {**before.spending, "attempt": attempts(before) + 1}
        taken["earlier_card_hours"] = (before.spending.get("earlier_card_hours") or 0.0) + paid(record) - paid(before)
        kept = replace(before, spending=taken)
    try:
        written(study, lambda: write_record(study, kept))
        close_attempt(cell_folder(study, record.cell_id))
    except OSError as error:
        raise StudyUnwritable(f"{study}: {error.strerror or error}; {_rescued(study, kept)}") from None
    return kept


def attempts(record: Record | None) -> int:
    """How often the record's cell was begun."""
    return 0 if record is None else int(record.spending.get("attempt", 1))


def paid(record: Record | None) -> float:
    """Card-hours that a cell took until now: this attempt, the cards idle meanwhile, earlier attempts."""
    if record is None:
        return 0.0
    extras = ("idle_card_hours", "earlier_card_hours")
    return record.card_hours + sum(float(record.spending.get(name) or 0.0) for name in extras)


def settle_abandoned(study: Path, cell: Cell) -> Record | None:
    """The cell's record, once an attempt that nobody finished is in it as `interrupted`. The cell must be claimed."""
    folder = cell_folder(study, cell.cell_id)
    attempt = abandoned(folder)
    before = find_record(study, cell.cell_id)
    return before if attempt is None else keep(study, _unfinished(study, cell, attempt), before)


def _unfinished(study: Path, cell: Cell, attempt: Attempt) -> Record:
    error = Error("interrupted", "the launcher was killed, or its machine went down, while this cell was measured")
    return make_record(study.name, cell, "interrupted", attempt.started_at, attempt.wall_s, error=error)


def _rescued(study: Path, record: Record) -> str:
    """Write the record where there is room for it; tells where, for the person who mends the disk."""
    shelter = Path(tempfile.gettempdir()) / "cardscale-rescued" / study.name
    try:
        path = write_record(shelter, record)
    except OSError as error:
        return f"the record of {record.cell_id} could not be kept elsewhere either ({error.strerror})"
    return f"the record of {record.cell_id} is in {path}: move it to {cell_folder(study, record.cell_id)}"
