"""The closed form's verdicts, its rule of thumb, and how its terms grow."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from analysis.vram import estimate, rule_of_thumb, verdict
from configs.cell import Cell

GB = 10**9
CellOf = Callable[..., Cell]
SEVEN = ("model=llama2_7b", "machine=a100_80g", "seq_len=2048", "micro_batch=1", "global_batch=8")


@pytest.mark.parametrize(("billions", "training"), [(7, 112), (13, 208)])
def test_training_needs_sixteen_gb_a_billion_by_the_rule(billions: int, training: int) -> None:
    assert rule_of_thumb(billions * GB) == training * GB


def test_inference_needs_fourteen_gb_for_seven_billion_by_the_rule() -> None:
    assert rule_of_thumb(7 * GB, training=False) == 14 * GB


@pytest.mark.parametrize(
    ("needed", "expected"), [(71, "fits"), (72, "fits"), (72.1, "tight"), (80, "tight"), (80.1, "does not fit")]
)
def test_tight_begins_above_ninety_percent(needed: float, expected: str) -> None:
    assert verdict(needed, 80) == expected


def test_seven_billion_in_mixed_precision_does_not_fit_one_card(cell_of: CellOf) -> None:
    cell = cell_of(*SEVEN, "recipe=full_bf16", "cards=1")
    assert estimate(cell).verdict(80 * 2**30) == "does not fit"


def test_states_of_mixed_precision_are_sixteen_bytes_a_parameter(cell_of: CellOf) -> None:
    role = estimate(cell_of(*SEVEN, "recipe=full_bf16", "cards=1")).fullest
    assert role.parameters + role.gradients + role.optimizer_states == 16 * 6_738_415_616


def test_pure_bf16_states_are_eight_bytes_a_parameter(cell_of: CellOf) -> None:
    role = estimate(cell_of(*SEVEN, "recipe.precision=bf16_pure", "cards=1")).fullest
    assert role.parameters + role.gradients + role.optimizer_states == 8 * 6_738_415_616


@pytest.mark.parametrize(("attention", "growth"), [("sdpa", 2.0), ("eager", 4.0)])
def test_activations_grow_linearly_under_a_fused_kernel_and_with_the_square_without(
    cell_of: CellOf, attention: str, growth: float
) -> None:
    """From 16k to 32k tokens the layers' terms double; the probabilities, which dominate there, quadruple."""
    kept = [
        estimate(
            cell_of(
                *SEVEN,
                "cards=1",
                "model.config.max_position_embeddings=65536",
                f"seq_len={length}",
                f"recipe.attention={attention}",
            )
        ).fullest.activations
        for length in (16384, 32768)
    ]
    assert kept[1] / kept[0] == pytest.approx(growth, rel=0.1)


def test_checkpointing_keeps_one_hidden_state_a_layer(cell_of: CellOf) -> None:
    cell = cell_of(*SEVEN, "cards=1", "recipe.precision=bf16_pure", "recipe.checkpointing=full", "machine=cpu")
    role = estimate(cell).fullest
    hidden_states = 32 * 2 * 4096 * 2048  # layers x bytes x hidden x tokens
    assert role.phase == "loss"
    assert hidden_states < role.activations < 1.2 * hidden_states


def test_the_interval_holds_the_estimate(cell_of: CellOf) -> None:
    answer = estimate(cell_of(*SEVEN, "mode=fsdp", "cards=8", "recipe=full_bf16"))
    assert answer.low < answer.device < answer.high


def test_nothing_of_driver_or_allocator_is_counted_on_a_cpu(cell_of: CellOf) -> None:
    role = estimate(cell_of("cards=1")).fullest
    assert (role.fragmentation, role.context) == (0, 0)


def test_selective_checkpointing_keeps_what_matrix_products_and_attention_give(cell_of: CellOf) -> None:
    """A token and layer of Llama-2-7B in bf16: q, k, v, attention, o, down of 4096, gate and up of 11008, two bytes
    each; a log-sum-exp of 4 bytes a head; and the layer's input. 32 layers of 2,048 tokens."""
    words = (*SEVEN, "cards=1", "recipe.precision=bf16_pure", "machine=cpu")
    kept = [
        estimate(cell_of(*words, f"recipe.checkpointing={name}")).fullest.activations
        for name in ("full", "selective", "none")
    ]
    dear = 32 * 2048 * (2 * (6 * 4096 + 2 * 11008) + 4 * 32)
    assert kept[1] - kept[0] == dear
    assert kept[0] < kept[1] < kept[2]
