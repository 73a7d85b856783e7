"""The state of the cards: each fault planted on a healthy one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from benchmarks.device.topology import Topology
from launch.checks import cards as checks
from launch.checks.facts import Facts
from launch.checks.findings import NotChecked, Results
from tests.launch.healthy import MACHINES, card, mesh, on_cards, on_processor, only

Check = Callable[[Facts], Results]


def with_fault(**fault: Any) -> Facts:
    """Two cards, the second with the fault."""
    return on_cards(2, [card(0), card(1, **fault)])


def linked(topology: Topology, machine: str = "h100_80g") -> Facts:
    facts = on_cards(len(topology.cards), machine=MACHINES[machine])
    return replace(facts, gpu=replace(facts.gpu, topology=topology))


@pytest.mark.parametrize(
    ("check", "fault", "level", "words"),
    [
        (checks.others, {"pids": (4242,), "used_gib": 3.0}, "warn", "card 1: 1 processes (4242), 3.0 GiB"),
        (checks.others, {"used_gib": 3.0}, "warn", "processes that cannot be seen from here"),
        (checks.others, {"pids": (4242,), "used_gib": 60.0}, "fail", "card 1"),
        (checks.persistence, {"persistence": False}, "warn", "off on card 1"),
        (checks.ecc, {"ecc_uncorrected": 3}, "fail", "card 1: 3 uncorrected memory errors"),
        (checks.ecc, {"remap_failed": True}, "fail", "no spare rows"),
        (checks.ecc, {"remap_pending": True}, "warn", "a reset would replace"),
        (checks.ecc, {"ecc": False}, "warn", "error correction is off on card 1"),
        (
            checks.throttle,
            {"clock_reasons": ("hardware thermal slowdown",), "celsius": 94},
            "warn",
            "card 1: hardware thermal slowdown at 94 C",
        ),
        (checks.power_limit, {"power_limit_w": 500}, "warn", "card 1: 500 W of 700 W"),
        (checks.compute_mode, {"compute_mode": 2}, "fail", "card 1 takes no compute work"),
        (checks.pcie, {"pcie_width": 4}, "warn", "card 1: x4 of x16"),
        (checks.nvlink, {"links_down": (5,), "links_up": 17}, "warn", "card 1: link 5 down, 17 up"),
        (checks.nvlink, {"links_down": (0, 1), "links_up": 0}, "warn", "all NVLinks of card 1 are down"),
        (checks.nvlink, {"link_errors": {"replay": 0, "recovery": 7}}, "warn", "card 1: 7 recovery"),
    ],
)
def test_a_fault_of_one_card_is_found(check: Check, fault: dict[str, Any], level: str, words: str) -> None:
    finding = only(check, with_fault(**fault))
    assert finding.level == level
    assert words in finding.what
    assert finding.why
    assert finding.do


@pytest.mark.parametrize(
    ("check", "fault"),
    [
        (checks.others, {"used_gib": 0.6}),  # a desktop
        (checks.throttle, {"clock_reasons": ("software power cap",)}),  # at its limit, at work
        (checks.power_limit, {"power_limit_w": 698}),  # rounding
    ],
)
def test_what_is_usual_is_no_fault(check: Check, fault: dict[str, Any]) -> None:
    assert only(check, with_fault(**fault)).level == "ok"


@pytest.mark.parametrize(
    ("check", "silent"),
    [
        (checks.others, {"pids": None, "used_gib": None}),
        (checks.persistence, {"persistence": None}),
        (checks.ecc, {"ecc": None, "ecc_uncorrected": None, "remap_failed": None, "remap_pending": None}),
        (checks.throttle, {"clock_reasons": None}),
        (checks.power_limit, {"power_limit_w": None, "power_default_w": None}),
        (checks.compute_mode, {"compute_mode": None}),
        (checks.pcie, {"pcie_width": None, "pcie_max_width": None}),
    ],
)
def test_a_card_that_does_not_tell_is_not_called_well(check: Check, silent: dict[str, Any]) -> None:
    (result,) = check(on_cards(1, [card(0, **silent)]))
    assert isinstance(result, NotChecked)


def test_a_fault_of_a_card_that_no_rank_uses_does_not_matter() -> None:
    assert only(checks.ecc, replace(with_fault(ecc_uncorrected=3), plan=on_cards(1).plan)).level == "ok"


def test_cards_without_nvlink_have_no_broken_link() -> None:
    assert only(checks.nvlink, on_cards(2, [card(i, links_up=0, link_errors=None) for i in range(2)])).level == "ok"


def test_pcie_where_nvlink_was_promised_is_a_warning() -> None:
    finding = only(checks.links, linked(mesh(4, "PHB")))
    assert finding.level == "warn"
    assert "PCIe only; machine=h100_80g promises NVLink full mesh" in finding.what


def test_a_mesh_with_a_hole_where_a_full_one_was_promised_is_a_warning() -> None:
    rows = [list(row) for row in mesh(3).links]
    rows[0][1] = rows[1][0] = "SYS"
    finding = only(checks.links, linked(Topology(("GPU0", "GPU1", "GPU2"), tuple(map(tuple, rows)))))
    assert finding.level == "warn"
    assert "NVLink partial mesh" in finding.what


def test_pairs_are_shown_with_their_cards() -> None:
    rows = (
        ("X", "NV4", "SYS", "SYS"),
        ("NV4", "X", "SYS", "SYS"),
        ("SYS", "SYS", "X", "NV4"),
        ("SYS", "SYS", "NV4", "X"),
    )
    finding = only(checks.links, linked(Topology(("GPU0", "GPU1", "GPU2", "GPU3"), rows), "3090"))
    assert finding.level == "ok"
    assert "(GPU0, GPU1; GPU2, GPU3)" in finding.what


def test_bf16_on_a_card_without_it_is_a_warning_that_says_emulated() -> None:
    facts = on_cards(1, [card(0, name="Tesla T4", capability=(7, 5))], precision="bf16")
    finding = only(checks.bf16, facts)
    assert finding.level == "warn"
    assert "Tesla T4, compute capability 7.5" in finding.what
    assert "emulated" in finding.why


def test_bf16_on_ampere_is_in_hardware() -> None:
    assert only(checks.bf16, on_cards(1, [card(0, capability=(8, 0))], precision="bf16_pure")).level == "ok"


def test_bf16_on_a_processor_without_it_is_a_warning() -> None:
    assert only(checks.bf16, on_processor(precision="bf16")).level == "warn"


def test_bf16_on_a_processor_with_it_is_in_hardware() -> None:
    facts = on_processor(precision="bf16")
    assert (
        only(checks.bf16, replace(facts, host=replace(facts.host, cpu_flags=frozenset({"avx512_bf16"})))).level == "ok"
    )


def test_fp32_needs_no_bf16() -> None:
    assert checks.bf16(on_cards(1, [card(0, capability=(7, 5))])) == []
