"""Throughput at counts that a study did not measure, from the step-time model calibrated on what it did.

Compute comes from the measured steps of the same model on the same card, communication from the collectives of each
mode on the study's links. Series that the model has no terms for are left to `analysis.predict`, and said to be.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analysis.links import LinkModel
from analysis.predict import COLUMNS, checked_counts
from analysis.scaling.series import mode_family
from analysis.steptime import Job
from analysis.steptime.call_times import Links, study_links
from analysis.steptime.cells import Measured, job_at, job_of, measured_cells, own_rates, same_compute
from analysis.steptime.condition import Case, Conditioned, Knowledge, Observed, condition
from analysis.steptime.target import Target, target_at
from analysis.steptime.whatif import cards_a_node, changed, check_what_if, in_words
from configs.cell import Cell
from configs.errors import ConfigError
from configs.schema import Machine, Mode, WhatIf

AS_MEASURED = WhatIf()
SURPRISING = 3.0  # standard deviations of a measured cell from what all others say of it


def predict_study(
    frame: pd.DataFrame,
    cells: Mapping[str, Cell],
    counts: Sequence[int],
    links: LinkModel | None,
    machine: Machine | None = None,
    what_if: WhatIf = AS_MEASURED,
    modes: Sequence[Mode] = (),
) -> tuple[pd.DataFrame, NDArray[np.bool_], list[str]]:
    """(predictions, rows of `frame` that were used, sentences on counts that no row is given for).

    frame: a study's cells; `cells`: their configs by cell_id. counts: card counts, each for every measured mode. links:
    fitted from the study's collectives, None where it has none. machine: whose data sheet to take, None: the cells'
    own. what_if: the cluster to predict on, where it is not the measured one. modes: to predict too, from the compute
    of another, where they were not measured.
    Predictions have the columns of `analysis.predict.predict`. Raises ConfigError on counts and what-ifs out of range.
    """
    check_what_if(what_if)
    wanted = sorted(set(checked_counts(counts)))
    measured, used = measured_cells(frame, cells)
    rows: list[dict[str, object]] = []
    skipped: list[str] = []
    for together in same_compute(measured):
        calibrated = _calibrate(together, links, machine or together[0].cell.machine)
        for number in dict.fromkeys(one.series for one in together):
            own = sorted((one for one in together if one.series == number), key=lambda one: one.cell.cards)
            others = dict.fromkeys(one.mode for one in together if one.mode != own[0].mode)
            basis = f"calibrated on {own[0].mode} at {_cards(one.cell.cards for one in own)}"
            basis += f" and on {', '.join(others)}" if others else ""
            rows += series_rows(Series(own, own[-1], calibrated, what_if, basis), wanted, skipped)
        known = {one.mode for one in together}
        smallest = min(together, key=lambda one: one.cell.cards)
        for mode in modes:
            if mode_family(mode.name) not in known:
                basis = f"{mode.name} not measured, calibrated on {', '.join(dict.fromkeys(o.mode for o in together))}"
                series = Series([smallest], in_mode(smallest, mode), calibrated, what_if, basis)
                rows += series_rows(series, wanted, skipped)
    return pd.DataFrame(rows, columns=list(COLUMNS)), used, skipped


def in_mode(one: Measured, mode: Mode) -> Measured:
    """The cell of `one` in another mode, as if it had been measured there."""
    return replace(one, cell=replace(one.cell, mode=mode), mode=mode_family(mode.name))


@dataclass(frozen=True)
class Series:
    """What is predicted alike. own: the measured cells that efficiency is relative to, ascending; of one series.

    like: whose workload and mode is put on other counts. basis: what compute rests on, in words.
    """

    own: list[Measured]
    like: Measured
    calibrated: Conditioned
    what_if: WhatIf
    basis: str

    @property
    def name(self) -> str:
        return f"{self.like.model} {self.like.mode}"

    @property
    def relative_to(self) -> str:
        said = f"relative to {_cards([self.own[0].cell.cards])}"
        return said if self.own[0].mode == self.like.mode else f"{said} of {self.own[0].mode}"

    @property
    def links(self) -> Links:
        return self.calibrated.known.links

    @cached_property
    def useful_share(self) -> float:
        """Of the tokens of a step, those that carry loss."""
        per_node = self.links.sheet.cards_per_node
        return float(np.median([one.tokens_per_s * one.step_s / job_of(one, per_node).tokens for one in self.own]))

    @cached_property
    def doubts(self) -> list[str]:
        """What of the measured cells of this series a reader should know before believing what follows from them."""
        known, mode = self.calibrated, self.own[0].mode
        # Only the farthest: beside an outlier its neighbours look odd too.
        own = [(abs(z), c.job.cards) for c, z in zip(known.cases, known.surprises, strict=False) if c.mode == mode]
        farthest, cards = max(own, default=(0.0, 0))
        off = [cards] if farthest > SURPRISING else []
        rates = pd.Series({one.cell.cards: one.tokens_per_s for one in self.own})
        fewer, linear = rates.shift(), self.base_rate / self.own[0].cell.cards * rates.index
        slower = [int(n) for n in rates.index[rates < fewer]]
        above = [int(n) for n in rates.index[(rates > linear * 1.02) & (rates.index > rates.index[0])]]
        found = [
            (off, "measured at {} far from what the other cells say"),
            (slower, "measured slower at {} than with fewer"),
            (above, "measured above linear at {}"),
        ]
        return [text.format(_cards(counts)) for counts, text in found if counts]

    @cached_property
    def base_rate(self) -> float:
        """Tokens/s at the smallest measured count."""
        base = self.own[0].cell.cards
        return float(np.median([one.tokens_per_s for one in self.own if one.cell.cards == base]))


def _calibrate(together: Sequence[Measured], links: LinkModel | None, machine: Machine) -> Conditioned:
    crossing = [one.cell.cards // one.nodes for one in together if one.nodes > 1]
    in_one = max((one.cell.cards for one in together if one.nodes == 1), default=1)
    per_node = max(crossing, default=max(machine.cards_per_node, in_one))
    known = Knowledge(own_rates(machine, together), study_links(links, machine, per_node))
    return condition(
        known, [Observed(Case(one.mode, job_of(one, per_node)), one.step_s, one.noise) for one in together]
    )


def series_rows(series: Series, counts: Sequence[int], skipped: list[str]) -> Iterator[dict[str, object]]:
    """One row a count that the mode allows; the others are named in `skipped`."""
    like = series.like
    by_node: dict[int, list[tuple[Target, Case]]] = {}
    for count in counts:
        try:
            per_node = cards_a_node(series.what_if, count, series.links.sheet.cards_per_node)
            target = target_at(like.cell, count)
        except ConfigError as error:
            skipped.append(f"{series.name} is not predicted at {count} cards: {error}")
            continue
        by_node.setdefault(per_node, []).append((target, Case(like.mode, job_at(like, target, per_node))))
    for per_node, targets in by_node.items():
        asked = series.calibrated.known
        if series.what_if != AS_MEASURED:
            asked = changed(asked, series.what_if, per_node)
        steps = series.calibrated.steps([case for _, case in targets], asked)
        for (target, case), step in zip(targets, steps, strict=True):
            seconds = step.step_s, step.high_s, step.low_s
            yield _row(series, target, case.job, [case.job.tokens / s for s in seconds], asked.links)


def _row(series: Series, target: Target, job: Job, rates: Sequence[float], links: Links) -> dict[str, object]:
    base, like = series.own[0], series.like
    rates = [series.useful_share * rate for rate in rates]
    shares = [rate / (series.base_rate / base.cell.cards * job.cards) for rate in rates]
    values = (
        *(like.model, like.mode, like.scaling, like.device, job.cards),
        *rates,
        *shares,
        series.relative_to,
        _method(series, job, links),
        "; ".join([*target.notes, *_notes(series, job, shares[0], links)]),
    )
    return dict(zip(COLUMNS, values, strict=True))


def _method(series: Series, job: Job, links: Links) -> str:
    """What a row rests on, in words."""
    nodes = sorted({min(call.of.nodes, 2) for call in job.collectives})
    said = [f"step-time model, {series.basis}", *(links.basis(n) for n in nodes), in_words(series.what_if)]
    return "; ".join(part for part in said if part)


def _notes(series: Series, job: Job, efficiency: float, links: Links) -> Iterator[str]:
    yield from series.doubts
    counts = {one.cell.cards for one in series.own}
    crosses = _crosses(job)
    if crosses and not links.measured(2) and not any(_crosses(case.job) for case in series.calibrated.cases):
        yield f"crosses the node border ({links.sheet.cards_per_node} cards a node), which was not measured"
    if efficiency > 1 + 1e-9 and job.cards not in counts:
        yield "above linear: fewer cards than the base" if job.cards < min(counts) else "above linear"


def _crosses(job: Job) -> bool:
    return any(call.of.nodes > 1 for call in job.collectives)


def _cards(counts: Iterable[int]) -> str:
    listed = [str(count) for count in sorted(set(counts))]
    text = listed[0] if len(listed) == 1 else f"{', '.join(listed[:-1])} and {listed[-1]}"
    return f"{text} card" if text == "1" else f"{text} cards"
