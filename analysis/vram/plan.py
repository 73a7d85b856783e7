"""What every cell of a grid needs on a card, before any card is rented: verdict, largest micro-batch, smallest count.

Pure and vectorised: the closed form is evaluated for all cells, batches and card counts at once. What would make a
cell fit is analysis.vram.remedies.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analysis.vram import FITS, GIB, estimate_frame, verdict
from analysis.vram.counts import at_cards, counts
from analysis.vram.parameters import Sizes, not_covered
from analysis.vram.peak import Components
from analysis.vram.remedies import Remedy, remedies
from analysis.vram.roles import cell_frame
from configs.cell import Cell, load_model, resolve
from configs.errors import ConfigError
from configs.schema import Config, Mode

NOT_COVERED, INVALID = "not covered", "invalid"
LARGEST_MICRO_BATCH = 2**14
COMPONENTS = (*(f.name for f in fields(Components)), "fragmentation", "context")


@dataclass(frozen=True)
class Need:
    """The closed form's answer for the fullest rank of a cell. Bytes; low and high: the interval of `device`."""

    components: Mapping[str, float]
    allocated: float
    reserved: float
    device: float
    low: float
    high: float
    phase: str  # the moment of the step at which it is highest
    stage: int  # the pipeline stage that needs most
    parameters: float  # of the whole model
    rule_of_thumb: float  # 16 bytes a parameter, shared out over the cards


@dataclass(frozen=True)
class Smallest:
    """The smallest card count that fits, and the global batch that shares out over it."""

    cards: int
    global_batch: int


@dataclass(frozen=True)
class Planned:
    """One cell of the grid. Without a number (`need` is None) `reason` says why: not legal, or not covered."""

    config: Config
    verdict: str
    reason: str = ""
    cell: Cell | None = None
    need: Need | None = None
    largest_micro_batch: int | None = None  # within 90 % of the card, accumulation as it is; 0: not even one sequence
    smallest: Smallest | None = None  # of this model, mode, machine and recipe
    remedies: tuple[Remedy, ...] = field(default=())

    @property
    def card_bytes(self) -> float:
        return (self.config.machine.card_memory_gib or 0.0) * GIB


def plan(configs: Sequence[Config], modes: Mapping[str, Mode]) -> list[Planned]:
    """Every cell of the grid `configs`, in order. modes: what a change of mode may name (configs/mode)."""
    checked = [check(config) for config in configs]
    places = [i for i, planned in enumerate(checked) if planned.cell is not None]
    if not places:
        return checked
    cells = [planned.cell for planned in checked if planned.cell is not None]
    frame = cell_frame(cells)
    cards = np.array([card_bytes(cell) for cell in cells])
    table = estimate_frame(frame)
    batches = largest_micro_batches(frame, cards)
    smallest = smallest_counts([checked[i].config for i in places])
    for at, place in enumerate(places):
        need = need_of(table.iloc[at])
        answer = verdict(need.device, cards[at])
        config = checked[place].config
        ways = () if answer == FITS else remedies(config, need.device, modes)
        checked[place] = replace(
            checked[place],
            verdict=answer,
            need=need,
            largest_micro_batch=int(batches[at]),
            smallest=smallest[at],
            remedies=ways,
        )
    return checked


def check(config: Config) -> Planned:
    """`config` as a cell of the plan that has no number yet, or with the reason why it will have none."""
    try:
        model = load_model(config.model)
        why = not_covered(model.config)
        if why:
            return Planned(config, NOT_COVERED, f"model {model.name}: {why} is not covered by the closed form")
        cell = resolve(config)
        if not cell.machine.card_memory_gib or cell.machine.card_memory_gib <= 0:
            what = f"{cell.machine.name} has no card memory to hold the need against"
            raise ConfigError("machine", what, "name a card (machine=a100_80g) or give machine.card_memory_gib")
        cell_frame([cell])
    except ConfigError as error:
        return Planned(config, INVALID, str(error))
    return Planned(config, "", cell=cell)


def card_bytes(cell: Cell) -> float:
    return (cell.machine.card_memory_gib or 0.0) * GIB


def need_of(row: pd.Series) -> Need:
    """One row of `estimate_frame` as a Need."""
    return Need(
        components={name: float(row[name]) for name in COMPONENTS},
        **{name: float(row[name]) for name in ("allocated", "reserved", "device", "low", "high", "rule_of_thumb")},
        phase=str(row["phase"]),
        stage=int(row["stage"]),
        parameters=float(row["model_parameters"]),
    )


def largest_micro_batches(frame: pd.DataFrame, cards: Sizes) -> NDArray[np.int64]:
    """For each row of `frame` the largest micro-batch that fits (90 % of `cards` bytes); 0 where one sequence does not.

    Need grows with the micro-batch, so bisection over all rows at once finds it; accumulation stays as it is.
    """
    low = np.zeros(len(frame), dtype=np.int64)  # fits, or is zero
    high = np.full(len(frame), LARGEST_MICRO_BATCH + 1, dtype=np.int64)  # does not fit, or is beyond the search
    while (high - low > 1).any():
        middle = (low + high) // 2
        device = estimate_frame(frame.assign(micro_batch=np.maximum(middle, 1)))["device"].to_numpy()
        fits = np.array([verdict(d, c) == FITS for d, c in zip(device, cards, strict=True)])
        low = np.where(fits, np.maximum(low, middle), low)
        high = np.where(fits, high, np.minimum(high, np.maximum(middle, low + 1)))
    return low


def smallest_counts(configs: Sequence[Config]) -> list[Smallest | None]:
    """For each config the smallest count of cards, up to 1024, at which it fits; None where none does.

    Its own count does not matter: configs that differ in nothing else get the same answer, computed once.
    """
    keys = [repr(replace(config, cards=1)) for config in configs]
    first = dict(zip(keys, configs, strict=True))
    cells: list[Cell] = []
    owners: list[str] = []
    for key, config in first.items():
        for cards in counts(config):
            cell = at_cards(config, cards)
            if cell is not None:
                cells.append(cell)
                owners.append(key)
    found: dict[str, Smallest] = {}
    if cells:
        device = estimate_frame(cell_frame(cells))["device"]
        for key, cell, needed in zip(owners, cells, device, strict=True):
            if key not in found and verdict(needed, card_bytes(cell)) == FITS:
                found[key] = Smallest(cell.cards, cell.global_batch)
    return [found.get(key) for key in keys]
