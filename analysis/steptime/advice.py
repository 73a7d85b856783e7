"""What would make a step faster, and by how much: the step-time model asked again with one thing changed.

Gains are ratios of two predictions at the same guesses, so what is not known of the machine mostly cancels.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from analysis.links.collective_time import Network
from analysis.steptime import Job, Rates, step_times
from analysis.steptime.communication import Batch
from analysis.steptime.plan import NORMAL_95, SHEET_ONLY, Calibration, guesses, plan_job
from configs.errors import ConfigError
from configs.layout import Layout, ModelShape, check_layout
from configs.schema import Mode, Recipe

RATIO_SIGMA = 0.03  # what the model leaves out of a ratio of two of its own steps
PARTS = ("compute", "memory", "bubble", "exposed_comm", "optimizer", "straggler", "overhead")
COLUMNS = ("change", "gain", "gain_low", "gain_high", "tokens_per_s", "needs")


@dataclass(frozen=True)
class Cell:
    """One cell to be advised on. batch: of one data-parallel replica."""

    shape: ModelShape
    mode: Mode
    layout: Layout
    recipe: Recipe
    batch: Batch

    def job(self, cards_per_node: int) -> Job:
        return plan_job(self.shape, self.mode, self.layout, self.recipe, self.batch, cards_per_node)


def where_time_goes(cell: Cell, rates: Rates, network: Network) -> pd.Series[float]:
    """Modelled share of each part in the step of `cell`, 0 to 1, the largest first."""
    parts = step_times([cell.job(network.cards_per_node)], rates, network)
    total = parts.total_s[0, 0]
    shares = {name: float(getattr(parts, f"{name}_s")[0, 0] / total) for name in PARTS}
    return pd.Series(shares).sort_values(ascending=False)


def advise(cell: Cell, rates: Rates, network: Network, known: Calibration = SHEET_ONLY) -> pd.DataFrame:
    """Changes that are predicted to make `cell` faster, the largest gain first.

    Columns: change, gain (throughput over that of the cell), gain_low, gain_high (95 %), tokens_per_s, needs (what the
    change takes that the model does not check). A change whose interval includes no gain is left out.
    """
    guess = guesses(rates, known)
    base = cell.job(network.cards_per_node)
    before = base.tokens / step_times([base], guess, network).total_s
    rows = []
    for change, needs, job, at, on in _changes(cell, base, guess, network):
        ratio = job.tokens / step_times([job], at, on).total_s / before
        moved = np.log(ratio[0, 1:] / ratio[0, 0])
        spread = [float(np.sqrt((m**2).sum() + RATIO_SIGMA**2)) for m in (moved.clip(max=0), moved.clip(0))]
        gain = float(ratio[0, 0])
        low, high = gain * np.exp(-NORMAL_95 * spread[0]), gain * np.exp(NORMAL_95 * spread[1])
        if low > 1:
            rows.append((change, gain, float(low), float(high), float(before[0, 0]) * gain, needs))
    return pd.DataFrame(rows, columns=list(COLUMNS)).sort_values("gain", ascending=False, ignore_index=True)


def _changes(cell: Cell, base: Job, guess: Rates, network: Network) -> Iterator[tuple[str, str, Job, Rates, Network]]:
    """(change, needs, job, rates, network) of everything that is tried."""
    batch, memory = cell.batch, "memory for twice the activations"
    if batch.micro_batches % 2 == 0:
        larger = replace(batch, micro_batch=2 * batch.micro_batch, micro_batches=batch.micro_batches // 2)
        yield "micro_batch x 2, accumulation / 2", memory, _with(cell, network, batch=larger), guess, network
    accumulated = replace(batch, micro_batches=2 * batch.micro_batches)
    yield "accumulation x 2", "twice the global batch", _with(cell, network, batch=accumulated), guess, network
    if base.collectives:
        yield "full overlap", "communication behind all of compute", base, replace(guess, overlap=1.0), network
        crosses = any(call.of.nodes > 1 for call in base.collectives)
        link = network.inter if crosses else network.intra
        faster = replace(link, bandwidth_gbps=2 * link.bandwidth_gbps)
        better = replace(network, inter=faster) if crosses else replace(network, intra=faster)
        where = "between nodes" if crosses else "in the node"
        yield f"links {where} twice as fast", "other hardware", base, guess, better
    if cell.recipe.checkpointing == "full":
        yield (
            "checkpointing none",
            "memory for all activations",
            _with(cell, network, recipe=replace(cell.recipe, checkpointing="none")),
            guess,
            network,
        )
    for mode, layout, replicas in _other_modes(cell):
        tokens = cell.layout.dp * batch.micro_batches
        if tokens % replicas:
            continue
        shared = replace(batch, micro_batches=tokens // replicas)
        job = _with(cell, network, mode=mode, layout=layout, batch=shared)
        yield f"mode={mode.name}", "memory of that mode", job, guess, network


def _other_modes(cell: Cell) -> Iterator[tuple[Mode, Layout, int]]:
    """(mode, layout, data-parallel replicas) of the plain modes that the model's shape allows on the same cards."""
    cards = cell.layout.world_size
    plain = (
        (Mode("ddp"), Layout(cards, 1, 1)),
        (Mode("fsdp", shard="full"), Layout(cards, 1, 1)),
        (Mode("tp"), Layout(1, cards, 1)),
        (Mode("pp", schedule=cell.mode.schedule), Layout(1, 1, cards)),
    )
    for mode, layout in plain:
        if cards == 1 or (mode.shard, layout) == (cell.mode.shard, cell.layout):
            continue
        try:
            check_layout(mode, layout, "", cell.shape)
        except ConfigError:  # not a choice for this model
            continue
        yield mode, layout, layout.dp


def _with(cell: Cell, network: Network, **changed: object) -> Job:
    return replace(cell, **changed).job(network.cards_per_node)  # type: ignore[arg-type]
