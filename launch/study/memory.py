"""Memory beside a measurement: what the closed form expected of a cell, and the gate for what cannot fit."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from analysis.vram import GIB, estimate
from configs.cell import Cell
from configs.errors import ConfigError
from results.record import Error, Record

GATES = ("on", "off")


def expected_memory(cell: Cell) -> dict[str, Any]:
    """The closed form's figures for `cell` in the names of the record's measured ones, GiB; empty but for training.

    On a CPU nothing is known of allocator and device: its resident set holds libraries that the model does not count.
    """
    if cell.benchmark.name != "finetune":
        return {}
    try:
        answer = estimate(cell)
    except ConfigError as error:
        return {"not_covered": str(error)}
    fullest, on_card = answer.fullest, cell.machine.device != "cpu"
    return {
        "level": "closed form",
        "peak_allocated_gib": fullest.allocated / GIB,
        "peak_reserved_gib": fullest.reserved / GIB if on_card else None,
        "device_used_gib": {
            "value": fullest.device / GIB if on_card else None,
            "low": answer.low / GIB if on_card else None,
            "high": answer.high / GIB if on_card else None,
        },
        "highest_at": fullest.phase,
        "rule_of_thumb_gib": answer.rule_of_thumb / GIB,
    }


def with_expected(record: Record, cell: Cell) -> Record:
    """`record` with `memory.predicted` next to what was measured."""
    expected = expected_memory(cell)
    return replace(record, memory=record.memory | {"predicted": expected}) if expected else record


def cannot_fit(cell: Cell) -> Error | None:
    """Why `cell` is not worth starting: the low end of its need is above the card's memory. None where it may fit."""
    card = cell.machine.card_memory_gib
    low = expected_memory(cell).get("device_used_gib", {}).get("low")
    if card is None or low is None or low <= card:
        return None
    said = f"at least {low:.1f} GiB on a card of {card:g} GiB ({cell.machine.name}), by the closed form"
    return Error("DoesNotFit", said, hint="cardscale plan says what makes it fit; gate=off runs it all the same")
