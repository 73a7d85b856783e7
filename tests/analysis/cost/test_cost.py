from __future__ import annotations

import math
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from analysis.cost import cost_table
from analysis.prices import Quote
from analysis.prices.currency import ExchangeRate
from configs.errors import ConfigError
from configs.schema import Costs
from results.store import read_measurements

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


def test_eight_cards_priced_singly_or_as_a_node_cost_the_same(quote_of: Quotes, cells_of: Cells) -> None:
    tiers = [
        {"name": "card", "unit": "card_hour", "price": 1.99},
        {"name": "node", "unit": "node_hour", "price": 15.92, "cards_per_node": 8},
    ]
    table = cost_table(cells_of((8, 1000)), [quote_of(*tiers)], HOUR_TOKENS)
    assert costs_of(table, "card") == pytest.approx(costs_of(table, "node"))  # 8 x 1.99 = 15.92


def test_2_an_hour_and_1460_a_month_of_730_hours_cost_the_same_over_a_month(quote_of: Quotes, cells_of: Cells) -> None:
    tiers = [
        {"name": "hour", "unit": "card_hour", "price": 2.00},
        {"name": "month", "unit": "card_month", "price": 1460},
    ]
    table = cost_table(cells_of((1, 1000)), [quote_of(*tiers, hours_per_month=730)], 730 * HOUR_TOKENS)
    assert costs_of(table, "hour") == costs_of(table, "month") == (1460, 1460)


def test_each_quote_keeps_its_currency_without_a_rate(quote_of: Quotes, cells_of: Cells) -> None:
    tier = {"unit": "card_hour", "price": 20}
    quotes = [quote_of(tier, currency=currency, name=currency) for currency in ("USD", "EUR", "JPY")]
    table = cost_table(cells_of((1, 1000)), quotes, HOUR_TOKENS)
    assert list(zip(table["currency"], table["total_cost_low"], strict=True)) == [("USD", 20), ("EUR", 20), ("JPY", 20)]


def test_money_is_converted_at_the_stated_rate_and_says_so(quote_of: Quotes, cells_of: Cells) -> None:
    quote = quote_of({"unit": "card_hour", "price": [2, 3]}, currency="USD")
    rates = [ExchangeRate("USD", "CNY", 7.0, date(2026, 1, 5))]
    table = cost_table(cells_of((1, 1000)), [quote], HOUR_TOKENS, rates=rates, currency="CNY")
    assert costs_of(table, "card_hour") == (14, 21)
    assert table["currency"][0] == "CNY"
    assert "converted at 1 USD = 7 CNY of 2026-01-05" in table["notes"][0]


def test_a_persons_hours_without_a_currency_are_refused_among_several(quote_of: Quotes, cells_of: Cells) -> None:
    tier = {"unit": "card_hour", "price": 20, "setup_hours": 1}
    quotes = [quote_of(tier, currency=currency, name=currency) for currency in ("USD", "EUR")]
    with pytest.raises(ConfigError, match=r"costs.person_currency: is open"):
        cost_table(cells_of((1, 1000)), quotes, HOUR_TOKENS, costs=Costs(person_rate=50))


def test_debugging_is_paid_for_several_cards_only(quote_of: Quotes, cells_of: Cells) -> None:
    quote = quote_of({"unit": "card_hour", "price": 10})
    table = cost_table(cells_of((1, 1000), (2, 1000)), [quote], HOUR_TOKENS, costs=Costs(debug_hours=3, person_rate=5))
    assert list(table["total_cost_low"]) == [10, (1 + 3) * 2 * 10 + 3 * 5]


def test_slow_storage_stretches_the_epoch(quote_of: Quotes, cells_of: Cells) -> None:
    quote = quote_of({"unit": "card_hour", "price": 10, "storage": {"read_gbps": 0.5}})
    table = cost_table(cells_of((1, 1000)), [quote], HOUR_TOKENS, costs=Costs(dataset_gb=3600))
    assert table["epoch_hours"][0] == 2  # 3600 GB at 0.5 GB/s take two hours, the cards one


def test_checkpoints_written_slowly_are_paid(quote_of: Quotes, cells_of: Cells) -> None:
    quote = quote_of({"unit": "card_hour", "price": 10, "billing_unit_hours": 0, "storage": {"write_gbps": 1}})
    costs = Costs(checkpoint_gb=360, checkpoint_interval_hours=1)
    table = cost_table(cells_of((1, 1000)), [quote], 10 * HOUR_TOKENS, costs=costs)
    assert table["finish_hours"][0] == pytest.approx(11)  # ten times 360 s


