"""What was expected of memory, beside what was measured; and the gate."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from configs.cell import Cell
from launch.study.memory import cannot_fit, expected_memory

CellOf = Callable[..., Cell]
CardScale = Callable[..., subprocess.CompletedProcess[str]]
SEVEN = ("model=llama2_7b", "recipe=full_bf16", "seq_len=2048", "micro_batch=1", "global_batch=64")


def test_the_expectation_is_in_the_names_of_the_measurement(cell_of: CellOf) -> None:
    expected = expected_memory(cell_of(*SEVEN, "mode=zero3", "cards=8", "machine=a100_80g"))
    device = expected["device_used_gib"]
    assert expected["peak_allocated_gib"] < expected["peak_reserved_gib"] < device["value"]
    assert device["low"] < device["value"] < device["high"]
    assert expected["rule_of_thumb_gib"] == pytest.approx(16 * 6_738_415_616 / 8 / 2**30)


def test_only_training_is_expected_anything(cell_of: CellOf) -> None:
    assert expected_memory(cell_of("benchmark=collectives", "cards=2")) == {}


def test_what_has_no_closed_form_says_so(cell_of: CellOf) -> None:
    moe = cell_of("model.config.num_local_experts=8")
    assert "not covered" in expected_memory(moe)["not_covered"]
    assert cannot_fit(moe) is None


@pytest.mark.parametrize(
    ("words", "refused"),
    [(("mode=ddp", "cards=1"), True), (("mode=zero3", "cards=8"), False), (("mode=zero3", "cards=2"), False)],
)
def test_the_gate_refuses_what_the_states_alone_do_not_allow(
    cell_of: CellOf, words: tuple[str, ...], refused: bool
) -> None:
    """7B has 100.4 GiB of states: too much for one card of 80 GiB, 50.2 on each of two."""
    assert (cannot_fit(cell_of(*SEVEN, *words, "machine=a100_80g")) is not None) == refused


def test_a_cell_that_cannot_fit_is_recorded_and_costs_nothing(cardscale: CardScale, tmp_path: Path) -> None:
    words = (*SEVEN, "machine=a100_80g", "cards=1", "study=gate", f"results_dir={tmp_path}")
    done = cardscale("run", *words)
    assert done.returncode == 1
    assert "infeasible" in done.stderr
    (file,) = tmp_path.glob("gate/cells/*/record.json")
    record = json.loads(file.read_text())
    assert (record["status"], record["card_hours"]) == ("infeasible", 0)
    assert record["error"]["kind"] == "DoesNotFit"
    assert record["memory"]["predicted"]["device_used_gib"]["low"] > 80


def test_a_measured_cell_holds_both(cardscale: CardScale, tmp_path: Path) -> None:
    quick = ("seq_len=16", "measure.max_steps=2", "measure.min_steps=1", "measure.warmup_steps=1")
    done = cardscale("run", *quick, "study=both", f"results_dir={tmp_path}")
    assert done.returncode == 0, done.stderr
    (file,) = tmp_path.glob("both/cells/*/record.json")
    memory = json.loads(file.read_text())["memory"]
    assert memory["device_used_gib"] > memory["predicted"]["peak_allocated_gib"] > 0


def test_another_word_for_the_gate_is_refused(cardscale: CardScale) -> None:
    done = cardscale("run", "gate=maybe")
    assert done.returncode == 2
    assert "gate: 'maybe' is unknown" in done.stderr
