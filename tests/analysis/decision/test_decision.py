from __future__ import annotations

import json
import string
from collections.abc import Callable
from typing import Any

import pandas as pd
import pytest

from analysis.cost import cost_table
from analysis.decision import Constraints, Decision, decide
from analysis.decision.choice import pareto_front
from analysis.decision.sentences import SENTENCES
from analysis.prices import Quote
from configs.errors import ConfigError

HOUR_TOKENS = 3_600_000.0  # one hour at 1000 tokens/s
Cells = Callable[..., pd.DataFrame]
Quotes = Callable[..., Quote]
SCALING = ((1, 1000), (2, 1900), (4, 3600), (8, 6400))


@pytest.fixture
def hundred_hours(article: Quote, cells_of: Cells) -> pd.DataFrame:
    """The article's job: ten epochs of ten hours on one card."""
    return cost_table(cells_of(*SCALING), [article], 10 * HOUR_TOKENS, epochs=10)


def chosen(decision: Decision) -> dict[str, Any]:
    assert decision.chosen is not None
    return decision.cells.loc[decision.chosen].to_dict()


def said(decision: Decision) -> str:
    return "\n".join(decision.reasons)


def test_without_a_deadline_one_card_by_the_hour_is_the_cheapest(hundred_hours: pd.DataFrame) -> None:
    row = chosen(decide(hundred_hours))
    assert (row["cards"], row["tier"]) == (1, "hourly")
    assert (row["total_cost_low"], row["total_cost_high"]) == (2000, 3500)


def test_one_card_is_enough_is_said_plainly(hundred_hours: pd.DataFrame) -> None:
    assert "One card is enough: it ends after 100 h for 2,000 to 3,500 CNY" in said(decide(hundred_hours))


def test_a_deadline_of_a_day_takes_eight_cards_of_a_node(hundred_hours: pd.DataFrame) -> None:
    # 100 h / 6.4 = 15.6 h, billed 16 h x 8 x 20 x 0.70 to 35 x 0.85; four cards need 27.8 h
    row = chosen(decide(hundred_hours, Constraints(deadline_hours=24)))
    assert (row["cards"], row["tier"]) == (8, "hourly_node")
    assert row["total_cost_high"] == pytest.approx(16 * 8 * 35 * 0.85)


def test_the_ideal_and_the_real_counts_of_the_article_are_in_the_reasons(article: Quote, cells_of: Cells) -> None:
    cells = cells_of((1, 1000), (4, 3600), (4, 2000)).assign(**{"parallel.mode": ["ddp", "ddp", "tp"]})
    table = cost_table(cells, [article], 10 * HOUR_TOKENS, epochs=10)
    decision = decide(table, Constraints(deadline_hours=24))
    assert decision.counts is not None
    assert decision.counts.estimates[0].plan.ideal == pytest.approx(4.17, abs=0.01)
    assert [(e.mode, e.plan.cards) for e in decision.counts.estimates] == [("ddp", 5), ("tp", 9)]
    assert "are 4.17 cards if scaling were perfect" in said(decision)


def test_a_count_beyond_what_was_measured_says_so(article: Quote, cells_of: Cells) -> None:
    table = cost_table(cells_of((1, 1000), (4, 2000)), [article], 10 * HOUR_TOKENS, epochs=10)
    assert "that would be 9 cards; beyond 4 cards nothing was measured" in said(
        decide(table, Constraints(deadline_hours=24))
    )


def test_with_one_count_only_the_rule_of_thumb_gives_five_to_nine(article: Quote, cells_of: Cells) -> None:
    table = cost_table(cells_of((1, 1000)), [article], 10 * HOUR_TOKENS, epochs=10)
    decision = decide(table, Constraints(deadline_hours=24))
    assert decision.counts is not None
    assert [estimate.plan.cards for estimate in decision.counts.estimates] == [5, 9]


def test_why_one_card_is_not_enough_is_said_with_its_numbers(hundred_hours: pd.DataFrame) -> None:
    text = said(decide(hundred_hours, Constraints(deadline_hours=24)))
    assert "One card is not enough" in text
    assert "misses the deadline by 76 h" in text


