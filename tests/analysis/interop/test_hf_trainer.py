"""A Trainer's log as throughput. The entries' form is that of transformers 5.24; the numbers are chosen."""

from __future__ import annotations

import json
from typing import Any

import pytest

from analysis.interop.hf_trainer import TrainerRun, read_trainer_state
from configs.errors import ConfigError


def _log(step: int, tokens: int, runtime: float, **more: float) -> dict[str, float]:
    return {"step": step, "loss": 5.0 - step / 10, "num_input_tokens_seen": tokens, "train_runtime": runtime, **more}


def _read(*history: Any, cards: int = 8, seq_len: int | None = None) -> TrainerRun:
    return read_trainer_state(json.dumps({"log_history": list(history)}), "trainer_state.json", cards, seq_len)


def test_the_rate_is_that_between_entries_without_the_warm_up() -> None:
    """10 steps of 1,000 tokens in 5, 4 and 6 s after a first interval of 60 s: a median step of 0.5 s."""
    run = _read(
        _log(10, 10_000, 60.0),
        _log(20, 20_000, 65.0),
        _log(30, 30_000, 69.0),
        _log(40, 40_000, 75.0),
        {"step": 40, "train_loss": 3.0, "num_input_tokens_seen": 40_000, "train_runtime": 100.0},
    )
    assert run.step_times_s == (0.5, 0.4, 0.6)
    assert run.tokens_per_s == 2000
    assert run.global_batch_tokens == 1000
    assert (run.steps, run.losses) == (40, (4.0, 3.0, 2.0, 1.0))


def test_an_interval_with_an_evaluation_in_it_is_left_out() -> None:
    run = _read(
        _log(1, 100, 10.0),
        _log(2, 200, 11.0),
        {"step": 2, "eval_loss": 4.0, "eval_runtime": 50.0, "num_input_tokens_seen": 200},
        _log(3, 300, 62.0),
        _log(4, 400, 63.0),
    )
    assert run.step_times_s == (1.0, 1.0)
    assert "1 intervals with an evaluation or a restart left out" in run.notes


def test_a_resumed_run_does_not_measure_across_its_break() -> None:
    run = _read(_log(1, 100, 10.0), _log(2, 200, 12.0), _log(3, 300, 30.0 - 25.0), _log(4, 400, 7.0))
    assert run.step_times_s == (2.0, 2.0)


def test_steps_of_unlike_size_give_the_median_rate_and_no_batch() -> None:
    """Rates 100, 150 and 120 tokens/s."""
    run = _read(_log(1, 100, 1.0), _log(2, 200, 2.0), _log(3, 350, 3.0), _log(4, 470, 4.0))
    assert run.tokens_per_s == 120
    assert run.global_batch_tokens is None


def test_the_summary_alone_is_an_average_of_the_whole_run() -> None:
    run = _read({"step": 4, "train_loss": 3.0, "num_input_tokens_seen": 4000, "train_runtime": 8.0})
    assert run.tokens_per_s == 500
    assert run.step_times_s == ()
    assert any("warm-up" in note for note in run.notes)


def test_a_resumed_runs_summary_counts_the_steps_since_then() -> None:
    """8 of 16 steps ran in these 4 s: half of the 16,000 tokens."""
    entry = {"step": 16, "num_input_tokens_seen": 16_000, "train_runtime": 4.0, "train_steps_per_second": 2.0}
    assert _read({**entry, "train_loss": 3.0}).tokens_per_s == 2000


def test_the_trainers_own_token_rate_is_per_device() -> None:
    entry = {"step": 4, "train_loss": 3.0, "train_runtime": 8.0, "train_tokens_per_second": 500.0}
    assert _read(entry, cards=8).tokens_per_s == 4000


def test_samples_become_tokens_only_where_their_length_is_stated() -> None:
    entry = {"step": 4, "train_loss": 3.0, "train_runtime": 8.0, "train_samples_per_second": 2.5}
    assert _read(entry, seq_len=2048).tokens_per_s == 5120
    with pytest.raises(ConfigError, match="holds no throughput in tokens; .*include_num_input_tokens_seen"):
        _read(entry)


def test_the_log_history_alone_is_enough() -> None:
    text = json.dumps([_log(1, 100, 1.0), _log(2, 200, 1.5)])
    assert read_trainer_state(text, "log.json", 1).tokens_per_s == 200


def test_a_loss_that_overflowed_is_no_loss() -> None:
    text = '[{"step": 1, "loss": NaN, "num_input_tokens_seen": 100, "train_runtime": 1.0}]'
    assert read_trainer_state(text, "log.json", 1).losses == ()


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("", "t.json: is not JSON"),
        ("[" * 100_000, "t.json: is not JSON"),
        ("{}", "t.json: has no log_history"),
        ('{"log_history": 3}', "t.json: has no log_history"),
        ("[1]", "t.json: has no log_history"),
        ('{"log_history": []}', "t.json: has an empty log_history"),
        ('[{"train_runtime": "8", "num_input_tokens_seen": true}]', "t.json: holds no throughput"),
        ('[{"train_runtime": 0, "num_input_tokens_seen": 8}]', "t.json: holds no throughput"),
    ],
)
def test_what_is_no_log_is_refused_in_one_line(text: str, line: str) -> None:
    with pytest.raises(ConfigError) as refused:
        read_trainer_state(text, "t.json", 1)
    assert str(refused.value).startswith(line)
