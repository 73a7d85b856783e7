"""Watch the job's cards, or its ranks on a processor, from the launcher while the ranks work. Never fails a cell.

The launcher samples and not the ranks: a rank would take time from its own steps, and one that dies takes its figures
along. All questions are asked in a thread: a driver that hangs delays the cell by a few seconds at most.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import Any

import psutil

from benchmarks.device import nvml
from benchmarks.device.samples import Account, Sample, Watched, device_section
from benchmarks.device.topology import from_nvml, verdict
from benchmarks.device.visibility import Card, Visible, visible
from benchmarks.meters.environment import processor

INTERVAL_S = 0.5
PATIENCE_S = 5.0  # for a driver that does not answer


class DeviceSampler:
    """A context manager around one cell on this node; `summary()` is the record's `device` section afterwards.

    device: the machine's, "cpu" or "cuda". cards: ranks on this node. variables: the environment that the ranks get;
    its mask says which cards are theirs. nodes: of the cell; across several, the links between them are what counts.
    """

    def __init__(
        self, device: str, cards: int, variables: Mapping[str, str], nodes: int = 1, interval_s: float = INTERVAL_S
    ) -> None:
        self._device, self._interval_s = device, interval_s
        self._cards, self._variables, self._nodes = cards, dict(variables), nodes
        self._phase = ""
        self._pids: dict[int, int] = {}  # rank -> process
        self._rss_gib: dict[int, float] = {}  # rank -> peak
        self._account = Account((), why={"": f"the driver did not answer in {PATIENCE_S:.0f} s"})
        self._wake, self._ready, self._ending = threading.Event(), threading.Event(), threading.Event()
        watch = self._watch_ranks if device == "cpu" else self._watch_cards
        self._thread = threading.Thread(target=watch, name="device sampler", daemon=True)

    def __enter__(self) -> DeviceSampler:
        self._thread.start()
        self._ready.wait(PATIENCE_S)  # the first look is before the ranks start: who is on the cards then is not us
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self._ending.set()
        self._wake.set()
        self._thread.join(PATIENCE_S)

    def observe(self, beats: Sequence[Mapping[str, Any]]) -> None:
        """Take the ranks' processes and phase from their heartbeats; a new phase is looked at at once."""
        self._pids = {beat["rank"]: beat["pid"] for beat in beats}
        phases = {beat["phase"] for beat in beats}
        if len(phases) == 1 and phases != {self._phase}:
            self._phase = phases.pop()
            self._wake.set()

    def summary(self) -> dict[str, Any]:
        """The device section. Where nothing could be asked: blank fields, and `blank_because`."""
        if self._device != "cpu":
            return device_section(self._account)
        ranks = sorted(self._rss_gib)
        return processor() | {
            "rss_peak_gib": max(self._rss_gib.values(), default=None),
            "rss_peak_gib_by_rank": [self._rss_gib[rank] for rank in ranks],
        }

    def _repeat(self, look: Callable[[str], None]) -> None:
        """Call look(phase) now, every interval, at a new phase, and once more at the end."""
        while True:
            ending = self._ending.is_set()
            look(self._phase)
            self._ready.set()
            if ending:
                return
            self._wake.wait(self._interval_s)
            self._wake.clear()

    def _watch_ranks(self) -> None:
        def look(phase: str) -> None:
            for rank, pid in self._pids.items():
                with contextlib.suppress(psutil.Error):  # it has ended
                    used = psutil.Process(pid).memory_info().rss / nvml.GIB
                    self._rss_gib[rank] = max(self._rss_gib.get(rank, 0.0), used)

        self._repeat(look)

    def _watch_cards(self) -> None:
        try:
            with nvml.session() as bindings:
                watch = CardWatch(bindings, self._cards, self._variables, self._nodes)
                self._account = watch.account
                self._repeat(watch.look)
        except nvml.NvmlUnavailable as missing:
            self._account = Account((), why={"": str(missing)})
        finally:
            self._ready.set()


class CardWatch:
    """The job's cards and the idle ones of its mask, looked at again and again; `account` grows with each look."""

    def __init__(self, bindings: Any, cards: int, variables: Mapping[str, str], nodes: int = 1) -> None:
        self._nvml = bindings
        self._why: dict[str, str] = {}
        seen = visible(nvml.cards(bindings), variables)
        job, idle = job_cards(seen, cards)
        if not job:
            self._why[""] = "; ".join(seen.notes) or "NVML shows no card"
        elif len(job) < cards:
            self._why[""] = f"{cards} ranks and {len(job)} visible cards"
        self._seen = [_Seen(bindings, card, self._why) for card in (*job, *idle)]
        watched = [each.watched for each in self._seen]
        links = verdict(from_nvml(bindings, job)[0], nodes) if job else None
        self.account = Account(watched[: len(job)], watched[len(job) :], self._why, links)

    def look(self, phase: str) -> None:
        for each in self._seen:
            each.look(phase)


def job_cards(seen: Visible, ranks: int) -> tuple[list[Card], list[Card]]:
    """The cards that `ranks` local ranks work on, and those that the mask shows beside them.

    Where CUDA's order is not certain there are none, unless the job takes all of them and the order does not matter.
    """
    if not seen.certain and ranks < len(seen.cards):
        return [], []
    return list(seen.cards[:ranks]), list(seen.cards[ranks:])


class _Seen:
    """One card with its open handles, its samples, and whether somebody was there before us."""

    def __init__(self, bindings: Any, card: Card, why: dict[str, str]) -> None:
        self.card, self._nvml, self._why = card, bindings, why
        self.samples: list[Sample] = []
        self._own = self._note("device_used_gib", nvml.open_card(bindings, card.uuid))
        self._whole = nvml.whole_card(bindings, self._own, card.is_slice).value if self._own is not None else None
        there = self._ask("shared", nvml.compute_processes, self._own)
        self.watched = Watched(
            card,
            self.samples,
            shared=None if there is None else bool(there),
            driver_reserved_gib=self._quietly(nvml.driver_reserved_gib, self._own),
            capability=self._quietly(nvml.capability, self._whole),
        )

    def look(self, phase: str) -> None:
        """Take one sample. What a MIG slice shares with its neighbours is theirs too, and left blank."""
        used = self._ask("device_used_gib", nvml.used_gib, self._own)
        clock = self._ask("sm_clock_mhz", nvml.sm_clock_mhz, self._whole)
        reasons = self._ask("throttled", nvml.clock_reasons, self._whole)
        busy = power = energy = None
        if self.card.is_slice:
            self._why["power_w, energy_j, utilisation_pct"] = "the card counts them for all of its MIG slices together"
        else:
            busy = self._ask("utilisation_pct", nvml.utilisation_pct, self._whole)
            power = self._ask("power_w", nvml.power_w, self._whole)
            energy = self._quietly(nvml.energy_j, self._whole)
        self.samples.append(Sample(time.monotonic(), phase, busy, used, power, clock, reasons, energy))

    def _ask(self, field: str, query: Callable[[Any, Any], nvml.Answer], handle: Any) -> Any:
        return self._note(field, query(self._nvml, handle)) if handle is not None else None

    def _quietly(self, query: Callable[[Any, Any], nvml.Answer], handle: Any) -> Any:
        """An answer whose lack needs no word: others stand in for it."""
        return query(self._nvml, handle).value if handle is not None else None

    def _note(self, field: str, answer: nvml.Answer) -> Any:
        if answer.reason:
            self._why.setdefault(field, answer.reason)
        return answer.value