def test_a_card_that_ran_out_of_memory_is_no_option_and_is_named(article: Quote, cells_of: Cells) -> None:
    cells = cells_of((1, float("nan")), (8, 6400)).assign(status=["oom", "imported"])
    decision = decide(cost_table(cells, [article], 10 * HOUR_TOKENS))
    assert chosen(decision)["cards"] == 8
    assert "One card was oom" in said(decision)


def test_an_impossible_deadline_gives_the_fastest_and_by_how_much_it_is_late(hundred_hours: pd.DataFrame) -> None:
    decision = decide(hundred_hours, Constraints(deadline_hours=10))
    assert decision.chosen is None
    # 100 / 6.4 = 15.625 h
    assert "what comes closest, 8 cards (ddp)" in decision.reasons[0]
    assert "is expected to take 15.6 h, 5.6 h too long" in decision.reasons[0]
    assert [role for role, _ in decision.alternatives] == ["fastest"]


def test_an_impossible_budget_gives_the_cheapest_and_what_is_missing(hundred_hours: pd.DataFrame) -> None:
    decision = decide(hundred_hours, Constraints(budget=500))
    # one card: 100 h at 20 to 35, in the middle 27.5
    assert "is expected to cost 2,750 CNY (2,000 CNY to 3,500 CNY), 2,250 CNY too much" in decision.reasons[0]
    assert "a budget of 2,750 CNY (3,500 CNY to be sure); or 5 CNY for a card-hour (20 to 35 CNY quoted)" in said(
        decision
    )


def test_deadline_and_budget_that_exclude_each_other_are_told_apart(article: Quote, cells_of: Cells) -> None:
    table = cost_table(cells_of((1, 1000), (8, 2000)), [article], 10 * HOUR_TOKENS, epochs=10)
    decision = decide(table, Constraints(deadline_hours=60, budget=4000))
    assert decision.chosen is None
    assert "can each be met, but not together" in decision.reasons[0]
    assert [role for role, _ in decision.alternatives] == ["cheapest_in_time", "fastest_in_budget"]


def test_a_budget_that_the_high_prices_break_is_not_certain(hundred_hours: pd.DataFrame) -> None:
    decision = decide(hundred_hours, Constraints(budget=3000))  # 2,750 at the middle of the prices
    assert chosen(decision)["cards"] == 1
    assert not decision.certain
    assert "it may exceed the budget of 3,000 CNY: 3,500 CNY at the high end" in decision.reasons[0]


def test_a_budget_below_the_middle_of_the_prices_is_met_by_nothing(hundred_hours: pd.DataFrame) -> None:
    decision = decide(hundred_hours, Constraints(budget=2700))  # the low ends of the prices would meet it
    assert decision.chosen is None
    assert "Nothing fits the budget of 2,700 CNY" in decision.reasons[0]


def with_ends(cells: pd.DataFrame, low: list[float], high: list[float]) -> pd.DataFrame:
    return cells.assign(**{"throughput.tokens_per_s_low": low, "throughput.tokens_per_s_high": high})


def test_what_is_expected_to_miss_the_deadline_is_no_choice(article: Quote, cells_of: Cells) -> None:
    # eight cards: 100 h / 2.44 = 41 h, 20 h to 80 h at the ends of the prediction
    cells = cells_of((1, 1000), (4, 2000), (8, 2440)).assign(status=["imported", "imported", "predicted"])
    cells = with_ends(cells, [1000, 2000, 1250], [1000, 2000, 5000])
    decision = decide(cost_table(cells, [article], 10 * HOUR_TOKENS, epochs=10), Constraints(deadline_hours=24))
    assert decision.chosen is None
    assert (
        "8 cards (ddp), tier hourly_node of sheet, predicted, is expected to take 41 h (20 h to 80 h), 17 h too"
        in (decision.reasons[0])
    )
    # 24 h / 4.1 h an epoch = 5.86; 40.98 / 24 = 1.708
    assert decision.reasons[1] == (
        "What would have to change: a deadline of 41 h (80 h to be sure); or 1.71 times its throughput; or 5 epochs "
        "instead of 10."
    )
    assert "Of what was measured, 4 cards (ddp), tier hourly of sheet comes closest: 50 h" in decision.reasons[2]


