from __future__ import annotations

import pytest

from analysis.steptime.communication import (
    BACKWARD,
    FULL_SHARD,
    NOTHING,
    PASSES,
    WIDTHS,
    Batch,
    communication,
    largest_stage_parameters,
    layer_parameters,
    model_parameters,
)
from configs.layout import Layout, ModelShape

LLAMA2_7B = ModelShape(32, 4096, 32, 32, 128, 11008, 32000, tied_embeddings=False)
LLAMA3_8B = ModelShape(32, 4096, 32, 8, 128, 14336, 128256, tied_embeddings=False)
SMALL = ModelShape(4, 64, 4, 4, 16, 128, 100, tied_embeddings=True)
BATCH = Batch(micro_batch=2, micro_batches=3, seq_len=16)


def test_parameters_of_llama_are_those_of_its_model_card() -> None:
    assert model_parameters(LLAMA2_7B) == 6_738_415_616
    assert model_parameters(LLAMA3_8B) == 8_030_261_248


def test_stages_hold_every_layer_and_the_last_has_the_head() -> None:
    # 4 stages of 8 layers; the last adds 32000 x 4096 of the head and the norm's 4096.
    expected = 8 * layer_parameters(LLAMA2_7B) + 32000 * 4096 + 4096
    assert largest_stage_parameters(LLAMA2_7B, 4) == expected


def test_a_tied_embedding_is_multiplied_once() -> None:
    assert largest_stage_parameters(SMALL, 1, multiplied=True) == model_parameters(SMALL)


def test_one_card_sends_nothing() -> None:
    assert communication(Layout(1, 1, 1), SMALL, BATCH, WIDTHS["fp32"], 8) == ()


def test_ddp_reduces_every_gradient_once_a_step() -> None:
    (call,) = communication(Layout(8, 1, 1), LLAMA2_7B, BATCH, WIDTHS["bf16"], 8)
    assert (call.op, call.times, call.hides_behind) == ("all_reduce", 1, BACKWARD)
    assert call.size_bytes == 4 * 6_738_415_616  # gradients stay in FP32 under autocast


def test_fsdp_gathers_twice_a_micro_batch_and_scatters_once() -> None:
    gathers, scatters = communication(Layout(8, 1, 1), LLAMA2_7B, BATCH, WIDTHS["bf16"], 8, FULL_SHARD)
    assert (gathers.op, gathers.hides_behind) == ("all_gather", PASSES)
    assert gathers.size_bytes * gathers.times == pytest.approx(2 * 3 * 2 * 6_738_415_616)
    assert (scatters.op, scatters.hides_behind) == ("reduce_scatter", BACKWARD)
    assert scatters.size_bytes * scatters.times == pytest.approx(4 * 6_738_415_616)


def test_fsdp_that_keeps_its_parameters_gathers_once_a_micro_batch() -> None:
    gathers, _ = communication(Layout(8, 1, 1), SMALL, BATCH, WIDTHS["fp32"], 8, FULL_SHARD, False)
    assert gathers.size_bytes * gathers.times == pytest.approx(3 * 4 * model_parameters(SMALL))


def test_tensor_parallel_reduces_each_layers_activations_four_times_a_micro_batch() -> None:
    (call,) = communication(Layout(1, 2, 1), SMALL, BATCH, WIDTHS["fp32"], 8)
    assert (call.op, call.hides_behind) == ("all_reduce", NOTHING)
    assert call.times == 4 * 4 * 3
    assert call.size_bytes == 2 * 16 * 64 * 4


def test_a_pipeline_sends_activations_and_their_gradients_once_a_micro_batch() -> None:
    (call,) = communication(Layout(1, 1, 2), SMALL, BATCH, WIDTHS["fp32"], 8)
    assert (call.op, call.times) == ("send_recv", 2 * 3)
    assert call.size_bytes == 2 * 16 * 64 * 4


def test_data_parallel_over_tensor_parallel_reduces_a_tensor_ranks_share_across_nodes() -> None:
    tensor = next(c for c in communication(Layout(4, 8, 1), LLAMA2_7B, BATCH, WIDTHS["fp32"], 8) if c.of.ranks == 8)
    data = next(c for c in communication(Layout(4, 8, 1), LLAMA2_7B, BATCH, WIDTHS["fp32"], 8) if c.of.ranks == 4)
    assert (tensor.of.nodes, data.of.nodes) == (1, 4)
    assert data.size_bytes == 4 * 6_738_415_616 / 8
