"""DeepSpeed ZeRO trains the same model on the same data as every other mode, in every stage, offload and recipe."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable

import pytest

pytestmark = pytest.mark.skipif(importlib.util.find_spec("deepspeed") is None, reason="deepspeed is not installed")

RunCell = Callable[..., object]
SMALL = ("model.config.num_hidden_layers=2", "model.config.hidden_size=32", "global_batch=8", "micro_batch=2")
CLIP = 0.1  # below every norm of these steps, so that clipping is always active
FP32, BF16 = 1e-5, 2e-2  # relative
TIED = "model.config.tie_word_embeddings=true"
_alone: dict[tuple[str, ...], dict] = {}


def loss(run_cell: RunCell, *overrides: str) -> dict:
    ending = run_cell(*SMALL, f"recipe.clip_norm={CLIP}", *overrides, steps=5)
    assert ending.error is None, ending.error
    return ending.measurement["loss"]


def alone(run_cell: RunCell, *overrides: str) -> dict:
    """The same job on one rank under torch."""
    if overrides not in _alone:
        _alone[overrides] = loss(run_cell, "mode=ddp", "cards=1", *overrides)
    return _alone[overrides]


@pytest.mark.parametrize(
    ("mode", "cards", "recipe"),
    [
        (("mode=zero1",), 2, ()),
        (("mode=zero2",), 4, (TIED,)),
        (("mode=zero3",), 4, (TIED,)),
        (("mode=zero2", "mode.offload=optimizer"), 2, ("recipe.optimizer=sgd", "recipe.learning_rate=0.02")),
        (("mode=zero3", "mode.offload=all"), 2, ("recipe.checkpointing=full",)),
        (("mode=zero3",), 2, ("recipe=lora", "recipe.learning_rate=0.01")),
        (("mode=zero2",), 2, ("recipe=lora", "recipe.learning_rate=0.01")),
    ],
)
def test_losses_and_norms_are_those_of_one_rank(
    run_cell: RunCell, mode: tuple[str, ...], cards: int, recipe: tuple[str, ...]
) -> None:
    one = alone(run_cell, *recipe)
    many = loss(run_cell, *mode, f"cards={cards}", *recipe)
    assert min(one["gradient_norms"]) > CLIP
    assert many["gradient_norms"] == pytest.approx(one["gradient_norms"], rel=1e-4)
    assert many["steps"] == pytest.approx(one["steps"], rel=FP32)


@pytest.mark.parametrize("mode", ["zero2", "zero3"])
@pytest.mark.parametrize("recipe", [("bf16", "fp32"), ("bf16_pure", "bf16")])
def test_a_short_precision_stays_near_fp32(run_cell: RunCell, recipe: tuple[str, str], mode: str) -> None:
    precision, states = recipe
    words = (f"recipe.precision={precision}", f"recipe.state_dtype={states}")
    many = loss(run_cell, f"mode={mode}", "cards=2", *words)
    assert many["steps"] == pytest.approx(alone(run_cell)["steps"], rel=BF16)
