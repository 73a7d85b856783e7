"""The machines that configs/machine describes, and which of them a driver's card name is: exactly, or none."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from pathlib import Path

from configs.groups import load_group
from configs.schema import Machine

FOLDER = Path(__file__).parent / "machine"


def load_machines(folder: Path = FOLDER) -> dict[str, Machine]:
    """Every machine of `folder` by its name. Raises ConfigError on a file that is no machine."""
    return {machine.name: machine for machine in load_group(Machine, folder).values()}


def machine_for(card_name: str | None, machines: Mapping[str, Machine]) -> tuple[Machine | None, str]:
    """The machine whose card the driver calls `card_name`, or None and a sentence that says why not and what to do.

    Names are compared whole: "NVIDIA H200 NVL" is not "NVIDIA H200", whose peak and links are others. A card that is
    not known has no machine rather than another card's.
    """
    if not card_name:
        return None, "the card's name is not known, so neither its peak nor its links are"
    if " MIG " in card_name:
        return None, f"{card_name} is a slice of a card: the whole card's peak and links are not its own"
    found = [machine for machine in machines.values() if _plain(card_name) in map(_plain, machine.card_names)]
    if len(found) == 1:
        return found[0], ""
    if found:
        return (
            None,
            f"{card_name} is the card of {' and '.join(machine.name for machine in found)}: name one, machine=...",
        )
    known = {name: machine.name for machine in machines.values() for name in machine.card_names}
    near = difflib.get_close_matches(card_name, known, n=2, cutoff=0.75)
    other = (
        f"; {' and '.join(near)} are other cards" if len(near) > 1 else f"; {near[0]} is another card" if near else ""
    )
    advice = "MFU and link shares stay blank until machine.peak_tflops and machine.intra_node_gbps are given"
    return None, f"{card_name} is no card of configs/machine{other}. {advice}"


def describes(machine: Machine, card_name: str | None) -> bool:
    """Whether `machine` may be what this card is: its name is one of the machine's, or either is not known."""
    if not card_name or not machine.card_names:
        return True
    return _plain(card_name) in map(_plain, machine.card_names)


def _plain(name: str) -> str:
    """Drivers before 470 leave the maker's name out; case and spacing do not tell cards apart."""
    return " ".join(name.casefold().removeprefix("nvidia ").split())
