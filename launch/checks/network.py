"""Names, addresses, ports and clocks: whether ranks on several nodes would find each other."""

from __future__ import annotations

import ipaddress

from launch.checks.facts import Facts, PeerFacts
from launch.checks.findings import FAIL, WARN, Finding, Result, Results, listed, ok, unknown

SKEW_WARN_S, SKEW_FAIL_S = 0.5, 60.0
INTERFACE_VARIABLES = ("GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME", "TP_SOCKET_IFNAME")


def host_name(facts: Facts) -> Results:
    """The address that this host tells its peers: that of its own name, unless an interface is named."""
    network, plan = facts.network, facts.plan
    lone = plan.nodes == 1
    own = _own_addresses(network.interfaces)
    named = facts.rank_variables.get("GLOO_SOCKET_IFNAME")
    interface = next((name for name, addresses in network.interfaces.items() if set(addresses) & set(own)), "eth0")
    do = f"an address in cluster.rendezvous, and +cluster.env.GLOO_SOCKET_IFNAME={interface} (NCCL_SOCKET_IFNAME alike)"
    if network.resolve_error:
        what = f"{network.host} does not resolve: {network.resolve_error}"
        if lone:
            return ok("host name", f"{what}; one node does not need it")
        level = WARN if named else FAIL
        return [Finding("host name", level, what, "peers look this name up and wait, silently, for minutes", do)]
    if not network.addresses:
        return unknown("host name", "it was not looked up")
    told = f"{network.host} is {listed(network.addresses)}"
    if all(_loopback(address) for address in network.addresses):
        if lone:
            return ok("host name", f"{told}: loopback, which is enough for one node")
        level = WARN if named else FAIL
        why = "every node would tell its peers to talk to themselves: connection refused"
        return [Finding("host name", level, f"{told}: loopback only", why, do)]
    missing = [address for address in network.addresses if address not in _every(network.interfaces)]
    if network.interfaces and len(missing) == len(network.addresses) and not lone:
        what, why = f"{told}, which no interface here has", "peers would be sent to another machine"
        return [Finding("host name", FAIL, what, why, do)]
    return ok("host name", told)


def addresses(facts: Facts) -> Results:
    """A host that has IPv6 addresses only needs brackets and a switch for NCCL."""
    own = _own_addresses(facts.network.interfaces)
    if not own:
        if facts.plan.nodes > 1:
            why = "no other node can be reached"
            return [Finding("addresses", FAIL, "no interface but loopback", why, "start the container with a network")]
        return ok("addresses", "loopback only, which is enough for one node")
    if all(":" in address for address in own):
        if facts.plan.nodes == 1:
            return ok("addresses", f"{listed(own)}: IPv6 only, which is enough for one node")
        if facts.rank_variables.get("NCCL_SOCKET_FAMILY") == "AF_INET6" or not facts.plan.on_cards:
            return ok("addresses", f"{listed(own)}: IPv6 only")
        do = f"+cluster.env.NCCL_SOCKET_FAMILY=AF_INET6, and brackets: cluster.rendezvous='[{own[0]}]:29400'"
        return [Finding("addresses", WARN, f"{listed(own)}: IPv6 only", "some tools take the first IPv4 address", do)]
    return ok("addresses", listed(own))


def interface_variables(facts: Facts) -> Results:
    """Interfaces that a variable names and this host has not."""
    have = facts.network.interfaces
    wrong = []
    for name in INTERFACE_VARIABLES:
        value = facts.rank_variables.get(name, "")
        if not value or value.startswith("^") or not have:
            continue
        exact = value.startswith("=") or name != "NCCL_SOCKET_IFNAME"  # NCCL takes beginnings of names
        wanted = value.lstrip("=").split(",")
        if not any(each == found or (not exact and found.startswith(each)) for each in wanted for found in have):
            wrong.append(f"{name}={value}")
    if wrong:
        why = "no interface of that name: the process group does not start"
        return [Finding("interfaces", FAIL, listed(wrong), why, f"this host has {listed(list(have))}")]
    return []


def ports(facts: Facts) -> Results:
    network, plan = facts.network, facts.plan
    if network.port_error:
        why = "the ranks meet on a port of this host"
        return [Finding("ports", FAIL, f"no free port: {network.port_error}", why, "end what holds them: ss -ltn")]
    if network.rendezvous_busy and plan.node_rank == 0:
        what = f"somebody listens on cluster.rendezvous={plan.rendezvous} already"
        why = "an earlier run that is still there, or another job: the nodes would join it or fail"
        return [Finding("ports", FAIL, what, why, "another port, or end that run")]
    return ok("ports", "free ones are to be had")


def peers(facts: Facts) -> Results:
    """Every other host of the plan: does its name resolve, does it answer, and how long that took."""
    results: list[Result] = []
    for peer in facts.network.peers:
        if peer.error:
            what = f"{peer.host}: {peer.error} ({peer.seconds:.1f} s)"
            why = "the nodes wait for each other until measure.start_timeout_s is over"
            do = "an address instead of the name; the port open between the nodes"
            results.append(Finding("peers", FAIL, what, why, do))
        else:
            at = f" at {listed(peer.addresses)} ({peer.seconds:.1f} s)" if peer.addresses else ""
            results += ok("peers", f"{peer.host} answers{at}")
    if facts.plan.nodes > 1 and not results:
        return unknown("peers", "no other host is named: give cluster.rendezvous")
    return results


def clocks(facts: Facts) -> Results:
    """Clocks of the nodes against ours."""
    known = [peer for peer in facts.network.peers if peer.clock_offset_s is not None]
    if facts.plan.nodes > 1 and not known:
        return unknown("clocks", "no other node answered: run doctor on all nodes at once, with cluster.node_rank")
    return [result for peer in known for result in skew(peer)]


def skew(peer: PeerFacts) -> Results:
    """One peer's clock: a difference is real only beyond what the exchange could tell."""
    assert peer.clock_offset_s is not None
    off = max(abs(peer.clock_offset_s) - peer.clock_error_s, 0.0)
    what = f"{peer.host} is {peer.clock_offset_s:+.3f} s off (within {peer.clock_error_s:.3f} s)"
    if off < SKEW_WARN_S:
        return ok("clocks", what)
    why = "the first cause of a failure is told by time: with clocks apart an effect looks like it"
    if off >= SKEW_FAIL_S:
        why += "; certificates and leases go by the clock as well"
    return [Finding("clocks", FAIL if off >= SKEW_FAIL_S else WARN, what, why, "chrony or ntpd on all nodes")]


def _loopback(address: str) -> bool:
    try:
        return ipaddress.ip_address(address.split("%")[0]).is_loopback
    except ValueError:
        return False


def _link_local(address: str) -> bool:
    try:
        return ipaddress.ip_address(address.split("%")[0]).is_link_local
    except ValueError:
        return False


def _every(interfaces: object) -> set[str]:
    assert hasattr(interfaces, "values")
    return {address.split("%")[0] for addresses in interfaces.values() for address in addresses}


def _own_addresses(interfaces: object) -> list[str]:
    """Addresses that another machine could use."""
    return sorted(a for a in _every(interfaces) if not _loopback(a) and not _link_local(a))


CHECKS = (host_name, addresses, interface_variables, ports, peers, clocks)
