"""Throughput at card counts that were not measured, from a measurement frame alone, with 95 % intervals.

No dry run and no link data are needed; what they would say is taken from priors (`predict_prior`), and the interval is
as wide as that leaves it. Calibrated on one count, the curve's shape is the prior's alone and the notes say so.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analysis.predict.model import Floats
from analysis.predict.posterior import Posterior, posterior
from analysis.predict.series import Unit, units
from analysis.scaling.series import STRONG, VARIED
from configs.errors import ConfigError

Flags = NDArray[np.bool_]
MOST_CARDS = 1_000_000
SLOW, MIDDLE, FAST = 0.975, 0.5, 0.025  # quantiles of time; of throughput they are the low end, the median, the high
COLUMNS = (
    *("model", "mode", "scaling", "device", "cards", "tokens_per_s", "low", "high"),
    *("efficiency", "efficiency_low", "efficiency_high", "relative_to", "method", "notes"),
)


def predict(
    frame: pd.DataFrame,
    cards: Sequence[int],
    *,
    cards_per_node: int | None = None,
    border_slowdown: float | None = None,
) -> pd.DataFrame:
    """Predicted throughput of every series in `frame` at each of `cards`, one row each, in that order.

    frame: a study's or a measurement CSV's rows; only mode, cards and throughput are required. Rows of status
    `predicted` state the batch planned at their count. cards_per_node: where the node border lies; taken from `nodes`
    where absent, else 8. border_slowdown: measured bus bandwidth in one node over that across two.
    Columns: model, mode, scaling, device, cards, tokens_per_s, low, high (95 %), efficiency (relative_to the smallest
    measured count) with its interval, method, notes ("; " between them).
    Raises ConfigError on a card count that is none, and where nothing was measured.
    """
    wanted = checked_counts(cards)
    if cards_per_node is not None and cards_per_node < 1:
        raise ConfigError("cards_per_node", f"{cards_per_node} is not a number of cards", "a positive whole number")
    if border_slowdown is not None and not border_slowdown > 0:
        raise ConfigError("border_slowdown", f"{border_slowdown} is not a ratio", "a positive number")
    tables = [_predict_unit(unit, wanted, border_slowdown) for unit in units(frame, cards_per_node)]
    if not tables:
        raise ConfigError("source", "holds no measured throughput", "rows with cards and tokens_per_s above 0")
    return pd.concat(tables, ignore_index=True)


def checked_counts(cards: Iterable[int]) -> list[int]:
    """`cards` as they are. Raises ConfigError for none, and for what is no count."""
    counts = list(cards)
    for count in counts:
        if isinstance(count, bool) or not 1 <= count <= MOST_CARDS or count != int(count):
            raise ConfigError("cards", f"{count!r} is not a card count", f"whole numbers from 1 to {MOST_CARDS}")
    if not counts:
        raise ConfigError("cards", "is empty", "the counts to predict, as cards=16,32,64")
    return [int(count) for count in counts]


def _predict_unit(unit: Unit, wanted: list[int], border_slowdown: float | None) -> pd.DataFrame:
    cards = np.array(wanted, dtype=np.float64)
    kept = _keeps_micro_batch(unit, cards)
    result = posterior(unit.series(cards, unit.scaling == STRONG, border_slowdown))
    slow, middle, fast = np.quantile(result.log_time, [SLOW, MIDDLE, FAST], axis=0)
    if kept.any():
        growing = posterior(unit.series(cards, False, border_slowdown))
        slow_growing, *others = np.quantile(growing.log_time, [SLOW, MIDDLE, FAST], axis=0)
        slow = np.where(kept, np.maximum(slow, slow_growing), slow)
        middle, fast = (np.where(kept, new, old) for new, old in zip(others, (middle, fast), strict=True))
    base = unit.counts.iloc[0]
    linear = base["rate"] / base["cards"] * cards
    table = pd.DataFrame({"cards": wanted})
    rates = (("tokens_per_s", "efficiency", middle), ("low", "efficiency_low", slow), ("high", "efficiency_high", fast))
    for name, share, log_time in rates:
        table[name] = cards * np.exp(-log_time)
        table[share] = table[name] / linear
    table["model"], table["mode"], table["scaling"], table["device"] = unit.model, unit.mode, unit.scaling, unit.device
    table["relative_to"] = f"relative to {_cards([base['cards']])}"
    table["method"] = f"step-time model ({unit.kind or 'ddp'}), calibrated on {_cards(unit.counts['cards'])}"
    table["notes"] = _notes(unit, result, table, kept, border_slowdown is not None)
    return table[list(COLUMNS)]


def _keeps_micro_batch(unit: Unit, cards: Floats) -> Flags:
    """Where a fixed global batch, inferred and not stated, would shrink the micro-batch below any that was measured.

    Two counts of one global batch may be a rule or chance. The prediction then keeps the micro-batch, as people do
    who fill their cards, and its interval reaches down to the fixed batch.
    """
    inferred = unit.scaling == STRONG and not unit.rule_stated
    return inferred & (cards > unit.shrinks_micro_batch_from)


def _series_notes(unit: Unit, result: Posterior) -> list[str]:
    """What holds for every prediction of the series."""
    counts = unit.counts
    notes = []
    if len(counts) == 1:
        notes.append("one count measured: the curve's shape is the prior's alone")
    if unit.kind is None:
        notes.append("unknown mode: treated as data parallel")
    if unit.scaling == VARIED:
        notes.append("batch per card differs between the measured counts")
    several = counts[counts["rows"] > 1]
    if len(several):
        notes.append(f"median of several rows at {_cards(several['cards'])}")
    if unit.dropped:
        notes.append(f"{unit.dropped} rows without a positive throughput left out")
    suspected = counts["cards"].to_numpy()[result.outlier_chance > 0.5]
    if len(suspected):
        notes.append(f"{_cards(suspected)} measured off the curve: hardly weighed")
    falls = counts["rate"].diff() < 0
    if falls.any():
        notes.append(f"measured slower at {_cards(counts.loc[falls, 'cards'])} than with fewer")
    per_card = counts["rate"] / counts["cards"]
    above = per_card > per_card.iloc[0] * (1 + 1e-9)
    if above.any():
        notes.append(f"measured above linear at {_cards(counts.loc[above, 'cards'])}")
    if unit.mixed_devices:
        notes.append("different GPUs in the source: each predicted apart")
    return notes


def _notes(unit: Unit, result: Posterior, table: pd.DataFrame, kept: Flags, link_known: bool) -> list[str]:
    """The notes of the series and, after them, what holds at each predicted count."""
    cards, measured = table["cards"].to_numpy(), unit.counts["cards"]
    per_node = unit.border.cards_per_node
    border = f"{per_node} cards a node" + ("" if unit.border.stated else ", assumed")
    above = table["efficiency"].to_numpy() > 1 + 1e-9
    fewer = cards < measured.iloc[0]
    masks = (
        (kept, "micro-batch kept, so the global batch grows; the low end is for a fixed global batch"),
        (
            (cards > per_node) & (per_node >= measured.iloc[-1]),
            f"crosses the node border ({border})" + ("" if link_known else " without link data"),
        ),
        (cards > unit.cores, f"more ranks than the {unit.cores:.0f} cores of the machine: they take turns"),
        (fewer & above, "above linear: fewer cards than the base, so less communication"),
        (~fewer & above, "above linear, as measured"),
        (
            ~above & (table["efficiency_high"].to_numpy() > 1 + 1e-9),
            "the interval reaches above linear by the noise of a measurement",
        ),
    )
    general = _series_notes(unit, result)
    notes = [list(general) for _ in range(len(table))]
    for mask, text in masks:
        for i in np.flatnonzero(mask):
            notes[i].append(text)
    return ["; ".join(row) for row in notes]


def _cards(counts: Iterable[float]) -> str:
    listed = _listed(counts)
    return f"{listed} card" if listed == "1" else f"{listed} cards"


def _listed(counts: Iterable[float]) -> str:
    names = [f"{count:.0f}" for count in counts]
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
