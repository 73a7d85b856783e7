"""What must hold for any price sheet and any cells, tried on many."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from analysis.cost import cost_table
from analysis.decision import Constraints, decide
from analysis.prices import Quote
from configs.schema import Costs

Cells = Callable[..., pd.DataFrame]
Quotes = Callable[..., Quote]
TOKENS = 3_600_000.0
MONEY = ["cost_per_epoch", "total_cost", "pure_total_cost", "cost_per_billion_tokens"]


@st.composite
def tier(draw: st.DrawFn) -> dict[str, Any]:
    """A tier of any kind with any of its options."""
    low = draw(st.floats(0.1, 1000))
    factor = draw(st.floats(0.3, 1.0))
    return {
        "unit": draw(st.sampled_from(["card_hour", "node_hour", "card_month", "node_month"])),
        "price": [low, low * draw(st.floats(1.0, 4.0))],
        "discount": [factor, draw(st.floats(factor, 1.0))],
        "cards_per_node": draw(st.sampled_from([1, 2, 4, 8])),
        "min_cards": draw(st.integers(1, 8)),
        "billing_unit_hours": draw(st.sampled_from([0, 1 / 60, 1, 24, 720])),
        "minimum_hours": draw(st.sampled_from([0, 1, 24])),
        "setup_hours": draw(st.floats(0, 5)),
        "egress_price_gb": draw(st.floats(0, 2)),
        "storage": {"price_gb_month": draw(st.floats(0, 1)), "read_gbps": draw(st.sampled_from([None, 0.5, 5]))},
        "interruptions_per_hour": draw(st.sampled_from([0, 0, 0.01, 0.1])),
    }


@st.composite
def cells(draw: st.DrawFn, cells_of: Cells) -> pd.DataFrame:
    rows = draw(st.lists(st.tuples(st.integers(1, 16), st.floats(10, 10_000)), min_size=1, max_size=6))
    rates = np.array([rate for _, rate in rows])
    return cells_of(
        *rows,
        **{
            "cell_id": [f"c{i}" for i in range(len(rows))],
            "throughput.tokens_per_s_low": rates * draw(st.floats(0.5, 1.0)),
            "throughput.tokens_per_s_high": rates * draw(st.floats(1.0, 2.0)),
        },
    )


# No shrinking: a table a try is slow, and a failing example is small enough to read as it is.
TRIED = settings(max_examples=20, deadline=None, phases=(Phase.explicit, Phase.reuse, Phase.generate))
HIDDEN = st.builds(
    Costs,
    idle_share=st.floats(0, 0.9),
    debug_hours=st.floats(0, 50),
    person_rate=st.floats(0, 100),
    storage_gb=st.floats(0, 1000),
    egress_gb=st.floats(0, 1000),
    dataset_gb=st.floats(0, 5000),
    checkpoint_s=st.floats(0, 600),
    checkpoint_interval_hours=st.sampled_from([0, 0.5, 2]),
    restart_hours=st.floats(0, 1),
)


def no_less(more: pd.DataFrame, less: pd.DataFrame) -> bool:
    """Whether every cost of `more` is at least that of `less`, float noise apart."""
    return all(
        (more[f"{name}_{end}"].to_numpy() >= less[f"{name}_{end}"].to_numpy() * (1 - 1e-9)).all()
        for name in MONEY
        for end in ("low", "high")
    )


@given(st.data(), tier(), HIDDEN)
@TRIED
def test_low_is_never_above_high(
    quote_of: Quotes, cells_of: Cells, data: st.DataObject, tier: dict[str, Any], costs: Costs
) -> None:
    table = cost_table(data.draw(cells(cells_of)), [quote_of(tier)], TOKENS, 3, costs)
    for name in [*MONEY, "epoch_hours", "finish_hours", "tokens_per_s", "price"]:
        assert (table[f"{name}_low"] <= table[f"{name}_high"] * (1 + 1e-9)).all()


@given(st.data(), tier(), HIDDEN, st.floats(1.0, 5.0))
@TRIED
def test_cost_never_falls_when_the_price_rises(
    quote_of: Quotes, cells_of: Cells, data: st.DataObject, tier: dict[str, Any], costs: Costs, by: float
) -> None:
    frame = data.draw(cells(cells_of))
    dearer = {**tier, "price": [tier["price"][0] * by, tier["price"][1] * by]}
    before, after = (cost_table(frame, [quote_of(t)], TOKENS, 3, costs) for t in (tier, dearer))
    assert no_less(after, before)


@given(st.data(), tier(), st.floats(0, 0.8), st.floats(0, 0.19))
@TRIED
def test_cost_never_falls_when_more_time_is_idle(
    quote_of: Quotes, cells_of: Cells, data: st.DataObject, tier: dict[str, Any], idle: float, more: float
) -> None:
    frame = data.draw(cells(cells_of))
    before, after = (cost_table(frame, [quote_of(tier)], TOKENS, 3, Costs(idle_share=s)) for s in (idle, idle + more))
    assert no_less(after, before)


@given(st.data(), tier(), HIDDEN, st.floats(1.0, 10.0))
@TRIED
def test_cost_never_falls_when_the_job_grows(
    quote_of: Quotes, cells_of: Cells, data: st.DataObject, tier: dict[str, Any], costs: Costs, by: float
) -> None:
    frame = data.draw(cells(cells_of))
    before, after = (cost_table(frame, [quote_of(tier)], tokens, 3, costs) for tokens in (TOKENS, TOKENS * by))
    per_token = ["cost_per_billion_tokens_low", "cost_per_billion_tokens_high"]  # falls: a longer job wastes less
    same = before[per_token]
    assert no_less(after.assign(**{name: same[name] for name in per_token}), before)


@given(st.data(), tier(), st.floats(1, 500))
@TRIED
def test_cost_is_continuous_apart_from_the_billing_steps(
    quote_of: Quotes, cells_of: Cells, data: st.DataObject, tier: dict[str, Any], hours: float
) -> None:
    frame = data.draw(cells(cells_of))
    quote = quote_of({**tier, "billing_unit_hours": 0})
    before, after = (cost_table(frame, [quote], hours * TOKENS * factor) for factor in (1.0, 1.0 + 1e-7))
    assert np.allclose(after["total_cost_high"], before["total_cost_high"], rtol=1e-4)


@given(st.data(), st.lists(tier(), min_size=1, max_size=4), st.randoms())
@TRIED
def test_permuting_cells_and_tiers_changes_nothing(
    quote_of: Quotes, cells_of: Cells, data: st.DataObject, tiers: list[dict[str, Any]], random: Any
) -> None:
    frame = data.draw(cells(cells_of))
    named = [{**tier, "name": f"t{i}"} for i, tier in enumerate(tiers)]
    shuffled = random.sample(named, len(named))
    before = decide(cost_table(frame, [quote_of(*named)], TOKENS, 3))
    after = decide(cost_table(frame.sample(frac=1, random_state=1), [quote_of(*shuffled)], TOKENS, 3))
    assert after.reasons == before.reasons


@given(st.data(), st.lists(tier(), min_size=1, max_size=4), st.floats(1, 1e5), st.floats(1.0, 10.0))
@TRIED
def test_more_budget_never_gives_a_worse_decision(
    quote_of: Quotes, cells_of: Cells, data: st.DataObject, tiers: list[dict[str, Any]], budget: float, by: float
) -> None:
    frame = data.draw(cells(cells_of))
    deadline = data.draw(st.one_of(st.none(), st.floats(0.1, 50)))
    table = cost_table(frame, [quote_of(*({**t, "name": f"t{i}"} for i, t in enumerate(tiers)))], TOKENS, 3)
    less, more = (decide(table, Constraints(deadline, money)) for money in (budget, budget * by))
    assert (more.chosen is not None) or (less.chosen is None)
    assert more.certain or not less.certain
    if less.chosen is not None and more.chosen is not None and less.certain == more.certain:
        paid = [d.cells.at[d.chosen, "total_cost_high"] for d in (less, more)]
        assert paid[1] <= paid[0] + 1e-6


@given(st.floats(1, 400), st.floats(0, 0.2), st.floats(0.01, 0.5))
@TRIED
def test_interruptions_never_make_a_job_cheaper(
    quote_of: Quotes, cells_of: Cells, hours: float, rate: float, more: float
) -> None:
    costs = Costs(checkpoint_s=60, checkpoint_interval_hours=1, restart_hours=0.2)
    quotes = [quote_of({"unit": "card_hour", "price": 10, "interruptions_per_hour": r}) for r in (rate, rate + more)]
    calm, rough = (cost_table(cells_of((1, 1000)), [quote], hours * TOKENS, 1, costs) for quote in quotes)
    assert no_less(rough, calm)


@pytest.mark.parametrize("share", [0.0, 0.5])
def test_a_row_does_not_depend_on_its_neighbours(quote_of: Quotes, cells_of: Cells, share: float) -> None:
    quote = quote_of({"unit": "node_hour", "price": [10, 20], "cards_per_node": 8})
    alone = cost_table(cells_of((4, 500)), [quote], TOKENS, 2, Costs(idle_share=share))
    among = cost_table(cells_of((1, 900), (4, 500), (16, 20)), [quote], TOKENS, 2, Costs(idle_share=share))
    numbers = alone.select_dtypes("number").columns
    assert np.allclose(alone.loc[0, numbers].to_numpy(float), among.loc[1, numbers].to_numpy(float), equal_nan=True)
