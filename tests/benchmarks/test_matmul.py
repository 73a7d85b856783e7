"""The matmul benchmark on real ranks, and what its products are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from benchmarks.matmul import FORWARD, INPUT_GRADIENT, WEIGHT_GRADIENT, layer_products, operands
from benchmarks.registry import BENCHMARKS
from configs.cell import Cell
from configs.errors import ConfigError
from configs.layout import ModelShape
from configs.matmul import check_matmul
from configs.schema import Matmul
from results.flops import model_flops_per_token

SHAPE = ModelShape(3, 64, 8, 2, 8, 176, 264, tied_embeddings=False)
CALLS = ("benchmark=matmul", "cards=2", "seq_len=16", "benchmark.matmul.squares=[32]", "benchmark.matmul.iters=5")


def test_every_product_has_a_rate_and_its_interval(ranks_pool: Any, cell_of: Callable[..., Cell]) -> None:
    cell = cell_of(*CALLS, "benchmark.matmul.dtypes=[fp32,bf16]", "machine.peak_tflops={fp32:1}")
    rows = ranks_pool.run(cell, BENCHMARKS["matmul"]).measurement["matmul"]
    assert len(rows) == 2 * (6 * 3 + 1)
    for row in rows:
        assert row["tflops"] == pytest.approx(2 * row["m"] * row["n"] * row["k"] / row["time_us"] / 1e6)
        assert 0 < row["tflops_low"] <= row["tflops"] <= row["tflops_high"]
    assert [row["share_of_peak"] == row["tflops"] for row in rows] == [True] * 19 + [False] * 19
    assert {row["share_of_peak"] for row in rows[19:]} == {None}  # the peak in bf16 is not stated


def test_the_products_of_a_micro_batch_are_the_models_flops_without_attention_scores() -> None:
    """6 N a token, N: the weights of three layers' projections and gated MLP and of the head."""
    weights = 3 * (2 * 64 * 64 + 2 * 64 * 16 + 3 * 64 * 176) + 64 * 264
    total = sum(product.calls * product.flops for product in layer_products(SHAPE, 32))
    assert total == 6 * weights * 32 == model_flops_per_token(weights, 0, 3, 64, 0) * 32


@pytest.mark.parametrize("role", [FORWARD, INPUT_GRADIENT, WEIGHT_GRADIENT])
def test_factors_have_the_shapes_and_strides_that_a_linear_layer_multiplies(role: str) -> None:
    inputs, weight = torch.randn(32, 64, requires_grad=True), torch.randn(176, 64, requires_grad=True)
    product = next(p for p in layer_products(SHAPE, 32) if p.shape == "gate, up" and p.role == role)
    left, right = operands(product, torch.float32, torch.device("cpu"))
    gradient = torch.randn(32, 176)
    expected = {
        FORWARD: (inputs, weight.t()),
        INPUT_GRADIENT: (gradient, weight),
        WEIGHT_GRADIENT: (gradient.t(), inputs),
    }[role]
    assert [(t.shape, t.stride()) for t in (left, right)] == [(t.shape, t.stride()) for t in expected]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (Matmul(dtypes=["fp8"]), "benchmark.matmul.dtypes: 'fp8' is unknown"),
        (Matmul(squares=[0]), "benchmark.matmul.squares: 0 is no side"),
        (Matmul(squares=[], layers=False), "benchmark.matmul: layers is off and squares is empty"),
        (Matmul(iters=0), "benchmark.matmul.iters: 0 is no number"),
        (Matmul(max_seconds_per_shape=0), "benchmark.matmul.max_seconds_per_shape: 0 is no time"),
    ],
)
def test_what_cannot_be_measured_is_refused(settings: Matmul, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        check_matmul(settings)
