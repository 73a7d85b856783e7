from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pandas as pd
import pytest

from analysis.cost import cost_table
from analysis.prices import Quote
from configs.errors import ConfigError
from configs.schema import Costs

HOUR_TOKENS = 3_600_000.0  # one hour at 1000 tokens/s
Cells = Callable[..., pd.DataFrame]
Quotes = Callable[..., Quote]


def costs_of(table: pd.DataFrame, tier: str, what: str = "total_cost") -> tuple[float, float]:
    row = table[table["tier"] == tier].iloc[0]
    return float(row[f"{what}_low"]), float(row[f"{what}_high"])


def test_48_hours_on_one_a100_cost_960_to_1680(article: Quote, cells_of: Cells) -> None:
    table = cost_table(cells_of((1, 1000)), [article], 48 * HOUR_TOKENS)
    assert costs_of(table, "hourly") == (960, 1680)


def test_a_month_by_the_hour_costs_14400_to_25200(article: Quote, cells_of: Cells) -> None:
    table = cost_table(cells_of((1, 1000)), [article], 720 * HOUR_TOKENS)
    assert costs_of(table, "hourly") == (14_400, 25_200)


def test_a_month_on_one_monthly_a100_costs_8000_to_12000(article: Quote, cells_of: Cells) -> None:
    table = cost_table(cells_of((1, 1000)), [article], 720 * HOUR_TOKENS)
    assert costs_of(table, "monthly") == (8_000, 12_000)


def test_a_721_hour_job_pays_two_whole_months(article: Quote, cells_of: Cells) -> None:
    table = cost_table(cells_of((1, 1000)), [article], 721 * HOUR_TOKENS)
    assert costs_of(table, "monthly") == (16_000, 24_000)


def test_an_eight_card_node_month_costs_60000_to_80000(article: Quote, cells_of: Cells) -> None:
    table = cost_table(cells_of((8, 1000)), [article], 720 * HOUR_TOKENS)
    assert costs_of(table, "monthly_node") == (60_000, 80_000)


def test_an_eight_card_node_hour_costs_112_to_238(article: Quote, cells_of: Cells) -> None:
    table = cost_table(cells_of((8, 1000)), [article], HOUR_TOKENS)
    assert costs_of(table, "hourly_node") == pytest.approx((112.0, 238.0), abs=0.005)  # 20 x 8 x 0.70; 35 x 8 x 0.85


def test_a_61_minute_job_pays_two_hours_where_hours_are_billed(article: Quote, cells_of: Cells) -> None:
    table = cost_table(cells_of((1, 1000)), [article], 61 * 60 * 1000)
    assert costs_of(table, "hourly") == (40, 70)


@pytest.mark.parametrize(("unit_hours", "billed"), [(1 / 3600, 1.00), (1 / 60, 1.00), (1, 3.00)])
def test_20_minutes_at_3_an_hour_by_second_minute_and_hour(
    unit_hours: float, billed: float, quote_of: Quotes, cells_of: Cells
) -> None:
    quote = quote_of({"unit": "card_hour", "price": 3, "billing_unit_hours": unit_hours})
    table = cost_table(cells_of((1, 1000)), [quote], 1200 * 1000)
    assert costs_of(table, "card_hour") == pytest.approx((billed, billed), abs=0.005)
    assert costs_of(table, "card_hour", "pure_total_cost") == pytest.approx((1.00, 1.00), abs=0.005)


def test_a_minimum_term_is_paid_in_full(quote_of: Quotes, cells_of: Cells) -> None:
    quote = quote_of({"unit": "card_hour", "price": 3, "minimum_hours": 24})
    assert costs_of(cost_table(cells_of((1, 1000)), [quote], HOUR_TOKENS), "card_hour") == (72, 72)


def test_a_prorated_month_is_billed_by_the_day(quote_of: Quotes, cells_of: Cells) -> None:
    quote = quote_of({"unit": "card_month", "price": 7200, "billing_unit_hours": 24})
    table = cost_table(cells_of((1, 1000)), [quote], 25 * HOUR_TOKENS)
    assert costs_of(table, "card_month") == pytest.approx((480, 480))  # two days of thirty


