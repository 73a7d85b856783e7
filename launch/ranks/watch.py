"""Watch a cell's ranks while they run: pass their progress on, and end the cell when one stops moving or time is up."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType

from benchmarks.files import MEASUREMENT_FILE
from configs.cell import Cell
from configs.schema import Measure
from launch.ranks.heartbeats import Beats, read_beats
from launch.ranks.stacks import Standing, blamed, standings
from results.record import Error

POLL_S = 0.1
LIMITS = {
    **dict.fromkeys(("start", "joined", "built"), "start_timeout_s"),
    "warmup": "warmup_timeout_s",
}
OTHER_LIMIT = "step_timeout_s"


@dataclass(frozen=True)
class Verdict:
    """Why the watch ended the cell, and the status that its record gets.

    measured: the measurement was there before. One that appears after is that of a rank that was woken to tell where
    it stood, and its last step holds the hang.
    """

    status: str
    error: Error
    measured: bool = False


class Watch:
    """A thread beside the elastic agent. `verdict` tells why it ended the cell; None where it did not have to.

    deadline: time.time() at which the cell is cut. lost(): what is known of a node that has vanished.
    """

    def __init__(
        self,
        cell: Cell,
        folder: Path,
        on_beats: Callable[[Beats], None],
        deadline: float | None = None,
        lost: Callable[[], Error | None] = lambda: None,
    ) -> None:
        self._cell, self._folder, self._on_beats = cell, folder, on_beats
        self._deadline, self._lost = deadline, lost
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="cell watch", daemon=True)
        self._started = time.time()
        self.verdict: Verdict | None = None

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
            measured = (self._folder / MEASUREMENT_FILE).exists()
            verdict = self._judge(beats)
            if verdict is not None:
                self.verdict = replace(verdict, measured=measured)
                for beat in beats:
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(beat["pid"], signal.SIGKILL)
                return

    def _judge(self, beats: Beats) -> Verdict | None:
        if self._deadline is not None and time.time() > self._deadline:
            return Verdict("interrupted", out_of_budget(beats))
        if gone := self._lost():
            return Verdict("failed", gone)
        late = overdue(self._cell, beats, self._started, time.time())
        return Verdict("timeout", self._with_stacks(late, beats)) if late is not None else None

    def _with_stacks(self, late: Error, beats: Beats) -> Error:
        """The hang as the record has it: who is to blame among the silent, and where that rank stands."""
        stands = standings(self._folder, [beat for beat in beats if beat["phase"] != "done"])
        if not stands:
            return late
        culprit = blamed(stands)
        beat = next(beat for beat in beats if beat["rank"] == culprit.rank)
        return replace(_hang(beat, time.time(), self._cell.measure, culprit, beats), log_tail=culprit.stack)


def overdue(cell: Cell, beats: Beats, started: float, now: float) -> Error | None:
    """The rank that has been in one phase or step for longer than that phase's limit, or None."""
    measure = cell.measure
    if not beats:
        if now - started > measure.start_timeout_s:
            message = f"no rank came up in {now - started:.0f} s"
            return Error("hang", message, hint="measure.start_timeout_s is the limit", host=socket.gethostname())
        return None
    silent = min((beat for beat in beats if beat["phase"] != "done"), key=lambda beat: beat["time"], default=None)
    if silent is None or now - silent["time"] <= limit_s(measure, silent["phase"]):
        return None
    return _hang(silent, now, measure, None, beats)


def limit_s(measure: Measure, phase: str) -> float:
    """How long a rank may be silent in `phase`."""
    value: float = getattr(measure, LIMITS.get(phase, OTHER_LIMIT))
    return value


def out_of_budget(beats: Beats) -> Error:
    """The account of a cell that was cut because the sweep's money or time was spent."""
    return Error("budget", f"cut {reached(beats)}: the sweep's budget is spent", hint="a larger budget.* goes on here")


def reached(beats: Beats) -> str:
    """How far the ranks were, as a phrase."""
    if not beats:
        return "before any rank was up"
    last = min(beats, key=lambda beat: (beat.get("step", 0), beat["time"]))
    rate = f" at about {last['tokens_per_s']:,.0f} tokens/s" if "tokens_per_s" in last else ""
    return f"in phase {last['phase']}, step {last['step']}{rate}"


def _hang(beat: dict[str, object], now: float, measure: Measure, standing: Standing | None, beats: Beats) -> Error:
    phase = str(beat["phase"])
    what = f"rank {beat['rank']} has not moved for {now - float(str(beat['time'])):.0f} s in phase {phase}"
    what += f", step {beat['step']}"
    if standing is not None and standing.stopped:
        what += "; its process is stopped (SIGSTOP, a debugger, or job control)"
    elif standing is not None and standing.waits:
        what += "; it waits in a collective, and so do all that have not finished"
    finished = [str(other["rank"]) for other in beats if other["phase"] == "done"]
    if finished:
        what += f"; finished already: rank {', '.join(finished)}"
    name = LIMITS.get(phase, OTHER_LIMIT)
    return Error(
        "hang",
        what,
        rank=int(str(beat["rank"])),
        hint=f"measure.{name} is the limit; the log tail is where it stood",
        host=socket.gethostname(),
    )
