"""The `guide` command: the three-step test, one command at a time, its state kept in the study."""

from __future__ import annotations

import json
import shlex
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rich.console import Console

from analysis.decision.deadline import CardsForDeadline, cards_for_deadline
from configs.errors import ConfigError, choose
from configs.schema import Config
from launch.decide import cells_of, epoch_tokens, make_decision
from launch.render.decision import print_decision
from launch.run import study_folder
from launch.study.sheets import load_sheets
from launch.study.single_card import one_card_record, verdict_of
from results.record import Record
from results.store import records, write_json_atomically

STATE_FILE = "guide.json"
FORMATS = ("text", "json")
# 4 cards give 2x to 3.6x in practice (https://idctop.com/article/573547.html): 50 % to 90 %
EFFICIENCIES = (0.9, 0.5)
REMEMBERED = ("epoch_tokens", "epochs", "deadline_hours", "budget")


@dataclass(frozen=True)
class Step:
    """Where the guide stands: what is known, in sentences, and the one command to give next (None: done)."""

    number: int
    title: str
    sentences: tuple[str, ...]
    command: str | None


def guide_command(configs: list[Config], console: Console) -> int:
    """Say the next of the three steps; after the last, decide. Returns 0. Raises ConfigError for wrong input."""
    config = configs[0]
    choose("format", config.format, FORMATS)
    study = study_folder(config)
    found = one_card_record(records(study)) if study.is_dir() else None
    answers = remembered(study, config)
    steps = walk(config.study_name, found, answers, config)
    if found is not None:
        write_json_atomically(study / STATE_FILE, answers)
    decision = None
    if steps[-1].command is None:
        decision = make_decision(_with(config, answers), cells_of(config), load_sheets(config.price_sheets))
    if config.format == "json":
        content = [{**step.__dict__, "sentences": list(step.sentences)} for step in steps]
        whole = {"steps": content, "decision": None if decision is None else decision.to_json()}
        print(json.dumps(whole, ensure_ascii=False, allow_nan=False, indent=1))
        return 0
    out = Console(file=sys.stdout, highlight=False)
    for step in steps:
        out.print(f"Step {step.number} of 3: {step.title}", style="bold")
        for sentence in step.sentences:
            out.print(f"- {sentence}", markup=False)
        if step.command is not None:
            out.print(f"next: {step.command}", markup=False, soft_wrap=True)
    if decision is not None:
        print_decision(decision, out, config.lang)
    return 0


def remembered(study: Path, config: Config) -> dict[str, Any]:
    """The answers given so far: those of this call over those of earlier ones in the study's guide.json."""
    path = study / STATE_FILE
    before: dict[str, Any] = {}
    if path.exists():
        try:
            before = json.loads(path.read_text(encoding="utf-8"))
            kept = {name: before[name] for name in REMEMBERED if before.get(name) is not None}
        except (ValueError, AttributeError, TypeError):
            raise ConfigError(str(path), "is damaged", "remove it; the guide asks again") from None
        before = kept
    given = {name: getattr(config.workload, name) for name in REMEMBERED}
    stated = {name: value for name, value in given.items() if value is not None and (name, value) != ("epochs", 1.0)}
    return {**before, **stated}


def walk(name: str, found: Record | None, answers: dict[str, Any], config: Config) -> list[Step]:
    """The steps taken so far and the next one. Pure: everything it says follows from its arguments."""
    study = f"study={shlex.quote(name)}"
    if found is None:
        measure = f"cardscale run +study=single_card {study} model={config.model.name} machine={config.machine.name}"
        why = "Rent one card for an hour: the real model, real text. Memory and utilisation decide what comes next."
        return [Step(1, "one card", (why,), measure)]
    verdict = verdict_of(found)
    one = Step(1, "one card", (f"{verdict.verdict}.", *verdict.reasons, *verdict.causes), None)
    if "deadline_hours" not in answers:
        ask = f"cardscale guide {study} workload.epochs=10 workload.deadline_hours=24"
        why = "State the epochs and the hours you have, and workload.epoch_tokens if other data was measured."
        return [one, Step(2, "work back from the deadline", (why,), ask)]
    two = Step(2, "work back from the deadline", _deadline_sentences(found, answers), None)
    if "budget" not in answers and not config.price_sheets and not config.decide.card_counts:
        three = "Quotes are compared by what this job costs at them; prices=YOUR_SHEET.csv replaces the example sheet."
        return [one, two, Step(3, "compare quotes", (three,), None)]
    return [one, two, Step(3, "compare quotes", (f"Price sheets: {', '.join(config.price_sheets)}.",), None)]


def _deadline_sentences(found: Record, answers: dict[str, Any]) -> tuple[str, ...]:
    rate = found.throughput.get("tokens_per_s")
    tokens = answers.get("epoch_tokens") or found.workload.get("data_set_tokens")
    if not rate or not tokens:
        return ("One card gave no throughput, so the count follows from what several cards measure.",)
    hours, epochs = tokens / rate / 3600, answers.get("epochs", 1.0)
    plans = [cards_for_deadline(hours, epochs, answers["deadline_hours"], share) for share in EFFICIENCIES]
    return (
        f"One epoch takes {hours:.3g} h on one card; {epochs:g} epochs are {hours * epochs:.3g} h of work.",
        f"In {answers['deadline_hours']:g} h that is {plans[0].ideal:.2f} cards if scaling were perfect.",
        *(_plan_sentence(plan) for plan in plans),
    )


def _plan_sentence(plan: CardsForDeadline) -> str:
    return f"At {plan.efficiency:.0%} efficiency it is {plan.cards} cards (rule of thumb; a measured one replaces it)."


def _with(config: Config, answers: dict[str, Any]) -> Config:
    workload = replace(config.workload, **answers)
    settled = replace(config, workload=workload)
    epoch_tokens(settled, cells_of(settled))  # says what is missing before anything is printed
    return settled
