"""The moments of a training step at which memory can be highest, each as bytes by component; the highest one counts.

Between two of these moments live bytes move in one direction (activations are freed as gradients appear, layer by
layer), so the peak is at one of them.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np

from analysis.vram.activations import Activations, activations, compute_bytes
from analysis.vram.parameters import Sizes
from analysis.vram.roles import Roles
from analysis.vram.states import States, states, stored_bytes, whole

PHASES = ("loss", "head backward", "first backward layer", "last backward layer", "embedding backward", "optimizer")


@dataclass(frozen=True)
class Components:
    """Bytes by what they are for, one entry a role."""

    parameters: Sizes
    gradients: Sizes
    optimizer_states: Sizes
    activations: Sizes
    logits_and_loss: Sizes
    communication: Sizes
    temporaries: Sizes

    @property
    def total(self) -> Sizes:
        return np.asarray(sum(getattr(self, f.name) for f in fields(self)), dtype=np.float64)


def peak(roles: Roles) -> tuple[Components, Sizes]:
    """The components of the highest moment of each role, and which of PHASES it is."""
    moments = list(_moments(roles))
    totals = np.stack([moment.total for moment in moments])
    highest = totals.argmax(axis=0)
    places = np.arange(totals.shape[1])
    chosen = {f.name: np.stack([getattr(m, f.name) for m in moments])[highest, places] for f in fields(Components)}
    return Components(**chosen), highest


def in_flight(roles: Roles) -> Sizes:
    """Micro-batches x share of the role's layers whose activations a pipeline rank holds at most.

    GPipe: all. 1F1B: the stages from here on (Narayanan et al. 2021, section 2.2). Looped schedules run ahead by
    2 (p - rank - 1) more chunks, after the first round of p (Megatron's interleaved schedule, as torch has it).
    """
    ahead = np.minimum(roles.micro_batches, roles.pp - roles.stage)
    per_wait = np.where(roles.zero_bubble > 0, 1.0, 2.0)
    looped = (roles.chunks - 1) * roles.pp + per_wait * (roles.pp - 1 - roles.stage) + 1
    looped = np.minimum(looped, roles.micro_batches * roles.chunks) / roles.chunks
    flying = np.where(roles.chunks > 1, looped, np.where(roles.gpipe > 0, roles.micro_batches, ahead))
    return np.where(roles.pp > 1, flying, 1.0)


def _moments(roles: Roles) -> list[Components]:
    kept, acts, full = states(roles), activations(roles), whole(roles)
    zero = np.zeros_like(roles.tp)
    width, compute = stored_bytes(roles), compute_bytes(roles)
    trains_all = 1 - roles.lora
    again = (roles.micro_batches > 1).astype(np.float64)
    sharded = roles.fully_sharded

    dear = roles.checkpoint_selective * acts.dear
    again_computed = (roles.checkpoint_full > 0) | (roles.checkpoint_selective > 0)
    saved_layer = np.where(again_computed, acts.layer_input + dear, acts.layer)
    flying = in_flight(roles)
    saved = flying * (roles.layers * saved_layer + roles.last * acts.head) + acts.shared
    casts = np.where(again_computed, roles.autocast * 2.0 * full.head, acts.weight_casts)
    recomputed = np.where(again_computed, np.maximum(acts.layer - dear, 0.0), 0.0)
    pipe = _pipeline_buffers(roles, acts)

    # gradients as they come out of backward: whole on each rank, in the parameter's or the gathered dtype
    grad_width = np.where(sharded > 0, compute, width)
    layer_grads = np.where(roles.lora > 0, kept.adapters, full.layer) * grad_width
    head_grad = trains_all * full.head * grad_width
    embedding_grad = trains_all * np.where(roles.size.tied * roles.last > 0, roles.first * full.head, full.embedding)
    embedding_grad = embedding_grad * grad_width
    before = np.where(sharded > 0, kept.accumulated, kept.gradients * again)
    whole_grads = np.where(sharded > 0, kept.gradients * (1 - again) + kept.accumulated, kept.gradients)

    unit, root = full.layer * compute, full.root * compute
    reduce_width = np.where(roles.half > 0, 2.0, 4.0)
    gathered_all = (1 - roles.reshard) * (roles.layers * unit + root) * sharded
    gathered_root = np.where(roles.reshard > 0, root * sharded, gathered_all)
    prefetched = np.where((roles.shards > 1) & (roles.reshard > 0), unit, 0.0) * sharded
    current = unit * sharded * roles.reshard
    reducing = layer_grads / grad_width * reduce_width * sharded * (roles.shards > 1)
    root_reducing = (head_grad + embedding_grad) / grad_width * reduce_width * sharded

    tokens = roles.tokens
    mlp = compute * roles.size.intermediate / roles.tp * tokens
    down = trains_all * roles.size.hidden * roles.size.intermediate / roles.tp * width
    layer_work = 2 * mlp + acts.residual + down
    head_work = acts.logits + compute * roles.size.hidden * tokens * roles.last
    head_work = head_work + trains_all * full.head * np.where(roles.autocast > 0, 6.0, grad_width)
    table_cast = trains_all * full.embedding * grad_width * again

    def moment(grads: Sizes, held_acts: Sizes, loss: Sizes, comm: Sizes, work: Sizes) -> Components:
        return Components(kept.parameters, grads, kept.optimizer, held_acts, loss, kept.buckets + pipe + comm, work)

    optimizer_work = np.where(
        roles.foreach * roles.adamw > 0, kept.optimizer / 2, 3 * full.largest * width / roles.shards
    )
    return [
        moment(before, saved + casts, acts.logits + acts.loss, gathered_all, zero),
        moment(before, saved + casts, acts.logits, gathered_root, head_work),
        moment(
            before + head_grad * np.where(again > 0, 0.0, 1.0) * (1 - sharded) + head_grad * sharded,
            saved - roles.last * acts.head + casts + recomputed,
            acts.logits,
            gathered_root + current + prefetched,
            layer_work + layer_grads * sharded,
        ),
        moment(
            whole_grads + head_grad * sharded,
            acts.shared + saved_layer + recomputed,
            acts.logits,
            gathered_root + current + reducing,
            layer_work + layer_grads * sharded,
        ),
        moment(
            whole_grads + (head_grad + embedding_grad) * sharded,
            acts.shared,
            acts.logits,
            gathered_root + np.maximum(reducing, root_reducing),
            acts.residual + table_cast,
        ),
        moment(kept.gradients, zero, zero, zero, optimizer_work),
    ]


def _pipeline_buffers(roles: Roles, acts: Activations) -> Sizes:
    """Hidden states received from and sent to the neighbours, and their gradients, for every micro-batch under way."""
    neighbours = (1 - roles.first) + (1 - roles.last)
    flying = in_flight(roles)
    return np.where(roles.pp > 1, neighbours * acts.residual * (flying + 1), 0.0)


__all__ = ["PHASES", "Components", "States", "in_flight", "peak"]
