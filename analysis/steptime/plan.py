"""Step time of a cell that was never run, from the data sheet of its machine or whatever of it was measured.

What is not measured is uncertain by a stated factor; the interval is what these factors do to the step, each alone and
then in quadrature of the logarithms. A measurement replaces its factor, and the interval narrows with it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace

import numpy as np
import pandas as pd

from analysis.links.collective_time import Link, Network
from analysis.steptime import Breakdown, Job, Rates, step_times
from analysis.steptime.communication import (
    FULL_SHARD,
    NO_SHARD,
    WIDTHS,
    Batch,
    communication,
    largest_stage_parameters,
)
from configs.errors import ConfigError, choose
from configs.layout import Layout, ModelShape
from configs.schema import Machine, Mode, Recipe
from results.flops import model_flops_per_token

NORMAL_95 = 1.96
# Bytes read and written for each parameter that an optimizer updates: weight, gradient and states.
OPTIMIZER_BYTES = {"adamw": 28.0, "adamw8bit": 16.0, "sgd": 12.0, "adafactor": 14.0}
RECOMPUTED = {"none": 1.0, "selective": 1.05, "full": 4 / 3}  # of the FLOPs: full checkpointing runs the forward twice
# Elements read and written between the matrix products, forward and backward: a token, layer and hidden unit (norms,
# rotations, residuals, activation functions, dropout's like), and a token and vocabulary entry (logits and loss).
LAYER_TRAFFIC, LOGIT_TRAFFIC = 120.0, 15.0
COMPILED_TRAFFIC = 0.6  # fused kernels
INTRA_LATENCY_US, INTER_LATENCY_US = 1.0, 5.0
NETWORK_GBPS = 12.5  # of a node's card where the sheet is silent: 100 Gb/s


@dataclass(frozen=True)
class Calibration:
    """What is known of a machine beyond its sheet, and how well: sigma is of the natural logarithm.

    compute_efficiency: of the peak, in matrix products.
    link_efficiency: of the sheet's bandwidth. overlap: the share of compute that hides communication, with its odds'
    sigma. overhead_s: a step. model_sigma: what the model itself leaves out.
    source: what it was calibrated on, shown beside every prediction.
    """

    compute_efficiency: float = 0.60
    compute_sigma: float = 0.20
    link_efficiency: float = 0.75
    link_sigma: float = 0.35
    overlap: float = 0.75
    overlap_sigma: float = 1.0
    overhead_s: float = 0.015
    overhead_sigma: float = 0.8
    model_sigma: float = 0.10
    source: str = "data sheet only"


SHEET_ONLY = Calibration()
COLUMNS = (
    *("cards", "step_s", "step_low_s", "step_high_s", "tokens_per_s", "tokens_per_s_low", "tokens_per_s_high"),
    *(field.name for field in fields(Breakdown)),
    *("calibrated_on", "notes"),
)


def one_card_measured(known: Calibration, efficiency: float, sigma: float = 0.03) -> Calibration:
    """`known` with the compute efficiency that a one-card run showed; its own error and the run's remain in sigma."""
    return replace(known, compute_efficiency=efficiency, compute_sigma=sigma, source="one card")


def links_measured(known: Calibration, efficiency: float, sigma: float = 0.08) -> Calibration:
    """`known` with the share of the sheet's bandwidth that a collective reached."""
    return replace(known, link_efficiency=efficiency, link_sigma=sigma, source=f"{known.source}, links")


def rates_of_one_card(job: Job, measured_s: float) -> Rates:
    """Rates of a machine without a data sheet, from one measured one-card step: all of it counts as compute.

    Goes with a Calibration of compute_efficiency 0.5, the share at which the returned peak gives the measured step.
    """
    if job.cards != 1 or not measured_s > 0:
        raise ConfigError("one-card step", f"{measured_s} s on {job.cards} cards", "a positive time on 1 card")
    peak = job.flops * job.micro_batches / measured_s / 0.5 / 1e12
    return Rates(peak_tflops=peak, memory_gbps=float("inf"))