def test_a_slow_end_that_misses_is_in_the_sentence_that_recommends(article: Quote, cells_of: Cells) -> None:
    cells = with_ends(cells_of((4, 4000)), [2500], [6000])  # 25 h, 40 h at the slow end
    decision = decide(cost_table(cells, [article], 10 * HOUR_TOKENS, epochs=10), Constraints(deadline_hours=26))
    assert decision.reasons[0].startswith("Rent 4 cards")
    assert (
        decision.reasons[0]
        .partition("; assumed")[0]
        .endswith("; it may miss the deadline of 26 h: 40 h at the slow end")
    )
    assert chosen(decision)["risk"] == "may miss the deadline"


def test_an_option_whose_slow_end_is_in_time_goes_before_a_cheaper_one_that_may_miss(
    article: Quote, cells_of: Cells
) -> None:
    cells = with_ends(cells_of((4, 4000), (8, 6400)), [2500, 6000], [6000, 6800])
    table = cost_table(cells, [article], 10 * HOUR_TOKENS, epochs=10)
    assert chosen(decide(table, Constraints(deadline_hours=26)))["cards"] == 8


def test_setup_hours_are_not_work_that_a_faster_cell_would_shorten(quote_of: Quotes, cells_of: Cells) -> None:
    quote = quote_of({"unit": "card_hour", "price": 20, "setup_hours": 4})
    decision = decide(cost_table(cells_of((1, 1000)), [quote], 10 * HOUR_TOKENS, 2), Constraints(deadline_hours=14))
    # 4 h + 20 h; in 14 h there are 10 h for the work: twice the pace, or one of the two epochs
    assert "a deadline of 24 h; or 2.00 times its throughput; or 1 epoch instead of 2" in said(decision)


def test_a_cell_of_unknown_memory_only_may_fit_where_a_share_is_asked_for(article: Quote, cells_of: Cells) -> None:
    decision = decide(cost_table(cells_of((1, 1000)), [article], HOUR_TOKENS), Constraints(max_memory_share=0.9))
    assert not decision.certain
    assert "its memory was not measured, so it may not fit within 90% of the card" in decision.reasons[0]


def test_a_known_memory_goes_before_an_unknown_one_where_a_share_is_asked_for(article: Quote, cells_of: Cells) -> None:
    memory = {"memory.device_used_gib": [None, 40.0], "memory.card_gib": 80.0}
    table = cost_table(cells_of((1, 1000), (2, 1900), **memory), [article], HOUR_TOKENS)
    assert chosen(decide(table, Constraints(max_memory_share=0.9)))["cards"] == 2


def test_where_no_memory_fits_the_closest_is_named(article: Quote, cells_of: Cells) -> None:
    memory = {"memory.device_used_gib": [78.0, 76.0], "memory.card_gib": 80.0}
    table = cost_table(cells_of((1, 1000), (2, 1900), **memory), [article], HOUR_TOKENS)
    text = said(decide(table, Constraints(max_memory_share=0.9)))
    assert "What comes closest, 2 cards (ddp), tier hourly of sheet, needs 95% of the card; 90% is allowed." in text


def test_what_is_certain_goes_before_what_may_be_cheaper(quote_of: Quotes, cells_of: Cells) -> None:
    tiers = [
        {"name": "firm", "unit": "card_hour", "price": 30},
        {"name": "loose", "unit": "card_hour", "price": [20, 40]},
    ]
    table = cost_table(cells_of((1, 1000)), [quote_of(*tiers)], 10 * HOUR_TOKENS)
    assert chosen(decide(table, Constraints(budget=300)))["tier"] == "firm"


def test_the_fastest_within_the_budget_is_the_fastest_objective(hundred_hours: pd.DataFrame) -> None:
    assert chosen(decide(hundred_hours, Constraints(budget=5000), "fastest"))["cards"] == 8


