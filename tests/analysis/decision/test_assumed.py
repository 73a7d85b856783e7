from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pandas as pd
import pytest

from analysis.cost import cost_table
from analysis.cost.report_costs import Terms, price
from analysis.decision import Constraints, Decision, decide
from analysis.prices import Quote
from configs.errors import ConfigError
from configs.schema import Decide, Workload

HOUR_TOKENS = 3_600_000.0
Cells = Callable[..., pd.DataFrame]


def decided(cells: pd.DataFrame, quote: Quote, **workload: Any) -> Decision:
    terms = Terms(Workload(**workload), options=Decide(predict=False))
    return price(cells.assign(cell_id="c", **{"workload.model": "m"}), [quote], terms, "en").decisions[0]


def test_an_epoch_that_nobody_stated_is_a_billion_tokens_and_says_so(article: Quote, cells_of: Cells) -> None:
    decision = decided(cells_of((1, 1000), **{"device.name": "A100 80G"}), article)
    said = "an epoch is 1,000,000,000 tokens (workload.epoch_tokens is not stated)"
    assert decision.reasons[0].endswith(f"; assumed: {said}.")
    assert decision.to_json()["decision"]["assumptions"] == [said]


def test_an_epoch_taken_from_the_measured_data_set_says_so(article: Quote, cells_of: Cells) -> None:
    cells = cells_of((1, 1000), **{"device.name": "A100 80G", "workload.data_set_tokens": 36e6})
    assert "an epoch is the measured data set of 36,000,000 tokens" in decided(cells, article).reasons[0]


def test_what_is_stated_is_no_assumption(article: Quote, cells_of: Cells) -> None:
    cells = cells_of((1, 1000), **{"device.name": "A100 80G"})
    decision = decided(cells, article, epoch_tokens=HOUR_TOKENS)
    assert decision.assumptions == ()
    assert "assumed" not in decision.reasons[0]


@pytest.mark.parametrize("limit", ["deadline_hours", "budget"])
def test_a_limit_for_a_job_of_unknown_size_is_refused(article: Quote, cells_of: Cells, limit: str) -> None:
    with pytest.raises(ConfigError, match=rf"workload.epoch_tokens: is not stated, and workload.{limit} is for a job"):
        decided(cells_of((1, 1000)), article, **{limit: 24})


def test_a_card_that_nobody_named_is_taken_for_the_quotes_and_says_so(article: Quote, cells_of: Cells) -> None:
    decision = decided(cells_of((1, 1000)), article, epoch_tokens=HOUR_TOKENS)
    assert "the card that was measured, which is not named, is the quote's a100_80g" in decision.reasons[0]
    assert "no card is named: taken for the quote's a100_80g" in decision.cells.at[0, "notes"]


def test_assumptions_are_said_where_nothing_meets_the_constraints_too(article: Quote, cells_of: Cells) -> None:
    decision = decided(cells_of((1, 1000)), article, epoch_tokens=100 * HOUR_TOKENS, deadline_hours=10)
    assert decision.chosen is None
    assert "which is not named" in decision.reasons[0]


def test_memory_is_held_against_the_card_of_the_quote(article: Quote, cells_of: Cells) -> None:
    # 120 GiB on an H200 (141 GiB) is 1.5 times the A100 that is offered
    memory = {"memory.device_used_gib": [120.0, 60.0], "memory.card_gib": 141.0, "device.name": "NVIDIA H200"}
    table = cost_table(cells_of((1, 1000), (2, 1900), **memory), [article], HOUR_TOKENS, card_memory={"a100_80g": 80})
    decision = decide(table)
    assert decision.chosen is not None
    assert decision.cells.at[decision.chosen, "cards"] == 2
    assert decision.cells.at[0, "excluded"] == "needs more memory than the card has"
    assert decision.cells.at[0, "memory_share"] == pytest.approx(1.5)


def test_an_imported_peak_is_held_against_the_machine_of_the_sheet(article: Quote, cells_of: Cells) -> None:
    cells = cells_of((1, 1000), (2, 1900), **{"memory.device_used_gib": [76.0, 40.0]})
    table = cost_table(cells, [article], HOUR_TOKENS, card_memory={"a100_80g": 80})
    decision = decide(table, Constraints(max_memory_share=0.9))
    assert decision.certain
    assert decision.cells.at[decision.chosen, "cards"] == 2


def test_the_same_card_has_the_memory_that_was_measured_on_it(article: Quote, cells_of: Cells) -> None:
    memory = {"memory.device_used_gib": 79.5, "memory.card_gib": 79.2, "device.name": "NVIDIA A100-SXM4-80GB"}
    table = cost_table(cells_of((1, 1000), **memory), [article], HOUR_TOKENS, card_memory={"a100_80g": 80})
    assert table.at[0, "memory_share"] == pytest.approx(79.5 / 79.2)
