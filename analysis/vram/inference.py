"""What a model that serves requests needs on a card: weights, key/value cache, activations, runtime; and how many fit.

Pure arithmetic on the model's shape. A replica is tp x pp cards; dp is the number of replicas.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from analysis.vram import FITS, GIB, TIGHT_SHARE, rule_of_thumb, verdict
from analysis.vram.allocator import MIB, Margins
from analysis.vram.counts import counts
from analysis.vram.parameters import Dimensions, Sizes, held, layer_matrices, not_covered, total_parameters
from analysis.vram.roles import MODEL_COLUMNS, dimensions
from configs.cell import load_model
from configs.errors import ConfigError, choose
from configs.layout import Layout, check_layout, model_shape, resolve_layout, split_layers
from configs.schema import Config

WEIGHT_BITS = {"fp16": 16, "int8": 8, "int4": 4}
CACHE_BYTES = {"fp16": 2, "fp8": 1}
NOT_COVERED, INVALID = "not covered", "invalid"
COMPONENTS = ("weights", "kv_cache", "activations", "logits", "runtime")


@dataclass(frozen=True)
class Serving:
    """Bytes on the fullest card of a replica, at the concurrency that was asked for."""

    weights: float
    kv_cache: float
    activations: float  # of the tokens that go through the model at once
    logits: float
    runtime: float  # driver, libraries, and what the allocator holds beyond
    per_request: float  # of the cache and the logits, what one more request adds
    parameters: float  # of the model
    bits_per_weight: float  # of the layers' matrices, scales and zero points included
    rule_of_thumb: float  # 2 bytes a parameter over the replica's cards

    @property
    def device(self) -> float:
        return self.weights + self.kv_cache + self.activations + self.logits + self.runtime


@dataclass(frozen=True)
class Remedy:
    """A change of the words that makes it fit, and the bytes on the fullest card then."""

    words: str
    device: float


@dataclass(frozen=True)
class ServingPlan:
    """One cell of the grid. Without a number (`need` is None) `reason` says why: not legal, or not covered."""

    config: Config
    verdict: str
    reason: str = ""
    layout: Layout | None = None
    need: Serving | None = None
    most_requests: int | None = None  # at once on one replica, within 90 % of the card
    smallest_cards: int | None = None  # of one replica in this mode; None: none fits
    replicas_needed: int | None = None  # for the stated request rate
    remedies: tuple[Remedy, ...] = ()

    @property
    def card_bytes(self) -> float:
        return (self.config.machine.card_memory_gib or 0.0) * GIB


def plan_serving(configs: Sequence[Config]) -> list[ServingPlan]:
    """Every cell of the grid, in order."""
    return [_planned(config) for config in configs]


def serving(config: Config, margins: Margins | None = None) -> Serving:
    """Memory of the fullest card. Raises ConfigError for a layout, model or word that cannot be."""
    asked, layout = config.plan, layout_of(config)
    model = load_model(config.model)
    one = np.ones(layout.pp)
    size = Dimensions(*(one * dimensions(model.name, model.config)[name] for name in MODEL_COLUMNS))
    layers = np.array([len(part) for part in split_layers(int(size.layers[0]), layout.pp)], dtype=np.float64)
    first, last, tp = np.zeros(layout.pp), np.zeros(layout.pp), layout.tp * one
    first[0] = last[-1] = 1.0
    kept = held(size, first, last, tp, one)
    quantised, elements = matrix_bytes(size, tp, WEIGHT_BITS[asked.weights], asked.group_size)
    weights = layers * (quantised + 2 * (kept.layer - elements)) + 2 * kept.root
    per_token = cache_bytes_per_token(size, tp, CACHE_BYTES[asked.kv_cache])
    cache = layers * per_token * page_rounded(asked.context, asked.page_tokens)
    # the scores of one token of each request, in the model's dtype and again in fp32 for sampling
    logits = last * (2 + 4) * size.vocab
    work = activation_bytes(size, tp, min(asked.prefill_tokens, asked.context * asked.concurrency))
    known = margins or Margins()
    axes = float(layout.tp > 1) + float(layout.pp > 1)
    context = (known.context_mib + known.workspace_mib + axes * known.communicator_mib) * MIB
    runtime = context + known.fragmentation * (weights + work)
    total = weights + asked.concurrency * (cache + logits) + work + runtime
    full = int(np.argmax(total))
    parameters = float(total_parameters(size)[0])
    return Serving(
        weights=float(weights[full]),
        kv_cache=float(asked.concurrency * cache[full]),
        activations=float(work[full]),
        logits=float(asked.concurrency * logits[full]),
        runtime=float(runtime[full]),
        per_request=float(cache[full] + logits[full]),
        parameters=parameters,
        bits_per_weight=float(8 * quantised[full] / elements[full]),
        rule_of_thumb=rule_of_thumb(parameters, training=False, cards=layout.tp * layout.pp),
    )


def matrix_bytes(size: Dimensions, tp: Sizes, bits: int, group_size: int) -> tuple[Sizes, Sizes]:
    """(bytes, elements) of one layer's matrices. Quantised: `bits` each, and for every group along a row a scale in
    fp16 and a zero point of `bits` (Frantar et al. 2022, GPTQ; Lin et al. 2023, AWQ): 4.16 bits for int4 in 128s.

    group_size: 0 for one group a row.
    """
    elements, groups = np.zeros_like(tp), np.zeros_like(tp)
    for matrix in layer_matrices(size):
        if matrix.linear and "bias" not in matrix.name:
            here = matrix.elements(tp)
            columns = np.ceil(matrix.cols / tp) if matrix.tp == 1 else matrix.cols
            rows = here / columns
            elements = elements + here
            groups = groups + rows * (np.ceil(columns / group_size) if group_size else 1.0)
    overhead = groups * (2 + bits / 8) if bits < 16 else 0.0
    return np.asarray(elements * bits / 8 + overhead, dtype=np.float64), elements


def cache_bytes_per_token(size: Dimensions, tp: Sizes, width: float) -> Sizes:
    """Keys and values of one token in one layer: key/value heads alone, which tensor parallelism shares out."""
    return np.asarray(2 * size.key_value / tp * width, dtype=np.float64)


def page_rounded(tokens: int, page_tokens: int) -> int:
    """Tokens that the pages of a request hold; the last page is whole (Kwon et al. 2023, PagedAttention)."""
    return -(-tokens // page_tokens) * page_tokens


def activation_bytes(size: Dimensions, tp: Sizes, tokens: int) -> Sizes:
    """At the fullest moment of a layer, nothing kept: the residual and the norm's output whole, and beside them either
    the queries, keys, values and attention's output, or the MLP's two inputs and their product, in 16 bit."""
    attention = 2 * size.query + 2 * size.key_value
    widest = np.maximum(attention, 3 * size.intermediate) / tp
    return np.asarray(2.0 * tokens * (2 * size.hidden + widest), dtype=np.float64)


def layout_of(config: Config) -> Layout:
    """The replica's layout. Raises ConfigError for words and sizes that cannot be."""
    asked = config.plan
    choose("plan.weights", asked.weights, WEIGHT_BITS)
    choose("plan.kv_cache", asked.kv_cache, CACHE_BYTES)
    for name in ("context", "page_tokens", "concurrency", "prefill_tokens", "answer_tokens"):
        if getattr(asked, name) < 1:
            raise ConfigError(f"plan.{name}", f"{getattr(asked, name)} is not an amount", "a positive whole number")
    if asked.group_size < 0:
        raise ConfigError("plan.group_size", f"{asked.group_size} is negative", "128, or 0 for one group a row")
    for name in ("requests_per_s", "tokens_per_s"):
        value = getattr(asked, name)
        if value is not None and not 0 < value < math.inf:
            raise ConfigError(f"plan.{name}", f"{value} is not a rate", "a positive number")
    mode = config.mode
    if mode.shard != "none" or mode.zero_stage:
        raise ConfigError(
            f"mode={mode.name}", "shards for training", "mode=ddp (replicas), tp, pp or a product to serve"
        )
    if not config.machine.card_memory_gib or config.machine.card_memory_gib <= 0:
        what = f"{config.machine.name} has no card memory to hold the need against"
        raise ConfigError("machine", what, "name a card (machine=a100_80g) or give machine.card_memory_gib")
    model = load_model(config.model)
    shape = model_shape(model.name, model.config)
    layout = resolve_layout(mode, config.cards)
    check_layout(mode, layout, model.name, shape)
    if shape.max_positions and asked.context > shape.max_positions:
        raise ConfigError(
            "plan.context", f"{asked.context} is out of range", f"1 to {shape.max_positions} ({model.name})"
        )
    return layout