def test_one_card_that_meets_everything_is_named_where_more_are_chosen(hundred_hours: pd.DataFrame) -> None:
    text = said(decide(hundred_hours, Constraints(deadline_hours=200), "fastest"))
    assert "One card would be enough too" in text


def test_the_cheapest_before_the_deadline_needs_a_deadline(hundred_hours: pd.DataFrame) -> None:
    with pytest.raises(ConfigError, match=r"workload.deadline_hours: is missing"):
        decide(hundred_hours, objective="cheapest_before_deadline")


def test_an_unknown_objective_lists_the_known_ones(hundred_hours: pd.DataFrame) -> None:
    with pytest.raises(ConfigError, match="did you mean cheapest"):
        decide(hundred_hours, objective="cheapst")


@pytest.mark.parametrize("bad", [0.0, -5.0, float("nan")])
def test_a_budget_that_is_no_money_is_refused(hundred_hours: pd.DataFrame, bad: float) -> None:
    with pytest.raises(ConfigError, match=r"workload.budget"):
        decide(hundred_hours, Constraints(budget=bad))


def test_card_counts_on_offer_limit_the_choice(hundred_hours: pd.DataFrame) -> None:
    assert chosen(decide(hundred_hours, Constraints(card_counts=(2, 4))))["cards"] in (2, 4)


def test_a_cell_above_the_memory_line_is_left_out_when_asked(article: Quote, cells_of: Cells) -> None:
    memory = {"memory.device_used_gib": [78.0, 40.0], "memory.card_gib": 80.0}
    table = cost_table(cells_of((1, 1000), (2, 1900), **memory), [article], HOUR_TOKENS)
    assert chosen(decide(table, Constraints(max_memory_share=0.9)))["cards"] == 2


def test_two_currencies_are_not_ranked_together(quote_of: Quotes, cells_of: Cells) -> None:
    tier = {"unit": "card_hour", "price": 20}
    table = cost_table(cells_of((1, 1000)), [quote_of(tier), quote_of(tier, currency="USD")], HOUR_TOKENS)
    with pytest.raises(ConfigError, match="CNY and USD cannot be ranked together"):
        decide(table)


def test_two_models_are_no_alternatives_to_each_other(article: Quote, cells_of: Cells) -> None:
    cells = cells_of((1, 1000), (1, 9000), **{"workload.model": ["7b", "1b"]})
    table = cost_table(cells, [article], HOUR_TOKENS)
    with pytest.raises(ConfigError, match="the cells are of 1b, 7b"):
        decide(table)
    assert chosen(decide(table, Constraints(model="7b")))["model"] == "7b"


def test_a_predicted_choice_says_that_it_was_not_measured(article: Quote, cells_of: Cells) -> None:
    cells = cells_of((4, 3600), (5, 4500)).assign(status=["imported", "predicted"])
    decision = decide(cost_table(cells, [article], 10 * HOUR_TOKENS, 10), Constraints(deadline_hours=24))
    assert not chosen(decision)["measured"]
    assert "was not measured: measure this count" in said(decision)


def test_a_wide_prediction_counts_at_its_slow_end(article: Quote, cells_of: Cells) -> None:
    cells = cells_of((4, 4000), (5, 4000)).assign(
        status=["predicted", "imported"],
        **{"throughput.tokens_per_s_low": [2000, None], "throughput.tokens_per_s_high": [8000, None]},
    )
    table = cost_table(cells, [article], 10 * HOUR_TOKENS, 10)
    assert chosen(decide(table, Constraints(deadline_hours=26)))["cards"] == 5


def test_a_measurement_on_another_card_is_not_priced_where_the_right_one_exists(
    quote_of: Quotes, cells_of: Cells
) -> None:
    tier = {"unit": "card_hour", "price": 20}
    cells = cells_of((1, 1000), (1, 9000), **{"device.name": ["A100 80G", "NVIDIA H100"]})
    decision = decide(cost_table(cells, [quote_of(tier)], HOUR_TOKENS))
    assert chosen(decision)["device"] == "A100 80G"


