"""A card's NVLinks as NVML tells them: which are up, what they lead to, and which errors they have counted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from benchmarks.device.nvml import ask, open_card
from benchmarks.device.visibility import Card

MOST_LINKS = 36  # nvml.h, NVML_NVLINK_MAX_LINKS
SWITCH = "switch"
_TO_GPU = 0  # nvml.h, nvmlIntNvLinkDeviceType_t
# nvml.h, nvmlNvLinkErrorCounter_t; where a driver has dropped that query, the same as totals of the card (field ids)
COUNTERS = {0: "replay", 1: "recovery", 2: "CRC (flit)", 3: "CRC (data)"}
TOTALS = {52: "replay", 59: "recovery", 38: "CRC (flit)", 45: "CRC (data)"}


@dataclass(frozen=True)
class CardLinks:
    """One card's links. to: how many lead to each peer (its UUID) or to a switch. down: links that are not up.

    errors: counted since the driver was loaded or the counters were reset, by kind; None where nothing is counted.
    """

    to: Counter[str] = field(default_factory=Counter)
    down: tuple[int, ...] = ()
    errors: dict[str, int] | None = None

    @property
    def up(self) -> int:
        return self.to.total()


def card_links(nvml: Any, card: Card, cards: Sequence[Card]) -> CardLinks:
    """The links of `card`, whose peers are found among `cards` by PCI bus id.

    A link that is up and whose far end is unknown leads to a switch: a virtual machine is not shown its NVSwitches
    (NVIDIA/nccl issue 1182).
    """
    handle = open_card(nvml, card.uuid).value
    if handle is None or card.is_slice:  # MIG has no NVLink
        return CardLinks()
    peers = {other.pci_bus_id.lower(): other.uuid for other in cards if other.pci_bus_id}
    to: Counter[str] = Counter()
    down = []
    for link in range(MOST_LINKS):
        up = ask(nvml, "nvmlDeviceGetNvLinkState", handle, link).value
        if up is None:  # no such link on this model
            continue
        if not up:
            down.append(link)
            continue
        far = ask(nvml, "nvmlDeviceGetNvLinkRemotePciInfo", handle, link).value
        to[peers.get(_text(far.busId).lower(), SWITCH) if far is not None else SWITCH] += 1
    return CardLinks(to, tuple(down), _errors(nvml, handle, to.total()))


def _errors(nvml: Any, handle: Any, up: int) -> dict[str, int] | None:
    if not up:
        return None
    found: Counter[str] = Counter()
    for counter, name in COUNTERS.items():
        counts = [ask(nvml, "nvmlDeviceGetNvLinkErrorCounter", handle, link, counter).value for link in range(up)]
        if any(count is not None for count in counts):
            found[name] = sum(count or 0 for count in counts)
    if found:
        return dict(found)
    fields = ask(nvml, "nvmlDeviceGetFieldValues", handle, list(TOTALS)).value
    if fields is None:
        return None
    totals = {TOTALS[f.fieldId]: int(f.value.ullVal) for f in fields if f.nvmlReturn == 0 and f.fieldId in TOTALS}
    return totals or None


def _text(value: str | bytes) -> str:
    return value.decode("ascii", "replace") if isinstance(value, bytes) else value
