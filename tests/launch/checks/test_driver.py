"""Driver, CUDA, NCCL, torch, and whose cards the ranks get: each fault planted in facts of a healthy machine."""

from __future__ import annotations

from dataclasses import replace

import pytest

from configs.schema import Machine
from launch.checks import breaks, run_checks
from launch.checks.driver import cards, driver, kernels, like_cards, mask, nccl, promised_card, torch_cuda
from launch.checks.facts import Facts, GpuFacts
from launch.checks.findings import NotChecked
from tests.launch.healthy import MACHINES, card, on_cards, on_processor, only


def with_gpu(facts: Facts, **changes: object) -> Facts:
    return replace(facts, gpu=replace(facts.gpu, **changes))


def with_torch(facts: Facts, **changes: object) -> Facts:
    return replace(facts, torch=replace(facts.torch, **changes))


@pytest.mark.parametrize("facts", [on_cards(8), on_processor()])
def test_nothing_is_found_on_a_healthy_machine(facts: Facts) -> None:
    findings, unchecked = run_checks(facts)
    assert [finding for finding in findings if finding.level != "ok"] == []
    assert unchecked == []
    assert not breaks(findings)


def test_no_driver_breaks_a_run_on_cards() -> None:
    facts = replace(on_cards(), gpu=GpuFacts(missing="NVML does not start: Driver Not Loaded"))
    finding = only(driver, facts)
    assert finding.level == "fail"
    assert "Driver Not Loaded" in finding.what


def test_no_driver_is_no_trouble_on_a_processor() -> None:
    assert only(driver, on_processor()).level == "ok"


def test_a_torch_without_cuda_breaks_a_run_on_cards() -> None:
    finding = only(torch_cuda, with_torch(on_cards(), cuda=None, version="2.6.0+cpu"))
    assert finding.level == "fail"
    assert "2.6.0+cpu is built without CUDA" in finding.what


def test_a_torch_for_a_newer_major_cuda_breaks_the_run() -> None:
    finding = only(torch_cuda, with_torch(on_cards(), cuda="13.0"))
    assert (finding.level, "runs up to 12.4" in finding.what) == ("fail", True)


def test_a_torch_for_a_newer_minor_cuda_is_a_warning() -> None:
    assert only(torch_cuda, with_torch(on_cards(), cuda="12.8")).level == "warn"


def test_a_torch_for_an_older_cuda_is_well() -> None:
    assert only(torch_cuda, with_torch(on_cards(), cuda="11.8")).level == "ok"


def test_what_torch_says_of_the_cards_breaks_the_run() -> None:
    finding = only(torch_cuda, with_torch(on_cards(), error="system not yet initialized"))
    assert finding.level == "fail"
    assert "system not yet initialized" in finding.what


def test_no_torch_breaks_every_run() -> None:
    assert only(torch_cuda, with_torch(on_processor(), version=None)).level == "fail"


def test_kernels_that_are_missing_for_a_newer_card_break_the_run() -> None:
    finding = only(kernels, on_cards(1, [card(0, capability=(12, 0))]))
    assert finding.level == "fail"
    assert "12.0" in finding.what


def test_kernels_of_the_same_generation_will_do() -> None:
    assert only(kernels, on_cards(1, [card(0, capability=(8, 9))])).level == "ok"  # sm_80 code runs on 8.9


def test_portable_kernels_will_do_for_a_newer_card() -> None:
    facts = with_torch(on_cards(1, [card(0, capability=(12, 0))]), archs=("sm_90", "compute_90"))
    assert only(kernels, facts).level == "ok"


def test_another_nccl_than_the_installed_one_is_a_warning() -> None:
    finding = only(nccl, with_torch(on_cards(), nccl="2.18.3"))
    assert finding.level == "warn"
    assert "2.18.3 is in use, 2.21.5 is installed" in finding.what


def test_an_nccl_that_was_not_asked_is_not_called_well() -> None:
    (result,) = nccl(with_torch(on_cards(), nccl=None))
    assert isinstance(result, NotChecked)


