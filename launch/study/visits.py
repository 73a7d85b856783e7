"""One command's way through a study: what to do with each cell, measuring it, and the account of time and cards."""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.outcome import make_record, now
from configs.cell import Cell
from configs.schema import Budget
from launch.ranks.agent import Node, run_ranks, warm_up
from launch.study.budget import Spent, Tariff, expected_s, meter, seconds_left, spent
from launch.study.claims import claim, note_attempt
from launch.study.interrupts import Interrupts
from launch.study.keeping import keep, settle_abandoned
from launch.study.memory import cannot_fit, with_expected
from launch.study.pack import Packed, fits_beside, run_packed
from launch.study.progress import Progress
from launch.study.retry import must_run
from launch.study.space import reserve
from results.record import Record
from results.store import cell_folder, find_record, records

TAKEN = "being measured by"
POLL_S = 0.2


@dataclass(frozen=True)
class Terms:
    """What a sweep may use: which cards are paid for, at which tariff, within which budget. retry: as `must_run`."""

    retry: str = "failed"
    cards: int = 1
    budget: Budget = field(default_factory=Budget)
    tariff: Tariff | None = None
    pack: bool = False
    gate: bool = True  # what cannot fit the card is recorded infeasible and not started


@dataclass(frozen=True)
class Ready:
    """A cell that is to be measured now; `before` is the record that it has so far."""

    cell: Cell
    before: Record | None


