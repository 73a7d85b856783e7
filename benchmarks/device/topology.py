"""How a node's cards are linked: from `nvidia-smi topo -m` or from NVML, and in one phrase what that is worth."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.device.nvlink import SWITCH, CardLinks, card_links
from benchmarks.device.nvml import ask, open_card
from benchmarks.device.visibility import Card
from configs.errors import ConfigError

FULL_MESH = "NVLink full mesh"
PARTIAL_MESH = "NVLink partial mesh"
PAIRS = "NVLink pairs"
PCIE = "PCIe only"
CROSS_NODE = "cross-node"
ONE_CARD = "one card"

# What nvidia-smi writes into a cell, near to far; SOC is SYS in drivers before 384. nvml.h: nvmlGpuTopologyLevel_t.
PATHS = ("PIX", "PXB", "PHB", "NODE", "SYS")
LEVELS = {0: "PIX", 10: "PIX", 20: "PXB", 30: "PHB", 40: "NODE", 50: "SYS"}
_CELL = re.compile(r"NV\d+|PIX|PXB|PHB|NODE|SYS|SOC|X")
_LABEL = re.compile(r"GPU\d+|NIC\d+|[a-z]+\d*_\d+")


@dataclass(frozen=True)
class Topology:
    """links[i][j]: the path from card i to card j: "X", "NV<number of links>" or one of PATHS. nics likewise, by card.

    numa: the processor socket's memory each card is next to, None where not told. links_up: NVLinks of each card, to
    all its peers together; behind a switch each pair can use all of them.
    """

    cards: tuple[str, ...]
    links: tuple[tuple[str, ...], ...]
    nics: tuple[str, ...] = ()
    nic_links: tuple[tuple[str, ...], ...] = ()
    numa: tuple[int | None, ...] = ()
    links_up: tuple[int, ...] = ()


def parse_topo(text: str) -> Topology:
    """Read the output of `nvidia-smi topo -m`: blanks or tabs, any driver's columns, prompts and legends around it.

    Cards come first in every row, so they are read even where the columns behind them have run together. Raises
    ConfigError where there is no matrix or rows of it are missing.
    """
    where = "nvidia-smi topo -m"
    lines = [re.sub(r"\x1b\[[0-9;]*m", "", line) for line in text.splitlines()]
    header = next((line for line in lines if len(re.findall(r"\bGPU\d+", line)) and not _row_label(line)), None)
    if header is None:
        raise ConfigError(where, "has no row of GPU0, GPU1, ...", "the whole output of nvidia-smi topo -m")
    labels = _LABEL.findall(header.split("CPU")[0])
    cards = [label for label in labels if label.startswith("GPU")]
    nics = [label for label in labels if not label.startswith("GPU")]
    rows = {label: line for line in lines if (label := _row_label(line)) in cards}
    links, nic_links, numa = [], [], []
    for card in cards:
        if card not in rows:
            raise ConfigError(where, f"row {card} is missing", "the whole output of nvidia-smi topo -m")
        cells = _CELL.findall(rows[card].split(card, 1)[1])
        if len(cells) < len(cards):
            raise ConfigError(where, f"row {card} has {len(cells)} of {len(cards)} cards", "the whole output")
        cells = ["SYS" if cell == "SOC" else cell for cell in cells]
        links.append(tuple(cells[: len(cards)]))
        nic_links.append(tuple(cells[len(cards) : len(labels)]))
        numa.append(_numa(header, rows[card]))
    return Topology(tuple(cards), tuple(links), tuple(nics), tuple(nic_links), tuple(numa))


def _row_label(line: str) -> str | None:
    """The device whose row this is: rows hold cells, the header only labels."""
    match = re.match(r"\s*(GPU\d+)\b", line)
    return match[1] if match and re.search(r"(?<![A-Z\d])(X|NV\d+|PIX|PXB|PHB|NODE|SYS|SOC)\b", line) else None


def _numa(header: str, row: str) -> int | None:
    """The number behind the processor list, where the driver prints the column and the card is next to one node."""
    if "NUMA Affinity" not in header:
        return None
    match = re.search(r"[\d,-]*\d\s+(\d+)(?:\s+N/A)?\s*$", row)
    return int(match[1]) if match else None


def from_nvml(nvml: Any, cards: Sequence[Card], system: Path = Path("/")) -> tuple[Topology, dict[str, CardLinks]]:
    """The matrix of `cards` by NVML, and each card's links by UUID. system: where the kernel's file tree is."""
    links = {card.uuid: card_links(nvml, card, cards) for card in cards}
    matrix = [["X" if a is b else _path(nvml, a, b, links) for b in cards] for a in cards]
    numa = tuple(_numa_node(card, system) for card in cards)
    names, up = tuple(f"GPU{card.index}" for card in cards), tuple(links[card.uuid].up for card in cards)
    return Topology(names, tuple(map(tuple, matrix)), numa=numa, links_up=up), links


def _path(nvml: Any, one: Card, other: Card, links: Mapping[str, CardLinks]) -> str:
    direct = links[one.uuid].to[other.uuid]
    through = min(links[one.uuid].to[SWITCH], links[other.uuid].to[SWITCH])
    if direct or through:
        return f"NV{direct or through}"
    handles = [open_card(nvml, card.uuid).value for card in (one, other)]
    if None in handles:
        return "SYS"
    level = ask(nvml, "nvmlDeviceGetTopologyCommonAncestor", *handles).value
    return LEVELS.get(level, "SYS")


def _numa_node(card: Card, system: Path) -> int | None:
    domain, _, rest = card.pci_bus_id.lower().partition(":")
    try:
        node = int((system / f"sys/bus/pci/devices/{domain[-4:]}:{rest}/numa_node").read_text())
    except (OSError, ValueError):
        return None
    return node if node >= 0 else None


def verdict(topology: Topology, nodes: int = 1) -> str:
    """What links the cards, in one phrase: full or partial mesh or pairs of NVLink, PCIe only, or cross-node."""
    count = len(topology.cards)
    if nodes > 1:
        return CROSS_NODE
    if count < 2:
        return ONE_CARD
    partners = [sum(cell.startswith("NV") for cell in row) for row in topology.links]
    if not any(partners):
        return PCIE
    if min(partners) == count - 1:
        return FULL_MESH
    return PAIRS if max(partners) == 1 else PARTIAL_MESH


def remarks(topology: Topology) -> list[str]:
    """What the phrase does not say: cards without NVLink, weaker pairs, and the sockets that PCIe paths cross."""
    said = []
    nv = {
        (i, j): int(cell[2:])
        for i, row in enumerate(topology.links)
        for j, cell in enumerate(row)
        if i < j and cell.startswith("NV")
    }
    linked = {card for pair in nv for card in pair}
    alone = [name for i, name in enumerate(topology.cards) if i not in linked]
    if nv and alone:
        said.append(f"no NVLink: {', '.join(alone)}")
    if len(set(nv.values())) > 1:
        weakest = min(nv.values())
        pairs = [f"{topology.cards[i]}-{topology.cards[j]}" for (i, j), count in nv.items() if count == weakest]
        said.append(f"{weakest} of {max(nv.values())} links: {', '.join(pairs)}")
    far = sum(cell == "SYS" for i, row in enumerate(topology.links) for cell in row[i + 1 :])
    if far:
        said.append(f"{far} pairs of cards reach each other across processor sockets")
    return said


def groups(topology: Topology) -> list[tuple[str, ...]]:
    """The cards as sets that reach each other over NVLink; a card without NVLink is its own."""
    left, found = list(range(len(topology.cards))), []
    while left:
        group, border = {left[0]}, [left[0]]
        while border:
            row = topology.links[border.pop()]
            new = {j for j, cell in enumerate(row) if cell.startswith("NV")} - group
            group |= new
            border += new
        found.append(tuple(topology.cards[i] for i in sorted(group)))
        left = [i for i in left if i not in group]
    return found


def to_dict(topology: Topology, nodes: int = 1) -> dict[str, Any]:
    """The record's environment.topology: the verdict, what qualifies it, and the matrix."""
    return {
        "verdict": verdict(topology, nodes),
        "remarks": remarks(topology),
        "cards": list(topology.cards),
        "links": [list(row) for row in topology.links],
        "links_up": list(topology.links_up),
        "numa": list(topology.numa),
    }
