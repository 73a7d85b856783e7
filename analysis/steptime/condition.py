"""The step-time model conditioned on the steps that a study measured.

What a machine reaches of its peak and of its links inside a node and across, where in their own interval the links'
curves lie, how much communication hides and the overhead of a step are not known: they are log-normal. What the model
leaves out is a random walk over the doublings of the cards, one for each mode, that starts at a constant (Kennedy and
O'Hagan 2001). All of it is linearised about the best values and conditioned on the measured steps as any Gaussian is,
so that every measurement narrows what it bears on and nothing else.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from analysis.links.collective_time import Group
from analysis.steptime import CallParts, Floats, Job, Rates, calibrated_efficiency, step_times
from analysis.steptime.call_times import Links
from analysis.steptime.plan import NORMAL_95, SHEET_ONLY, Calibration

OPEN_SIGMA = 3.0  # of what measured steps alone decide
LEAST_NOISE = 0.01  # no cell repeats better
MODE_SIGMA = 0.05  # what a mode's kernels differ from another's on the same card
WALK_SIGMA, PROCESSOR_WALK_SIGMA = 0.05, 0.2  # what the model leaves out, a doubling
OVERHEAD_SHARE = 0.05  # of the shortest measured step: the most that is taken for overhead before it is fitted
DERIVATIVE_STEP = 1e-4
WIDEST_SECANT = 0.5  # in which a quantity is moved to see what it does to a prediction
ROUNDS, SETTLED = 12, 1e-9
COMPUTE, INTRA, INTER, CURVE_INTRA, CURVE_INTER, OVERLAP, OVERHEAD = QUANTITIES = range(7)


@dataclass(frozen=True)
class Case:
    """One cell to the model. mode: cells of one mode share what the model leaves out of it."""

    mode: str
    job: Job


@dataclass(frozen=True)
class Observed:
    """A measured cell: its median step and the standard deviation of that step's logarithm."""

    case: Case
    step_s: float
    noise: float


@dataclass(frozen=True)
class Knowledge:
    """What is known before any step was measured: rates of the machine, its links, and `calibration` of the rest."""

    rates: Rates
    links: Links
    calibration: Calibration = SHEET_ONLY


@dataclass(frozen=True)
class Step:
    """A predicted step, s, with its 95 % interval."""

    step_s: float
    low_s: float
    high_s: float


@dataclass(frozen=True)
class Conditioned:
    """What is known once the measured steps have spoken; `known` with compute anchored on the smallest of them.

    found: best move of each quantity, in its logarithm. weights, slopes, covariance: of the measured steps.
    """

    known: Knowledge
    cases: tuple[Case, ...]
    prior: Floats
    found: Floats
    weights: Floats
    slopes: Floats
    covariance: Floats

    def steps(self, wanted: Sequence[Case], asked: Knowledge | None = None) -> list[Step]:
        """The step of every one of `wanted`, in order.

        asked: the rates and links to predict on, None for those that were measured; its calibration is not read.
        """
        if not wanted:
            return []
        known = replace(asked or self.known, calibration=self.known.calibration)
        effects = _slopes(known, wanted, self.found, np.minimum(np.sqrt(np.diag(self.prior)), WIDEST_SECANT))
        centre = np.log(_steps_s(known, wanted, self.found))
        variance = np.einsum("ij,jk,ik->i", effects, self.prior, effects) + _own_left_out(wanted, self._origins, known)
        if self.cases:
            across = _left_out(wanted, self.cases, self._origins, known)
            centre = centre + across @ self.weights
            cross = effects @ self.prior @ self.slopes.T + across
            variance = variance - np.einsum("ij,ji->i", cross, np.linalg.solve(self.covariance, cross.T))
        spread = NORMAL_95 * np.sqrt(np.maximum(variance, LEAST_NOISE**2))
        return [
            Step(math.exp(middle), math.exp(middle - width), math.exp(middle + width))
            for middle, width in zip(centre, spread, strict=True)
        ]

    @cached_property
    def surprises(self) -> Floats:
        """How many standard deviations each measured step lies from what all the others say of it, positive if slower.

        Leave-one-out in closed form (Rasmussen and Williams 2006, eq. 5.12); empty for fewer than two.
        """
        if len(self.cases) < 2:
            return np.zeros(0, dtype=np.float64)
        return np.asarray(self.weights / np.sqrt(np.diag(np.linalg.inv(self.covariance))), dtype=np.float64)

    @property
    def _origins(self) -> dict[str, int]:
        return _smallest(self.cases)


def condition(known: Knowledge, measured: Sequence[Observed]) -> Conditioned:
    """`known` after the steps that were `measured`; none is allowed too."""
    known, open_compute = _anchored(known, measured)
    prior = np.diag(_sigmas(known, open_compute) ** 2)
    cases = tuple(seen.case for seen in measured)
    found: Floats = np.zeros(len(QUANTITIES), dtype=np.float64)
    weights: Floats = np.zeros(len(cases), dtype=np.float64)
    slopes = covariance = np.zeros((0, 0), dtype=np.float64)
    if cases:
        noise = np.diag([max(seen.noise, LEAST_NOISE) ** 2 for seen in measured])
        own = _left_out(cases, cases, _smallest(cases), known) + noise
        steps = np.log([seen.step_s for seen in measured])
        for _ in range(ROUNDS):
            slopes = _slopes(known, cases, found, np.full(len(QUANTITIES), DERIVATIVE_STEP))
            covariance = slopes @ prior @ slopes.T + own
            missed = steps - np.log(_steps_s(known, cases, found)) + slopes @ found
            weights = np.asarray(np.linalg.solve(covariance, missed), dtype=np.float64)
            moved: Floats = np.clip(prior @ slopes.T @ weights, found - 1, found + 1)
            settled = np.abs(moved - found).max() < SETTLED
            found = moved
            if settled:
                break
    return Conditioned(known, cases, prior, found, weights, slopes, covariance)


