from __future__ import annotations

from dataclasses import replace

import pytest

from analysis.links.collective_time import Group, Link, Network, bus_bandwidth_gbps, collective_s, group, latency_us

NETWORK = Network(intra=Link(100.0, 1.0), inter=Link(10.0, 5.0), cards_per_node=8)
FREE = Network(intra=Link(100.0, 0.0), inter=Link(10.0, 0.0), cards_per_node=8)


@pytest.mark.parametrize(
    ("op", "seconds"),
    [
        ("all_reduce", 0.0175),  # 2 x 7/8 x 1 GB at 100 GB/s
        ("all_gather", 0.00875),  # 7/8 x 1 GB
        ("reduce_scatter", 0.00875),
        ("broadcast", 0.01),
        ("send_recv", 0.01),
    ],
)
def test_a_collective_carries_its_ring_volume(op: str, seconds: float) -> None:
    assert collective_s(op, 1e9, Group(8, 1), FREE) == pytest.approx(seconds)


def test_one_rank_moves_nothing() -> None:
    assert collective_s("all_reduce", 1e9, Group(1, 1), NETWORK) == 0


def test_a_ring_of_gathers_pays_its_hops_once_and_a_reduction_twice() -> None:
    # 7 hops of 1 us; all_reduce would take 14, its tree 2 x log2(8) = 6.
    assert latency_us("all_gather", Group(8, 1), NETWORK) == 7
    assert latency_us("all_reduce", Group(8, 1), NETWORK) == pytest.approx(6)


def test_hops_between_nodes_are_slower() -> None:
    # 16 ranks on 2 nodes: one hop of 5 us between them, 14 of 1 us inside.
    assert latency_us("all_gather", Group(16, 2), NETWORK) == 19


def test_a_ring_over_nodes_uses_the_network_card_of_every_member() -> None:
    # 8 cards a node at 10 GB/s each is 80, less than the 100 inside; 1 card a node has 10.
    assert bus_bandwidth_gbps(Group(16, 2), NETWORK) == 80
    assert bus_bandwidth_gbps(Group(2, 2), NETWORK) == 10


def test_links_inside_the_node_bound_a_fast_network() -> None:
    assert bus_bandwidth_gbps(Group(16, 2), Network(Link(100, 1), Link(50, 5), 8)) == 100


def test_an_oversubscribed_stage_halves_what_leaves_the_pod() -> None:
    network = Network(Link(100, 1), Link(10, 5), 8, oversubscription=2.0, pod_nodes=4)
    assert bus_bandwidth_gbps(Group(32, 4), network) == 80
    assert bus_bandwidth_gbps(Group(64, 8), network) == 40


def test_half_the_efficiency_doubles_the_transfer_and_not_the_latency() -> None:
    latency = 7e-6
    full, half = (collective_s("all_gather", 1e9, Group(8, 1), NETWORK, e) for e in (1.0, 0.5))
    assert half - latency == pytest.approx(2 * (full - latency))


@pytest.mark.parametrize(
    ("size", "stride", "ranks", "nodes"),
    [(8, 1, 8, 1), (16, 1, 16, 2), (4, 8, 4, 4), (4, 2, 4, 1), (8, 2, 8, 2), (1, 8, 1, 1)],
)
def test_a_group_lies_over_the_nodes_that_its_stride_reaches(size: int, stride: int, ranks: int, nodes: int) -> None:
    assert group(size, stride, cards_per_node=8) == Group(ranks, nodes)


def test_half_of_the_rails_halve_what_leaves_a_node() -> None:
    network = Network(Link(100, 0), Link(10, 0), 8)
    half = replace(network, rails=4)
    assert bus_bandwidth_gbps(Group(16, 2), network) == pytest.approx(80)
    assert bus_bandwidth_gbps(Group(16, 2), half) == pytest.approx(40)
    assert collective_s("send_recv", 1e9, Group(2, 2), half) == pytest.approx(0.2)  # its share of a shared card
    assert bus_bandwidth_gbps(Group(8, 1), half) == pytest.approx(100)
