"""The three-step test from a study's records, one command at a time."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from configs.schema import Config
from launch.guide import walk
from launch.study.single_card import one_card_record, verdict_of
from results.record import Record
from results.store import write_record

CardScale = Callable[..., subprocess.CompletedProcess[str]]


def one_card(status: str = "ok", utilisation_pct: float = 85.0, used_gib: float = 60.0, **changes: Any) -> Record:
    """One card that takes 10 h for an epoch of 36 million tokens: 1,000 tokens/s."""
    fields: dict[str, Any] = {
        "workload": {"model": "llama2_7b", "micro_batch": 1, "data_set_tokens": 36_000_000},
        "parallel": {"mode": "fsdp", "cards": 1},
        "throughput": {"tokens_per_s": 1000.0, "data_wait_fraction": 0.0, "mfu": 0.4} if status == "ok" else {},
        "memory": {"device_used_gib": used_gib, "card_gib": 80.0},
        "device": {"utilisation_pct": utilisation_pct, "name": "NVIDIA A100-SXM4-80GB"},
        "config": {"machine": {"device": "cuda"}},
    }
    return Record("g", "one", "finetune", status, "2026-01-01T00:00:00+00:00", 60.0, 0.02, **(fields | changes))


def test_first_a_card_is_measured() -> None:
    (step,) = walk("g", None, {}, Config())
    assert step.number == 1
    assert step.command == "cardscale run +study=single_card study=g model=tiny machine=cpu"


def test_then_the_deadline_is_asked_for() -> None:
    *_, step = walk("g", one_card(), {}, Config())
    assert step.number == 2
    assert step.command is not None
    assert "workload.deadline_hours" in step.command


def test_ten_epochs_of_ten_hours_in_a_day_need_5_cards_at_90_and_9_at_50_percent() -> None:
    """100 h / 24 h = 4.17 ideal cards; the article's own case."""
    _, deadline, quotes = walk("g", one_card(), {"epochs": 10.0, "deadline_hours": 24.0}, Config())
    said = " ".join(deadline.sentences)
    assert "100 h of work" in said
    assert "4.17 cards" in said
    assert "At 90% efficiency it is 5 cards" in said
    assert "At 50% efficiency it is 9 cards" in said
    assert quotes.command is None


@pytest.mark.parametrize(
    ("record", "verdict"),
    [
        (one_card(), "one card is enough"),
        (one_card(used_gib=75.0), "one card is tight"),
        (one_card(status="oom"), "look at several cards"),
        (one_card(utilisation_pct=20.0, used_gib=20.0), "fix the cause first"),
        (one_card(config={"machine": {"device": "cpu"}}), "not measured"),
    ],
)
def test_one_cards_record_has_a_verdict(record: Record, verdict: str) -> None:
    assert verdict_of(record).verdict == verdict


def test_a_good_record_goes_before_one_that_ran_out_of_memory() -> None:
    assert one_card_record([one_card(status="oom"), one_card()]) == one_card()


def test_what_was_answered_once_is_not_asked_again(cardscale: CardScale, tmp_path: Path) -> None:
    write_record(tmp_path / "results" / "runs" / "g", one_card())
    first = cardscale("guide", "study=g", "workload.epochs=10", "workload.deadline_hours=24")
    assert first.returncode == 0, first.stderr
    again = cardscale("guide", "study=g", "format=json")
    content = json.loads(again.stdout)
    assert [step["number"] for step in content["steps"]] == [1, 2, 3]
    assert content["decision"]["cells"]


def test_a_damaged_state_is_one_line(cardscale: CardScale, tmp_path: Path) -> None:
    study = tmp_path / "results" / "runs" / "g"
    write_record(study, one_card())
    (study / "guide.json").write_text("[1")
    done = cardscale("guide", "study=g")
    assert done.returncode == 2
    assert done.stderr.strip().endswith("guide.json: is damaged; remove it; the guide asks again")
