"""Every mode at every count trains the same model on the same data: losses are those of plain torch on one card."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F

from benchmarks.training import data
from benchmarks.training.model import build_on_meta, materialise, seeded_source, transformers_config
from benchmarks.training.weights import WEIGHT_SEED

STEPS = 5
TOLERANCE = 1e-5


@pytest.fixture(scope="module")
def plain_losses() -> list[float]:
    """One process, no wrapper, the whole batch at once, torch's own clipping: what the losses have to be."""
    from tests.conftest import make_cell

    cell = make_cell("seq_len=16")
    config = transformers_config(cell.model)
    model = build_on_meta(config, range(config.num_hidden_layers), torch.float32, "sdpa")
    source = seeded_source(model, WEIGHT_SEED, config.initializer_range)
    materialise(model, config, source, torch.device("cpu"))
    optimizer = torch.optim.AdamW(model.parameters(), lr=cell.recipe.learning_rate, weight_decay=0.0)
    packed = data.load(cell.data, cell.seq_len, cell.model.path)
    losses = []
    for step in range(STEPS):
        rows = packed.rows[step * 16 : (step + 1) * 16]
        loss = F.cross_entropy(model(input_ids=rows[:, :-1]).logits.flatten(0, 1), rows[:, 1:].flatten())
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    return losses


@pytest.mark.parametrize("cards", [1, 2, 4, 8])
@pytest.mark.parametrize("mode", ["ddp", "fsdp", "tp", "pp"])
def test_losses_are_those_of_plain_torch(
    run_cell: Callable[..., object], plain_losses: list[float], mode: str, cards: int
) -> None:
    # under tp every micro-batch is dozens of collectives, which eight ranks on two cores pay for
    micro_batch = 16 if mode == "tp" else 2
    ending = run_cell(f"mode={mode}", f"cards={cards}", f"micro_batch={micro_batch}", steps=STEPS)
    assert ending.error is None
    losses = ending.measurement["loss"]["steps"]
    assert losses == pytest.approx(plain_losses, rel=TOLERANCE)
    assert losses[-1] < losses[0] - 0.1


def test_the_throughput_times_the_median_step_is_the_global_batch(run_cell: Callable[..., object]) -> None:
    """Two ranks, micro-batch 2, sequence 16, accumulation 4: 256 tokens a step, whatever the step takes."""
    ending = run_cell("mode=ddp", "cards=2", "micro_batch=2", "global_batch=16")
    rate = ending.measurement["throughput"]
    assert rate["tokens_per_s"] * rate["step_time_s"]["median"] == pytest.approx(256, rel=1e-12)
    assert rate["tokens_per_s_per_card"] == pytest.approx(rate["tokens_per_s"] / 2)


@pytest.mark.parametrize("mode", ["tp", "pp"])
def test_ranks_of_one_replica_do_not_multiply_the_tokens(run_cell: Callable[..., object], mode: str) -> None:
    ending = run_cell(f"mode={mode}", "cards=2", "micro_batch=8")
    rate = ending.measurement["throughput"]
    assert rate["tokens_per_s"] * rate["step_time_s"]["median"] == pytest.approx(256, rel=1e-12)


def test_every_rank_reports_its_memory(run_cell: Callable[..., object]) -> None:
    memory = run_cell("mode=fsdp", "cards=4").measurement["memory"]
    assert len(memory["by_rank"]) == 4
    assert memory["device_used_gib"] == max(rank["device_used_gib"] for rank in memory["by_rank"]) > 0.05


def test_tied_embeddings_train_alike_on_one_stage_and_on_two(run_cell: Callable[..., object]) -> None:
    tied = ("model.config.tie_word_embeddings=true", "model.config.num_hidden_layers=2")
    alone = run_cell("mode=pp", "cards=1", *tied).measurement["loss"]["steps"]
    assert run_cell("mode=pp", "cards=2", *tied).measurement["loss"]["steps"] == pytest.approx(alone, rel=TOLERANCE)
    assert run_cell("mode=tp", "cards=2", *tied).measurement["loss"]["steps"] == pytest.approx(alone, rel=TOLERANCE)
