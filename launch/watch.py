"""Watch a cell's ranks while they run: pass their progress on, and end the cell when one of them stops moving."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType

from configs.cell import Cell
from launch.heartbeats import Beats, read_beats
from results.record import Error

POLL_S = 0.1
STACKS_S = 1.0  # what a rank is given to write its stacks before it is killed


class Watch:
    """A thread beside the elastic agent. `verdict` tells why it ended the cell; None where it did not have to."""

    def __init__(self, cell: Cell, folder: Path, on_beats: Callable[[Beats], None]) -> None:
        self._cell, self._folder, self._on_beats = cell, folder, on_beats
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="cell watch", daemon=True)
        self._started = time.time()
        self.verdict: Error | None = None

    def __enter__(self) -> Watch:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self._stop.set()
        self._thread.join()
        self._on_beats(read_beats(self._folder))

    def _run(self) -> None:
        while not self._stop.wait(POLL_S):
            beats = read_beats(self._folder)
            self._on_beats(beats)
            late = overdue(self._cell, beats, self._started, time.time())
            if late is not None:
                self.verdict = self._with_stacks(late, beats)
                for beat in beats:
                    _signal(beat["pid"], signal.SIGKILL)
                return

    def _with_stacks(self, late: Error, beats: Beats) -> Error:
        """Ask every rank where it stands before it is ended; the stuck one's stack goes into the record."""
        for beat in beats:
            _signal(beat["pid"], signal.SIGCONT)
            _signal(beat["pid"], signal.SIGUSR1)
        time.sleep(STACKS_S)
        path = self._folder / f"rank{late.rank}.stacks"
        stacks = path.read_text(errors="replace")[-8000:] if path.exists() else ""
        return Error(late.kind, late.message, late.rank, late.hint, stacks)


def overdue(cell: Cell, beats: Beats, started: float, now: float) -> Error | None:
    """The rank that has been in one phase or step for too long, or None. The one silent longest is the one to blame."""
    limits = dict.fromkeys(("start", "joined", "built"), cell.measure.start_timeout_s)
    if not beats:
        if now - started > cell.measure.start_timeout_s:
            return Error(
                "hang", f"no rank came up in {now - started:.0f} s", hint="measure.start_timeout_s is the limit"
            )
        return None
    silent = min((beat for beat in beats if beat["phase"] != "done"), key=lambda beat: beat["time"], default=None)
    if silent is None:
        return None
    limit = limits.get(silent["phase"], cell.measure.step_timeout_s)
    seconds = now - silent["time"]
    if seconds <= limit:
        return None
    name = "start_timeout_s" if silent["phase"] in limits else "step_timeout_s"
    return Error(
        "hang",
        f"rank {silent['rank']} has not moved for {seconds:.0f} s in phase {silent['phase']}, step {silent['step']}",
        rank=silent["rank"],
        hint=f"measure.{name} is the limit; the stack is where it stood",
    )


def _signal(pid: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)