def most_requests(need: Serving, concurrency: int, card: float) -> int:
    """How many requests a replica holds at once within 90 % of `card` bytes."""
    fixed = need.device - concurrency * need.per_request
    return max(int((TIGHT_SHARE * card - fixed) // need.per_request), 0)


def replicas_for(config: Config) -> int | None:
    """Replicas that generate what is asked for, each at the stated tokens/s; None where either is not stated."""
    asked = config.plan
    if asked.requests_per_s is None or asked.tokens_per_s is None:
        return None
    return max(math.ceil(asked.requests_per_s * asked.answer_tokens / asked.tokens_per_s), 1)


def _planned(config: Config) -> ServingPlan:
    try:
        model = load_model(config.model)
        why = not_covered(model.config)
        if why:
            return ServingPlan(config, NOT_COVERED, f"model {model.name}: {why} is not covered by the closed form")
        layout, need = layout_of(config), serving(config)
    except ConfigError as error:
        return ServingPlan(config, INVALID, str(error))
    card = (config.machine.card_memory_gib or 0.0) * GIB
    answer = verdict(need.device, card)
    most = most_requests(need, config.plan.concurrency, card)
    smallest = _smallest(config)
    return ServingPlan(
        config=config,
        verdict=answer,
        layout=layout,
        need=need,
        most_requests=most,
        smallest_cards=smallest,
        replicas_needed=replicas_for(config),
        remedies=() if answer == FITS else _remedies(config, most, smallest),
    )


def _fits(config: Config) -> float | None:
    """Bytes on the fullest card where `config` fits; None where it does not, or cannot be."""
    try:
        needed = serving(config).device
    except ConfigError:
        return None
    return needed if verdict(needed, (config.machine.card_memory_gib or 0.0) * GIB) == FITS else None


def _smallest(config: Config) -> int | None:
    """Cards of the smallest replica in this mode that fits."""
    for cards in counts(config):
        there = replace(config, cards=cards)
        if _fits(there) is not None:
            layout = layout_of(there)
            return layout.tp * layout.pp
    return None


def _remedies(config: Config, most: int, smallest: int | None) -> tuple[Remedy, ...]:
    """Single changes that make it fit: what costs no quality first, then what rounds, then more cards."""
    asked = config.plan
    tried: list[tuple[str, Config]] = []
    if 0 < most < asked.concurrency:
        tried.append((f"plan.concurrency={most}", replace(config, plan=replace(asked, concurrency=most))))
    if asked.kv_cache == "fp16":
        tried.append(("plan.kv_cache=fp8", replace(config, plan=replace(asked, kv_cache="fp8"))))
    for weights, bits in WEIGHT_BITS.items():
        if bits < WEIGHT_BITS[asked.weights]:
            tried.append((f"plan.weights={weights}", replace(config, plan=replace(asked, weights=weights))))
    if smallest is not None and smallest > config.cards:
        tried.append((f"cards={smallest}", replace(config, cards=smallest)))
    if smallest is None and config.mode.tp == 1:
        tensor = replace(config.mode, name="tp", dp=1, tp=None)
        tried += [(f"mode=tp cards={n}", replace(config, mode=tensor, cards=n)) for n in (2, 4, 8) if n > config.cards]
    found = [Remedy(words, needed) for words, there in tried if (needed := _fits(there)) is not None]
    widened = [remedy for remedy in found if remedy.words.startswith("mode=tp")]
    return tuple(remedy for remedy in found if remedy not in widened[1:])
