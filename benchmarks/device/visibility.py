"""Which cards a CUDA program sees under its visibility mask, and in which order: local rank i works on the i-th.

Semantics of CUDA_VISIBLE_DEVICES and CUDA_DEVICE_ORDER: CUDA Programming Guide, "CUDA Environment Variables". Entries
are ordinals, UUIDs or their unambiguous beginnings, or MIG ids; what follows the first entry that names nothing is not
visible; a repeated entry makes nothing visible (torch reads it so as well). A process sees one MIG slice and then no
whole card: MIG User Guide, "CUDA Device Enumeration".
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

MASK = "CUDA_VISIBLE_DEVICES"
ORDER = "CUDA_DEVICE_ORDER"


@dataclass(frozen=True)
class Card:
    """A card, or a MIG slice of one. index: NVML's, of the whole card. alias: a slice's id in older drivers' form."""

    index: int
    uuid: str
    name: str
    pci_bus_id: str = ""
    memory_gib: float | None = None
    slices: tuple[Card, ...] = ()
    is_slice: bool = False
    alias: str = ""


@dataclass(frozen=True)
class Visible:
    """What the mask leaves. unresolved: its entries that name no card, and those after them. notes: for people.

    certain: whether the cards' order is known; where it is not, which rank works on which card cannot be told.
    """

    cards: tuple[Card, ...]
    unresolved: tuple[str, ...] = ()
    certain: bool = True
    notes: tuple[str, ...] = ()


def visible(cards: Sequence[Card], variables: Mapping[str, str]) -> Visible:
    """The cards, of `cards` in NVML's order, that CUDA shows a program with these environment variables."""
    mask = variables.get(MASK)
    if mask is None:
        return _with_order([_first_slice(card) for card in cards], cards, variables, by_number=True)
    found: list[Card] = []
    entries = [entry.strip() for entry in mask.split(",")] if mask.strip() else []
    for place, entry in enumerate(entries):
        matches = _named(entry, cards)
        if len(matches) != 1:
            notes = (_unresolved(entry, matches, cards, entries[place + 1 :]),)
            by_number = any(_is_number(each) for each in entries[:place])
            kept = _with_order(found, cards, variables, by_number)
            return Visible(kept.cards, tuple(entries[place:]), kept.certain, kept.notes + notes)
        if matches[0] in found:
            note = f"{MASK}={mask} names card {entry} twice, so CUDA shows no card at all"
            return Visible((), tuple(entries), True, (note,))
        found.append(matches[0])
    return _with_order(found, cards, variables, any(_is_number(entry) for entry in entries))


def _named(entry: str, cards: Sequence[Card]) -> list[Card]:
    if _is_number(entry):
        return [_first_slice(cards[int(entry)])] if int(entry) < len(cards) else []
    if entry.startswith("GPU-"):
        return [_first_slice(card) for card in cards if card.uuid.startswith(entry)]
    if entry.startswith("MIG-"):
        parts = [part for card in cards for part in card.slices]
        return [part for part in parts if entry == part.alias or part.uuid.startswith(entry)]
    return []


def _is_number(entry: str) -> bool:
    return re.fullmatch(r"\d+", entry) is not None


def _first_slice(card: Card) -> Card:
    """What CUDA opens when a card is named: under MIG that is the card's first slice, never the card."""
    return card.slices[0] if card.slices else card


def _unresolved(entry: str, matches: Sequence[Card], cards: Sequence[Card], later: Sequence[str]) -> str:
    if len(matches) > 1:
        said = f"{MASK} entry {entry!r} is the beginning of {len(matches)} cards' UUIDs, so CUDA shows none of them"
    elif entry.startswith("-"):
        return f"{MASK} ends at {entry!r}: what follows is hidden"
    elif _is_number(entry):
        said = f"{MASK} entry {entry!r} is no card: this machine has {len(cards)}, counted from 0"
    else:
        said = f"{MASK} entry {entry!r} names no card of this machine"
    return said + (f"; CUDA also hides what follows it: {', '.join(later)}" if later else "")


def _with_order(found: Sequence[Card], cards: Sequence[Card], variables: Mapping[str, str], by_number: bool) -> Visible:
    """CUDA's default order puts the fastest card first and leaves the rest open; like cards stay in bus order."""
    slices = [card for card in found if card.is_slice]
    if slices and len(found) > 1:
        note = f"CUDA shows a process one MIG slice and no whole card: {len(found) - 1} of {len(found)} are hidden"
        return Visible((slices[0],), notes=(note,))
    models = {card.name for card in cards}
    if not by_number or len(models) < 2 or variables.get(ORDER) == "PCI_BUS_ID":
        return Visible(tuple(found))
    note = f"the cards are of {len(models)} models and CUDA numbers the fastest first: set {ORDER}=PCI_BUS_ID"
    return Visible(tuple(found), certain=False, notes=(note,))