def test_cards_of_a_node_that_are_not_used_are_billed_and_shown(article: Quote, cells_of: Cells) -> None:
    table = cost_table(cells_of((5, 1000)), [article], HOUR_TOKENS)
    row = table[table["tier"] == "hourly_node"].iloc[0]
    assert (row["rented_cards"], row["idle_cards"]) == (8, 3)
    assert row["total_cost_low"] == pytest.approx(8 * 20 * 0.70)
    assert "3 idle cards are billed" in row["notes"]


def test_five_of_eight_cards_of_a_98_32_node_cost_the_whole_node(quote_of: Quotes, cells_of: Cells) -> None:
    quote = quote_of({"unit": "node_hour", "price": 98.32, "cards_per_node": 8}, currency="USD")
    assert costs_of(cost_table(cells_of((5, 1000)), [quote], HOUR_TOKENS), "node_hour") == (98.32, 98.32)


def test_nine_cards_take_two_nodes(quote_of: Quotes, cells_of: Cells) -> None:
    quote = quote_of({"unit": "node_hour", "price": 100, "cards_per_node": 8})
    assert costs_of(cost_table(cells_of((9, 1000)), [quote], HOUR_TOKENS), "node_hour") == (200, 200)


def test_the_throughput_interval_carries_to_the_cost(quote_of: Quotes, cells_of: Cells) -> None:
    steps = {
        "throughput.step_time_s.median": 1.0,
        "throughput.step_time_s.ci95_low": 0.9,
        "throughput.step_time_s.ci95_high": 1.2,
    }
    quote = quote_of({"unit": "card_hour", "price": [20, 30], "billing_unit_hours": 0})
    table = cost_table(cells_of((1, 1000), **steps), [quote], 10 * HOUR_TOKENS)
    assert costs_of(table, "card_hour") == pytest.approx((10 * 0.9 * 20, 10 * 1.2 * 30))


def test_a_predicted_cell_is_not_measured(article: Quote, cells_of: Cells) -> None:
    table = cost_table(cells_of((1, 1000), status="predicted"), [article], HOUR_TOKENS)
    assert not table["measured"].any()


def test_a_cell_out_of_memory_has_blank_costs(article: Quote, cells_of: Cells) -> None:
    table = cost_table(cells_of((1, float("nan")), status="oom"), [article], HOUR_TOKENS)
    assert table["total_cost_low"].isna().all()


def test_a_tier_without_a_price_does_not_fit(quote_of: Quotes, cells_of: Cells) -> None:
    table = cost_table(cells_of((1, 1000)), [quote_of({"unit": "card_hour", "price": None})], HOUR_TOKENS)
    assert not table["tier_fits"].any()


def test_storage_egress_and_people_are_added(quote_of: Quotes, cells_of: Cells) -> None:
    tier: dict[str, Any] = {"unit": "card_hour", "price": 10, "setup_hours": 2, "egress_price_gb": 0.5}
    quote = quote_of({**tier, "storage": {"price_gb_month": 0.72}})
    costs = Costs(storage_gb=1000, egress_gb=100, person_rate=50)
    table = cost_table(cells_of((1, 1000)), [quote], 10 * HOUR_TOKENS, costs=costs)
    # 12 h x 10 + 1000 GB x 0.72 x 12/720 month + 100 GB x 0.5 + 2 h x 50
    assert costs_of(table, "card_hour")[0] == pytest.approx(120 + 12 + 50 + 100)


def test_a_half_idle_rental_takes_twice_the_hours(quote_of: Quotes, cells_of: Cells) -> None:
    quote = quote_of({"unit": "card_hour", "price": 10})
    table = cost_table(cells_of((1, 1000)), [quote], 10 * HOUR_TOKENS, costs=Costs(idle_share=0.5))
    assert costs_of(table, "card_hour")[0] == 200


def test_an_idle_share_of_one_is_refused(article: Quote, cells_of: Cells) -> None:
    with pytest.raises(ConfigError, match=r"costs.idle_share: 1 leaves no time to work"):
        cost_table(cells_of((1, 1000)), [article], HOUR_TOKENS, costs=Costs(idle_share=1))
