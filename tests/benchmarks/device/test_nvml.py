"""The real NVML bindings over a library of ours with cards of known values."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable

import pytest

from benchmarks.device import nvml
from benchmarks.device.visibility import visible

GIB = 2**30
FakeCards = Callable[..., None]


def a100(number: int, **more: object) -> dict[str, object]:
    return {
        "uuid": f"GPU-{number}",
        "name": "NVIDIA A100-SXM4-80GB",
        "bus": f"00000000:{number:02X}:00.0",
        "total": 80 * GIB,
        "used": number * GIB,
        "reserved": GIB // 2,
        **more,
    }


def ask(uuid: str, question: Callable[..., nvml.Answer]) -> nvml.Answer:
    with nvml.session() as bindings:
        return question(bindings, nvml.open_card(bindings, uuid).value)


def test_cards_have_index_identity_and_memory(fake_cards: FakeCards) -> None:
    fake_cards(a100(0), a100(1))
    with nvml.session() as bindings:
        second = nvml.cards(bindings)[1]
    assert (second.index, second.uuid, second.name) == (1, "GPU-1", "NVIDIA A100-SXM4-80GB")
    assert (second.pci_bus_id, second.memory_gib) == ("00000000:01:00.0", 80)


def test_another_jobs_card_is_left_out_and_the_mask_counts_without_it(fake_cards: FakeCards) -> None:
    fake_cards(a100(0, open=4), a100(1), a100(2))  # 4: no permission
    with nvml.session() as bindings:
        seen = visible(nvml.cards(bindings), {"CUDA_VISIBLE_DEVICES": "0"})
    assert [card.uuid for card in seen.cards] == ["GPU-1"]


def test_a_slice_has_its_own_memory(fake_cards: FakeCards) -> None:
    part = {"kind": "slice", "card": "GPU-0", "uuid": "MIG-7", "name": "NVIDIA A100 MIG 1g.10gb", "total": 10 * GIB}
    fake_cards(a100(0, mig=1), {**part, "used": GIB, "gi": 9, "ci": 0})
    with nvml.session() as bindings:
        (card,) = nvml.cards(bindings)
    assert [(each.memory_gib, each.is_slice, each.alias) for each in card.slices] == [(10, True, "MIG-GPU-0/9/0")]


def test_used_memory_leaves_out_what_the_driver_keeps(fake_cards: FakeCards) -> None:
    fake_cards(a100(3))
    assert ask("GPU-3", nvml.used_gib).value == 3
    assert ask("GPU-3", nvml.driver_reserved_gib).value == 0.5


def test_a_query_that_the_card_does_not_support_is_a_reason(fake_cards: FakeCards) -> None:
    fake_cards(a100(0))
    assert ask("GPU-0", nvml.power_w) == nvml.Answer(None, "Not Supported")


def test_a_card_that_fell_off_the_bus_is_a_reason(fake_cards: FakeCards) -> None:
    fake_cards(a100(0, util="!15"))
    assert ask("GPU-0", nvml.utilisation_pct) == nvml.Answer(None, "GPU is lost")


def test_units_are_watts_joules_and_megahertz(fake_cards: FakeCards) -> None:
    fake_cards(a100(0, power=399_500, energy=7_000_000, sm_clock=1410, util=97))
    assert ask("GPU-0", nvml.power_w).value == 399.5
    assert ask("GPU-0", nvml.energy_j).value == 7000
    assert ask("GPU-0", nvml.sm_clock_mhz).value == 1410
    assert ask("GPU-0", nvml.utilisation_pct).value == 97


def test_clock_reasons_are_named(fake_cards: FakeCards) -> None:
    fake_cards(a100(0, reasons=0x44))  # bits of nvml.h: 0x04 software power cap, 0x40 hardware thermal slowdown
    assert ask("GPU-0", nvml.clock_reasons).value == ("software power cap", "hardware thermal slowdown")


def test_clock_reasons_of_an_older_driver_are_asked_by_their_older_name(fake_cards: FakeCards) -> None:
    fake_cards(a100(0, old_reasons=0x80))
    assert ask("GPU-0", nvml.clock_reasons).value == ("hardware power brake",)


def test_processes_on_the_card_are_listed(fake_cards: FakeCards) -> None:
    fake_cards(a100(0, pids="4242,77"))
    assert ask("GPU-0", nvml.compute_processes).value == (4242, 77)


def test_driver_and_its_cuda_are_versions(fake_cards: FakeCards) -> None:
    fake_cards(system={"driver": "535.161.08", "cuda": 12020})
    with nvml.session() as bindings:
        assert nvml.driver_version(bindings).value == "535.161.08"
        assert nvml.driver_cuda(bindings).value == "12.2"


def test_a_start_that_fails_is_told(fake_cards: FakeCards) -> None:
    fake_cards(system={"init": 18})  # what a container with another driver's library gets
    with (
        pytest.raises(nvml.NvmlUnavailable, match="does not start: RM has detected an NVML/RM version mismatch"),
        nvml.session(),
    ):
        pass


def test_a_machine_without_the_package_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", None)
    with pytest.raises(nvml.NvmlUnavailable, match="nvidia-ml-py is not installed"), nvml.session():
        pass


def test_a_machine_without_the_drivers_library_is_told() -> None:
    load = "from benchmarks.device import nvml\n"
    code = load + "try:\n  nvml.session().__enter__()\nexcept nvml.NvmlUnavailable as e: print(e)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    if not done.stdout:
        pytest.skip("this machine has a driver")
    assert "NVML Shared Library Not Found" in done.stdout
