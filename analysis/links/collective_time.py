"""How long a collective takes on stated links: latency of its hops plus what the busiest link must carry.

The alpha-beta model of Hockney 1994 with the ring and tree counts of Thakur, Rabenseifner and Gropp 2005. A ring over
several nodes uses one network card a member card, all at once (rails), so its bandwidth is the smaller of a card's link
inside the node and the sum of its members' network cards.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from results.bandwidth import bus_factor


@dataclass(frozen=True)
class Link:
    """bandwidth_gbps: GB/s in powers of ten, a card and direction. latency_us: of one hop."""

    bandwidth_gbps: float
    latency_us: float


@dataclass(frozen=True)
class Network:
    """The links of a cluster.

    oversubscription: how many times more the nodes can send than the upper stage carries, past `pod_nodes` nodes.
    rails: network cards of a node, None for one a card.
    """

    intra: Link
    inter: Link
    cards_per_node: int
    oversubscription: float = 1.0
    pod_nodes: int = 1
    rails: int | None = None


@dataclass(frozen=True)
class Group:
    """The cards of one communicator: how many, and over how many nodes they lie."""

    ranks: int
    nodes: int

    @property
    def ranks_per_node(self) -> float:
        return self.ranks / self.nodes


def group(size: int, stride: int, cards_per_node: int) -> Group:
    """The group of `size` ranks that lie `stride` apart, ranks filling one node after the other."""
    if stride >= cards_per_node:
        return Group(size, size)
    return Group(size, min(size, math.ceil(size * stride / cards_per_node)))


def bus_bandwidth_gbps(of: Group, network: Network) -> float:
    """What one ring over `of` can carry, GB/s."""
    if of.nodes == 1:
        return network.intra.bandwidth_gbps
    shared = network.oversubscription if of.nodes > network.pod_nodes else 1.0
    across = network.inter.bandwidth_gbps * of.ranks_per_node * rail_share(network) / shared
    return min(network.intra.bandwidth_gbps, across) if of.ranks_per_node > 1 else across


def rail_share(network: Network) -> float:
    """Network cards that a card has to itself while all cards of its node send; 1 unless `rails` says otherwise."""
    return 1.0 if network.rails is None else network.rails / network.cards_per_node


def collective_parts_s(op: str, size_bytes: float, of: Group, network: Network) -> tuple[float, float]:
    """(latency, transfer) seconds of one call at the stated bandwidth.

    size_bytes: as NCCL tests count it, the whole buffer of a gather or scatter. send_recv goes to one neighbour, over
    its own network card where the group spans nodes. One rank takes no time.
    """
    if of.ranks == 1:
        return 0.0, 0.0
    if op == "send_recv":
        link, share = (network.intra, 1.0) if of.nodes == 1 else (network.inter, rail_share(network))
        return link.latency_us * 1e-6, size_bytes / (link.bandwidth_gbps * share * 1e9)
    transfer = bus_factor(op, of.ranks) * size_bytes / (bus_bandwidth_gbps(of, network) * 1e9)
    return latency_us(op, of, network) * 1e-6, transfer


def collective_s(op: str, size_bytes: float, of: Group, network: Network, efficiency: float = 1.0) -> float:
    """Seconds of one call that reaches `efficiency` of the stated bandwidth."""
    latency, transfer = collective_parts_s(op, size_bytes, of, network)
    return latency + transfer / efficiency


def latency_us(op: str, of: Group, network: Network) -> float:
    """Of the hops one after the other: a ring's n - 1 (twice for all_reduce), or a tree's where that is less."""
    between = of.nodes if of.nodes > 1 else 0
    ring = (of.ranks - 1 - max(between - 1, 0)) * network.intra.latency_us
    ring += max(between - 1, 0) * network.inter.latency_us
    if op != "all_reduce":
        return ring
    tree = math.log2(max(of.ranks_per_node, 1)) * network.intra.latency_us
    tree += math.log2(of.nodes) * network.inter.latency_us
    return 2 * min(ring, tree)
