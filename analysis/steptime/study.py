"""Throughput at counts that a study did not measure, from the step-time model calibrated on what it did.

Compute comes from the measured steps of the same model on the same card, communication from the collectives of each
mode on the study's links. Series that the model has no terms for are left to `analysis.predict`, and said to be.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analysis.links import LinkModel
from analysis.predict import COLUMNS
from analysis.scaling import HIGH, LOW, MEDIAN
from analysis.scaling.series import is_measured, label_series, numbers
from analysis.steptime import Job, Rates
from analysis.steptime.call_times import Links, study_links
from analysis.steptime.condition import Case, Knowledge, Observed, predict_steps_from
from analysis.steptime.plan import plan_job
from analysis.steptime.target import Target, target_at
from configs.cell import Cell
from configs.errors import ConfigError
from configs.schema import Machine


@dataclass(frozen=True)
class Measured:
    """One measured cell. mode: the family's name. series: its number, from `label_series`."""

    cell: Cell
    series: int
    model: str
    mode: str
    scaling: str
    device: str
    cores: float
    nodes: int
    step_s: float
    noise: float
    tokens_per_s: float


def predict_study(
    frame: pd.DataFrame,
    cells: Mapping[str, Cell],
    counts: Sequence[int],
    links: LinkModel | None,
    machine: Machine | None = None,
) -> tuple[pd.DataFrame, NDArray[np.bool_], list[str]]:
    """(predictions, rows of `frame` that were used, sentences on counts that no row is given for).

    frame: a study's cells; `cells`: their configs by cell_id. counts: card counts, each for every measured mode.
    links: fitted from the study's collectives, None where it has none. machine: whose data sheet to take, None: the
    cells' own.
    Predictions have the columns of `analysis.predict.predict`.
    """
    measured, used = _measured(frame, cells)
    rows: list[dict[str, object]] = []
    skipped: list[str] = []
    for together in _same_compute(measured):
        rows += _predict(together, counts, links, machine, skipped)
    return pd.DataFrame(rows, columns=list(COLUMNS)), used, skipped


def why_not_modelled(cell: Cell) -> str | None:
    """What of the cell the step-time model has no terms for; None where it has all."""
    if cell.benchmark.name != "finetune":
        return f"benchmark={cell.benchmark.name}"
    if cell.recipe.method != "full":
        return f"recipe.method={cell.recipe.method}"
    if cell.mode.offload != "none":
        return f"mode.offload={cell.mode.offload}"
    return None


def _measured(frame: pd.DataFrame, cells: Mapping[str, Cell]) -> tuple[list[Measured], NDArray[np.bool_]]:
    if frame.empty:
        return [], np.zeros(0, dtype=bool)
    labels = label_series(frame)
    step, low, high = (numbers(frame, name) for name in (MEDIAN, LOW, HIGH))
    rate, nodes = numbers(frame, "throughput.tokens_per_s"), numbers(frame, "parallel.nodes")
    cores = numbers(frame, "device.cores")
    good = is_measured(frame) & (step > 0)
    found = []
    for at, (cell_id, label) in enumerate(zip(frame["cell_id"], labels.to_dict("records"), strict=True)):
        cell = cells.get(cell_id)
        good[at] = good[at] and cell is not None and why_not_modelled(cell) is None
        if cell is None or not good[at]:
            continue
        within = math.log(high[at] / low[at]) / (2 * 1.96) if high[at] > low[at] > 0 else 0.0
        found.append(
            Measured(
                cell=cell,
                series=int(label["series"]),
                model=str(label["model"]),
                mode=str(label["mode"]),
                scaling=str(label["scaling"]),
                device=str(label["device"]),
                cores=float(cores[at]),
                nodes=int(nodes[at]) if nodes[at] >= 1 else 1,
                step_s=float(step[at]),
                noise=within,
                tokens_per_s=float(rate[at]),
            )
        )
    return found, good


def _same_compute(measured: Sequence[Measured]) -> Iterator[list[Measured]]:
    """The cells of one model, recipe, sequence length and card: what one tells of compute holds for all."""
    groups: dict[tuple[object, ...], list[Measured]] = {}
    for one in measured:
        cell = one.cell
        key = (one.model, one.device, cell.seq_len, repr(cell.recipe), cell.cluster.threads_per_rank)
        groups.setdefault(key, []).append(one)
    yield from groups.values()


