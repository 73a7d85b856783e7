"""What a parallel mode sends in one training step, in closed form from the model's shape.

DDP: one all-reduce of the gradients a step. FSDP: the parameters gathered for the forward and again for the backward
of every micro-batch, the gradients scattered once (Zhao et al. 2023). Tensor parallel: two all-reduces of the layer's
activations in the forward and two in the backward (Shoeybi et al. 2019). Pipeline: activations to the next stage and
their gradients back (Narayanan et al. 2021). Ranks are placed as the modes place them: tensor innermost, pipeline
outermost.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from analysis.links.collective_time import Group, group
from configs.layout import Layout, ModelShape, split_layers

NOTHING, BACKWARD, PASSES = "", "backward", "passes"
NO_SHARD, FULL_SHARD = "none", "full"


@dataclass(frozen=True)
class Collective:
    """`times` calls a step of `op` on `size_bytes` over `of`.

    hides_behind: the compute it may overlap: NOTHING, the BACKWARD of the last micro-batch, or the PASSES of all.
    """

    what: str
    op: str
    size_bytes: float
    of: Group
    times: float
    hides_behind: str


@dataclass(frozen=True)
class Batch:
    """What a rank takes in one step: `micro_batches` of `micro_batch` sequences of `seq_len` tokens."""

    micro_batch: int
    micro_batches: int
    seq_len: int

    @property
    def tokens(self) -> int:
        """Of one micro-batch."""
        return self.micro_batch * self.seq_len


@dataclass(frozen=True)
class Widths:
    """Bytes an element: of gathered parameters, reduced gradients and activations."""

    parameters: int
    gradients: int
    activations: int


WIDTHS = {"fp32": Widths(4, 4, 4), "bf16": Widths(2, 4, 2), "fp16": Widths(2, 4, 2), "bf16_pure": Widths(2, 2, 2)}


@cache
def layer_parameters(shape: ModelShape) -> int:
    """Of one decoder layer of the Llama family: projections, gated MLP, two norms."""
    attention = 2 * shape.hidden * shape.head_dim * (shape.heads + shape.kv_heads)
    return attention + 3 * shape.hidden * shape.intermediate + 2 * shape.hidden


def model_parameters(shape: ModelShape) -> int:
    """Of the whole model: layers, embedding, last norm, and an output head of its own unless it is tied."""
    embeddings = shape.vocab * shape.hidden * (1 if shape.tied_embeddings else 2)
    return shape.layers * layer_parameters(shape) + embeddings + shape.hidden


@cache
def largest_stage_parameters(shape: ModelShape, stages: int, multiplied: bool = False) -> int:
    """Of the pipeline stage that holds most; the first has the embedding, the last the norm and the head.

    multiplied: count only what takes part in matrix products, the head but not the embedding's look-up.
    """
    look_up = head = shape.vocab * shape.hidden
    if stages == 1 and shape.tied_embeddings:
        look_up = 0  # one matrix does both
    held = [len(layers) * layer_parameters(shape) for layers in split_layers(shape.layers, stages)]
    held[0] += 0 if multiplied else look_up
    held[-1] += head + shape.hidden
    return max(held)


def communication(
    layout: Layout,
    shape: ModelShape,
    batch: Batch,
    widths: Widths,
    cards_per_node: int,
    shard: str = NO_SHARD,
    reshard_after_forward: bool = True,
) -> tuple[Collective, ...]:
    """Every collective of one step of the busiest rank; empty on one card.

    batch: of one data-parallel replica. shard: NO_SHARD for DDP, FULL_SHARD for FSDP over the data-parallel ranks.
    """
    held = largest_stage_parameters(shape, layout.pp) / layout.tp
    layers = -(-shape.layers // layout.pp)  # of the longest stage
    activations = batch.tokens * shape.hidden * widths.activations
    found: list[Collective] = []
    data = group(layout.dp, layout.tp, cards_per_node)
    if layout.dp > 1 and shard == FULL_SHARD:
        # A unit a layer is gathered and scattered at once, so the latency is paid a layer.
        gathers = batch.micro_batches * (2 if reshard_after_forward else 1)
        size, units = held * widths.parameters / layers, layers
        found.append(Collective("parameters", "all_gather", size, data, gathers * units, PASSES))
        size = held * widths.gradients / layers
        found.append(Collective("gradients", "reduce_scatter", size, data, units, BACKWARD))
    elif layout.dp > 1:
        found.append(Collective("gradients", "all_reduce", held * widths.gradients, data, 1, BACKWARD))
    if layout.tp > 1:
        tensor = group(layout.tp, 1, cards_per_node)
        times = 4 * layers * batch.micro_batches
        found.append(Collective("layer activations", "all_reduce", activations, tensor, times, NOTHING))
    if layout.pp > 1:
        stride = layout.dp * layout.tp
        neighbours = group(2, stride, cards_per_node)
        times = 2 * batch.micro_batches
        found.append(Collective("stage activations", "send_recv", activations, neighbours, times, NOTHING))
    return tuple(found)