def plan_job(shape: ModelShape, mode: Mode, layout: Layout, recipe: Recipe, batch: Batch, cards_per_node: int) -> Job:
    """What the busiest rank does in one step. batch: of one data-parallel replica."""
    sharded = mode.shard == FULL_SHARD or mode.zero_stage == 3
    widths = WIDTHS[choose("recipe.precision", recipe.precision, WIDTHS)]
    held = largest_stage_parameters(shape, layout.pp) / layout.tp
    multiplied = largest_stage_parameters(shape, layout.pp, multiplied=True) / layout.tp
    layers, attention_width = -(-shape.layers // layout.pp), shape.heads * shape.head_dim / layout.tp
    a_token = model_flops_per_token(int(multiplied), 0, layers, int(attention_width), batch.seq_len)
    recomputed = RECOMPUTED[choose("recipe.checkpointing", recipe.checkpointing, RECOMPUTED)]
    fused = COMPILED_TRAFFIC if recipe.compile else 1.0
    traffic = layers * shape.hidden * LAYER_TRAFFIC * fused + shape.vocab * LOGIT_TRAFFIC
    updated = held / layout.dp if sharded or mode.zero_stage > 0 else held
    return Job(
        # Attention is counted with the full square: a causal kernel does half of it at about half the efficiency.
        flops=a_token * batch.tokens * recomputed,
        memory_bytes=traffic * widths.activations * batch.tokens / layout.tp * recomputed,
        micro_batches=batch.micro_batches,
        collectives=communication(
            layout,
            shape,
            batch,
            widths,
            cards_per_node,
            FULL_SHARD if sharded else NO_SHARD,
            mode.reshard_after_forward,
        ),
        parameters=updated,
        optimizer_bytes=OPTIMIZER_BYTES[choose("recipe.optimizer", recipe.optimizer, OPTIMIZER_BYTES)],
        tokens=float(batch.tokens * batch.micro_batches * layout.dp),
        cards=layout.world_size,
        stages=layout.pp,
        schedule=mode.schedule,
    )


def machine_rates(machine: Machine, precision: str) -> tuple[Rates, Network, tuple[str, ...]]:
    """(rates, network, notes) of a data sheet. Raises ConfigError where the peak is not stated: nothing can follow."""
    key = {"bf16_pure": "bf16"}.get(precision, precision)
    peak = machine.peak_tflops.get(key)
    if not peak:
        stated = ", ".join(machine.peak_tflops) or "none"
        where = f"machine {machine.name}: peak_tflops.{key}"
        raise ConfigError(where, "is not stated", f"stated: {stated}; state it, or measure the cell")
    notes = []
    intra, inter = machine.intra_node_gbps, machine.inter_node_gbps
    if not intra:
        intra = NETWORK_GBPS
        notes.append(f"links in the node not stated: {NETWORK_GBPS:g} GB/s assumed")
    if not inter:
        inter = NETWORK_GBPS
        notes.append(f"links between nodes not stated: {NETWORK_GBPS:g} GB/s assumed")
    memory = machine.memory_gbps
    if not memory:
        memory = peak * 1e12 / 150 / 1e9  # FLOP/B of the A100 to H200 family is 150 to 300
        notes.append(f"memory bandwidth not stated: {memory:.0f} GB/s assumed")
    network = Network(Link(intra, INTRA_LATENCY_US), Link(inter, INTER_LATENCY_US), machine.cards_per_node)
    return Rates(peak_tflops=peak, memory_gbps=memory), network, tuple(notes)


def predict_steps(
    jobs: Sequence[Job], rates: Rates, network: Network, known: Calibration = SHEET_ONLY, notes: Sequence[str] = ()
) -> pd.DataFrame:
    """One row a job: its step and throughput with 95 % intervals, as wide as `known` leaves them, and where it goes.

    Columns: cards, step_s, step_low_s, step_high_s, tokens_per_s, tokens_per_s_low, tokens_per_s_high, the parts of
    `Breakdown` at the central guess, calibrated_on, notes ("; " between them).
    """
    if not jobs:
        return pd.DataFrame(columns=list(COLUMNS))
    parts = step_times(jobs, guesses(rates, known), network)
    totals = parts.total_s
    central = totals[:, 0]
    moved = np.log(totals[:, 1:] / central[:, None])
    up, down = (np.sqrt((part**2).sum(axis=1) + known.model_sigma**2) for part in (moved.clip(0), moved.clip(max=0)))
    tokens = np.array([job.tokens for job in jobs])
    table = pd.DataFrame({"cards": [job.cards for job in jobs], "step_s": central})
    table["step_low_s"], table["step_high_s"] = central * np.exp(-NORMAL_95 * down), central * np.exp(NORMAL_95 * up)
    rates_from = (("", "step_s"), ("_low", "step_high_s"), ("_high", "step_low_s"))
    for end, step in rates_from:
        table[f"tokens_per_s{end}"] = tokens / table[step]
    table = table.assign(**parts.first_guess(), calibrated_on=known.source)
    links_known = "links" in known.source
    crossing = "crosses nodes on the stated network, which was not measured"
    table["notes"] = ["; ".join([*notes, crossing] if _crosses(job) and not links_known else notes) for job in jobs]
    return table[list(COLUMNS)]


def _crosses(job: Job) -> bool:
    return any(call.of.nodes > 1 for call in job.collectives)


def guesses(rates: Rates, known: Calibration) -> Rates:
    """`rates` with what is not known at its centre, then one sigma up and down of each in turn."""
    odds = known.overlap / (1 - known.overlap)
    centre = np.array([known.compute_efficiency, known.link_efficiency, odds, known.overhead_s])
    sigma = np.diag([known.compute_sigma, known.link_sigma, known.overlap_sigma, known.overhead_sigma])
    guess = centre * np.exp(np.concatenate([np.zeros((1, 4)), sigma, -sigma]))
    return replace(
        rates,
        compute_efficiency=np.minimum(guess[:, 0], 1.0),  # neither passes its peak
        link_efficiency=np.minimum(guess[:, 1], 1.0),
        overlap=guess[:, 2] / (1 + guess[:, 2]),
        step_overhead_s=guess[:, 3],
    )
