"""Throughput from the log of a Hugging Face Trainer: trainer_state.json, or its log_history alone.

What the fields mean (transformers, src/transformers/trainer.py and trainer_utils.speed_metrics):
`num_input_tokens_seen` is gathered over all processes and counts up over the whole run; `train_runtime` beside it in an
interval's entry is seconds since this session's start, so that two entries give the rate between them. The entry at the
end has the averages of the whole run, warm-up, evaluations and checkpoints included. `train_tokens_per_second` without
`num_input_tokens_seen` comes from `include_tokens_per_second`, which is per device; `train_samples_per_second` is of
the whole job.
"""

from __future__ import annotations

import json
import math
import statistics
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from configs.errors import ConfigError

TOKENS, RUNTIME = "num_input_tokens_seen", "train_runtime"
TOKEN_RATE, SAMPLE_RATE = "train_tokens_per_second", "train_samples_per_second"
FORM = "trainer_state.json of a Hugging Face Trainer, or its log_history"
ADVICE = "TrainingArguments(include_num_input_tokens_seen=True) logs tokens; seq_len=N makes tokens of samples"


@dataclass(frozen=True)
class TrainerRun:
    """What a log says. step_times_s: the mean step of each logging interval, in order; empty where only averages are.

    global_batch_tokens: input tokens of one optimizer step, None where steps differ. losses: as logged, in nats.
    """

    tokens_per_s: float  # of the whole job
    step_times_s: tuple[float, ...]
    global_batch_tokens: float | None
    steps: int
    losses: tuple[float, ...]
    notes: tuple[str, ...]


@dataclass(frozen=True)
class _Point:
    """The state of the counters at one entry of the log."""

    place: int
    step: float
    tokens: float
    runtime_s: float


def read_trainer_state(text: str, where: str, cards: int, seq_len: int | None = None) -> TrainerRun:
    """The throughput of the run that `text` logs. `where` is its file's name, for messages.

    cards: number of processes, which the log does not say. seq_len: tokens of a sample, where the log counts samples
    only. Raises ConfigError where `text` is no such log or holds no throughput.
    """
    history = _history(text, where)
    losses = tuple(loss for entry in history if (loss := _number(entry, "loss")) is not None)
    steps = int(max((_number(entry, "step") or 0 for entry in history), default=0))
    points = [
        _Point(place, step, tokens, runtime)
        for place, entry in enumerate(history)
        if "train_loss" not in entry  # the summary: its runtime has evaluations and the last checkpoint in it
        and (step := _positive(entry, "step"))
        and (tokens := _positive(entry, TOKENS))
        and (runtime := _positive(entry, RUNTIME))
    ]
    windows = _windows(points, history)
    if windows:
        return _from_windows(windows, steps, losses, len(points) - 1 - len(windows))
    for rate, note in (
        _average_of_counters(history),
        _average_per_device(history, cards),
        _average_of_samples(history, seq_len),
    ):
        if rate is not None:
            whole = "an average of the whole run: warm-up, evaluations and checkpoints are in it"
            return TrainerRun(rate, (), None, steps, losses, (note, whole))
    raise ConfigError(where, "holds no throughput in tokens", ADVICE)


def _history(text: str, where: str) -> list[dict[str, Any]]:
    try:
        data = json.loads(text.lstrip("\ufeff"))
    except (ValueError, RecursionError):
        raise ConfigError(where, "is not JSON", FORM) from None
    history = data.get("log_history") if isinstance(data, dict) else data
    if not isinstance(history, list) or not all(isinstance(entry, dict) for entry in history):
        raise ConfigError(where, "has no log_history that is a list of entries", FORM)
    if not history:
        raise ConfigError(where, "has an empty log_history", ADVICE)
    return history


def _windows(points: list[_Point], history: list[dict[str, Any]]) -> list[tuple[_Point, _Point]]:
    """Neighbouring points of one session with training alone between them.

    What lies before the first point is warm-up. An evaluation is logged after the entry of its step, and so its time
    falls between that entry and the next; a resumed run starts its clock anew.
    """
    found = []
    for start, end in pairwise(points):
        evaluated = any(str(key).startswith("eval_") for entry in history[start.place : end.place + 1] for key in entry)
        grows = end.runtime_s > start.runtime_s and end.step > start.step and end.tokens > start.tokens
        if grows and not evaluated:
            found.append((start, end))
    return found


def _from_windows(
    windows: list[tuple[_Point, _Point]], steps: int, losses: tuple[float, ...], passed_over: int
) -> TrainerRun:
    times = tuple((end.runtime_s - start.runtime_s) / (end.step - start.step) for start, end in windows)
    batches = {round((end.tokens - start.tokens) / (end.step - start.step), 6) for start, end in windows}
    notes = [f"{len(windows)} logging intervals, warm-up before the first left out"]
    if passed_over:
        notes.append(f"{passed_over} intervals with an evaluation or a restart left out")
    if len(batches) == 1:
        [batch] = batches
        return TrainerRun(batch / statistics.median(times), times, batch, steps, losses, tuple(notes))
    rates = [(end.tokens - start.tokens) / (end.runtime_s - start.runtime_s) for start, end in windows]
    notes.append("steps differ in tokens: the rate is the median of the intervals'")
    return TrainerRun(statistics.median(rates), times, None, steps, losses, tuple(notes))


def _average_of_counters(history: list[dict[str, Any]]) -> tuple[float | None, str]:
    for entry in reversed(history):
        tokens, runtime = _positive(entry, TOKENS), _positive(entry, RUNTIME)
        if tokens and runtime:
            steps, rate = _positive(entry, "step"), _positive(entry, "train_steps_per_second")
            if steps and rate and rate * runtime < 0.99 * steps:  # resumed: the clock is younger than the counter
                share = rate * runtime / steps
                return tokens * share / runtime, f"{TOKENS} over {RUNTIME}, of the steps since the run was resumed"
            return tokens / runtime, f"{TOKENS} over {RUNTIME}"
    return None, ""


def _average_per_device(history: list[dict[str, Any]], cards: int) -> tuple[float | None, str]:
    for entry in reversed(history):
        if rate := _positive(entry, TOKEN_RATE):
            return rate * cards, f"{TOKEN_RATE} without {TOKENS} is per device: times {cards} cards"
    return None, ""


def _average_of_samples(history: list[dict[str, Any]], seq_len: int | None) -> tuple[float | None, str]:
    for entry in reversed(history):
        if seq_len and (rate := _positive(entry, SAMPLE_RATE)):
            return rate * seq_len, f"{SAMPLE_RATE} times seq_len={seq_len}: padding counts as tokens"
    return None, ""


def _number(entry: dict[str, Any], key: str) -> float | None:
    """A finite number of the entry; None for anything else (Trainer writes NaN for a loss that overflowed)."""
    value = entry.get(key)
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        return None
    return float(value)


def _positive(entry: dict[str, Any], key: str) -> float | None:
    value = _number(entry, key)
    return value if value is not None and value > 0 else None
