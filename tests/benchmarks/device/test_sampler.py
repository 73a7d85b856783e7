"""The sampler over the real NVML bindings and cards of known values, and over processes of this machine."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import pytest

from benchmarks.device.sampler import DeviceSampler, job_cards
from benchmarks.device.visibility import Card, Visible

GIB = 2**30
FakeCards = Callable[..., None]


def h100(number: int, **more: object) -> dict[str, object]:
    """Card n: n GiB used, n x 100 W, n x 10 % busy."""
    return {
        "uuid": f"GPU-{number}",
        "name": "NVIDIA H100 80GB HBM3",
        "total": 80 * GIB,
        "used": number * GIB,
        "reserved": 0,
        "power": number * 100_000,
        "util": number * 10,
        "sm_clock": 1980,
        "reasons": 0,
        "pids": "",
        **more,
    }


def sampled(cards: int, mask: str | None = None, phase: str = "measure", device: str = "cuda") -> dict[str, Any]:
    variables = {} if mask is None else {"CUDA_VISIBLE_DEVICES": mask}
    with DeviceSampler(device, cards, variables, interval_s=0.01) as sampler:
        sampler.observe([{"rank": rank, "pid": os.getpid(), "phase": phase} for rank in range(cards)])
        time.sleep(0.05)
    return sampler.summary()


def test_a_mask_of_two_of_four_cards_reads_those_two_in_its_order(fake_cards: FakeCards) -> None:
    fake_cards(*(h100(i) for i in range(1, 5)))  # indices 0 to 3
    section = sampled(2, "2,0")
    assert section["uuids"] == ["GPU-3", "GPU-1"]
    assert section["indices"] == [2, 0]
    assert [card["device_used_gib"] for card in section["by_card"]] == [3, 1]
    assert section["utilisation_pct"] == 20
    assert section["power_w"] == pytest.approx(400)


def test_cards_of_the_mask_that_the_job_leaves_are_idle(fake_cards: FakeCards) -> None:
    fake_cards(*(h100(i) for i in range(1, 5)))
    section = sampled(1, "3,1")
    assert (section["uuids"], section["idle_cards"]) == (["GPU-4"], 1)
    assert section["idle_energy_j"] == pytest.approx(section["energy_j"] / 2, rel=0.2)  # 200 W beside 400 W


def test_a_mask_by_uuid_is_followed(fake_cards: FakeCards) -> None:
    fake_cards(h100(1), h100(2))
    assert sampled(1, "GPU-2")["indices"] == [1]


def test_a_slices_memory_is_the_cards_memory_and_its_power_is_not_known(fake_cards: FakeCards) -> None:
    part = {"kind": "slice", "card": "GPU-1", "uuid": "MIG-5", "name": "NVIDIA H100 80GB HBM3 MIG 1g.10gb"}
    fake_cards(h100(1, mig=1, used=70 * GIB), {**part, "total": 10 * GIB, "used": 2 * GIB, "reserved": 0})
    section = sampled(1, "MIG-5")
    assert (section["card_gib"], section["device_used_gib"], section["sm_clock_mhz"]) == (10, 2, 1980)
    assert section["power_w"] is None
    assert "all of its MIG slices" in section["blank_because"]


def test_a_field_that_a_card_cannot_tell_is_blank_with_its_reason(fake_cards: FakeCards) -> None:
    fake_cards(h100(1, power="!3"))
    section = sampled(1)
    assert (section["power_w"], section["utilisation_pct"]) == (None, 10)
    assert section["blank_because"] == "power_w: Not Supported"


def test_a_card_that_is_lost_during_the_cell_keeps_what_was_seen(fake_cards: FakeCards) -> None:
    fake_cards(h100(3))
    with DeviceSampler("cuda", 1, {}, interval_s=0.01) as sampler:
        fake_cards(h100(3, used="!15", util="!15", power="!15", sm_clock="!15", reasons="!15"))
        time.sleep(0.05)
    section = sampler.summary()
    assert section["device_used_gib"] == 3
    assert "GPU is lost" in section["blank_because"]


def test_processes_that_were_there_before_the_ranks_share_the_card(fake_cards: FakeCards) -> None:
    fake_cards(h100(1, pids="4242"))
    assert sampled(1)["shared"] is True


def test_the_ranks_own_processes_do_not_share_the_card(fake_cards: FakeCards) -> None:
    fake_cards(h100(1))
    with DeviceSampler("cuda", 1, {}, interval_s=0.01) as sampler:
        fake_cards(h100(1, pids="4242"))
        time.sleep(0.03)
    assert sampler.summary()["shared"] is False


def test_the_links_of_the_jobs_own_cards_are_told(fake_cards: FakeCards) -> None:
    far = {f"near-GPU-{i}": 50 for i in range(1, 4)}
    bus = {i: f"00000000:0{i}:00.0" for i in range(1, 4)}
    fake_cards(h100(1, bus=bus[1], links="GPU-2"), h100(2, bus=bus[2], links="GPU-1"), h100(3, bus=bus[3], **far))
    assert sampled(2)["interconnect"] == "NVLink full mesh"
    assert sampled(2, "0,2")["interconnect"] == "PCIe only"


def test_a_mask_that_names_nothing_leaves_blanks_and_says_why(fake_cards: FakeCards) -> None:
    fake_cards(h100(1))
    section = sampled(1, "9")
    assert (section["name"], section["utilisation_pct"]) == (None, None)
    assert "entry '9' is no card" in section["blank_because"]


def test_unlike_cards_in_no_certain_order_are_not_guessed_at() -> None:
    pair = (Card(0, "GPU-a", "RTX 3090"), Card(1, "GPU-b", "RTX 4090"))
    assert job_cards(Visible(pair, certain=False), 1) == ([], [])


def test_unlike_cards_that_are_all_used_need_no_order() -> None:
    pair = (Card(0, "GPU-a", "RTX 3090"), Card(1, "GPU-b", "RTX 4090"))
    assert job_cards(Visible(pair, certain=False), 2) == (list(pair), [])


def test_a_driver_that_does_not_start_leaves_blanks_and_a_reason(fake_cards: FakeCards) -> None:
    fake_cards(system={"init": 9})
    section = sampled(1)
    assert section["utilisation_pct"] is None
    assert section["blank_because"] == "NVML does not start: Driver Not Loaded"


def test_on_a_processor_the_ranks_own_peak_memory_is_told() -> None:
    code = "import time; block = b'x' * (64 << 20); print('ready', flush=True); time.sleep(60)"
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as rank:
        assert rank.stdout is not None
        rank.stdout.readline()
        with DeviceSampler("cpu", 1, {}, interval_s=0.01) as sampler:
            sampler.observe([{"rank": 0, "pid": rank.pid, "phase": "measure"}])
        rank.kill()
    section = sampler.summary()
    assert section["rss_peak_gib_by_rank"] == [section["rss_peak_gib"]]
    assert 64 / 1024 < section["rss_peak_gib"] < 0.2  # the block and an interpreter around it


def test_a_rank_that_has_ended_is_no_trouble() -> None:
    with DeviceSampler("cpu", 1, {}, interval_s=0.01) as sampler:
        sampler.observe([{"rank": 0, "pid": 2**22 + 1, "phase": "measure"}])  # above every process id of Linux
    assert sampler.summary()["rss_peak_gib"] is None
