"""How long the analysis of a large study takes, and the what-if grids; each printed with its rate."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from analysis.predict import predict
from analysis.scaling import scaling_table
from analysis.scaling.repeats import compare_modes, repeat_table
from analysis.scaling.steadiness import steadiness_table
from analysis.steptime.communication import Batch
from analysis.steptime.plan import machine_rates, plan_job, predict_steps
from configs.layout import Layout, ModelShape
from configs.schema import Machine, Mode, Recipe

RECORDS = 100_000


def study(records: int) -> pd.DataFrame:
    """Finished cells of 3,000 models in two modes on 1 to 8 cards, with 50 steps each."""
    rng = np.random.default_rng(0)
    cards = rng.choice([1, 2, 4, 8], records)
    return pd.DataFrame(
        {
            "cell_id": [str(i) for i in range(records)],
            "status": "ok",
            "workload.model": rng.choice([f"model{i}" for i in range(3000)], records),
            "workload.scaling": "weak",
            "workload.global_batch_tokens": cards * 4096,
            "parallel.mode": rng.choice(["ddp", "tp"], records),
            "parallel.cards": cards,
            "throughput.tokens_per_s": cards * rng.uniform(900, 1000, records),
            "throughput.step_time_s.median": 1.0,
            "throughput.step_time_s.ci95_low": 0.99,
            "throughput.step_time_s.ci95_high": 1.01,
            "throughput.step_time_s.cv": 0.02,
            "throughput.step_times_s": list(1 + 0.02 * rng.standard_normal((records, 50))),
        }
    )


@pytest.mark.bench
@pytest.mark.benchmark(group=f"analysis of a study of {RECORDS} records")
@pytest.mark.parametrize("table", [scaling_table, repeat_table, compare_modes, steadiness_table])
def test_analysis_of_a_large_study(benchmark: BenchmarkFixture, table: object) -> None:
    frame = study(RECORDS)
    found = benchmark.pedantic(table, args=(frame,), rounds=3)
    assert len(found) > 0


@pytest.mark.bench
@pytest.mark.benchmark(group="what-if of 10,000 points")
def test_step_time_of_ten_thousand_cells(benchmark: BenchmarkFixture) -> None:
    shape = ModelShape(32, 4096, 32, 8, 128, 14336, 128256, tied_embeddings=False)
    machine = Machine("h100", "cuda", [], 80, {"bf16": 989.4}, 3350, "NVLink", 450, 50, 8)
    rates, network, _ = machine_rates(machine, "bf16")

    def grid() -> pd.DataFrame:
        layouts = [Layout(2 ** (i % 8), 2 ** (i % 4), 1) for i in range(10_000)]
        mode, recipe = Mode("fsdp", shard="full"), Recipe(precision="bf16")
        batches = [Batch(2, 1 + i % 4, 4096) for i in range(10_000)]
        jobs = [plan_job(shape, mode, at, recipe, batch, 8) for at, batch in zip(layouts, batches, strict=True)]
        return predict_steps(jobs, rates, network)

    assert len(benchmark.pedantic(grid, rounds=3)) == 10_000


@pytest.mark.bench
@pytest.mark.benchmark(group="what-if of 10,000 points")
def test_prediction_of_ten_thousand_counts(benchmark: BenchmarkFixture) -> None:
    frame = pd.DataFrame(
        {"parallel.mode": "ddp", "parallel.cards": [1, 2, 4], "throughput.tokens_per_s": [100.0, 190.0, 370.0]}
    )
    counts = list(range(1, 10_001))
    assert len(benchmark.pedantic(predict, args=(frame, counts), rounds=3)) == 10_000
