"""Training measurements from elsewhere into a study, as a person imports them."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest

from results.store import read_study

CardScale = Callable[..., subprocess.CompletedProcess[str]]
LOG = [
    {"step": step, "loss": 5.0, "num_input_tokens_seen": step * 4096, "train_runtime": 30.0 + step * 2.0}
    for step in range(1, 6)
]
CSV = "model,mode,cards,gpu,tokens_per_s,status\nm,ddp,1,A100,1000,ok\nm,ddp,2,A100,1900,\nm,ddp,4,,,oom\n"


@pytest.fixture
def files(tmp_path: Path) -> Path:
    (tmp_path / "trainer_state.json").write_text(json.dumps({"log_history": LOG, "global_step": 5}))
    (tmp_path / "m.csv").write_text(CSV)
    return tmp_path


def _study(folder: Path, name: str) -> pd.DataFrame:
    return read_study(folder / "results" / "runs" / name)


def test_a_trainers_log_becomes_a_cell_with_what_was_stated(cardscale: CardScale, files: Path) -> None:
    """4,096 tokens in each step of 2 s."""
    words = ["cards=8", "mode=fsdp", "model=llama2_7b", "machine=a100_80g", "seq_len=512"]
    for _ in range(2):  # the second replaces the first
        done = cardscale("import", "hf-trainer", "trainer_state.json", "study=hf", *words)
        assert done.returncode == 0, done.stderr
    [row] = _study(files, "hf").to_dict("records")
    assert (row["status"], row["parallel.mode"], row["parallel.cards"]) == ("imported", "fsdp", 8)
    assert (row["workload.model"], row["workload.seq_len"]) == ("llama2_7b", 512)
    assert row["device.name"].startswith("NVIDIA A100")
    assert (row["throughput.tokens_per_s"], row["throughput.tokens_per_s_per_card"]) == (2048, 256)
    assert row["throughput.step_times_s"] == [2.0] * 4
    assert row["throughput.step_time_s.median"] == 2.0
    assert row["workload.global_batch_tokens"] == 4096


def test_what_was_not_stated_stays_blank(cardscale: CardScale, files: Path) -> None:
    assert cardscale("import", "hf-trainer", "trainer_state.json", "cards=1", "mode=ddp").returncode == 0
    [row] = _study(files, "default").to_dict("records")
    assert [row[f"workload.{name}"] for name in ("model", "seq_len", "scaling")] == [None] * 3
    assert row["device.name"] is None


def test_an_imported_pair_of_counts_is_reported_as_scaling(cardscale: CardScale, files: Path) -> None:
    """Two cards take 1.25 s for what one does in 2 s: 1.6x."""
    log = [{**entry, "train_runtime": 30.0 + entry["step"] * 1.25} for entry in LOG]
    (files / "two.json").write_text(json.dumps(log))
    for file, cards in (("trainer_state.json", 1), ("two.json", 2)):
        assert cardscale("import", "hf-trainer", file, "study=hf", f"cards={cards}", "mode=ddp").returncode == 0
    done = cardscale("report", "study=hf", "format=json")
    assert done.returncode == 0, done.stderr
    assert [row["speedup"] for row in json.loads(done.stdout)["scaling"]] == [1, pytest.approx(1.6)]


def test_a_log_that_a_real_trainer_wrote_is_read(cardscale: CardScale, tmp_path: Path) -> None:
    """8 sequences of 16 tokens in a step: 128 tokens."""
    torch, transformers = pytest.importorskip("torch"), pytest.importorskip("transformers")
    pytest.importorskip("accelerate")
    size = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 1, "num_attention_heads": 2}
    model = transformers.LlamaForCausalLM(transformers.LlamaConfig(vocab_size=100, **size))
    data = [{"input_ids": torch.arange(16), "labels": torch.arange(16)} for _ in range(64)]
    arguments = transformers.TrainingArguments(
        str(tmp_path / "out"),
        per_device_train_batch_size=4,
        gradient_accumulation_steps=2,
        max_steps=5,
        logging_steps=1,
        save_strategy="no",
        report_to=[],
        include_num_input_tokens_seen=True,
        use_cpu=True,
        disable_tqdm=True,
    )
    trainer = transformers.Trainer(model, arguments, train_dataset=data)
    trainer.train()
    trainer.state.save_to_json(str(tmp_path / "trainer_state.json"))
    done = cardscale("import", "hf-trainer", "trainer_state.json", "study=hf", "cards=1", "mode=ddp")
    assert done.returncode == 0, done.stderr
    [row] = _study(tmp_path, "hf").to_dict("records")
    assert row["workload.global_batch_tokens"] == 128
    assert len(row["throughput.step_times_s"]) == 4
    rate = 128 / row["throughput.step_time_s.median"]
    assert row["throughput.tokens_per_s"] == pytest.approx(rate)


def test_ranks_that_read_the_same_tokens_are_warned_of(cardscale: CardScale, files: Path) -> None:
    done = cardscale("import", "hf-trainer", "trainer_state.json", "cards=2", "mode=dp_tp2")
    assert "warning: tokens are added up over all processes" in done.stderr


def test_a_measurement_csv_becomes_a_cell_a_row(cardscale: CardScale, files: Path) -> None:
    for _ in range(2):
        done = cardscale("import", "measurements", "m.csv", "study=s")
        assert done.returncode == 0, done.stderr
    assert "m.csv: measurements, 3 rows in 3 records" in done.stderr
    frame = _study(files, "s").sort_values("parallel.cards")
    assert list(frame["status"]) == ["imported", "imported", "oom"]
    assert list(frame["throughput.tokens_per_s"].dropna()) == [1000, 1900]
    assert list(frame["parallel.cards"]) == [1, 2, 4]


def test_an_imported_csv_reports_as_the_csv_itself_does(cardscale: CardScale, files: Path) -> None:
    assert cardscale("import", "measurements", "m.csv", "study=s").returncode == 0
    tables = [json.loads(cardscale("report", which, "format=json").stdout) for which in ("study=s", "source=m.csv")]
    rows = [[(row["cards"], row["speedup"], row["status"]) for row in table["scaling"]] for table in tables]
    assert len(rows[0]) == 3
    assert rows[0] == rows[1]


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["hf-trainer", "trainer_state.json", "mode=ddp"], "cards: is not stated, and trainer_state.json does not say"),
        (["hf-trainer", "trainer_state.json", "cards=2"], "mode: is not stated"),
        (["hf-trainer", "trainer_state.json", "cards=0", "mode=ddp"], "cards: 0 is not a world size"),
        (["hf-trainer", "nowhere.json", "cards=2", "mode=ddp"], "nowhere.json: does not exist"),
        (["hf-trainer", "m.csv", "cards=2", "mode=ddp"], "m.csv: is not JSON"),
        (["measurements", "nowhere.csv"], "source: nowhere.csv does not exist"),
        (["measurements", "bad.csv"], "bad.csv: row 2: cards: 'two' is not a number"),
        (["measurements", "empty.csv"], "empty.csv: has no row below its header"),
    ],
)
def test_what_cannot_be_imported_is_one_line_and_leaves_nothing(
    words: list[str], line: str, cardscale: CardScale, files: Path
) -> None:
    (files / "bad.csv").write_text("mode,cards,tokens_per_s\nddp,two,1\n")
    (files / "empty.csv").write_text("mode,cards,tokens_per_s\n")
    done = cardscale("import", *words)
    assert done.returncode == 2
    assert done.stderr.startswith(line)
    assert done.stderr.count("\n") == 1
    assert not (files / "results").exists()
