"""The grammar of `cards`: how a mode's sizes multiply to the world size, and what a model's shape allows."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from configs.errors import ConfigError, choose
from configs.schema import Mode

# schedule -> stages that each rank holds
SCHEDULES = {"gpipe": 1, "1f1b": 1, "interleaved": 2, "zero_bubble": 2}
SHARDS = ("none", "full")
AXES = ("dp", "tp", "pp")


@dataclass(frozen=True)
class Layout:
    """The sizes of the mesh axes; their product is the world size."""

    dp: int
    tp: int
    pp: int

    @property
    def world_size(self) -> int:
        return self.dp * self.tp * self.pp


@dataclass(frozen=True)
class ModelShape:
    """What of a model's config decides which layouts are legal, and its first-order cost."""

    layers: int
    hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    intermediate: int
    vocab: int
    tied_embeddings: bool
    max_positions: int | None = None


def model_shape(name: str, config: Mapping[str, Any]) -> ModelShape:
    """Read the shape from a transformers config given as a mapping.

    `head_dim` is read where present and positive: hidden / heads is wrong for many models. Raises ConfigError on a
    field that is missing or not a positive integer.
    """

    def size(field: str, default: int | None = None) -> int:
        value = config.get(field, default)
        value = default if value is None else value
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise ConfigError(f"model {name}: {field}", f"{value!r} is not a positive integer")
        return value

    hidden, heads = size("hidden_size"), size("num_attention_heads")
    return ModelShape(
        layers=size("num_hidden_layers"),
        hidden=hidden,
        heads=heads,
        kv_heads=size("num_key_value_heads", heads),
        head_dim=size("head_dim", max(hidden // heads, 1)),
        intermediate=size("intermediate_size"),
        vocab=size("vocab_size"),
        tied_embeddings=bool(config.get("tie_word_embeddings", False)),
        max_positions=config.get("max_position_embeddings"),
    )


def divisors(n: int) -> list[int]:
    return [d for d in range(1, n + 1) if n % d == 0]


def resolve_layout(mode: Mode, cards: int) -> Layout:
    """Fill in the axis that `mode` leaves open (None) so that dp x tp x pp == cards.

    Raises ConfigError with the nearest legal choices if no whole number does, or if more than one axis is open.
    """
    where = f"mode={mode.name}"
    if not isinstance(cards, int) or cards < 1:
        raise ConfigError("cards", f"{cards} is not a world size", "a positive whole number")
    sizes: dict[str, int | None] = {axis: getattr(mode, axis) for axis in AXES}
    for axis, size in sizes.items():
        if size is not None and size < 1:
            raise ConfigError(f"{where}: mode.{axis}", f"{size} is not a size", "a positive whole number, or null")
    still_open = [axis for axis, size in sizes.items() if size is None]
    if len(still_open) > 1:
        raise ConfigError(where, f"leaves {' and '.join(still_open)} open", "leave only one of dp, tp, pp null")
    fixed = 1
    for size in sizes.values():
        fixed *= size or 1
    product = " x ".join(f"{axis}={sizes[axis]}" for axis in AXES if sizes[axis] is not None)
    if still_open:
        if cards % fixed:
            below, above = cards // fixed * fixed, (cards // fixed + 1) * fixed
            legal = " or ".join(str(c) for c in (below, above) if c)
            raise ConfigError(where, f"cards={cards} is not a multiple of {product}", f"nearest: cards={legal}")
        sizes[still_open[0]] = cards // fixed
    elif fixed != cards:
        raise ConfigError(where, f"{product} is {fixed} cards, not cards={cards}", f"use cards={fixed}")
    return Layout(*(sizes[axis] or 1 for axis in AXES))


def check_layout(mode: Mode, layout: Layout, model: str, shape: ModelShape) -> None:
    """Refuse what the model's shape does not allow: heads, key/value heads, vocabulary by tp; layers by pp."""
    if layout.tp > 1:
        legal = [d for d in divisors(shape.heads) if shape.kv_heads % d == 0 and shape.vocab % d == 0]
        choices = f"tp can be {_either(legal)}"
        for count, what in (
            (shape.heads, "attention heads"),
            (shape.kv_heads, "key/value heads"),
            (shape.vocab, "vocabulary entries"),
        ):
            if count % layout.tp:
                raise ConfigError(
                    f"mode={mode.name}", f"{count} {what} do not divide by tp={layout.tp} (model {model})", choices
                )
    check_sharding(mode, layout)
    per_rank = SCHEDULES[choose(f"mode={mode.name}: mode.schedule", mode.schedule, SCHEDULES)] if layout.pp > 1 else 1
    if layout.pp * per_rank > shape.layers:
        each = f" x {per_rank} a rank (schedule {mode.schedule})" if per_rank > 1 else ""
        raise ConfigError(
            f"mode={mode.name}",
            f"pp={layout.pp} stages{each} for {shape.layers} layers (model {model})",
            f"pp can be 1 to {shape.layers // per_rank}",
        )


def check_sharding(mode: Mode, layout: Layout) -> None:
    """Refuse copies that do not share out over the data-parallel ranks, and options that need another mode."""
    where = f"mode={mode.name}"
    choose(f"{where}: mode.shard", mode.shard, SHARDS)
    if mode.replicate < 1 or layout.dp % mode.replicate:
        raise ConfigError(
            f"{where}: mode.replicate",
            f"{mode.replicate} copies do not share out over dp={layout.dp}",
            f"replicate can be {_either(divisors(layout.dp))}",
        )
    if layout.tp == 1 and mode.tp == 1 and (mode.sequence_parallel or mode.loss_parallel):
        name = "sequence_parallel" if mode.sequence_parallel else "loss_parallel"
        raise ConfigError(f"{where}: mode.{name}", "needs tensor parallelism", "a mode with tp, such as mode=tp")


def split_layers(layers: int, stages: int) -> list[range]:
    """Consecutive layers of each stage, every layer once; the earlier stages take the remainder, one each.

    The last stage carries the output head, so it is never the longer one.
    """
    base, extra = divmod(layers, stages)
    bounds = [0]
    for stage in range(stages):
        bounds.append(bounds[-1] + base + (stage < extra))
    return [range(a, b) for a, b in itertools.pairwise(bounds)]


def named(mode: Mode, layout: Layout) -> Mode:
    """`mode` with its axes filled in from `layout`."""
    return replace(mode, dp=layout.dp, tp=layout.tp, pp=layout.pp)


def _either(sizes: list[int]) -> str:
    words = [str(s) for s in sizes]
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} or {words[-1]}"
