"""What a person sees while a sweep runs: one live line for the running cell, plain lines where there is no terminal."""

from __future__ import annotations

import time
from types import TracebackType

from rich.console import Console
from rich.live import Live
from rich.text import Text

from configs.cell import Cell
from configs.schema import Measure
from launch.ranks.heartbeats import Beats
from results.record import Record

PLAIN_EVERY_S = 10.0
TAIL_LINES = 8  # of a failed rank's log
_STYLES = {"ok": "green", "oom": "red", "failed": "red", "timeout": "red", "infeasible": "yellow"}


class Progress:
    """Lines about the cells of one sweep, on standard error: standard output is for results alone."""

    def __init__(self, cells: int, console: Console) -> None:
        self._cells, self._console = cells, console
        self._number, self._label = 0, ""
        self._measure: Measure | None = None
        self._begun: dict[str, tuple[int, str]] = {}
        self.meter = ""  # what the rental has cost so far, as a phrase
        self._started = self._said = time.monotonic()
        self._live = Live(console=console, transient=True, auto_refresh=False) if console.is_terminal else None

    def __enter__(self) -> Progress:
        if self._live:
            self._live.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        if self._live:
            self._live.stop()

    def begin(self, number: int, cell: Cell) -> None:
        self._number, self._label = number, cell.label
        self._begun[cell.cell_id] = number, cell.label
        self._measure = cell.measure
        self._started = self._said = time.monotonic()
        self.beats([])

    def beats(self, beats: Beats) -> None:
        """Show the ranks' latest heartbeats."""
        line = Text(f"  [{self._number}/{self._cells}] {self._label}  {describe(beats)}  {self._clock(beats)}")
        if self.meter:
            line.append(f"  {self.meter}", style="dim")
        if self._live:
            self._live.update(line, refresh=True)
        elif time.monotonic() - self._said >= PLAIN_EVERY_S:
            self._said = time.monotonic()
            self._console.print(line)

    def end(self, record: Record) -> None:
        number, label = self._begun.get(record.cell_id, (self._number, self._label))
        self._say(number, label, record.status, outcome(record), record.wall_s)
        if record.error is not None:
            for line in record.error.log_tail.strip().splitlines()[-TAIL_LINES:]:
                self._console.print(Text(f"      | {line}", style="dim"))

    def skipped(self, number: int, cell: Cell, record: Record) -> None:
        self._say(number, cell.label, record.status, f"{outcome(record)}  (already measured)", None)

    def say(self, text: str) -> None:
        """A line that is about the sweep, not one cell's end."""
        self._console.print(Text(f"  {text}"))

    def _say(self, number: int, label: str, status: str, text: str, wall_s: float | None) -> None:
        line = Text(f"  [{number}/{self._cells}] {label}  ")
        line.append(status, style=_STYLES.get(status, ""))
        line.append(f"  {text}" + (f"  {wall_s:.1f} s" if wall_s is not None else ""))
        self._console.print(line)

    def _clock(self, beats: Beats) -> str:
        elapsed = f"{time.monotonic() - self._started:.0f} s"
        left = seconds_left(beats, self._measure) if self._measure else None
        return elapsed if left is None else f"{elapsed}, at most {left:.0f} s left"


def describe(beats: Beats) -> str:
    """Phase, step and rate of the rank that is furthest behind: the job is where that one is."""
    if not beats:
        return "starting"
    slowest = min(beats, key=lambda beat: (beat.get("step", 0), beat["time"]))
    rate = f", {slowest['tokens_per_s']:,.0f} tokens/s" if "tokens_per_s" in slowest else ""
    return f"{slowest['phase']} step {slowest.get('step', 0)}{rate}"


def seconds_left(beats: Beats, measure: Measure) -> float | None:
    """The most that the running cell can still take by its own bounds, from its latest step time; None before that."""
    timed = [beat for beat in beats if "step_s" in beat]
    if not timed:
        return None
    beat = max(timed, key=lambda each: float(each["time"]))
    step_s, done = float(beat["step_s"]), int(beat["step"])
    if beat["phase"] == "warmup":
        warm = max(measure.max_warmup_steps - done, 0) * step_s
        return warm + max(measure.min_steps * step_s, min(measure.max_seconds, measure.max_steps * step_s))
    least = max(measure.min_steps - done, 0) * step_s
    return max(least, min(measure.max_seconds - done * step_s, (measure.max_steps - done) * step_s))


def outcome(record: Record) -> str:
    """A record in a phrase: the rate it measured, or why not."""
    if record.error is not None:
        host = f" on {record.error.host}" if record.error.host and record.parallel.get("nodes", 1) > 1 else ""
        who = f"rank {record.error.rank}{host}: " if record.error.rank is not None else ""
        hint = f" ({record.error.hint})" if record.error.hint else ""
        return f"{who}{record.error.kind}: {' '.join(record.error.message.split())[:160]}{hint}"
    if measured := [row for row in record.collectives if row.get("busbw_gbps") is not None]:
        best = max(measured, key=lambda row: float(row["busbw_gbps"]))
        return f"{best['op']} busbw up to {best['busbw_gbps']:.2f} GB/s"
    if record.storage:
        rates = [f"{row['test']} {row['gbps']:.2f}" for row in record.storage if row.get("gbps") is not None]
        return f"{', '.join(rates)} GB/s" if rates else "nothing could be measured"
    if rates := [row["tflops"] for row in record.matmul if row.get("tflops") is not None]:
        return f"{min(rates):.3g} to {max(rates):.3g} TFLOP/s a card"
    if rate := record.throughput.get("tokens_per_s"):
        return f"{rate:,.0f} tokens/s"
    return ""
