"""Names, addresses, ports, clocks: each fault planted on a healthy node of two."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from launch.checks import network as checks
from launch.checks.facts import Facts, PeerFacts
from launch.checks.findings import Finding, NotChecked
from tests.launch.healthy import on_cards, on_processor, only


def network(nodes: int = 2, **fault: Any) -> Facts:
    facts = on_processor(nodes=nodes, rendezvous="10.0.0.6:29400")
    return replace(facts, network=replace(facts.network, **fault))


def variables(facts: Facts, **names: str) -> Facts:
    return replace(facts, variables=names)


def test_a_name_that_is_loopback_breaks_a_run_over_nodes() -> None:
    finding = only(checks.host_name, network(addresses=("127.0.1.1",)))
    assert finding.level == "fail"
    assert finding.what == "node0 is 127.0.1.1: loopback only"
    assert "GLOO_SOCKET_IFNAME=eth0" in finding.do


def test_a_name_that_is_loopback_will_do_for_one_node() -> None:
    assert only(checks.host_name, network(nodes=1, addresses=("127.0.1.1",))).level == "ok"


def test_a_name_that_is_loopback_is_a_warning_where_the_interface_is_named() -> None:
    facts = variables(network(addresses=("127.0.1.1",)), GLOO_SOCKET_IFNAME="eth0")
    assert only(checks.host_name, facts).level == "warn"


def test_a_name_that_does_not_resolve_breaks_a_run_over_nodes() -> None:
    finding = only(checks.host_name, network(addresses=(), resolve_error="Name or service not known"))
    assert finding.level == "fail"
    assert "node0 does not resolve: Name or service not known" in finding.what


def test_a_name_that_does_not_resolve_will_do_for_one_node() -> None:
    assert only(checks.host_name, network(nodes=1, addresses=(), resolve_error="Name not known")).level == "ok"


def test_a_name_that_is_another_machines_breaks_a_run_over_nodes() -> None:
    assert "no interface here has" in only(checks.host_name, network(addresses=("10.9.9.9",))).what


def test_the_address_that_peers_are_told_is_shown() -> None:
    assert only(checks.host_name, network()).what == "node0 is 10.0.0.5"


def test_ipv6_only_on_cards_wants_ncclss_switch_and_brackets() -> None:
    facts = on_cards(2, nodes=2)
    facts = replace(
        facts, network=replace(facts.network, interfaces={"lo": ("127.0.0.1",), "eth0": ("fd00::2", "fe80::1")})
    )
    finding = only(checks.addresses, facts)
    assert finding.level == "warn"
    assert "NCCL_SOCKET_FAMILY=AF_INET6" in finding.do
    assert "[fd00::2]" in finding.do


def test_ipv6_only_with_ncclss_switch_is_well() -> None:
    facts = on_cards(2, nodes=2, env={"NCCL_SOCKET_FAMILY": "AF_INET6"})
    facts = replace(facts, network=replace(facts.network, interfaces={"eth0": ("fd00::2",)}))
    assert only(checks.addresses, facts).level == "ok"


def test_no_interface_but_loopback_breaks_a_run_over_nodes() -> None:
    assert only(checks.addresses, network(interfaces={"lo": ("127.0.0.1",)})).level == "fail"


def test_an_interface_that_is_not_there_breaks_the_run() -> None:
    finding = only(checks.interface_variables, variables(network(), GLOO_SOCKET_IFNAME="ib0"))
    assert finding.level == "fail"
    assert finding.do == "this host has lo, eth0"


@pytest.mark.parametrize("value", ["eth", "^docker0", "=eth0", "ib,eth"])
def test_nccls_ways_to_name_interfaces_are_understood(value: str) -> None:
    assert checks.interface_variables(variables(network(), NCCL_SOCKET_IFNAME=value)) == []


def test_no_free_port_breaks_the_run() -> None:
    finding = only(checks.ports, network(port_error="Cannot assign requested address"))
    assert finding.level == "fail"


def test_a_rendezvous_port_that_is_taken_breaks_the_run() -> None:
    finding = only(checks.ports, network(rendezvous_busy=True))
    assert finding.level == "fail"
    assert "10.0.0.6:29400" in finding.what


def test_a_host_that_does_not_resolve_is_named_with_the_seconds_it_took() -> None:
    peer = PeerFacts("leader.invalid", error="does not resolve: Name or service not known", seconds=3.02)
    finding = only(checks.peers, network(peers=(peer,)))
    assert finding.level == "fail"
    assert finding.what == "leader.invalid: does not resolve: Name or service not known (3.0 s)"
    assert "an address instead of the name" in finding.do


def test_every_host_has_a_finding_of_its_own() -> None:
    results = checks.peers(network(peers=(PeerFacts("a", ("10.0.0.6",)), PeerFacts("b", error="does not answer"))))
    assert [result.level for result in results if isinstance(result, Finding)] == ["ok", "fail"]


def test_nodes_that_nobody_named_are_not_called_well() -> None:
    (result,) = checks.peers(network())
    assert isinstance(result, NotChecked)


@pytest.mark.parametrize(
    ("offset_s", "error_s", "level"),
    [(0.002, 0.001, "ok"), (-0.4, 0.01, "ok"), (3.0, 0.01, "warn"), (-3.0, 0.01, "warn"), (900.0, 0.01, "fail")],
)
def test_clocks_that_are_apart_are_found(offset_s: float, error_s: float, level: str) -> None:
    peer = PeerFacts("node1", clock_offset_s=offset_s, clock_error_s=error_s)
    assert only(checks.clocks, network(peers=(peer,))).level == level


def test_a_difference_that_the_exchange_cannot_tell_is_none() -> None:
    peer = PeerFacts("node1", clock_offset_s=1.0, clock_error_s=0.9)  # between 0.1 s and 1.9 s
    assert only(checks.clocks, network(peers=(peer,))).level == "ok"


def test_clocks_of_nodes_that_did_not_answer_are_not_called_well() -> None:
    (result,) = checks.clocks(network())
    assert isinstance(result, NotChecked)
