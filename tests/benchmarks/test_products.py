"""Products of modes, pipeline schedules, uneven stages, sequence and loss parallelism: the same losses as one rank."""

from __future__ import annotations

from collections.abc import Callable

import pytest

RunCell = Callable[..., object]
SMALL = ("model.config.num_hidden_layers=4", "model.config.hidden_size=32", "global_batch=8", "micro_batch=2")
STEPS = 5
TOLERANCE = 1e-5
_alone: dict[tuple[str, ...], list[float]] = {}


def losses(run_cell: RunCell, *overrides: str) -> list[float]:
    ending = run_cell(*SMALL, *overrides, steps=STEPS)
    assert ending.error is None, ending.error
    return ending.measurement["loss"]["steps"]


def alone(run_cell: RunCell, *overrides: str) -> list[float]:
    """The same job on one rank."""
    if overrides not in _alone:
        _alone[overrides] = losses(run_cell, "mode=ddp", "cards=1", *overrides)
    return _alone[overrides]


@pytest.mark.parametrize(
    "mode",
    ["dp2_tp2", "ddp2_tp2", "dp2_pp2", "ddp2_pp2", "tp2_pp2", "dp2_tp2_pp2", "ddp2_tp2_pp2", "hsdp", "dp4_tp2"],
)
def test_a_product_trains_as_one_rank_does(run_cell: RunCell, mode: str) -> None:
    cards = {"dp2_tp2_pp2": 8, "ddp2_tp2_pp2": 8, "dp4_tp2": 8}.get(mode, 4)
    assert losses(run_cell, f"mode={mode}", f"cards={cards}") == pytest.approx(alone(run_cell), rel=TOLERANCE)


@pytest.mark.parametrize("schedule", ["gpipe", "1f1b", "interleaved", "zero_bubble"])
def test_a_schedule_trains_as_one_rank_does(run_cell: RunCell, schedule: str) -> None:
    got = losses(run_cell, "mode=pp", "cards=2", f"mode.schedule={schedule}")
    assert got == pytest.approx(alone(run_cell), rel=TOLERANCE)


def test_stages_of_unequal_length_train_as_one_rank_does(run_cell: RunCell) -> None:
    uneven = "model.config.num_hidden_layers=3"
    assert losses(run_cell, "mode=pp", "cards=2", uneven) == pytest.approx(alone(run_cell, uneven), rel=TOLERANCE)


@pytest.mark.parametrize("mode", ["tp2_pp2", "dp2_pp2", "dp2_tp2"])
def test_tied_embeddings_train_alike_in_products(run_cell: RunCell, mode: str) -> None:
    tied = "model.config.tie_word_embeddings=true"
    assert losses(run_cell, f"mode={mode}", "cards=4", tied) == pytest.approx(alone(run_cell, tied), rel=TOLERANCE)


@pytest.mark.parametrize(
    "options",
    [
        ("mode=tp", "mode.sequence_parallel=true"),
        ("mode=tp", "mode.loss_parallel=true"),
        ("mode=tp", "mode.sequence_parallel=true", "mode.loss_parallel=true"),
        ("mode=tp2_pp2", "mode.sequence_parallel=true", "mode.loss_parallel=true"),
        ("mode=dp2_tp2", "mode.sequence_parallel=true", "mode.loss_parallel=true"),
    ],
)
def test_options_of_tensor_parallelism_change_no_loss(run_cell: RunCell, options: tuple[str, ...]) -> None:
    cards = 2 if options[0] == "mode=tp" else 4
    assert losses(run_cell, f"cards={cards}", *options) == pytest.approx(alone(run_cell), rel=TOLERANCE)


@pytest.mark.parametrize("kind", ["qwen2", "mistral"])
@pytest.mark.parametrize("mode", ["tp", "pp", "fsdp"])
def test_other_architectures_need_no_code_of_their_own(run_cell: RunCell, kind: str, mode: str) -> None:
    model = (f"model.config.model_type={kind}", "model.config.num_key_value_heads=2")
    assert losses(run_cell, f"mode={mode}", "cards=2", *model) == pytest.approx(alone(run_cell, *model), rel=TOLERANCE)
