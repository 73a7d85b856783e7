"""Cells side by side on disjoint cards of one machine, and what that does to their speed, measured once a study."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.outcome import now
from configs.cell import Cell
from launch.ranks.agent import Ending, Node, run_ranks
from launch.study.interrupts import Interrupts, Stopped
from launch.study.progress import Progress
from results.record import Record
from results.store import cell_folder, write_json_atomically

INTERFERENCE_FILE = "interference.json"
POLL_S = 0.1


@dataclass(frozen=True)
class Packed:
    """How one cell of a group ended, and the account of its time. environment: what it shared the machine with."""

    ending: Ending
    started_at: str
    wall_s: float
    environment: dict[str, Any] = field(default_factory=dict)


def fits_beside(cell: Cell, group: Sequence[Cell], cards: int) -> bool:
    """Whether `cell` finds cards of its own beside `group` on a machine of `cards`. Several nodes are never shared."""
    if any(each.cluster.nodes > 1 for each in (cell, *group)):
        return False
    return sum(each.cards for each in group) + cell.cards <= cards


def disjoint(cells: Sequence[Cell], visible: Sequence[str]) -> list[list[str]]:
    """For each cell its own of the `visible` cards, in order."""
    bounds, shares = 0, []
    for cell in cells:
        shares.append(list(visible[bounds : bounds + cell.cards]))
        bounds += cell.cards
    return shares


def run_packed(
    study: Path,
    cells: Sequence[Cell],
    cards: int,
    records: Mapping[str, Record],
    interrupts: Interrupts,
    deadline: float | None,
    progress: Progress,
) -> list[Packed]:
    """Run `cells` at once, each in a thread with an agent of its own; returns their ends in order.

    The first time in a study a cell that was measured alone before runs once more beside them, on free cards, as a
    probe: the share of its speed that it loses is the interference, kept in interference.json.
    """
    probe = None if (study / INTERFERENCE_FILE).exists() else _probe(cells, cards, records)
    every = [*cells, *([probe] if probe is not None else [])]
    shares = disjoint(every, _visible(cards))
    stop = threading.Event()
    runs: list[Packed | None] = [None] * len(every)

    def run(index: int, cell: Cell) -> None:
        started_at, started = now(), time.monotonic()
        is_probe = index >= len(cells)
        folder = study / "interference" if is_probe else cell_folder(study, cell.cell_id) / "ranks"
        others = [other.label for other in every if other is not cell]
        variables = {"CUDA_VISIBLE_DEVICES": ",".join(shares[index])} if cell.machine.device == "cuda" else {}
        ending = run_ranks(
            cell, folder, lambda beats: None, deadline=deadline, node=Node(environment=variables), stop=stop
        )
        runs[index] = Packed(ending, started_at, time.monotonic() - started, {"packed_with": others})

    threads = [threading.Thread(target=run, args=(i, cell), name=cell.label) for i, cell in enumerate(every)]
    for thread in threads:
        thread.start()
    try:
        with interrupts.interruptible():
            _join(threads)
    except Stopped:
        stop.set()
        _join(threads)
    ended = [run for run in runs if run is not None]
    if probe is not None and len(ended) == len(every):
        _report(study, probe, records[probe.cell_id], ended.pop(), progress)
    return ended[: len(cells)]


def interference(alone_tokens_per_s: float, packed_tokens_per_s: float) -> float:
    """The share of its speed that a cell loses beside others; negative where it was faster."""
    return 1 - packed_tokens_per_s / alone_tokens_per_s


def _probe(cells: Sequence[Cell], cards: int, records: Mapping[str, Record]) -> Cell | None:
    """The smallest cell that was measured alone and finds cards beside `cells`."""
    from configs.cell import from_dict

    alone = [
        from_dict(Cell, record.config)
        for record in records.values()
        if record.status == "ok" and record.throughput.get("tokens_per_s") and "packed_with" not in record.environment
    ]
    fitting = [cell for cell in alone if fits_beside(cell, cells, cards)]
    return min(fitting, key=lambda cell: cell.cards, default=None)


def _report(study: Path, probe: Cell, record: Record, run: Packed, progress: Progress) -> None:
    measured = (run.ending.measurement or {}).get("throughput", {}).get("tokens_per_s")
    if not measured:
        progress.say(f"interference is not known: {probe.label} beside other cells ended as {run.ending.status}")
        return
    alone = float(record.throughput["tokens_per_s"])
    lost = interference(alone, float(measured))
    found = {"cell": probe.label, "alone_tokens_per_s": alone, "packed_tokens_per_s": measured, "interference": lost}
    write_json_atomically(study / INTERFERENCE_FILE, found | run.environment)
    advice = "; pack=false measures without it" if lost > 0.02 else ""
    progress.say(f"side by side, {probe.label} runs at {1 - lost:.1%} of its speed alone{advice}")


def _visible(cards: int) -> list[str]:
    """The cards that may be used, as CUDA_VISIBLE_DEVICES names them."""
    import os

    named = [name.strip() for name in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if name.strip()]
    return named or [str(index) for index in range(cards)]


def _join(threads: Iterable[threading.Thread]) -> None:
    for thread in threads:
        while thread.is_alive():  # without a timeout no signal would be seen
            thread.join(POLL_S)
