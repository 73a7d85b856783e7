"""How long pricing and deciding take at the sizes people ask for; `make bench` compares them between versions."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pandas as pd
import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from analysis.cost import cost_table
from analysis.decision import Constraints, decide
from analysis.prices import UNITS, Quote

pytestmark = pytest.mark.bench
Quotes = Callable[..., Quote]


@pytest.fixture(scope="module")
def twenty_tiers(quote_of: Quotes) -> Quote:
    return quote_of(
        *({"name": f"t{i}", "unit": UNITS[i % 4], "price": [20 + i, 30 + i], "cards_per_node": 8} for i in range(20))
    )


def many_cells(count: int) -> pd.DataFrame:
    random = np.random.default_rng(0)
    return pd.DataFrame(
        {
            "cell_id": [f"c{i}" for i in range(count)],
            "parallel.mode": random.choice(["ddp", "fsdp", "tp"], count),
            "parallel.cards": random.choice([1, 2, 4, 8, 16], count),
            "throughput.tokens_per_s": random.uniform(1000, 9000, count),
            "status": random.choice(["ok", "predicted"], count),
            "device.name": "NVIDIA A100-SXM4-80GB",
        }
    )


def test_a_thousand_cells_at_twenty_tiers_are_priced(benchmark: BenchmarkFixture, twenty_tiers: Quote) -> None:
    table = benchmark(cost_table, many_cells(1000), [twenty_tiers], 3.6e7, 10)
    assert len(table) == 20_000


def test_a_decision_over_a_hundred_thousand_pairs_is_made(benchmark: BenchmarkFixture, twenty_tiers: Quote) -> None:
    table = cost_table(many_cells(5000), [twenty_tiers], 3.6e7, 10)
    decision = benchmark(decide, table, Constraints(deadline_hours=30, budget=8000))
    assert len(decision.cells) == 100_000
    assert decision.chosen is not None
