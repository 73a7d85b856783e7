"""Bytes of what stays between steps: parameters, their gradients' sum, optimizer states, data-parallel buckets.

Widths in bytes a parameter: 16 for AdamW in fp32 or mixed precision with fp32 weights (4 + 4 + 8; Rajbhandari et al.
2020, ZeRO, section 3.1 counts the same 16 as 2 + 2 + 12), 8 with weights, gradients and both moments in bf16.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from analysis.vram.parameters import Held, Sizes, held, layer_matrices
from analysis.vram.roles import Roles

# A block of 256 states shares one fp32 scale (bitsandbytes' blockwise AdamW; Dettmers et al. 2022, 8-bit optimizers).
STATES_PER_SCALE = 256


@dataclass(frozen=True)
class States:
    """Bytes a rank holds, one entry a role; `trained` and `frozen` are elements it holds of each kind."""

    trained: Sizes
    frozen: Sizes
    parameters: Sizes
    gradients: Sizes  # once all are there
    optimizer: Sizes
    buckets: Sizes  # DistributedDataParallel's copies of the gradients
    accumulated: Sizes  # whole gradients that fully_shard keeps between micro-batches
    adapters: Sizes  # elements of a layer's LoRA adapters, before sharding


def stored_bytes(roles: Roles) -> Sizes:
    """Of a parameter, its gradient, and each state that follows it."""
    return np.where(roles.half > 0, 2.0, 4.0)


def adapter_elements(roles: Roles) -> Sizes:
    """Of one layer: rank x (in + out) for each target (Hu et al. 2021); halves follow the base matrix under tp."""
    return roles.lora * roles.lora_rank * (roles.lora_inputs + roles.lora_outputs)


def whole(roles: Roles) -> Held:
    """Elements of the role's stage after tensor parallelism, before data-parallel sharding."""
    return held(roles.size, roles.first, roles.last, roles.tp, np.ones_like(roles.tp))


def states(roles: Roles) -> States:
    """What each role holds from step to step.

    zero_stage 1 cuts the optimizer states over the data-parallel ranks, 2 the gradients as well, 3 the parameters
    too (ZeRO, sections 5.1 to 5.3); fully_shard is stage 3, and its rank 0 holds ceil(rows / ranks) rows of a matrix.
    Stage 1 keeps whole weights and gradients in the dtype of the compute, and its share of fp32 weights beside the
    states: 4 + 12 / ranks bytes a parameter. DeepSpeed reduces in every micro-batch, so that no whole gradients
    wait. Weights that LoRA freezes are in the dtype of the compute too.
    """
    width = stored_bytes(roles)
    shard = held(roles.size, roles.first, roles.last, roles.tp, roles.shards)
    elements = roles.layers * shard.layer + shard.root
    adapters = adapter_elements(roles)
    trained = np.where(roles.lora > 0, roles.layers * adapters / roles.shards, elements)
    frozen = np.where(roles.lora > 0, elements, 0.0)
    full = whole(roles)
    unsharded = np.where(roles.lora > 0, roles.layers * adapters, roles.layers * full.layer + full.root)
    owned = np.where(roles.zero_stage == 1, trained / roles.dp, trained)
    accumulating = (roles.fully_sharded > 0) & (roles.micro_batches > 1) & (roles.zero_stage == 0)
    on_card = np.where(roles.offload_optimizer > 0, 0.0, 1.0)
    stage_one, working = roles.zero_stage == 1, np.where(roles.fp32 > 0, 4.0, 2.0)
    masters = np.where(stage_one, 4.0 * owned * on_card, 0.0)
    resident = np.where(stage_one, working, width)
    return States(
        trained=trained,
        frozen=frozen,
        parameters=masters + (trained * resident + frozen * working) * np.where(roles.offload_parameters > 0, 0.0, 1.0),
        gradients=trained * resident * on_card,
        optimizer=optimizer_bytes(roles, owned, width) * on_card,
        buckets=np.where(roles.replicated > 0, trained * width, 0.0),
        accumulated=np.where(accumulating, unsharded * np.where(roles.half > 0, 2.0, 4.0), 0.0),
        adapters=adapters,
    )


def optimizer_bytes(roles: Roles, elements: Sizes, width: Sizes) -> Sizes:
    """Of `elements` updated here. AdamW: two moments as wide as the parameter; SGD without momentum: none.

    Adafactor keeps a row and a column of each matrix instead of the second moment (Shazeer and Stern 2018), and no
    first one.
    """
    moment = np.where(roles.bf16_states > 0, 2.0, width)
    adamw = roles.adamw * 2 * moment
    adamw8bit = roles.adamw8bit * 2 * (1 + 4 / STATES_PER_SCALE)
    factored = sum(m.count * (m.rows + m.cols) for m in layer_matrices(roles.size)) * width * roles.layers / roles.tp
    ends = (roles.first + roles.last) * (roles.size.vocab + roles.size.hidden) * width / roles.tp
    adafactor = roles.adafactor * (np.asarray(factored) + ends) / roles.shards
    return np.asarray(elements * (adamw + adamw8bit) + adafactor, dtype=np.float64)
