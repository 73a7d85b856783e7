"""Real weights: streamed from safetensors into every mode, refused where they are not whole."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from transformers import AutoModelForCausalLM, LlamaConfig, LlamaForCausalLM

from benchmarks.training import data
from configs.cell import Cell
from configs.errors import ConfigError

RunCell = Callable[..., object]
CellOf = Callable[..., Cell]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny Llama as transformers saves it, in several files, with a norm that no random start would have."""
    path = tmp_path_factory.mktemp("weights") / "small_llama"
    config = LlamaConfig(
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=4,
        num_attention_heads=4,
        vocab_size=264,
        max_position_embeddings=64,
        tie_word_embeddings=True,
    )
    torch.manual_seed(3)
    model = LlamaForCausalLM(config)
    for name, parameter in model.named_parameters():
        if "norm" in name:
            torch.nn.init.uniform_(parameter, 0.5, 1.5)
    model.save_pretrained(path, max_shard_size="40KB")
    assert len(list(path.glob("*.safetensors"))) > 2
    return path


@pytest.mark.parametrize("mode", ["ddp", "fsdp", "tp", "pp", "dp2_tp2"])
def test_the_first_loss_is_that_of_transformers(run_cell: RunCell, folder: Path, mode: str) -> None:
    whole = AutoModelForCausalLM.from_pretrained(folder)
    rows = data.load(data.Data(), 16).rows[:8]
    with torch.no_grad():
        expected = F.cross_entropy(whole(rows[:, :-1]).logits.flatten(0, 1), rows[:, 1:].flatten()).item()
    cards = 4 if mode == "dp2_tp2" else 2
    ending = run_cell(
        f"mode={mode}", f"cards={cards}", f"model.path={folder}", "model.init=pretrained", "global_batch=8", steps=2
    )
    assert ending.error is None
    assert ending.measurement["loss"]["first"] == pytest.approx(expected, rel=1e-5)


def damaged(folder: Path, tmp_path: Path, damage: Callable[[Path], None]) -> Path:
    """A copy of `folder` by links, with one damage done to it."""
    copy = tmp_path / "copy"
    copy.mkdir()
    for file in folder.iterdir():
        os.link(file, copy / file.name)
    damage(copy)
    return copy


def _remove_a_shard(path: Path) -> None:
    sorted(path.glob("*.safetensors"))[1].unlink()


def _cut_a_shard(path: Path) -> None:
    shard = sorted(path.glob("*.safetensors"))[1]
    content = shard.read_bytes()
    shard.unlink()
    shard.write_bytes(content[:-100])


def _replace_a_shard(path: Path) -> None:
    shard = sorted(path.glob("*.safetensors"))[1]
    shard.unlink()
    shard.write_bytes(b"<html>not found</html>")


def _name_a_stranger(path: Path) -> None:
    index = path / "model.safetensors.index.json"
    content = json.loads(index.read_text())
    content["weight_map"]["model.stranger"] = next(iter(content["weight_map"].values()))
    index.unlink()
    index.write_text(json.dumps(content))


def _remove_all(path: Path) -> None:
    for file in path.glob("*.safetensors*"):
        file.unlink()


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (_remove_a_shard, "lacks 1 of its files: model-00002"),
        (_cut_a_shard, "is cut short"),
        (_replace_a_shard, "is no safetensors file, or is cut short"),
        (_name_a_stranger, "does not hold model.stranger"),
        (_remove_all, "holds no model.safetensors nor model.safetensors.index.json"),
    ],
)
def test_weights_that_are_not_whole_are_refused_before_anything_starts(
    cell_of: CellOf, folder: Path, tmp_path: Path, damage: Callable[[Path], None], message: str
) -> None:
    copy = damaged(folder, tmp_path, damage)
    with pytest.raises(ConfigError, match=message):
        cell_of(f"model.path={copy}", "model.init=pretrained", "seq_len=16")


def test_pretrained_without_a_folder_is_refused(cell_of: CellOf) -> None:
    with pytest.raises(ConfigError, match="model.init: 'pretrained' needs the weights; model.path=FOLDER"):
        cell_of("model.init=pretrained")
