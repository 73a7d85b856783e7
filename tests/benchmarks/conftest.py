"""Real ranks for the tests of what a cell computes: warm ones that many cells share."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from configs.cell import resolve
from configs.compose import compose_config
from tests.benchmarks.ranks_pool import Ended, RanksPool

# One warm-up step and a bound on the steps, so that a cell takes as many as a test asks for.
SHORT = (
    "seq_len=16",
    "measure.warmup_steps=1",
    "measure.max_warmup_steps=1",
    "measure.rel_ci=0",
    "measure.profile_steps=0",
)


@pytest.fixture(scope="module")
def ranks_pool(_warm: None) -> Iterator[RanksPool]:
    pool = RanksPool()
    yield pool
    pool.close()


@pytest.fixture
def run_cell(ranks_pool: RanksPool) -> Callable[..., Ended]:
    """run_cell("mode=tp", "cards=4", steps=5) measures that cell on real, shared ranks."""

    def run(*overrides: str, steps: int = 5) -> Ended:
        bounds = (f"measure.min_steps={steps - 1}", f"measure.max_steps={steps - 1}")
        return ranks_pool.run(resolve(compose_config([*SHORT, *bounds, *overrides])))

    return run
