"""How much memory each card of a cell needs, in closed form: by component, with an interval and a verdict.

Pure arithmetic on the model's shape; the terms are in vram_parameters, vram_states, vram_activations, vram_peak and
vram_allocator. `estimate` takes one cell, `estimate_frame` a frame of them.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analysis.vram.allocator import Margins, allocator_bytes
from analysis.vram.parameters import Sizes, total_parameters
from analysis.vram.peak import PHASES, Components, peak
from analysis.vram.roles import Roles, cell_frame, roles_of
from configs.cell import Cell

GIB = 2**30
FITS, TIGHT, DOES_NOT_FIT = "fits", "tight", "does not fit"
TIGHT_SHARE = 0.90  # of the card; https://idctop.com/article/573547.html, also analysis.threestep
# The rule of thumb of the same article: GB (10^9 bytes) for each billion parameters.
TRAINING_BYTES_PER_PARAMETER, INFERENCE_BYTES_PER_PARAMETER = 16, 2


@dataclass(frozen=True)
class RoleBytes:
    """What one kind of rank needs. ranks: how many of the job there are of it. Bytes; phase: when the peak is."""

    role: str
    stage: int
    ranks: int
    layers: int
    phase: str
    parameters: float
    gradients: float
    optimizer_states: float
    activations: float
    logits_and_loss: float
    communication: float
    temporaries: float
    fragmentation: float  # rounding and unused parts of the allocator's segments
    context: float  # the driver's and libraries' own

    @property
    def allocated(self) -> float:
        """What torch calls allocated at its peak."""
        states = self.parameters + self.gradients + self.optimizer_states
        return states + self.activations + self.logits_and_loss + self.communication + self.temporaries

    @property
    def reserved(self) -> float:
        """What torch's allocator has taken from the driver."""
        return self.allocated + self.fragmentation

    @property
    def device(self) -> float:
        """What the driver shows as used: this decides whether it fits."""
        return self.reserved + self.context


@dataclass(frozen=True)
class Estimate:
    """The closed form's answer for a cell. Bytes; low and high: the interval of the fullest rank's device bytes."""

    roles: tuple[RoleBytes, ...]
    low: float
    high: float
    model_parameters: int
    rule_of_thumb: float
    notes: tuple[str, ...] = field(default=())

    @property
    def fullest(self) -> RoleBytes:
        return max(self.roles, key=lambda role: role.device)

    @property
    def device(self) -> float:
        return self.fullest.device

    def verdict(self, card_memory: float) -> str:
        """fits, tight (above 90 % of the card) or does not fit. card_memory: bytes."""
        return verdict(self.device, card_memory)

    def certain(self, card_memory: float) -> bool:
        """Whether the whole interval gives the same verdict."""
        return verdict(self.low, card_memory) == verdict(self.high, card_memory)


def verdict(needed: float, card_memory: float) -> str:
    """needed and card_memory in bytes."""
    if needed > card_memory:
        return DOES_NOT_FIT
    return TIGHT if needed > TIGHT_SHARE * card_memory else FITS


def rule_of_thumb(parameters: float, training: bool = True, cards: int = 1) -> float:
    """Bytes a card by the article's rule: 16 bytes a parameter to train, 2 to infer, shared out over the cards.

    It knows neither recipe, batch, sequence nor mode: shown beside the others, never used for a verdict.
    """
    per_parameter = TRAINING_BYTES_PER_PARAMETER if training else INFERENCE_BYTES_PER_PARAMETER
    return parameters * per_parameter / cards


def estimate(cell: Cell, margins: Margins | None = None) -> Estimate:
    """Memory of every kind of rank of `cell`. Raises ConfigError for a model that has no closed form.

    margins: how uncertain the uncertain terms are; the default is that of an uncalibrated machine.
    """
    roles = roles_of(cell_frame([cell]), every_stage=True)
    components, phases = peak(roles)
    known = margins or Margins()
    fragmentation, context = allocator_bytes(roles, components, known)
    count = cell.layout.dp * cell.layout.tp
    rows = []
    for i in range(len(roles.cell)):
        parts = {f.name: float(getattr(components, f.name)[i]) for f in fields(Components)}
        stage = int(roles.stage[i])
        name = f"stage {stage + 1} of {cell.layout.pp}" if cell.layout.pp > 1 else "every rank"
        rows.append(
            RoleBytes(
                role=name,
                stage=stage,
                ranks=count,
                layers=int(roles.layers[i]),
                phase=PHASES[int(phases[i])],
                **parts,
                fragmentation=float(fragmentation[i]),
                context=float(context[i]),
            )
        )
    low, high = interval(components, fragmentation, context, known)
    worst = int(np.argmax([row.device for row in rows]))
    parameters = int(total_parameters(roles.size)[0])
    return Estimate(
        tuple(rows), float(low[worst]), float(high[worst]), parameters, rule_of_thumb(parameters, cards=cell.cards)
    )


def interval(components: Components, fragmentation: Sizes, context: Sizes, margins: Margins) -> tuple[Sizes, Sizes]:
    """(low, high) bytes: states are arithmetic; what depends on kernels, allocator and driver is not."""
    moving = components.activations + components.logits_and_loss + components.temporaries + components.communication
    states = components.parameters + components.gradients + components.optimizer_states
    middle = states + moving + fragmentation + context
    spread = np.sqrt(
        (margins.activations * moving) ** 2
        + (margins.fragmentation_spread * (states + moving)) ** 2
        + (margins.context_spread * context) ** 2
    )
    return np.maximum(middle - spread, states), middle + spread


def estimate_frame(frame: pd.DataFrame, margins: Margins | None = None) -> pd.DataFrame:
    """The fullest rank of every row of `frame` (columns of vram_roles.cell_frame), same index; bytes.

    Columns: the components, allocated, reserved, device, low, high, stage, phase, model_parameters, rule_of_thumb.
    """
    roles = roles_of(frame)
    components, phases = peak(roles)
    known = margins or Margins()
    fragmentation, context = allocator_bytes(roles, components, known)
    low, high = interval(components, fragmentation, context, known)
    device = components.total + fragmentation + context
    fullest = _fullest(roles, device, len(frame))
    table = {f.name: getattr(components, f.name)[fullest] for f in fields(Components)}
    table |= {"fragmentation": fragmentation[fullest], "context": context[fullest]}
    table["allocated"] = components.total[fullest]
    table["reserved"] = table["allocated"] + table["fragmentation"]
    table |= {"device": device[fullest], "low": low[fullest], "high": high[fullest]}
    table["stage"] = roles.stage[fullest].astype(int)
    table["phase"] = np.asarray(PHASES)[phases[fullest]]
    parameters = total_parameters(roles.size)[fullest]
    table["model_parameters"] = parameters
    table["rule_of_thumb"] = rule_of_thumb(1, cards=1) * parameters / (roles.dp * roles.tp * roles.pp)[fullest]
    return pd.DataFrame(table, index=frame.index)


def _fullest(roles: Roles, device: Sizes, count: int) -> NDArray[np.intp]:
    """For each input row, the place of its role that needs most."""
    order = np.lexsort((device, roles.cell))
    last_of_cell = np.searchsorted(roles.cell[order], np.arange(count), side="right") - 1
    return np.asarray(order[last_of_cell])
