"""Resolving a cell: batch arithmetic, refusals, and the id."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from configs.cell import Cell, from_dict, to_dict
from configs.errors import ConfigError

CellOf = Callable[..., Cell]


@pytest.mark.parametrize("cards", [1, 2, 4, 8])
@pytest.mark.parametrize("mode", ["ddp", "fsdp", "tp", "pp"])
def test_strong_scaling_keeps_the_global_batch_to_the_token(cell_of: CellOf, mode: str, cards: int) -> None:
    cell = cell_of(f"mode={mode}", f"cards={cards}")
    assert cell.global_batch == cell.micro_batch * cell.grad_accum * cell.layout.dp == 16
    assert cell.global_batch_tokens == 16 * 128


@pytest.mark.parametrize("cards", [1, 2, 4])
def test_weak_scaling_keeps_the_batch_per_card(cell_of: CellOf, cards: int) -> None:
    assert cell_of("mode=ddp", f"cards={cards}", "scaling=weak").global_batch == 16 * cards


@pytest.mark.parametrize(("batch", "cards", "nearest"), [(100, 8, "96 or 112"), (32, 3, "30 or 36"), (2, 4, "8")])
def test_a_batch_that_does_not_share_out_is_refused_with_the_nearest(
    cell_of: CellOf, batch: int, cards: int, nearest: str
) -> None:
    with pytest.raises(ConfigError, match=f"{batch} sequences do not share out over dp={cards}.*nearest: {nearest}$"):
        cell_of("mode=ddp", f"cards={cards}", f"global_batch={batch}")


def test_fewer_micro_batches_than_stages_are_refused(cell_of: CellOf) -> None:
    with pytest.raises(ConfigError, match="2 micro-batches for pp=4 stages .*at least 4: raise global_batch to 8"):
        cell_of("mode=pp", "cards=4", "global_batch=4")


def test_the_id_does_not_depend_on_how_long_we_are_willing_to_wait(cell_of: CellOf) -> None:
    assert cell_of("mode=ddp").cell_id == cell_of("mode=ddp", "measure.step_timeout_s=7").cell_id


@pytest.mark.parametrize("change", ["seq_len=64", "mode=fsdp", "cluster.threads_per_rank=2", "repeat=1", "data.seed=3"])
def test_the_id_depends_on_what_is_measured(cell_of: CellOf, change: str) -> None:
    assert cell_of("mode=ddp").cell_id != cell_of("mode=ddp", change).cell_id


def test_the_id_is_a_plain_short_folder_name_whatever_the_model_is_called(cell_of: CellOf) -> None:
    cell = cell_of(f"model.name='{'a/b, [c]=' * 40}'")
    assert "/" not in cell.cell_id
    assert len(cell.cell_id) <= 75


def test_a_cell_survives_the_trip_to_its_ranks(cell_of: CellOf) -> None:
    cell = cell_of("mode=tp", "cards=4", "+cluster.env.NCCL_IB_HCA='mlx5_0,mlx5_1:1'")
    assert from_dict(Cell, json.loads(json.dumps(to_dict(cell)))) == cell
    assert cell.cluster.env == {"NCCL_IB_HCA": "mlx5_0,mlx5_1:1"}


def test_an_unknown_field_of_a_cell_is_named(cell_of: CellOf) -> None:
    data = to_dict(cell_of())
    data["recipe"]["learing_rate"] = 1
    with pytest.raises(ConfigError, match="recipe: 'learing_rate' is unknown; did you mean learning_rate"):
        from_dict(Cell, data)


def test_a_model_folder_without_a_config_is_refused(cell_of: CellOf, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="has no config.json"):
        cell_of(f"model.path={tmp_path}")


def test_a_model_folder_gives_its_own_config_and_name(cell_of: CellOf, tmp_path: Path) -> None:
    config = {
        "model_type": "llama",
        "hidden_size": 32,
        "num_attention_heads": 4,
        "num_hidden_layers": 2,
        "intermediate_size": 64,
        "vocab_size": 264,
    }
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "config.json").write_text(json.dumps(config))
    cell = cell_of(f"model.path={tmp_path / 'mine'}")
    assert (cell.model.name, cell.shape.layers, cell.shape.head_dim) == ("mine", 2, 8)


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["seq_len=1"], "seq_len: 1 is out of range"),
        (["seq_len=4096"], "seq_len: 4096 is out of range; 2 to 2048"),
        (["scaling=wek"], "scaling: 'wek' is unknown; did you mean weak"),
        (["recipe.precision=fp23"], "recipe.precision: 'fp23' is unknown"),
        (["measure.max_steps=0"], "measure.max_steps: 0"),
        (["measure.max_seconds=0"], "measure.max_seconds: 0"),
        (["micro_batch=0"], "micro_batch: 0 is not a batch size"),
        (["cards=6", "cluster.nodes=4", "global_batch=12"], "cluster.nodes: 6 cards do not share out over 4 nodes"),
        (["cluster.threads_per_rank=0"], "cluster.threads_per_rank: 0"),
    ],
)
def test_wrong_values_are_refused_in_one_line(cell_of: CellOf, overrides: list[str], message: str) -> None:
    with pytest.raises(ConfigError) as error:
        cell_of(*overrides)
    assert str(error.value).startswith(message)
    assert "\n" not in str(error.value)


def test_every_part_of_a_cell_is_frozen(cell_of: CellOf) -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        cell_of().cards = 3  # type: ignore[misc]