def test_more_ranks_than_cards_break_the_run_and_both_numbers_are_said() -> None:
    facts = replace(on_cards(2), plan=replace(on_cards(2).plan, cards=8, nodes=2))  # two nodes x 2 cards, 4 ranks each
    finding = only(cards, facts)
    assert finding.level == "fail"
    assert finding.what == "2 visible cards for 4 ranks on this node (8 cards over 2 nodes)"
    assert finding.do == "cards=4"


def test_cards_that_slurm_gave_and_nvml_does_not_see_are_a_warning() -> None:
    finding = only(cards, replace(on_cards(2), variables={"SLURM_GPUS_ON_NODE": "4"}))
    assert finding.level == "warn"
    assert "4 cards, 2 can be used" in finding.what


def test_several_ranks_on_slices_break_the_run() -> None:
    finding = only(cards, on_cards(2, [card(0, is_slice=True), card(1, is_slice=True)]))
    assert finding.level == "fail"
    assert "MIG" in finding.what


def test_cards_that_a_run_on_the_processor_would_leave_idle_are_a_warning() -> None:
    facts = replace(on_processor(), gpu=on_cards(2).gpu)
    finding = only(cards, facts)
    assert finding.level == "warn"
    assert finding.do == "machine=h100_80g"


def test_a_mask_that_names_no_card_breaks_the_run_and_lists_those_there_are() -> None:
    note = "CUDA_VISIBLE_DEVICES entry '7' is no card: this machine has 2, counted from 0"
    finding = only(mask, with_gpu(on_cards(), unresolved=("7",), mask_notes=(note,)))
    assert finding.level == "fail"
    assert finding.what == note
    assert finding.do == "cards by NVML: 0=GPU-0, 1=GPU-1"


def test_a_mask_over_unlike_cards_in_no_certain_order_is_a_warning() -> None:
    assert only(mask, with_gpu(on_cards(), certain=False)).do == "export CUDA_DEVICE_ORDER=PCI_BUS_ID"


def test_an_order_of_torch_that_is_not_ours_is_a_warning() -> None:
    finding = only(mask, with_torch(on_cards(), uuids=("GPU-1", "GPU-0")))
    assert finding.level == "warn"
    assert "torch counts the cards as GPU-1, GPU-0" in finding.what


def test_the_mask_is_shown_with_the_cards_that_it_means() -> None:
    facts = on_cards(2, [card(3), card(1)])
    facts = replace(facts, variables={"CUDA_VISIBLE_DEVICES": "3,1"})
    assert only(mask, facts).what == "CUDA_VISIBLE_DEVICES = 3,1: NVML cards 3, 1"


def test_another_card_than_the_promised_one_is_a_warning_with_its_name() -> None:
    finding = only(promised_card, on_cards(1, [card(0, name="NVIDIA H100 PCIe")]))
    assert finding.level == "warn"
    assert "the card is NVIDIA H100 PCIe" in finding.what
    assert finding.do == "machine=h100_pcie"


def test_a_card_that_no_machine_describes_is_a_warning_that_says_what_stays_blank() -> None:
    assert "MFU and link shares stay blank" in only(promised_card, on_cards(1, [card(0, name="NVIDIA Z999")])).do


def test_a_machine_of_ones_own_may_describe_the_card() -> None:
    own = Machine("ours", "cuda", card_names=["NVIDIA Z999"])
    assert only(promised_card, on_cards(1, [card(0, name="NVIDIA Z999")], machine=own)).level == "ok"


def test_unlike_cards_in_one_job_are_a_warning() -> None:
    finding = only(like_cards, on_cards(2, [card(0, memory_gib=8.0), card(1, memory_gib=16.0)]))
    assert finding.level == "warn"
    assert "(8 GiB)" in finding.what
    assert "(16 GiB)" in finding.what


def test_an_unlike_card_that_no_rank_uses_does_not_matter() -> None:
    facts = on_cards(2, [card(0), card(1), card(2, name="NVIDIA T400")])
    assert only(like_cards, facts).level == "ok"
    assert only(promised_card, facts).level == "ok"


def test_the_named_machine_is_the_one_of_the_promise() -> None:
    assert only(promised_card, on_cards(1, machine=MACHINES["h100_80g"])).level == "ok"
