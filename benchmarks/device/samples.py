"""From looks at the job's cards to the record's `device` section. Pure: plain data in, plain data out."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from benchmarks.device.nvml import BF16_CAPABILITY, THROTTLING
from benchmarks.device.topology import CROSS_NODE
from benchmarks.device.visibility import Card

MEASURING = "measure"  # the heartbeat's phase in which the steps are timed


@dataclass(frozen=True)
class Sample:
    """One look at one card; None is not answered. time_s: of a clock that never goes back."""

    time_s: float
    phase: str = ""
    utilisation_pct: float | None = None
    used_gib: float | None = None
    power_w: float | None = None
    sm_clock_mhz: float | None = None
    reasons: tuple[str, ...] | None = None
    energy_j: float | None = None  # of the driver's counter


@dataclass(frozen=True)
class Watched:
    """What was seen of one card from the cell's start to its end. shared: others' processes were on it before ours."""

    card: Card
    samples: Sequence[Sample]
    shared: bool | None = None
    driver_reserved_gib: float | None = None
    capability: tuple[int, int] | None = None


@dataclass(frozen=True)
class Account:
    """Everything a sampler has seen. idle: cards that the mask shows and the job leaves. why: field -> why blank."""

    job: Sequence[Watched]
    idle: Sequence[Watched] = ()
    why: Mapping[str, str] = field(default_factory=dict)
    interconnect: str | None = None


def device_section(account: Account) -> dict[str, Any]:
    """The `device` section for the job's cards; blank figures are None and `blank_because` says why.

    utilisation_pct: time with a kernel resident, a rank that waits in a collective included: not efficiency. Mean over
    the cards. power_w: of all the job's cards. Both, and sm_clock_mhz (of the slowest card), are taken while steps were
    timed, where anything was seen then (`window`). energy_j: of the job's cards over the whole cell; idle_energy_j: of
    those that were rented and not used. device_used_gib: the largest card's peak over the whole cell.
    """
    cards = [by_card(each) for each in account.job]
    idle = [energy_j(each.samples) for each in account.idle]
    reasons = [each["throttle_reasons"] for each in cards]
    known = [each for each in reasons if each is not None]
    fullest = max((each for each in cards if each["device_used_gib"] is not None), key=_used, default=None)
    return {
        "name": _names(each.card.name for each in account.job),
        "count": len(cards),
        "uuids": [each["uuid"] for each in cards],
        "indices": [each["index"] for each in cards],
        "interconnect": account.interconnect,
        "card_gib": _least(each["card_gib"] for each in cards),
        "utilisation_pct": _mean(each["utilisation_pct"] for each in cards),
        "power_w": _sum(each["power_w"] for each in cards),
        "energy_j": _sum(each["energy_j"] for each in cards),
        "energy_j_per_token": None,
        "idle_cards": len(idle),
        "idle_energy_j": _sum(idle) if idle else None,
        "sm_clock_mhz": _least(each["sm_clock_mhz"] for each in cards),
        "throttled": any(name in THROTTLING for each in known for name in each) if known else None,
        "throttle_reasons": {name: max(each.get(name, 0.0) for each in known) for name in _union(known)},
        "device_used_gib": fullest["device_used_gib"] if fullest else None,
        "device_used_phase": fullest["device_used_phase"] if fullest else None,
        "shared": _any(each["shared"] for each in cards),
        "bf16_in_hardware": _all(each["bf16_in_hardware"] for each in cards),
        "window": _window(account.job),
        "by_card": cards,
        "blank_because": "; ".join(f"{name}: {why}" if name else why for name, why in account.why.items()) or None,
    }


def by_card(watched: Watched) -> dict[str, Any]:
    """One card's figures, under the names that the section uses for all of them."""
    samples = watched.samples
    window = _measuring(samples) or samples
    fullest = max((s for s in samples if s.used_gib is not None), key=lambda s: s.used_gib or 0.0, default=None)
    return {
        "uuid": watched.card.uuid,
        "index": watched.card.index,
        "name": watched.card.name,
        "card_gib": watched.card.memory_gib,
        "utilisation_pct": _mean(s.utilisation_pct for s in window),
        "power_w": power_w(window),
        "energy_j": energy_j(samples),
        "sm_clock_mhz": _mean(s.sm_clock_mhz for s in window),
        "throttle_reasons": throttle_shares(window),
        "device_used_gib": fullest.used_gib if fullest else None,
        "device_used_phase": (fullest.phase or None) if fullest else None,
        "driver_reserved_gib": watched.driver_reserved_gib,
        "bf16_in_hardware": None if watched.capability is None else watched.capability >= BF16_CAPABILITY,
        "shared": watched.shared,
    }