def _anchored(known: Knowledge, measured: Sequence[Observed]) -> tuple[Knowledge, bool]:
    """`known` with the compute efficiency that explains the smallest measured cell, and whether there is one."""
    if not measured:
        return known, False
    shortest = min(seen.step_s for seen in measured)
    overhead = min(known.calibration.overhead_s, OVERHEAD_SHARE * shortest)
    known = replace(known, calibration=replace(known.calibration, overhead_s=overhead))
    first = min(measured, key=lambda seen: seen.case.job.cards)
    parts, rates = _at(known, np.zeros(len(QUANTITIES)))
    efficiency = calibrated_efficiency(first.case.job, rates, parts, first.step_s)
    if math.isnan(efficiency):  # the rest alone takes longer: half of the step is compute, until the fit says better
        job = first.case.job
        efficiency = 2 * job.flops * job.micro_batches / (first.step_s * rates.peak_tflops * 1e12)
    return replace(known, calibration=replace(known.calibration, compute_efficiency=efficiency)), True


def _sigmas(known: Knowledge, open_compute: bool) -> Floats:
    rest = known.calibration
    compute = OPEN_SIGMA if open_compute else rest.compute_sigma
    links = [known.links.efficiency(nodes)[1] for nodes in (1, 2)]
    return np.array([compute, *links, 1.0, 1.0, rest.overlap_sigma, rest.overhead_sigma])


def _at(known: Knowledge, moved: Floats) -> tuple[CallParts, Rates]:
    """Call times and rates with each quantity moved by `moved` in its logarithm.

    Overlap moves in the logarithm of its odds, a curve in standard deviations of its own interval.
    """
    rest, links = known.calibration, known.links
    intra, inter = (links.efficiency(nodes)[0] * math.exp(moved[at]) for nodes, at in ((1, INTRA), (2, INTER)))
    odds = rest.overlap / (1 - rest.overlap) * math.exp(moved[OVERLAP])
    unmeasured_border = links.measured(1) and not links.measured(2)

    def in_node(op: str, size_bytes: float, of: Group) -> tuple[float, float]:
        call = links.call_time(op, size_bytes, of)
        curve = call.moved(moved[CURVE_INTRA])
        return call.latency_s * curve, call.transfer_s * curve / intra

    def parts(op: str, size_bytes: float, of: Group) -> tuple[float, float]:
        if of.nodes == 1:
            return in_node(op, size_bytes, of)
        call = links.call_time(op, size_bytes, of)
        curve = call.moved(moved[CURVE_INTER])
        across = call.latency_s * curve, call.transfer_s * curve / inter
        if not unmeasured_border:
            return across
        # No sheet makes a call across nodes faster than the study measured it among as many ranks inside one.
        return max(across, in_node(op, size_bytes, Group(of.ranks, 1)), key=sum)

    rates = replace(
        known.rates,
        compute_efficiency=rest.compute_efficiency * math.exp(moved[COMPUTE]),
        link_efficiency=1.0,
        overlap=odds / (1 + odds),
        step_overhead_s=rest.overhead_s * math.exp(moved[OVERHEAD]),
    )
    return parts, rates


def _steps_s(known: Knowledge, cases: Sequence[Case], moved: Floats) -> Floats:
    parts, rates = _at(known, moved)
    return step_times([case.job for case in cases], rates, parts).total_s[:, 0]


def _slopes(known: Knowledge, cases: Sequence[Case], at: Floats, width: Floats) -> Floats:
    """d ln(step) / d ln(quantity) between `width` below and above, shape (cases, quantities)."""
    columns = []
    for shift in np.diag(width):
        up, down = (np.log(_steps_s(known, cases, at + sign * shift)) for sign in (1, -1))
        columns.append((up - down) / (2 * shift.sum()))
    return np.stack(columns, axis=1)


def _smallest(cases: Sequence[Case]) -> dict[str, int]:
    """The smallest measured count of each mode, where its walk starts."""
    return {case.mode: min(c.job.cards for c in cases if c.mode == case.mode) for case in cases}


def _doublings(cases: Sequence[Case], origins: Mapping[str, int]) -> Floats:
    """From where the walk of each case's mode starts; a mode that was not measured starts as early as any."""
    earliest = min(origins.values(), default=1)
    return np.array([math.log2(case.job.cards / origins.get(case.mode, earliest)) for case in cases])


def _own_left_out(cases: Sequence[Case], origins: Mapping[str, int], known: Knowledge) -> Floats:
    """Variance of what the model leaves out of each case."""
    return MODE_SIGMA**2 + _walk(known) ** 2 * np.abs(_doublings(cases, origins))


def _left_out(first: Sequence[Case], second: Sequence[Case], origins: Mapping[str, int], known: Knowledge) -> Floats:
    """Covariance of what the model leaves out of the cells `first` and `second`."""
    a, b = _doublings(first, origins)[:, None], _doublings(second, origins)[None, :]
    same = np.array([case.mode for case in first])[:, None] == np.array([case.mode for case in second])[None, :]
    shared = np.where(a * b > 0, np.minimum(np.abs(a), np.abs(b)), 0.0)
    return np.where(same, MODE_SIGMA**2 + _walk(known) ** 2 * shared, 0.0)


def _walk(known: Knowledge) -> float:
    return PROCESSOR_WALK_SIGMA if known.links.processor else WALK_SIGMA
