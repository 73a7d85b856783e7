"""Recipes: optimizers, precisions, checkpointing, clipping, adapters, padding. The same losses under every mode."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

RunCell = Callable[..., object]
SMALL = ("model.config.num_hidden_layers=2", "model.config.hidden_size=32", "global_batch=8", "micro_batch=2")
FP32, BF16 = 1e-5, 2e-2  # relative
_alone: dict[tuple[str, ...], dict] = {}


def loss(run_cell: RunCell, *overrides: str, steps: int = 5) -> dict:
    ending = run_cell(*SMALL, *overrides, steps=steps)
    assert ending.error is None, ending.error
    return ending.measurement["loss"]


def alone(run_cell: RunCell, *overrides: str) -> dict:
    """The same job on one rank."""
    if overrides not in _alone:
        _alone[overrides] = loss(run_cell, "mode=ddp", "cards=1", *overrides)
    return _alone[overrides]


MODES = [("ddp", 2), ("fsdp", 2), ("tp", 2), ("pp", 2), ("dp2_tp2_pp2", 8)]


@pytest.mark.parametrize(("mode", "cards"), MODES)
def test_the_gradient_norm_is_that_of_the_whole_model_and_clipping_is_active(
    run_cell: RunCell, mode: str, cards: int
) -> None:
    clipped = ("recipe.clip_norm=0.1",)
    one = alone(run_cell, *clipped)
    many = loss(run_cell, f"mode={mode}", f"cards={cards}", *clipped)
    assert min(one["gradient_norms"]) > 0.1
    assert many["gradient_norms"] == pytest.approx(one["gradient_norms"], rel=1e-4)
    assert many["steps"] == pytest.approx(one["steps"], rel=FP32)


@pytest.mark.parametrize("optimizer", ["sgd", "adafactor"])
@pytest.mark.parametrize(("mode", "cards"), MODES)
def test_an_optimizer_trains_alike_in_every_mode(run_cell: RunCell, optimizer: str, mode: str, cards: int) -> None:
    recipe = (f"recipe.optimizer={optimizer}", "recipe.learning_rate=0.02")
    many = loss(run_cell, f"mode={mode}", f"cards={cards}", *recipe)
    assert many["steps"] == pytest.approx(alone(run_cell, *recipe)["steps"], rel=FP32)


@pytest.mark.parametrize("checkpointing", ["selective", "full"])
@pytest.mark.parametrize(("mode", "cards"), MODES)
def test_checkpointing_changes_no_loss(run_cell: RunCell, checkpointing: str, mode: str, cards: int) -> None:
    many = loss(run_cell, f"mode={mode}", f"cards={cards}", f"recipe.checkpointing={checkpointing}")
    assert many["steps"] == pytest.approx(alone(run_cell)["steps"], rel=FP32)


@pytest.mark.parametrize("recipe", [("bf16", "fp32"), ("bf16_pure", "bf16"), ("bf16_pure", "fp32"), ("fp16", "fp32")])
@pytest.mark.parametrize(("mode", "cards"), MODES)
def test_a_short_precision_stays_near_fp32(run_cell: RunCell, recipe: tuple[str, str], mode: str, cards: int) -> None:
    precision, states = recipe
    many = loss(
        run_cell, f"mode={mode}", f"cards={cards}", f"recipe.precision={precision}", f"recipe.state_dtype={states}"
    )
    assert many["steps"] == pytest.approx(alone(run_cell)["steps"], rel=BF16)
    assert many["skipped_steps"] == 0


@pytest.mark.parametrize("sequence_parallel", ["false", "true"])
def test_adapters_split_with_their_matrices_train_as_one_rank_does(run_cell: RunCell, sequence_parallel: str) -> None:
    lora = ("recipe=lora", "recipe.lora_targets=[q_proj,o_proj,down_proj,up_proj]", "recipe.learning_rate=0.01")
    many = loss(run_cell, "mode=tp", "cards=2", f"mode.sequence_parallel={sequence_parallel}", *lora)
    assert many["steps"] == pytest.approx(alone(run_cell, *lora)["steps"], rel=FP32)
    assert many["gradient_norms"] == pytest.approx(alone(run_cell, *lora)["gradient_norms"], rel=1e-4)


@pytest.mark.parametrize(("mode", "cards"), [mode for mode in MODES if mode[0] != "tp"])
def test_lora_trains_alike_in_every_mode(run_cell: RunCell, mode: str, cards: int) -> None:
    lora = ("recipe=lora", "recipe.learning_rate=0.01")
    many = loss(run_cell, f"mode={mode}", f"cards={cards}", *lora)
    one = alone(run_cell, *lora)
    assert many["steps"] == pytest.approx(one["steps"], rel=FP32)
    assert one["steps"][-1] < one["steps"][0] - 0.01


@pytest.mark.parametrize(("mode", "cards"), [("ddp", 1), ("fsdp", 2), ("pp", 2)])
def test_frozen_weights_in_bf16_carry_adapters_in_fp32(run_cell: RunCell, mode: str, cards: int) -> None:
    lora = ("recipe=lora", "recipe.learning_rate=0.01")
    many = loss(run_cell, f"mode={mode}", f"cards={cards}", "recipe.precision=bf16", *lora)
    assert many["steps"] == pytest.approx(alone(run_cell, *lora)["steps"], rel=BF16)


@pytest.fixture(scope="module")
def short_texts(tmp_path_factory: pytest.TempPathFactory) -> str:
    """40 documents of 8 to 47 bytes: with their end, 9 to 48 tokens, of which the last 8 to 47 are targets."""
    file = tmp_path_factory.mktemp("texts") / "short.jsonl"
    file.write_text("".join(json.dumps({"text": ("the text of a document " * 3)[: 8 + n]}) + "\n" for n in range(40)))
    return str(file)


@pytest.mark.parametrize(("mode", "cards"), MODES)
def test_padding_enters_neither_the_loss_nor_the_rate(
    run_cell: RunCell, short_texts: str, mode: str, cards: int
) -> None:
    """All 40 rows are measured in five steps of 8, the first as warm-up; targets: the sum of 8 to 47 is 1100."""
    padded = ("data.packing=false", f"data.text={short_texts}", "seq_len=48")
    ending = run_cell(*SMALL, f"mode={mode}", f"cards={cards}", *padded)
    assert ending.error is None, ending.error
    assert ending.measurement["loss"]["steps"] == pytest.approx(alone(run_cell, *padded)["steps"], rel=FP32)
    assert ending.measurement["workload"]["data_set_tokens"] == 1100
    rate = ending.measurement["throughput"]
    assert 0.4 < rate["useful_token_fraction"] < 0.75
    assert rate["positions_per_s"] * rate["step_time_s"]["median"] == pytest.approx(8 * 48, rel=1e-12)
    assert rate["tokens_per_s"] == pytest.approx(rate["positions_per_s"] * rate["useful_token_fraction"], rel=1e-12)


@pytest.mark.parametrize("attention", ["eager", "sdpa"])
def test_the_attention_implementation_changes_no_loss(run_cell: RunCell, attention: str) -> None:
    many = loss(run_cell, "mode=tp", "cards=2", f"recipe.attention={attention}")
    assert many["steps"] == pytest.approx(alone(run_cell)["steps"], rel=FP32)
