"""From hours of work to hours billed: rounding, whole nodes, checkpoints, interruptions. Vectorised, plain arrays."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]

# What a job that is interrupted before it gets anywhere is said to take: finite, so that free things still cost 0.
NEVER_HOURS = 1e9


def round_up(amount: ArrayLike, unit: ArrayLike) -> Floats:
    """`amount` rounded up to whole `unit`s; unit 0 leaves it. 48.0000000001 h is 48 h: float noise buys no hour."""
    amount, unit = np.asarray(amount, dtype=float), np.asarray(unit, dtype=float)
    step = np.where(unit > 0, unit, 1.0)
    rounded: Floats = np.where(unit > 0, np.ceil(np.round(amount / step, 9)) * step, amount)
    return rounded


def rented_cards(cards: ArrayLike, min_cards: ArrayLike, cards_per_node: ArrayLike, whole_nodes: ArrayLike) -> Floats:
    """How many cards are paid for when `cards` are used: the tier's least, then whole nodes where they are sold so."""
    wanted = np.maximum(np.asarray(cards, dtype=float), min_cards)
    return round_up(wanted, np.where(whole_nodes, cards_per_node, 1.0))


def billed_hours(hours: ArrayLike, billing_unit_hours: ArrayLike, minimum_hours: ArrayLike) -> Floats:
    """Hours on the invoice: rounded up to the billing unit, and never less than the minimum term. 0 h costs nothing."""
    hours = np.asarray(hours, dtype=float)
    least = round_up(np.maximum(hours, minimum_hours), billing_unit_hours)
    billed: Floats = np.where(hours > 0, least, hours)
    return billed


def hours_with_interruptions(
    work_hours: ArrayLike,
    interruptions_per_hour: ArrayLike,
    checkpoint_hours: ArrayLike,
    interval_hours: ArrayLike,
    restart_hours: ArrayLike,
) -> Floats:
    """Expected wall hours of `work_hours` of computing, with checkpoints, interruptions, lost work and restarts.

    J. T. Daly, "A higher order estimate of the optimum checkpoint interval for restart dumps", 2006, equation 13:
    W = M e^(R/M) (e^((t+d)/M) - 1) T/t for exponential interruptions with mean time M, t hours of work between two
    checkpoints of d hours, R hours to come back. Without interruptions that is T (1 + d/t). interval_hours 0: no
    checkpoint is taken, so an interruption loses everything since the start. At most NEVER_HOURS.
    """
    work = np.asarray(work_hours, dtype=float)
    rate = np.asarray(interruptions_per_hour, dtype=float)
    segment = np.where(np.asarray(interval_hours) > 0, np.minimum(interval_hours, work), work)
    written = np.where(np.asarray(interval_hours) > 0, checkpoint_hours, 0.0)
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        segments = np.where(segment > 0, work / segment, 0.0)
        undisturbed = segments * (segment + written)
        disturbed = np.exp(restart_hours * rate) * np.expm1((segment + written) * rate) / rate * segments
    expected: Floats = np.minimum(np.where(rate > 0, disturbed, undisturbed), NEVER_HOURS)
    return np.where(np.isnan(work), np.nan, expected)
