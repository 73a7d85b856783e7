from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from configs.compose import compose_grid
from configs.errors import ConfigError
from launch.decide import decide_command, terms_of

# The article's job: 10 h an epoch on one card, 3.6x on four. https://idctop.com/article/573547.html
CSV = """\
model,mode,cards,gpu,tokens_per_s,status
7b,ddp,1,A100 80G,1000,
7b,ddp,4,A100 80G,3600,
7b,tp,4,A100 80G,2000,
"""
JOB = ("workload.epoch_tokens=36e6", "workload.epochs=10", "decide.predict=false")


@pytest.fixture
def decided(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[str, str]]:
    """decided(override, ...) runs the command on the article's measurements; returns standard output and error."""
    (tmp_path / "m.csv").write_text(CSV, encoding="utf-8")

    def run(*overrides: str) -> tuple[str, str]:
        code = decide_command(compose_grid([f"source={tmp_path}/m.csv", *JOB, *overrides]), Console(stderr=True))
        assert code == 0
        captured = capsys.readouterr()
        return captured.out, captured.err

    return run


def test_json_is_one_object_alone_on_standard_output(decided: Callable[..., tuple[str, str]]) -> None:
    out, err = decided("format=json")
    data = json.loads(out)
    assert {"decision", "alternatives", "cells"} <= set(data)
    assert err == ""


def test_the_cells_carry_the_names_that_scripts_rely_on(decided: Callable[..., tuple[str, str]]) -> None:
    cell: dict[str, Any] = json.loads(decided("format=json")[0])["cells"][0]
    assert {"cards", "mode", "tier", "epoch_hours", "cost_per_epoch", "total_cost", "currency", "measured"} <= set(cell)
    assert cell["total_cost"] == {"low": 2000, "high": 3500}  # 100 h at 20 to 35


def test_the_articles_counts_are_five_and_nine(decided: Callable[..., tuple[str, str]]) -> None:
    data = json.loads(decided("format=json", "workload.deadline_hours=24")[0])
    counts = data["decision"]["cards_for_deadline"]
    assert counts["ideal"] == pytest.approx(4.17, abs=0.01)
    assert [estimate["cards"] for estimate in counts["estimates"]] == [5, 9]


def test_with_predictions_the_deadline_of_a_day_is_met(decided: Callable[..., tuple[str, str]]) -> None:
    data = json.loads(decided("format=json", "workload.deadline_hours=24", "decide.predict=true")[0])
    assert data["decision"]["cards"] >= 5
    assert data["decision"]["measured"] is False


def test_without_predictions_the_deadline_of_a_day_is_infeasible(decided: Callable[..., tuple[str, str]]) -> None:
    data = json.loads(decided("format=json", "workload.deadline_hours=24")[0])
    assert data["decision"]["feasible"] is False
    assert "4 cards (ddp)" in data["decision"]["reasons"][0]


def test_the_text_says_that_one_card_is_enough(decided: Callable[..., tuple[str, str]]) -> None:
    assert "One card is enough" in decided()[0]


def test_the_text_shows_the_chosen_option_in_the_table(decided: Callable[..., tuple[str, str]]) -> None:
    row = next(line for line in decided()[0].splitlines() if ">" in line)
    assert "2,000 to 3,500 CNY" in row


def test_the_text_speaks_chinese(decided: Callable[..., tuple[str, str]]) -> None:
    out = decided("lang=zh")[0]
    assert "单卡就够" in out
    assert "总费用" in out


def test_prices_of_another_card_are_listed_and_not_chosen(decided: Callable[..., tuple[str, str]]) -> None:
    data = json.loads(decided("format=json", "prices=jiangsu,jiangsu_h800")[0])
    assert data["decision"]["machine"] == "a100_80g"
    assert {cell["excluded"] for cell in data["cells"] if cell["machine"] == "h800"} == {"measured on another card"}


def test_two_currencies_without_a_rate_are_refused(
    decided: Callable[..., tuple[str, str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    sheet = "provider,gpu,currency,unit,price\nP,A100 80G,USD,gpu-hour,2.5\n"
    (tmp_path / "usd.csv").write_text(sheet, encoding="utf-8")
    with pytest.raises(ConfigError, match="prices: CNY and USD cannot be ranked together"):
        decided("prices=jiangsu,usd.csv")


def test_two_currencies_with_a_dated_rate_are_ranked(
    decided: Callable[..., tuple[str, str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    sheet = "provider,gpu,currency,unit,price\nP,A100 80G,USD,gpu-hour,2.5\n"
    (tmp_path / "usd.csv").write_text(sheet, encoding="utf-8")
    rate = "decide.rates=[{from:USD,to:CNY,rate:7,date:2026-01-05}]"
    data = json.loads(decided("prices=jiangsu,usd.csv", "decide.currency=CNY", rate, "format=json")[0])
    assert data["decision"]["quote"] == "usd"  # 17.50 against 20 to 35
    assert data["decision"]["total_cost"] == {"low": 1750, "high": 1750}


@pytest.mark.parametrize(
    ("override", "where"),
    [
        ("format=xml", "format: 'xml' is unknown"),
        ("prices=nowhere", "prices: 'nowhere' is unknown"),
        ("decide.objective=best", "objective: 'best' is unknown"),
        ("workload.deadline_hours=-1", "workload.deadline_hours: -1"),
        ("workload.budget=0", "workload.budget: 0"),
        ("workload.epoch_tokens=0", "workload.epoch_tokens: 0"),
        ("workload.epochs=0", "workload.epochs: 0"),
        ("costs.idle_share=1", "costs.idle_share: 1 leaves no time"),
        ("decide.model=70b", "decide.model: '70b' is not in the study"),
        ("study=demo", "source: "),
        ("workload.epoch_tokens=null", "workload.epoch_tokens: is not stated"),
    ],
)
def test_wrong_input_is_one_line_that_names_it(
    decided: Callable[..., tuple[str, str]], override: str, where: str
) -> None:
    with pytest.raises(ConfigError) as error:
        decided(override)
    assert str(error.value).startswith(where)
    assert "\n" not in str(error.value)


def test_a_study_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"study: .*gone does not exist"):
        decide_command(compose_grid([f"results_dir={tmp_path}", "study=gone"]), Console(stderr=True))


def test_the_machines_of_the_tree_know_what_drivers_call_their_card() -> None:
    terms = terms_of(compose_grid([])[0])
    assert terms.card_names["h800"] == ["NVIDIA H800"]
    assert (terms.card_memory["a100_80g"], terms.card_memory["h200"]) == (80, 141)


def test_the_sheet_that_nobody_named_is_in_the_first_sentence(decided: Callable[..., tuple[str, str]]) -> None:
    data = json.loads(decided("format=json")[0])["decision"]
    said = "the prices are those of the example sheet jiangsu (prices= is not stated)"
    assert data["reasons"][0].endswith(f"; assumed: {said}.")
    assert data["assumptions"] == [said]


def test_a_sheet_that_was_named_is_no_assumption(decided: Callable[..., tuple[str, str]]) -> None:
    assert json.loads(decided("format=json", "prices=jiangsu")[0])["decision"]["assumptions"] == []


def test_h800_prices_for_an_a100_are_in_the_first_sentence(decided: Callable[..., tuple[str, str]]) -> None:
    data = json.loads(decided("format=json", "prices=jiangsu_h800")[0])["decision"]
    assert "h800 prices for another card: measured on A100 80G" in data["reasons"][0]