class Visits:
    """Goes from cell to cell. Records are written before anything else can happen."""

    def __init__(
        self, study: Path, cells: list[Cell], terms: Terms, progress: Progress, interrupts: Interrupts
    ) -> None:
        self.study, self.terms, self.progress, self.interrupts = study, terms, progress, interrupts
        self.cells = cells
        self.records = {record.cell_id: record for record in records(study)}
        self.measured = self.skipped = self.failed = self.cut = 0
        self._number = {cell.cell_id: number for number, cell in enumerate(cells, start=1)}
        self._started = time.time()
        self._paid_until = time.monotonic()
        self._reserved = False

    def visit(self, queue: list[Cell], wait: bool = False) -> str:
        """Settle the first cell of `queue`, under `pack` also those that run beside it, and take them out of it.

        Returns "" or why the cell stays. wait: until another sweep that has the cell is done. Raises Stopped,
        StudyUnwritable; OSError where the study's folder cannot be written.
        """
        with contextlib.ExitStack() as claims:
            found = self._prepare(queue[0], claims, wait)
            if isinstance(found, str):
                if not found:
                    queue.pop(0)
                return found
            left_s = self.seconds_left()
            if left_s < self.expected_s(found.cell):
                return "the budget does not reach for it"
            self.interrupts.check()
            group = [found, *self._companions(found.cell, queue[1:], claims)]
            self._measure(group, None if math.isinf(left_s) else time.time() + left_s)
            done = {ready.cell.cell_id for ready in group}
            queue[:] = [cell for cell in queue if cell.cell_id not in done]
        return ""

    def _prepare(self, cell: Cell, claims: contextlib.ExitStack, wait: bool) -> Ready | str:
        """The cell as it is to be measured; "" where its record will do; else who has it."""
        folder = cell_folder(self.study, cell.cell_id)
        if self._good_enough(cell, find_record(self.study, cell.cell_id)):
            return ""
        while holder := claims.enter_context(claim(folder)):
            if not wait:
                return f"{TAKEN} {holder}"
            self.interrupts.check()
            time.sleep(POLL_S)
        before = settle_abandoned(self.study, cell)
        if self._good_enough(cell, before) or self._refused(cell, before):
            return ""
        return Ready(cell, before)

    def _refused(self, cell: Cell, before: Record | None) -> bool:
        """Whether the gate keeps `cell` from being started; its record then says so."""
        error = cannot_fit(cell) if self.terms.gate else None
        if error is None:
            return False
        self.progress.begin(self._number[cell.cell_id], cell)
        record = with_expected(make_record(self.study.name, cell, "infeasible", now(), 0.0, error=error), cell)
        self.records[cell.cell_id] = keep(self.study, record, before)
        self.failed += 1
        self.progress.end(record)
        return True

    def _good_enough(self, cell: Cell, record: Record | None) -> bool:
        if record is None or must_run(record, self.terms.retry):
            return False
        self.records[cell.cell_id] = record
        self.progress.skipped(self._number[cell.cell_id], cell, record)
        self.skipped += 1
        self.failed += record.error is not None
        return True

    def _companions(self, first: Cell, others: Sequence[Cell], claims: contextlib.ExitStack) -> list[Ready]:
        """Cells that can run beside `first` on the cards that it leaves free."""
        chosen: list[Ready] = []
        if not self.terms.pack:
            return chosen
        for cell in others:
            if self.terms.gate and cannot_fit(cell):
                continue
            if fits_beside(cell, [first, *(ready.cell for ready in chosen)], self.terms.cards):
                found = self._prepare(cell, claims, wait=False)
                if isinstance(found, Ready):
                    chosen.append(found)
        return chosen

    def _measure(self, group: list[Ready], deadline: float | None) -> None:
        if not self._reserved:
            reserve(self.study)
            self._reserved = True
        warm_up()
        for ready in group:
            self.progress.begin(self._number[ready.cell.cell_id], ready.cell)
            note_attempt(cell_folder(self.study, ready.cell.cell_id), ready.cell.cards)
        if len(group) > 1:
            cells = [ready.cell for ready in group]
            packed = run_packed(
                self.study, cells, self.terms.cards, self.records, self.interrupts, deadline, self.progress
            )
        else:
            packed = [self._alone(group[0].cell, deadline)]
        self.settle(group, packed)

    def _alone(self, cell: Cell, deadline: float | None) -> Packed:
        started_at, started = now(), time.monotonic()
        folder = cell_folder(self.study, cell.cell_id) / "ranks"
        ending = run_ranks(cell, folder, self.progress.beats, self.interrupts, deadline, self.node(cell))
        return Packed(ending, started_at, time.monotonic() - started)

    def node(self, cell: Cell) -> Node | None:
        """What this machine adds where several nodes measure a cell together; nothing here."""
        return None

    def settle(self, group: list[Ready], packed: list[Packed]) -> None:
        """Write the records of cells that have ended, and count them. Idle cards are in the first one's account."""
        paid_s, self._paid_until = time.monotonic() - self._paid_until, time.monotonic()
        worked_s = sum(ready.cell.cards * run.wall_s for ready, run in zip(group, packed, strict=True))
        idle = max(self.terms.cards * paid_s - worked_s, 0.0) / 3600
        for ready, run in zip(group, packed, strict=True):
            record = make_record(
                self.study.name,
                ready.cell,
                run.ending.status,
                run.started_at,
                run.wall_s,
                measurement=run.ending.measurement,
                error=run.ending.error,
                device=run.ending.device,
                circumstances=run.environment,
                spending={"idle_card_hours": idle},
            )
            idle = 0.0
            record = with_expected(record, ready.cell)
            self.records[ready.cell.cell_id] = keep(self.study, record, ready.before)
            self.measured += record.status == "ok"
            self.cut += record.status == "interrupted"
            self.failed += record.status not in ("ok", "interrupted")
            self.progress.meter = self.meter()
            self.progress.end(record)

    def spent(self) -> Spent:
        return spent(self.records.values())

    def expected_s(self, cell: Cell) -> float:
        return expected_s(cell, self.records.values())

    def seconds_left(self) -> float:
        return seconds_left(self.terms.budget, self.terms.tariff, self.spent(), self.terms.cards, self._started)

    def meter(self) -> str:
        """The rental meter, with what the cells without a record are expected to take."""
        so_far = self.spent()
        coming = sum(self.expected_s(cell) for cell in self.cells if cell.cell_id not in self.records)
        return meter(so_far, so_far.card_hours + coming * self.terms.cards / 3600, self.terms.tariff)
