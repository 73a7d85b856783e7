from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pandas as pd

from analysis.cost.report_costs import Terms
from analysis.prices import Quote
from analysis.report import Report, make_report
from analysis.tables import Span
from configs.schema import Decide, Workload


def _report(cells: pd.DataFrame, *quotes: Quote, **options: Any) -> Report:
    return make_report("demo", cells, options.pop("collectives", pd.DataFrame()), quotes, **options)


def _said(report: Report) -> str:
    return " ".join(report.notices)


def test_eight_ranks_on_two_cores_are_said_to_be_oversubscribed(cells_of: Callable[..., pd.DataFrame]) -> None:
    cells = cells_of((1, 100.0), (8, 120.0), **{"machine.device": "cpu", "device.cores": 2})
    said = _said(_report(cells))
    assert "ranks (processes) stand in for cards" in said
    assert "prices are illustrative" in said
    assert "up to 8 ranks ran on 2 cores" in said


def test_two_ranks_on_two_cores_are_not_oversubscribed(cells_of: Callable[..., pd.DataFrame]) -> None:
    cells = cells_of((2, 100.0), **{"machine.device": "cpu", "device.cores": 2})
    assert "oversubscribed" not in _said(_report(cells))


def test_threads_of_a_rank_count_against_the_cores(cells_of: Callable[..., pd.DataFrame]) -> None:
    columns = {"machine.device": "cpu", "device.cores": 2, "parallel.threads_per_rank": 2}
    assert "up to 2 ranks ran on 2 cores" in _said(_report(cells_of((2, 100.0), **columns)))


def test_a_gpu_study_is_not_called_illustrative(cells_of: Callable[..., pd.DataFrame]) -> None:
    report = _report(cells_of((1, 100.0), **{"machine.device": "cuda", "device.name": "NVIDIA H200"}))
    assert report.notices == ()


def test_a_study_in_which_everything_failed_lists_why(article: Quote) -> None:
    cells = pd.DataFrame(
        {
            "cell_id": ["m-ddp-1", "m-ddp-2"],
            "benchmark": "finetune",
            "status": ["oom", "timeout"],
            "workload.model": "m",
            "parallel.mode": "ddp",
            "parallel.cards": [1, 2],
            "error.kind": ["OutOfMemoryError", "timeout"],
            "error.message": ["tried to allocate\n2 GiB", "rank 1 stopped"],
            "error.rank": [0, 1],
            "error.hint": ["smaller micro_batch", ""],
        }
    )
    report = _report(cells, article)
    assert "No cell was measured" in _said(report)
    assert [table.name for table in report.tables] == ["failures"]
    reasons = [row.values[-1] for row in report.tables[0].rows]
    assert reasons == [
        "rank 0: OutOfMemoryError: tried to allocate 2 GiB (smaller micro_batch)",
        "rank 1: timeout: rank 1 stopped",
    ]


def test_a_study_without_a_record_says_how_to_measure_one(article: Quote) -> None:
    report = _report(pd.DataFrame(), article)
    assert "cardscale run study=demo" in _said(report)
    assert report.tables == ()


def test_what_could_not_be_read_is_said(cells_of: Callable[..., pd.DataFrame]) -> None:
    assert "Left out: damaged record" in _said(_report(cells_of((1, 1.0)), left_out=["damaged record"]))


def test_collectives_are_grouped_by_operation_and_cards(cells_of: Callable[..., pd.DataFrame]) -> None:
    sizes = pd.DataFrame(
        {
            "op": "all_reduce",
            "dtype": "fp32",
            "cards": [2, 2, 4],
            "bytes": [1024, 4096, 1024],
            "time_us": [100.0, 110.0, 150.0],
            "algbw_gbps": [0.01, 0.04, 0.007],
            "busbw_gbps": [0.01, 0.04, 0.01],
            "wrong": [0, 0, 3],
        }
    )
    table = _report(cells_of((1, 1.0)), collectives=sizes).tables[-1]
    assert [group.heading for group in table.groups] == ["all_reduce · fp32 · 2 cards", "all_reduce · fp32 · 4 cards"]
    assert [row.tone for row in table.rows] == ["ok", "ok", "failed"]