def test_a_study_on_a_cpu_priced_as_a_card_is_called_an_illustration(article: Quote, cells_of: Cells) -> None:
    decision = decide(cost_table(cells_of((1, 1000), **{"device.name": "cpu"}), [article], HOUR_TOKENS))
    assert "measured on cpu, the quote is for a100_80g" in said(decision)


def test_the_hourly_against_monthly_break_even_is_in_the_reasons(hundred_hours: pd.DataFrame, article: Quote) -> None:
    text = said(decide(hundred_hours, quotes=[article]))
    assert (
        "monthly beats hourly from 400 h of use a month at the low ends of the prices, 343 h at the high ends" in text
    )


def test_the_price_that_flips_the_decision_is_named(quote_of: Quotes, cells_of: Cells) -> None:
    tiers = [{"name": "a", "unit": "card_hour", "price": 30}, {"name": "b", "unit": "card_hour", "price": [20, 40]}]
    decision = decide(cost_table(cells_of((1, 1000)), [quote_of(*tiers)], 10 * HOUR_TOKENS))
    # a costs 300; ten hours of b cost less below 30 an hour
    assert [flip.price for flip in decision.price_flips] == [pytest.approx(30)]
    assert "if sheet b cost less than 30 CNY (20 to 40 CNY quoted)" in said(decision)


def test_low_prices_that_would_change_the_choice_are_named(quote_of: Quotes, cells_of: Cells) -> None:
    tiers = [{"name": "a", "unit": "card_hour", "price": 30}, {"name": "b", "unit": "card_hour", "price": [20, 40]}]
    decision = decide(cost_table(cells_of((1, 1000)), [quote_of(*tiers)], 10 * HOUR_TOKENS))
    assert (
        "With every price at its low end, throughput at its high end the choice would be 1 card (ddp), tier b"
        in said(decision)
    )


def test_a_choice_that_nothing_flips_says_so(quote_of: Quotes, cells_of: Cells) -> None:
    decision = decide(cost_table(cells_of((1, 1000)), [quote_of({"unit": "card_hour", "price": 30})], HOUR_TOKENS))
    assert "The choice is the same at both ends" in said(decision)


def test_a_quote_that_is_cheaper_by_the_hour_but_not_for_the_job_is_explained(
    quote_of: Quotes, cells_of: Cells
) -> None:
    cells = cells_of((8, 1000), **{"device.interconnect": "NVLink"})
    fast = quote_of({"unit": "card_hour", "price": 22, "interconnect": "NVLink"}, name="fast")
    slow = quote_of({"unit": "card_hour", "price": 20, "interconnect": "PCIe"}, name="slow")
    decision = decide(cost_table(cells, [fast, slow], 100 * HOUR_TOKENS))
    assert chosen(decision)["quote"] == "fast"
    assert (
        "By the card-hour 8 cards (ddp), tier card_hour of slow, predicted is cheaper (20 CNY against 22 CNY)"
        in said(decision)
    )


def test_an_unknown_price_is_kept_out_of_the_ranking(quote_of: Quotes, cells_of: Cells) -> None:
    tiers = [{"name": "a", "unit": "card_hour", "price": 30}, {"name": "b", "unit": "card_hour", "price": "n/a"}]
    decision = decide(cost_table(cells_of((1, 1000)), [quote_of(*tiers)], HOUR_TOKENS))
    assert list(decision.cells.loc[decision.cells["candidate"], "tier"]) == ["a"]


def test_nothing_to_price_is_said_with_its_causes(article: Quote, cells_of: Cells) -> None:
    decision = decide(cost_table(cells_of((1, float("nan")), status="oom"), [article], HOUR_TOKENS))
    assert decision.reasons == ("Nothing can be priced: no throughput (4).",)


def test_an_empty_table_is_said_to_be_empty(article: Quote, cells_of: Cells) -> None:
    decision = decide(cost_table(cells_of((1, 1000)).iloc[:0], [article], HOUR_TOKENS))
    assert decision.reasons == ("Nothing can be priced: no cells and tiers were given.",)


def test_the_front_keeps_what_nothing_beats_in_both() -> None:
    hours = pd.Series([1.0, 2.0, 3.0, 3.0, 2.0]).to_numpy()
    cost = pd.Series([9.0, 5.0, 6.0, 5.0, 5.0]).to_numpy()
    assert list(pareto_front(hours, cost)) == [True, True, False, False, True]


