"""Costs by hand: an epoch of 36 million tokens at 1,000 tokens/s is 10 hours."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pandas as pd
import pytest

from analysis.cost.report_costs import Terms, costs_of, epoch_sizes
from analysis.prices import Quote
from analysis.tables import Span, Table
from analysis.tables.cost import cost_views
from analysis.text import sayer
from configs.errors import ConfigError
from configs.schema import Workload

EPOCH = Workload(epoch_tokens=36e6)


def _views(cells: pd.DataFrame, *quotes: Quote, workload: Workload = EPOCH) -> list[Table]:
    tokens, per_epoch = epoch_sizes(cells, workload)
    costs = costs_of(cells, quotes, next(iter(tokens.values())), Terms(workload))
    return cost_views(costs, quotes, tokens, per_epoch, sayer("en"), "en")


def _column(table: Table, key: str) -> list[Any]:
    place = [column.key for column in table.columns].index(key)
    return [row.values[place] for row in table.rows]


def test_ten_hours_on_one_card_cost_what_the_article_says_at_every_tier(
    article: Quote, cells_of: Callable[..., pd.DataFrame]
) -> None:
    table = _views(cells_of((1, 1000.0)), article)[0]
    assert _column(table, "hourly") == [Span(200, 350)]  # 10 h x 20 to 35
    assert _column(table, "hourly_node") == [Span(1120, 2380)]  # 8 cards x 10 h x 20 x 0.70 to 35 x 0.85
    assert _column(table, "monthly") == [Span(8000, 12000)]
    assert _column(table, "monthly_node") == [Span(60000, 80000)]


def test_a_share_of_the_month_is_shown_where_the_bill_is_for_a_whole_one(
    article: Quote, cells_of: Callable[..., pd.DataFrame]
) -> None:
    _, used = _views(cells_of((1, 1000.0)), article)
    month = _column(used, "monthly")[0]
    assert (month.low, month.high) == pytest.approx((8000 / 72, 12000 / 72))  # 10 of 720 h


def test_no_second_table_where_rounding_adds_nothing(
    quote_of: Callable[..., Quote], cells_of: Callable[..., pd.DataFrame]
) -> None:
    hourly = quote_of({"name": "hourly", "unit": "card_hour", "price": [20, 35]})
    assert len(_views(cells_of((1, 1000.0)), hourly)) == 1


def test_idle_cards_are_marked_at_the_figure_they_belong_to(
    article: Quote, cells_of: Callable[..., pd.DataFrame]
) -> None:
    table = _views(cells_of((1, 1000.0), (8, 7000.0)), article)[0]
    place = [column.key for column in table.columns].index("hourly_node")
    assert [row.marks[place] for row in table.rows] == ["a", ""]
    assert "a: 7 idle cards are billed" in table.notes


def test_a_remark_that_all_rows_share_is_said_once(
    quote_of: Callable[..., Quote], cells_of: Callable[..., pd.DataFrame]
) -> None:
    undated = quote_of({"name": "hourly", "unit": "card_hour", "price": [20, 35]}, date=None)
    table = _views(cells_of((1, 1000.0), (2, 1900.0)), undated)[0]
    assert sum("has no date" in note for note in table.notes) == 1
    assert all(not mark for row in table.rows for mark in row.marks)


def test_the_node_discount_is_stated_with_the_price(article: Quote, cells_of: Callable[..., pd.DataFrame]) -> None:
    notes = _views(cells_of((1, 1000.0)), article)[0].notes
    assert "hourly_node: 20–35 CNY per card-hour, node discount x 0.7–0.85 included, from 8 cards" in notes


def test_two_quotes_are_two_tables_each_in_its_own_currency(
    quote_of: Callable[..., Quote], cells_of: Callable[..., pd.DataFrame]
) -> None:
    cny = quote_of({"name": "hourly", "unit": "card_hour", "price": [20, 35]}, name="a")
    usd = quote_of({"name": "hourly", "unit": "card_hour", "price": [2, 3]}, name="b", currency="USD")
    tables = _views(cells_of((1, 1000.0)), cny, usd)
    assert [table.columns[-1].unit for table in tables] == ["CNY", "USD"]


def test_a_predicted_throughput_is_marked_and_toned_as_such(
    quote_of: Callable[..., Quote], cells_of: Callable[..., pd.DataFrame]
) -> None:
    hourly = quote_of({"name": "hourly", "unit": "card_hour", "price": [20, 35]})
    table = _views(cells_of((1, 1000.0), (2, 1900.0), status=["ok", "predicted"]), hourly)[0]
    assert [row.tone for row in table.rows] == ["ok", "predicted"]
    assert "a: predicted, not measured" in table.notes


def test_a_cell_without_throughput_has_no_cost_row(article: Quote, cells_of: Callable[..., pd.DataFrame]) -> None:
    table = _views(cells_of((1, 1000.0), (2, float("nan")), status=["ok", "oom"]), article)[0]
    assert _column(table, "cards") == [1]


def test_the_measured_data_set_is_the_epoch_where_none_is_given(
    quote_of: Callable[..., Quote], cells_of: Callable[..., pd.DataFrame]
) -> None:
    hourly = quote_of({"name": "hourly", "unit": "card_hour", "price": [20, 35]})
    cells = cells_of((1, 1000.0), **{"workload.data_set_tokens": 7.2e6})
    table = _views(cells, hourly, workload=Workload())[0]
    assert _column(table, "hourly") == [Span(40, 70)]  # 2 h
    assert "An epoch is 7,200,000 tokens." in table.notes


def test_without_the_size_of_an_epoch_costs_are_for_a_billion_tokens_and_say_so(
    quote_of: Callable[..., Quote], cells_of: Callable[..., pd.DataFrame]
) -> None:
    hourly = quote_of({"name": "hourly", "unit": "card_hour", "price": [36, 36]})
    table = _views(cells_of((1, 1e6)), hourly, workload=Workload())[0]
    assert table.title.startswith("Cost per billion tokens")
    assert _column(table, "hourly") == [Span(36, 36)]  # 1000 s, billed as an hour


def test_one_model_on_two_data_sets_needs_the_epoch_to_be_given(cells_of: Callable[..., pd.DataFrame]) -> None:
    cells = cells_of((1, 1000.0), (2, 1900.0), **{"workload.data_set_tokens": [1e6, 2e6]})
    with pytest.raises(ConfigError, match="workload.epoch_tokens: model .* data sets of 1,000,000 and 2,000,000"):
        epoch_sizes(cells, Workload())


def test_a_tier_with_too_few_cards_has_no_price_there(
    quote_of: Callable[..., Quote], cells_of: Callable[..., pd.DataFrame]
) -> None:
    few = quote_of({"name": "hourly", "unit": "card_hour", "price": [20, 35], "max_cards": 4})
    table = _views(cells_of((4, 4000.0), (8, 7000.0)), few)[0]
    assert _column(table, "hourly")[1] == Span(None, None)
    assert "a: more cards than the tier offers" in table.notes
