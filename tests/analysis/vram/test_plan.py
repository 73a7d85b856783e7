"""A plan's verdicts, counts and batches, held to figures worked out by hand."""

from __future__ import annotations

import pytest

from analysis.vram import GIB
from analysis.vram.plan import Planned, plan
from configs.compose import compose_grid
from configs.groups import load_group
from configs.schema import Mode

# Llama-2's parameters, counted by hand: layers x (4 h^2 + 3 h i + 2 h) + 2 v h + h
SEVEN = 32 * (4 * 4096**2 + 3 * 4096 * 11008 + 2 * 4096) + 2 * 32000 * 4096 + 4096
THIRTEEN = 40 * (4 * 5120**2 + 3 * 5120 * 13824 + 2 * 5120) + 2 * 32000 * 5120 + 5120
BATCH = ("recipe=full_bf16", "seq_len=2048", "micro_batch=1", "global_batch=64", "machine=a100_80g")


def planned(*words: str) -> list[Planned]:
    return plan(compose_grid([*BATCH, *words], sweep=True), load_group(Mode))


def one(*words: str) -> Planned:
    (cell,) = planned(*words)
    return cell


def test_the_hand_counts_are_those_of_llama_2() -> None:
    assert (SEVEN, THIRTEEN) == (6_738_415_616, 13_015_864_320)


@pytest.mark.parametrize(("model", "count"), [("llama2_7b", SEVEN), ("llama2_13b", THIRTEEN)])
def test_full_training_on_one_card_does_not_fit_and_the_rule_says_sixteen_bytes(model: str, count: int) -> None:
    cell = one(f"model={model}", "mode=ddp", "cards=1")
    assert cell.need is not None
    assert cell.need.rule_of_thumb == 16 * count
    states = sum(cell.need.components[name] for name in ("parameters", "gradients", "optimizer_states"))
    assert states == 16 * count
    assert cell.verdict == "does not fit"
    assert cell.largest_micro_batch == 0


def test_a_copy_on_every_card_is_never_helped_by_more_cards() -> None:
    """DDP keeps 16 bytes a parameter, 100 GiB, on each card whatever their number."""
    assert one("model=llama2_7b", "mode=ddp", "cards=1").smallest is None


def test_tensor_parallel_seven_billion_needs_two_cards() -> None:
    """100.4 GiB of states are 50.2 on each of two; activations, below 27 GiB together, are at most halved: 72 fit."""
    least = one("model=llama2_7b", "mode=tp", "cards=1").smallest
    assert least is not None
    assert least.cards == 2


def test_thirteen_billion_needs_more_than_two_cards_in_every_mode() -> None:
    """208 GB of states do not go into two cards of 80 GiB, 172 GB, with any mode."""
    assert 2 * 80 * GIB < 16 * THIRTEEN
    for cell in planned("model=llama2_13b", "mode=ddp,fsdp,tp,pp,zero3", "cards=1"):
        assert cell.smallest is None or cell.smallest.cards > 2


def test_a_gpu_that_is_full_of_states_fits_when_eight_cards_share_them() -> None:
    cell = one("model=llama2_7b", "mode=zero3", "cards=8")
    assert cell.need is not None
    assert cell.verdict == "fits"
    assert cell.need.device > 16 * SEVEN / 8


@pytest.mark.parametrize(("cards", "expected"), [(1, 16), (8, 4 + 12 / 8)])
def test_zero_stage_one_shards_the_optimizer_alone(cards: int, expected: float) -> None:
    """ZeRO, figure 1: 2 + 2 + K / ranks bytes a parameter with K = 12 for AdamW in mixed precision."""
    cell = one("model=llama2_7b", "mode=zero1", f"cards={cards}")
    assert cell.need is not None
    states = sum(cell.need.components[name] for name in ("parameters", "gradients", "optimizer_states"))
    assert states == pytest.approx(expected * SEVEN, rel=1e-6)


def test_weights_that_lora_freezes_are_two_bytes_each() -> None:
    """Four targets of rank 16 in 32 layers: 16 x (4096 + 4096) x 4 x 32 adapter weights of 4 bytes beside them."""
    cell = one("model=llama2_7b", "mode=ddp", "cards=1", "recipe=lora_bf16")
    assert cell.need is not None
    assert cell.need.components["parameters"] == 2 * SEVEN + 4 * 16 * (4096 + 4096) * 4 * 32


def test_the_largest_micro_batch_fits_and_one_more_does_not() -> None:
    cell = one("model=llama2_7b", "mode=tp", "cards=8")
    batch = cell.largest_micro_batch
    assert batch is not None
    assert batch > 1
    # the same accumulation at either batch
    verdicts = [
        one("model=llama2_7b", "mode=tp", "cards=8", f"micro_batch={b}", f"global_batch={64 * b}").verdict
        for b in (batch, batch + 1)
    ]
    assert verdicts[0] == "fits"
    assert verdicts[1] in ("tight", "does not fit")


def test_what_does_not_divide_is_said_beside_what_does() -> None:
    cells = planned("model=llama2_7b", "mode=tp", "cards=2,3")
    assert [cell.verdict for cell in cells] == ["fits", "invalid"]
    assert "32 attention heads do not divide by tp=3" in cells[1].reason


def test_a_mixture_of_experts_has_no_number() -> None:
    cell = one("model=llama2_7b", "mode=ddp", "model.config.model_type=mixtral", "model.config.num_local_experts=8")
    assert cell.verdict == "not covered"
    assert cell.need is None
    assert "mixture of experts" in cell.reason


def test_the_processor_has_no_card_to_hold_the_need_against() -> None:
    cell = one("model=llama2_7b", "machine=cpu")
    assert cell.verdict == "invalid"
    assert "no card memory" in cell.reason


@pytest.mark.parametrize("mode", ["ddp", "fsdp", "pp"])
def test_the_verdict_is_that_of_the_card(mode: str) -> None:
    small, large = planned("model=smollm2_135m", f"mode={mode}", "cards=2", "machine=4090,h200", "seq_len=512")
    assert small.need is not None
    assert large.need is not None
    assert small.need.device == large.need.device
    assert small.card_bytes == 24 * GIB
