from __future__ import annotations

import math

import pandas as pd
import pytest

from analysis.steptime import Job
from analysis.steptime.communication import Batch
from analysis.steptime.plan import plan_job
from analysis.steptime.unmeasured import predict_from_matmul
from configs.cell import Cell, resolve
from configs.compose import compose_config
from configs.errors import ConfigError
from configs.schema import Machine, Mode, WhatIf

CARD = Machine("card", "cuda", memory_gbps=1000.0, intra_node_gbps=100.0, inter_node_gbps=10.0)


def products(dtype: str = "fp32", tflops: float = 0.01) -> pd.DataFrame:
    """Squares that all reach `tflops`."""
    sides = (256, 512, 1024)
    rows = [{"device": "card", "dtype": dtype, "m": n, "n": n, "k": n} for n in sides]
    return pd.DataFrame(rows).assign(time_us=[2 * n**3 / tflops / 1e6 for n in sides])


def one_card(*overrides: str) -> Cell:
    return resolve(compose_config(["cards=1", *overrides]))


def job(cell: Cell) -> Job:
    batch = Batch(cell.micro_batch, cell.grad_accum, cell.seq_len)
    return plan_job(cell.shape, cell.mode, cell.layout, cell.recipe, batch, 8)


def test_one_card_takes_its_flops_at_the_share_of_the_products_rate_that_a_step_reaches() -> None:
    cell = one_card()
    table, skipped = predict_from_matmul(products(), cell, [Mode("ddp")], [1], None, CARD, WhatIf())
    own = job(cell)
    step = own.micro_batches * (own.flops / (0.01e12 * 0.9) + own.memory_bytes / (1e12 * 0.8)) + 0.015
    step += own.parameters * own.optimizer_bytes / (1e12 * 0.8)
    row = table.iloc[0]
    assert row["tokens_per_s"] == pytest.approx(16 * 128 / step, rel=1e-6)
    assert row["efficiency"] == pytest.approx(1.0)
    assert row["method"] == "step-time model, no step measured, compute from 3 matrix products in fp32"
    assert row["relative_to"] == "relative to 1 card, predicted"
    assert skipped == []


def test_every_asked_mode_is_predicted_with_an_interval_that_admits_how_little_is_known() -> None:
    modes = [Mode("ddp"), Mode("fsdp", shard="full"), Mode("tp", tp=None, dp=1)]
    table, skipped = predict_from_matmul(products(), one_card(), modes, [8, 16], None, CARD, WhatIf())
    assert list(zip(table["mode"], table["cards"], strict=True)) == [
        ("ddp", 8),
        ("ddp", 16),
        ("fsdp", 8),
        ("fsdp", 16),
        ("tp", 8),
    ]
    assert (table["high"] / table["low"] > math.exp(2 * 1.96 * 0.1)).all()
    assert (table["efficiency"] < 1).all()
    assert len(skipped) == 1


def test_products_of_another_type_say_nothing() -> None:
    with pytest.raises(ConfigError, match="not three products of fp32; measured: bf16"):
        predict_from_matmul(products("bf16"), one_card(), [Mode("ddp")], [8], None, CARD, WhatIf())


def test_a_recipe_without_terms_is_refused() -> None:
    with pytest.raises(ConfigError, match="no terms for recipe.method=lora"):
        predict_from_matmul(products(), one_card("recipe=lora"), [Mode("ddp")], [8], None, CARD, WhatIf())