def energy_j(samples: Sequence[Sample]) -> float | None:
    """Joules from the first sample to the last: the driver's counter where it has one, else power over time.

    The counter starts again when the driver is loaded anew; a fall is no energy and the power is integrated instead.
    """
    counted = [s.energy_j for s in samples if s.energy_j is not None]
    if len(counted) == len(samples) > 1 and counted[-1] >= counted[0]:
        return counted[-1] - counted[0]
    seen = [(s.time_s, s.power_w) for s in samples if s.power_w is not None]
    if len(seen) < 2:
        return None
    return sum((b[0] - a[0]) * (a[1] + b[1]) / 2 for a, b in itertools.pairwise(seen))


def power_w(samples: Sequence[Sample]) -> float | None:
    """Mean power: energy over time where there is a span, since the driver's own figure lags by up to a second."""
    span_s = samples[-1].time_s - samples[0].time_s if samples else 0.0
    energy = energy_j(samples)
    if energy is not None and span_s > 0:
        return energy / span_s
    return _mean(s.power_w for s in samples)


def throttle_shares(samples: Sequence[Sample]) -> dict[str, float] | None:
    """Share of the samples in which each reason held the clock; idling is none. None where nothing was answered."""
    answered = [s.reasons for s in samples if s.reasons is not None]
    if not answered:
        return None
    counts = Counter(name for names in answered for name in names if name != "idle")
    return {name: count / len(answered) for name, count in counts.items()}


def with_energy_per_token(device: Mapping[str, Any], tokens_per_s: float | None) -> dict[str, Any]:
    """`device` with energy_j_per_token: power of all the job's cards while steps were timed, over tokens/s.

    Blank across several nodes: a sampler sees the cards of its own node and the rate is that of all.
    """
    power = device.get("power_w")
    known = power is not None and bool(tokens_per_s) and device.get("window") == "steps"
    known = known and device.get("interconnect") != CROSS_NODE
    return {**device, "energy_j_per_token": power / tokens_per_s if known else None}


def _measuring(samples: Sequence[Sample]) -> list[Sample]:
    """The samples while steps were timed and the one that ends them, so that the span is whole."""
    places = [i for i, sample in enumerate(samples) if sample.phase == MEASURING]
    return list(samples[places[0] : places[-1] + 1]) if places else []


def _window(job: Sequence[Watched]) -> str | None:
    if not any(each.samples for each in job):
        return None
    return "steps" if any(_measuring(each.samples) for each in job) else "cell"


def _names(names: Iterable[str]) -> str | None:
    """One name where the cards are alike; else each with its count, so that a mixed job cannot pass for a like one."""
    counts = Counter(names)
    if len(counts) < 2:
        return next(iter(counts), None)
    return " + ".join(f"{count} x {name}" for name, count in sorted(counts.items()))


def _used(card: Mapping[str, Any]) -> float:
    return float(card["device_used_gib"])


def _known(values: Iterable[float | None]) -> list[float]:
    return [value for value in values if value is not None]


def _mean(values: Iterable[float | None]) -> float | None:
    known = _known(values)
    return sum(known) / len(known) if known else None


def _sum(values: Iterable[float | None]) -> float | None:
    """The sum, or None where one is missing: a part would pass for the whole."""
    every = list(values)
    known = _known(every)
    return sum(known) if known and len(known) == len(every) else None


def _least(values: Iterable[float | None]) -> float | None:
    return min(_known(values), default=None)


def _any(values: Iterable[bool | None]) -> bool | None:
    known = [value for value in values if value is not None]
    return any(known) if known else None


def _all(values: Iterable[bool | None]) -> bool | None:
    known = [value for value in values if value is not None]
    return all(known) if known else None


def _union(shares: Sequence[Mapping[str, float]]) -> list[str]:
    return sorted({name for each in shares for name in each})