def test_the_json_has_the_names_that_scripts_rely_on(hundred_hours: pd.DataFrame) -> None:
    data = decide(hundred_hours, Constraints(deadline_hours=24)).to_json()
    assert {"decision", "alternatives", "cells"} <= set(data)
    assert len(data["cells"]) == 16
    cell = data["cells"][0]
    assert (cell["cards"], cell["mode"], cell["tier"], cell["epoch_hours"]) == (1, "ddp", "hourly", 10)
    assert cell["cost_per_epoch"] == {"low": 200, "high": 350}
    assert cell["total_cost"] == {"low": 2000, "high": 3500}
    assert (cell["currency"], cell["measured"]) == ("CNY", True)
    assert data["decision"]["cards"] == 8


def test_the_json_is_strict_and_blank_is_null(article: Quote, cells_of: Cells) -> None:
    cells = cells_of((1, float("nan")), (8, 6400)).assign(status=["oom", "imported"])
    text = json.dumps(decide(cost_table(cells, [article], HOUR_TOKENS)).to_json(), allow_nan=False)
    assert json.loads(text)["cells"][0]["total_cost"] == {"low": None, "high": None}


def test_the_json_of_an_infeasible_deadline_has_the_nearest_and_no_cards(hundred_hours: pd.DataFrame) -> None:
    data = decide(hundred_hours, Constraints(deadline_hours=10)).to_json()
    assert (data["decision"]["feasible"], data["decision"]["cards"]) == (False, None)
    assert data["alternatives"][0]["cards"] == 8


def test_the_reasons_speak_chinese(hundred_hours: pd.DataFrame, article: Quote) -> None:
    text = said(decide(hundred_hours, Constraints(deadline_hours=24), quotes=[article], lang="zh"))
    assert "建议租用 8 张卡" in text
    assert "理想情况需要 4.17 张卡" in text


def test_every_sentence_fills_the_same_gaps_in_both_languages() -> None:
    for english, chinese in SENTENCES.values():
        gaps = [{name for _, name, _, _ in string.Formatter().parse(text) if name} for text in (english, chinese)]
        assert gaps[0] == gaps[1], english


def test_a_tier_that_is_dearer_at_any_quoted_price_flips_nothing(quote_of: Quotes, cells_of: Cells) -> None:
    tiers = [{"name": "a", "unit": "card_hour", "price": 10}, {"name": "b", "unit": "card_hour", "price": [20, 40]}]
    assert decide(cost_table(cells_of((1, 1000)), [quote_of(*tiers)], 10 * HOUR_TOKENS)).price_flips == ()


def test_quotes_are_ranked_by_what_this_job_costs_there(quote_of: Quotes, cells_of: Cells) -> None:
    cells = cells_of((8, 1000), **{"device.interconnect": "NVLink"})
    fast = quote_of({"unit": "card_hour", "price": 22, "interconnect": "NVLink"}, name="fast")
    slow = quote_of({"unit": "card_hour", "price": 20, "interconnect": "PCIe"}, name="slow")
    data = decide(cost_table(cells, [slow, fast], 100 * HOUR_TOKENS)).to_json()
    assert [cell["quote"] for cell in data["quotes"]] == ["fast", "slow"]


def test_the_date_of_the_prices_and_the_length_of_a_month_travel_with_each_cell(hundred_hours: pd.DataFrame) -> None:
    cell = decide(hundred_hours).to_json()["cells"][0]
    assert (cell["price_date"], cell["hours_per_month"]) == ("2026-01-31", 720)


def test_a_model_that_never_ran_does_not_stand_in_the_way(article: Quote, cells_of: Cells) -> None:
    cells = cells_of((1, 1000), (1, float("nan"))).assign(
        **{"workload.model": ["7b", "70b"], "status": ["imported", "oom"]}
    )
    decision = decide(cost_table(cells, [article], HOUR_TOKENS))
    assert chosen(decision)["model"] == "7b"
    assert "oom" not in said(decision)