def test_spot_at_half_the_price_pays_for_its_lost_work(quote_of: Quotes, cells_of: Cells) -> None:
    tiers = [
        {"name": "firm", "unit": "card_hour", "price": 10, "billing_unit_hours": 0},
        {"name": "spot", "unit": "card_hour", "price": 5, "billing_unit_hours": 0, "interruptions_per_hour": 0.1},
    ]
    table = cost_table(cells_of((1, 1000)), [quote_of(*tiers)], 20 * HOUR_TOKENS)
    assert costs_of(table, "firm")[0] == pytest.approx(200)
    assert costs_of(table, "spot")[0] == pytest.approx(5 * 10 * (math.exp(2) - 1))  # 319: M (e^(T/M) - 1), M = 10 h


def test_more_cards_than_are_on_offer_do_not_fit(quote_of: Quotes, cells_of: Cells) -> None:
    quote = quote_of({"unit": "card_hour", "price": 20, "max_cards": 4})
    table = cost_table(cells_of((4, 1000), (8, 1000)), [quote], HOUR_TOKENS)
    assert list(table["tier_fits"]) == [True, False]
    assert "more cards than the tier offers" in table["notes"][1]


def test_memory_above_90_per_cent_is_noted_as_tight(article: Quote, cells_of: Cells) -> None:
    memory = {"memory.device_used_gib": 73.0, "memory.card_gib": 80.0}
    table = cost_table(cells_of((1, 1000), **memory), [article], HOUR_TOKENS)
    assert "memory is tight: above 90%" in table["notes"][0]


@pytest.mark.parametrize("bad", [0, -1, float("nan"), float("inf")])
def test_an_epoch_without_tokens_is_refused(article: Quote, cells_of: Cells, bad: float) -> None:
    with pytest.raises(ConfigError, match=r"workload.epoch_tokens"):
        cost_table(cells_of((1, 1000)), [article], bad)


def test_a_negative_hidden_cost_is_refused(article: Quote, cells_of: Cells) -> None:
    with pytest.raises(ConfigError, match=r"costs.debug_hours: -1 is not possible"):
        cost_table(cells_of((1, 1000)), [article], HOUR_TOKENS, costs=Costs(debug_hours=-1))


def test_a_measurement_csv_becomes_a_cost_table_to_the_cent(tmp_path: Path, quote_of: Quotes) -> None:
    """Every kind of tier, by hand: 12,345,678 tokens an epoch, three epochs, on 1 and 4 cards."""
    (tmp_path / "m.csv").write_text("mode,cards,tokens_per_s\nddp,1,950\nddp,4,3135\n", encoding="utf-8")
    tiers = [
        {"name": "card_hour", "unit": "card_hour", "price": [19.99, 24.5]},
        {"name": "node_hour", "unit": "node_hour", "price": [120, 150], "cards_per_node": 8, "discount": [0.7, 0.85]},
        {"name": "card_month", "unit": "card_month", "price": [7999, 9999], "billing_unit_hours": 24},
        {"name": "node_month", "unit": "node_month", "price": [60000, 80000], "cards_per_node": 8},
    ]
    table = cost_table(read_measurements(tmp_path / "m.csv"), [quote_of(*tiers)], 12_345_678, epochs=3)
    found = {
        (int(row["cards"]), row["tier"]): tuple(
            round(float(row[name]), 2)
            for name in ("cost_per_epoch_low", "cost_per_epoch_high", "total_cost_low", "total_cost_high")
        )
        for _, row in table.iterrows()
    }
    # One card: 12,345,678 / 950 / 3600 = 3.610 h, 4 h billed; three epochs 10.83 h, 11 h billed.
    # Four cards: 12,345,678 / 3135 / 3600 = 1.094 h, 2 h billed; three epochs 3.28 h, 4 h billed.
    # Days of a month of 720 h: 7,999 / 30 = 266.63 and 9,999 / 30 = 333.30, one for each card.
    assert found == {
        (1, "card_hour"): (79.96, 98.00, 219.89, 269.50),
        (1, "node_hour"): (336.00, 510.00, 924.00, 1402.50),  # 84 and 127.50 an hour for the whole node
        (1, "card_month"): (266.63, 333.30, 266.63, 333.30),
        (1, "node_month"): (60000.00, 80000.00, 60000.00, 80000.00),
        (4, "card_hour"): (159.92, 196.00, 319.84, 392.00),
        (4, "node_hour"): (168.00, 255.00, 336.00, 510.00),
        (4, "card_month"): (1066.53, 1333.20, 1066.53, 1333.20),
        (4, "node_month"): (60000.00, 80000.00, 60000.00, 80000.00),
    }
