"""What would make a cell fit: changes of its config, alone or together, each with what it does to the memory.

A change is words that the command line takes. Cheapest first: what costs little time and no result, then more cards,
then what changes the training's numerics or what is trained, then offloading, which is slow.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np

from analysis.vram import FITS, GIB, estimate_frame, verdict
from analysis.vram.counts import at_cards, counts
from analysis.vram.roles import cell_frame
from configs.cell import Cell
from configs.schema import Config, Mode, Recipe

MOST_TOGETHER = 3
MOST_SHOWN = 6


@dataclass(frozen=True)
class Change:
    """One change: the words that make it, what it costs, and how dear that is beside the others (`rank`).

    kind: changes of one kind exclude each other. Parts that are None are left as they are.
    """

    words: str
    kind: str
    rank: float
    costs: str
    mode: Mode | None = None
    recipe: Recipe | None = None
    micro_batch: int | None = None
    cards: int | None = None


@dataclass(frozen=True)
class Step:
    """One change of a remedy and by how many bytes it lowers the fullest rank, after those before it."""

    words: str
    lowers: float
    costs: str


@dataclass(frozen=True)
class Remedy:
    """Changes that together make a cell fit (90 % of the card at most). device: bytes of the fullest rank then."""

    steps: tuple[Step, ...]
    device: float

    @property
    def words(self) -> str:
        return " ".join(step.words for step in self.steps)


def remedies(config: Config, device: float, modes: Mapping[str, Mode]) -> tuple[Remedy, ...]:
    """The cheapest ways to make `config` fit, cheapest first; none where no three changes together do.

    device: bytes that it needs as it is. modes: the modes that a change may name. A change that fits alone comes
    alone; three are offered together only where no two do.
    """
    offered = list(changes(config, modes))
    found: list[tuple[Change, ...]] = []
    for together in range(1, MOST_TOGETHER + 1):
        if found and together > 2:
            break
        enough = [{change.words for change in made} for made in found]
        sets = [s for s in _sets(offered, together) if not any({c.words for c in s} > words for words in enough)]
        found += [s for s, fits in zip(sets, _fit(config, sets), strict=True) if fits]
    cheapest = sorted(_one_count_each(found), key=lambda s: (sum(change.rank for change in s), len(s)))[:MOST_SHOWN]
    return tuple(_remedy(config, device, ways) for ways in cheapest)


def changes(config: Config, modes: Mapping[str, Mode]) -> Iterator[Change]:
    """Every single change that `config` leaves open and that lowers memory in some cell."""
    recipe = config.recipe
    if isinstance(config.micro_batch, int) and config.micro_batch > 1:
        costs = "the same batch in smaller pieces: less work at once for the card"
        yield Change("micro_batch=1", "micro_batch", 1.0, costs, micro_batch=1)
    if recipe.checkpointing != "full":
        words = "recipe.checkpointing=full"
        changed = replace(recipe, checkpointing="full")
        yield Change(words, "checkpointing", 2.0, "the forward pass again: a third more compute", recipe=changed)
    yield from _mode_changes(config, modes)
    if recipe.optimizer == "adamw" and config.machine.device != "cpu":
        changed = replace(recipe, optimizer="adamw8bit", state_dtype="fp32")
        yield Change(
            "recipe.optimizer=adamw8bit", "states", 6.0, "AdamW states in 8 bit (bitsandbytes)", recipe=changed
        )
    if recipe.precision != "bf16_pure":
        changed = replace(recipe, precision="bf16_pure", state_dtype="bf16")
        words = "recipe.precision=bf16_pure recipe.state_dtype=bf16"
        yield Change(words, "states", 7.0, "no fp32 weights: small updates are rounded away", recipe=changed)
    if recipe.method == "full":
        changed = replace(recipe, method="lora")
        yield Change("recipe.method=lora", "method", 8.0, "trains adapters, not the weights", recipe=changed)
    for cards in counts(config):
        if cards > config.cards:
            times = cards / config.cards
            yield Change(f"cards={cards}", "cards", 4.0 + float(np.log2(times)), f"{times:g} x the cards", cards=cards)


def _mode_changes(config: Config, modes: Mapping[str, Mode]) -> Iterator[Change]:
    mode = config.mode
    plain_data_parallel = mode.tp == 1 and mode.pp == 1
    if plain_data_parallel and config.cards > 1:
        gathers = "parameters are gathered layer by layer: half as much communication again"
        offers = [
            ("zero1", 2.4, "optimizer states are sharded: as much communication as ddp"),
            ("zero2", 2.5, "optimizer states and gradients are sharded: as much communication as ddp"),
            ("fsdp", 3.0, gathers),
            ("zero3", 3.1, gathers + ", in every micro-batch"),
        ]
        for name, rank, costs in offers:
            if name in modes and _shards_less(mode, modes[name]):
                yield Change(f"mode={name}", "mode", rank, costs, mode=modes[name])
    if plain_data_parallel and mode.offload == "none" and "zero3" in modes:
        words = "" if mode.name == "zero3" else "mode=zero3 "
        for what, rank in (("optimizer", 9.0), ("all", 10.0)):
            changed = replace(modes["zero3"], offload=what)
            costs = "every step moves states over PCIe; needs host memory: much slower"
            yield Change(f"{words}mode.offload={what}", "mode", rank, costs, mode=changed)
    if mode.tp != 1 and not mode.sequence_parallel:
        changed = replace(mode, sequence_parallel=True, loss_parallel=True)
        words = "mode.sequence_parallel=true mode.loss_parallel=true"
        yield Change(words, "mode", 1.5, "norms and logits are split over tp: no more communication", mode=changed)


def _shards_less(mode: Mode, other: Mode) -> bool:
    """Whether pure data-parallel `other` holds less on a rank than `mode`: states, or gradients between pieces."""
    if mode.shard == "full":
        return other.zero_stage == 3
    return (other.shard == "full" and mode.zero_stage < 3) or other.zero_stage > mode.zero_stage


def apply(config: Config, made: Sequence[Change]) -> Config:
    """`config` with every change of `made`; several changes of the recipe add up."""
    recipe = config.recipe
    for change in made:
        if change.recipe is not None:
            altered = {
                name: getattr(change.recipe, name)
                for name in ("checkpointing", "optimizer", "state_dtype", "precision", "method")
                if getattr(change.recipe, name) != getattr(config.recipe, name)
            }
            recipe = replace(recipe, **altered)
        config_mode = change.mode or config.mode
        micro_batch = change.micro_batch or config.micro_batch
        config = replace(config, mode=config_mode, micro_batch=micro_batch)
    return replace(config, recipe=recipe)


def _sets(offered: Sequence[Change], together: int) -> list[tuple[Change, ...]]:
    """Every set of `together` changes of different kinds."""
    return [s for s in combinations(offered, together) if len({change.kind for change in s}) == together]


def _cell(config: Config, made: Sequence[Change]) -> Cell | None:
    cards = next((change.cards for change in made if change.cards), config.cards)
    return at_cards(apply(config, made), cards)


def _fit(config: Config, sets: Sequence[tuple[Change, ...]]) -> list[bool]:
    """Which of `sets` make `config` fit."""
    cells = [_cell(config, made) for made in sets]
    legal = [cell for cell in cells if cell is not None]
    if not legal:
        return [False] * len(sets)
    card = (config.machine.card_memory_gib or 0.0) * GIB
    needs = iter(estimate_frame(cell_frame(legal))["device"])
    return [cell is not None and verdict(next(needs), card) == FITS for cell in cells]


def _one_count_each(found: Sequence[tuple[Change, ...]]) -> list[tuple[Change, ...]]:
    """Of sets that differ only in the card count, the one with the fewest."""
    fewest: dict[tuple[str, ...], tuple[Change, ...]] = {}
    for made in sorted(found, key=lambda s: next((change.cards for change in s if change.cards), 0)):
        fewest.setdefault(tuple("cards" if change.cards else change.words for change in made), made)
    return list(fewest.values())


def _remedy(config: Config, device: float, made: Sequence[Change]) -> Remedy:
    """The changes of `made` in turn, each with what it lowers after those before it."""
    steps, before = [], device
    for done in range(1, len(made) + 1):
        cell = _cell(config, made[:done])
        change = made[done - 1]
        words = change.words
        if cell is None:  # legal only together with what follows
            steps.append(Step(words, 0.0, change.costs))
            continue
        after = float(estimate_frame(cell_frame([cell]))["device"].iloc[0])
        if change.cards and cell.global_batch != config.global_batch and config.scaling == "strong":
            words += f" global_batch={cell.global_batch}"
        steps.append(Step(words, before - after, change.costs))
        before = after
    return Remedy(tuple(steps), before)