def _predict(
    together: list[Measured],
    counts: Sequence[int],
    links: LinkModel | None,
    machine: Machine | None,
    skipped: list[str],
) -> Iterator[dict[str, object]]:
    machine = machine or together[0].cell.machine
    crossing = [one.cell.cards // one.nodes for one in together if one.nodes > 1]
    per_node = max(crossing, default=machine.cards_per_node)
    known = Knowledge(_rates(machine, together), study_links(links, machine, per_node))
    seen = [Observed(Case(one.mode, _job(one, per_node)), one.step_s, one.noise) for one in together]
    for number in dict.fromkeys(one.series for one in together):
        own = sorted((one for one in together if one.series == number), key=lambda one: one.cell.cards)
        targets: list[tuple[int, Target]] = []
        for count in sorted(set(counts)):
            try:
                targets.append((count, target_at(own[-1].cell, count)))
            except ConfigError as error:
                skipped.append(f"{own[0].model} {own[0].mode} is not predicted at {count} cards: {error}")
        cases = [Case(own[0].mode, _target_job(own[-1], target, per_node)) for _, target in targets]
        steps = predict_steps_from(known, seen, cases)
        base = own[0]
        base_cards = base.cell.cards
        base_rate = float(np.median([one.tokens_per_s for one in own if one.cell.cards == base_cards]))
        useful = float(np.median([one.tokens_per_s * one.step_s / _job(one, per_node).tokens for one in own]))
        for (count, target), case, step in zip(targets, cases, steps, strict=True):
            rates = [useful * case.job.tokens / s for s in (step.step_s, step.high_s, step.low_s)]
            share = [rate / (base_rate / base_cards * count) for rate in rates]
            notes = [*target.notes]
            if count not in {one.cell.cards for one in own}:
                notes += _border(case.job, known.links, together)
            values = (
                *(base.model, base.mode, base.scaling, base.device, count, *rates, *share),
                f"relative to {_cards([base_cards])}",
                _method(own, together, case.job, known.links),
                "; ".join(notes),
            )
            yield dict(zip(COLUMNS, values, strict=True))


def _rates(machine: Machine, together: Sequence[Measured]) -> Rates:
    """The machine's, or those of a machine whose every second is compute where its sheet says nothing of it."""
    precision = together[0].cell.recipe.precision
    peak = machine.peak_tflops.get({"bf16_pure": "bf16"}.get(precision, precision))
    if peak and machine.memory_gbps:
        return Rates(peak_tflops=peak, memory_gbps=machine.memory_gbps)
    smallest = min(together, key=lambda one: one.cell.cards)
    job = _job(smallest, machine.cards_per_node)
    return Rates(peak_tflops=job.flops * job.micro_batches / smallest.step_s / 1e12, memory_gbps=math.inf)


def _job(one: Measured, per_node: int) -> Job:
    cell, on_node = one.cell, one.cell.cards // one.nodes if one.nodes > 1 else max(per_node, one.cell.cards)
    target = Target(cell.mode, cell.layout, cell.micro_batch, cell.grad_accum, ())
    return _modelled(one, target, on_node)


def _target_job(like: Measured, target: Target, per_node: int) -> Job:
    return _modelled(like, target, per_node)


def _modelled(like: Measured, target: Target, per_node: int) -> Job:
    """The job of `target`; where ranks are more than a processor's cores they take turns, and all compute stretches."""
    cell = like.cell
    job = plan_job(cell.shape, target.mode, target.layout, cell.recipe, target.batch(cell.seq_len), per_node)
    ranks = min(target.layout.world_size, per_node)
    turns = max(1.0, ranks * cell.cluster.threads_per_rank / like.cores) if like.cores > 0 else 1.0
    return replace(job, flops=job.flops * turns, memory_bytes=job.memory_bytes * turns)


def _method(own: Sequence[Measured], together: Sequence[Measured], job: Job, links: Links) -> str:
    """What a row rests on, in words."""
    parts = [f"step-time model, calibrated on {own[0].mode} at {_cards(one.cell.cards for one in own)}"]
    others = dict.fromkeys(one.mode for one in together if one.mode != own[0].mode)
    if others:
        parts[0] += f" and on {', '.join(others)}"
    nodes = sorted({min(call.of.nodes, 2) for call in job.collectives})
    return "; ".join([*parts, *(links.basis(n) for n in nodes)])


def _border(job: Job, links: Links, together: Sequence[Measured]) -> list[str]:
    crosses = any(call.of.nodes > 1 for call in job.collectives)
    if crosses and not links.measured(2) and not any(one.nodes > 1 for one in together):
        return [f"crosses the node border ({links.sheet.cards_per_node} cards a node), which was not measured"]
    return []


def _cards(counts: object) -> str:
    listed = [str(count) for count in sorted(set(counts))]  # type: ignore[call-overload]
    text = listed[0] if len(listed) == 1 else f"{', '.join(listed[:-1])} and {listed[-1]}"
    return f"{text} card" if text == "1" else f"{text} cards"