def test_the_order_of_the_rows_changes_no_number(cells_of: Callable[..., pd.DataFrame], article: Quote) -> None:
    cells = cells_of((1, 1000.0), (2, 1900.0), (4, 3600.0), (8, 7000.0))
    there, back = (_report(frame, article).tables for frame in (cells, cells.iloc[::-1].reset_index(drop=True)))
    assert there == back


def test_the_decision_comes_first_with_its_reasons(cells_of: Callable[..., pd.DataFrame], article: Quote) -> None:
    # 36 million tokens at 1,000 tokens/s: 10 h on one card at 20 to 35.
    cells = cells_of((1, 1000.0), (4, 3600.0), **{"workload.data_set_tokens": 36e6})
    table = _report(cells, article).tables[0]
    assert table.name == "decision"
    assert table.rows[0].values[:4] == ("rent this", 1, "ddp", "sheet hourly")
    assert table.rows[0].values[5] == Span(200, 350)
    assert any("One card is enough" in sentence for sentence in table.lead)


def test_two_models_have_a_decision_each(cells_of: Callable[..., pd.DataFrame], article: Quote) -> None:
    cells = cells_of((1, 1000.0), (1, 500.0), **{"workload.model": ["big", "small"], "workload.data_set_tokens": 36e6})
    tables = [table for table in _report(cells, article).tables if table.name.startswith("decision")]
    assert [table.title for table in tables] == ["Decision: big", "Decision: small"]


def test_two_currencies_have_a_decision_each(
    cells_of: Callable[..., pd.DataFrame], quote_of: Callable[..., Quote]
) -> None:
    hourly = {"name": "hourly", "unit": "card_hour", "price": [2, 3]}
    quotes = quote_of(hourly, name="a"), quote_of(hourly, name="b", currency="USD")
    titles = [table.title for table in _report(cells_of((1, 1000.0)), *quotes).tables]
    assert titles[:2] == ["Decision: CNY", "Decision: USD"]


def test_the_environment_lists_every_value_with_the_cells_that_had_it(
    cells_of: Callable[..., pd.DataFrame], article: Quote
) -> None:
    columns = {"environment.packages.torch": ["2.6", "2.7", "2.7"], "device.name": "NVIDIA H200"}
    cells = cells_of((1, 1000.0), (2, 1900.0), (4, 3600.0), **columns)
    table = next(t for t in _report(cells, article).details if t.name == "environment")
    assert [row.values for row in table.rows] == [
        ("device", "NVIDIA H200", 3),
        ("torch", "2.6", 1),
        ("torch", "2.7", 2),
    ]


def test_many_sizes_of_collectives_are_summed_up_and_kept_in_the_details(
    cells_of: Callable[..., pd.DataFrame], article: Quote
) -> None:
    sizes = pd.DataFrame({"op": "all_reduce", "cards": 8, "ranks": 8, "bytes": range(1, 101), "time_us": 10.0})
    report = _report(cells_of((1, 1.0)), article, collectives=sizes)
    assert len(next(table for table in report.tables if table.name == "collectives").rows) == 1
    assert len(next(table for table in report.details if table.name == "collectives_sizes").rows) == 100


def test_a_deadline_and_a_budget_that_exclude_each_other_have_their_rows_named(
    article: Quote, cells_of: Callable[..., pd.DataFrame]
) -> None:
    workload = Workload(epoch_tokens=36e6, epochs=10, deadline_hours=60, budget=4000)
    terms = Terms(workload, options=Decide(predict=False))
    report = _report(cells_of((1, 1000), (8, 2000)), article, terms=terms)
    decision = next(table for table in report.tables if table.name == "decision")
    assert [row.values[0] for row in decision.rows] == ["cheapest in time", "fastest in budget"]
