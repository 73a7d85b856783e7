"""Throughput at counts that a study did not measure, from the step-time model calibrated on what it did.

Compute comes from the measured steps of the same model on the same card, communication from the collectives of each
mode on the study's links. Series that the model has no terms for are left to `analysis.predict`, and said to be.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analysis.links import LinkModel
from analysis.predict import COLUMNS, checked_counts
from analysis.steptime import Job
from analysis.steptime.call_times import Links, study_links
from analysis.steptime.cells import Measured, job_at, job_of, measured_cells, own_rates, same_compute
from analysis.steptime.condition import Case, Conditioned, Knowledge, Observed, condition
from analysis.steptime.target import Target, target_at
from analysis.steptime.whatif import cards_a_node, changed, check_what_if, in_words
from configs.cell import Cell
from configs.errors import ConfigError
from configs.schema import Machine, WhatIf

AS_MEASURED = WhatIf()


def predict_study(
    frame: pd.DataFrame,
    cells: Mapping[str, Cell],
    counts: Sequence[int],
    links: LinkModel | None,
    machine: Machine | None = None,
    what_if: WhatIf = AS_MEASURED,
) -> tuple[pd.DataFrame, NDArray[np.bool_], list[str]]:
    """(predictions, rows of `frame` that were used, sentences on counts that no row is given for).

    frame: a study's cells; `cells`: their configs by cell_id. counts: card counts, each for every measured mode. links:
    fitted from the study's collectives, None where it has none. machine: whose data sheet to take, None: the cells'
    own. what_if: the cluster to predict on, where it is not the measured one.
    Predictions have the columns of `analysis.predict.predict`. Raises ConfigError on counts and what-ifs out of range.
    """
    check_what_if(what_if)
    wanted = sorted(set(checked_counts(counts)))
    measured, used = measured_cells(frame, cells)
    rows: list[dict[str, object]] = []
    skipped: list[str] = []
    for together in same_compute(measured):
        stated = machine or together[0].cell.machine
        calibrated = _calibrate(together, links, stated)
        for number in dict.fromkeys(one.series for one in together):
            own = sorted((one for one in together if one.series == number), key=lambda one: one.cell.cards)
            rows += _series(_Series(own, together, calibrated, what_if), wanted, skipped)
    return pd.DataFrame(rows, columns=list(COLUMNS)), used, skipped


@dataclass(frozen=True)
class _Series:
    """own: the measured cells of one series, ascending. together: all that tell of its compute."""

    own: list[Measured]
    together: list[Measured]
    calibrated: Conditioned
    what_if: WhatIf

    @property
    def name(self) -> str:
        return f"{self.own[0].model} {self.own[0].mode}"

    @property
    def links(self) -> Links:
        return self.calibrated.known.links

    @cached_property
    def useful_share(self) -> float:
        """Of the tokens of a step, those that carry loss."""
        per_node = self.links.sheet.cards_per_node
        return float(np.median([one.tokens_per_s * one.step_s / job_of(one, per_node).tokens for one in self.own]))

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


def _series(series: _Series, counts: Sequence[int], skipped: list[str]) -> Iterator[dict[str, object]]:
    """One row a count that the mode allows; the others are named in `skipped`."""
    like = series.own[-1]
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


def _row(series: _Series, target: Target, job: Job, rates: Sequence[float], links: Links) -> dict[str, object]:
    base = series.own[0]
    rates = [series.useful_share * rate for rate in rates]
    shares = [rate / (series.base_rate / base.cell.cards * job.cards) for rate in rates]
    values = (
        *(base.model, base.mode, base.scaling, base.device, job.cards),
        *rates,
        *shares,
        f"relative to {_cards([base.cell.cards])}",
        _method(series, job, links),
        "; ".join([*target.notes, *_notes(series, job, shares[0], links)]),
    )
    return dict(zip(COLUMNS, values, strict=True))


def _method(series: _Series, job: Job, links: Links) -> str:
    """What a row rests on, in words."""
    own = series.own[0].mode
    basis = f"step-time model, calibrated on {own} at {_cards(one.cell.cards for one in series.own)}"
    others = dict.fromkeys(one.mode for one in series.together if one.mode != own)
    if others:
        basis += f" and on {', '.join(others)}"
    nodes = sorted({min(call.of.nodes, 2) for call in job.collectives})
    said = [basis, *(links.basis(n) for n in nodes), in_words(series.what_if)]
    return "; ".join(part for part in said if part)


def _notes(series: _Series, job: Job, efficiency: float, links: Links) -> Iterator[str]:
    counts = {one.cell.cards for one in series.own}
    crosses = any(call.of.nodes > 1 for call in job.collectives)
    if crosses and not links.measured(2) and not any(one.nodes > 1 for one in series.together):
        yield f"crosses the node border ({links.sheet.cards_per_node} cards a node), which was not measured"
    if efficiency > 1 + 1e-9 and job.cards not in counts:
        yield "above linear: fewer cards than the base" if job.cards < min(counts) else "above linear"


def _cards(counts: Iterable[int]) -> str:
    listed = [str(count) for count in sorted(set(counts))]
    text = listed[0] if len(listed) == 1 else f"{', '.join(listed[:-1])} and {listed[-1]}"
    return f"{text} card" if text == "1" else f"{text} cards"
