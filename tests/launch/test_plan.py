"""`cardscale plan` as a person and a script call it."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable

import pytest

CardScale = Callable[..., subprocess.CompletedProcess[str]]
SEVEN = ("model=llama2_7b", "recipe=full_bf16", "seq_len=2048", "micro_batch=1", "global_batch=64")


def test_a_script_gets_a_list_of_cells(cardscale: CardScale) -> None:
    done = cardscale("plan", *SEVEN, "mode=ddp,tp", "cards=1,3,8", "machine=a100_80g", "format=json")
    assert done.returncode == 0, done.stderr
    cells = json.loads(done.stdout)
    verdicts = {(cell["mode"], cell["cards"]): cell["verdict"] for cell in cells}
    assert verdicts[("ddp", 1)] == "does not fit"
    assert verdicts[("tp", 8)] == "fits"
    assert verdicts[("tp", 3)] == "invalid"
    single = cells[0]
    closed = single["closed_form"]
    assert sum(closed["components_gib"].values()) == pytest.approx(closed["device_gib"])
    assert round(single["rule_of_thumb"]["gib"], 1) == 100.4  # 16 x 6.738e9 bytes
    assert closed["device_gib"] > single["card_gib"]
    assert all(step["effect_gib"] < 0 for remedy in single["remedies"] for step in remedy["steps"])


def test_a_person_is_told_the_verdict_the_rule_and_the_way_out(cardscale: CardScale) -> None:
    done = cardscale("plan", *SEVEN, "mode=ddp", "cards=8", "machine=a100_80g")
    assert done.returncode == 0, done.stderr
    for words in ("Rule of thumb", "does not fit", "16 bytes a parameter", "mode=zero1", "Smallest number of cards"):
        assert words in done.stdout


def test_a_grid_of_which_nothing_is_legal_is_refused_in_one_line_a_cell(cardscale: CardScale) -> None:
    done = cardscale("plan", *SEVEN, "mode=tp", "cards=3", "machine=a100_80g")
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.strip() == (
        "mode=tp: 32 attention heads do not divide by tp=3 (model llama2_7b); tp can be 1, 2, 4, 8, 16 or 32"
    )


def test_a_machine_without_a_card_is_refused(cardscale: CardScale) -> None:
    done = cardscale("plan", *SEVEN)
    assert done.returncode == 2
    assert "name a card" in done.stderr


def test_planning_never_loads_torch() -> None:
    words = ["plan", *SEVEN, "machine=a100_80g", "format=json"]
    code = f"import sys; from launch.cli import run_cli; sys.exit(run_cli({words!r}) or 'torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_serving_is_planned_by_the_same_command(cardscale: CardScale) -> None:
    words = ("plan.task=inference", "model=llama2_7b", "plan.weights=fp16,int4", "machine=4090")
    done = cardscale("plan", *words, "format=json")
    assert done.returncode == 0, done.stderr
    wide, narrow = json.loads(done.stdout)
    assert narrow["most_requests"] > wide["most_requests"] > 0
    assert round(narrow["closed_form"]["components_gib"]["weights"], 2) == 3.62  # 3.89 GB
    text = cardscale("plan", *words).stdout
    assert "Memory a card needs to serve: computed, not measured" in text


def test_training_and_serving_are_not_planned_at_once(cardscale: CardScale) -> None:
    done = cardscale("plan", "plan.task=training,inference", "machine=a100_80g")
    assert done.returncode == 2
    assert done.stderr.strip() == "plan.task: is a sweep; training or inference, one at a time"


def test_a_preset_plans_its_training_cells_once(cardscale: CardScale) -> None:
    done = cardscale("plan", "+study=scaling_7b", "machine=a100_80g", "repeat=0,1", "format=json")
    assert done.returncode == 0, done.stderr
    cells = [(cell["mode"], cell["cards"]) for cell in json.loads(done.stdout)]
    assert sorted(cells) == sorted((mode, n) for mode in ("ddp", "fsdp", "tp", "pp") for n in (1, 2, 4, 8))


def test_collectives_have_nothing_to_plan(cardscale: CardScale) -> None:
    done = cardscale("plan", "benchmark=collectives", "cards=2", "machine=a100_80g")
    assert done.returncode == 2
    assert done.stderr.strip() == "benchmark: collectives has no memory to plan; benchmark=finetune"


def test_gradients_that_wait_between_micro_batches_are_explained(cardscale: CardScale) -> None:
    fsdp = cardscale("plan", *SEVEN, "mode=fsdp", "cards=8", "machine=a100_80g").stdout
    assert "keep whole fp32 gradients between their micro-batches" in " ".join(fsdp.split())
    tensor = cardscale("plan", *SEVEN, "mode=tp", "cards=8", "machine=a100_80g").stdout
    assert "keep whole fp32 gradients" not in " ".join(tensor.split())
