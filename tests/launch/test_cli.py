"""The command line as a person meets it: help, wrong words, exit codes, one line each."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from launch.cli import COMMANDS

CardScale = Callable[..., subprocess.CompletedProcess[str]]


def test_help_names_every_command(cardscale: CardScale) -> None:
    done = cardscale("--help")
    assert done.returncode == 0
    assert all(name in done.stdout for name in COMMANDS)


def test_help_imports_neither_torch_nor_hydra() -> None:
    code = (
        "import sys; from launch.cli import run_cli; run_cli(['--help']); print({'torch', 'hydra'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip().endswith("set()")


def test_a_commands_help_lists_groups_and_fields(cardscale: CardScale) -> None:
    text = cardscale("run", "--help").stdout
    assert "ddp, fsdp" in text
    assert "measure.max_seconds" in text


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["runn"], "command: 'runn' is unknown; did you mean run?"),
        (["run", "mode=foo"], "mode: 'foo' is unknown; known: "),
        (["run", "cards=0"], "cards: 0 is not a world size"),
        (["run", "mode=tp", "cards=3"], "mode=tp: 8 attention heads do not divide by tp=3"),
        (["run", "mode=pp", "cards=16"], "mode=pp: pp=16 stages for 8 layers"),
        (["run", "mode=ddp", "cards=3"], "global_batch: 16 sequences do not share out over dp=3"),
        (["run", "mode=ddp,tp"], "mode=ddp,tp: is a sweep"),
        (["run", "--fast"], "cardscale run: '--fast' is unknown"),
        (["run", "study=a/b"], "study: 'a/b' is not a folder's name"),
        (["run", "retry=sometimes"], "retry: 'sometimes' is unknown"),
        (["run", "format=yaml"], "format: 'yaml' is unknown"),
        (["report", "study=nowhere"], "study: results/runs/nowhere does not exist"),
        (["report", "source=missing.csv"], "source: missing.csv does not exist"),
    ],
)
def test_a_wrong_word_is_one_line_and_exit_code_2(cardscale: CardScale, words: list[str], line: str) -> None:
    done = cardscale(*words)
    assert done.returncode == 2
    assert done.stderr.startswith(line)
    assert done.stderr.count("\n") == 1
    assert done.stdout == ""


def test_an_illegal_cell_stops_the_grid_before_anything_starts(cardscale: CardScale, tmp_path: Path) -> None:
    done = cardscale("run", "-m", "mode=tp", "cards=1,3")
    assert done.returncode == 2
    assert "tp=3" in done.stderr
    assert not (tmp_path / "results").exists()


def test_a_composed_config_can_be_shown_without_running(cardscale: CardScale, tmp_path: Path) -> None:
    done = cardscale("run", "mode=tp", "cards=2", "--cfg")
    assert done.returncode == 0
    assert "name: tp" in done.stdout
    assert not (tmp_path / "results").exists()


def test_the_users_own_modules_of_our_names_are_left_alone(cardscale: CardScale, tmp_path: Path) -> None:
    """A folder with an analysis.py, a benchmarks/ and a torch.py of its own must not be imported by us or our ranks."""
    for name in ("analysis.py", "results.py", "torch.py", "configs.py"):
        (tmp_path / name).write_text("raise RuntimeError('the wrong module')")
    (tmp_path / "benchmarks").mkdir()
    (tmp_path / "benchmarks" / "__init__.py").write_text("raise RuntimeError('the wrong package')")
    done = cardscale("run", "mode=ddp", "cards=2", "measure.max_steps=2", "measure.min_steps=1", "seq_len=16")
    assert done.returncode == 0, done.stderr


def test_cards_that_this_machine_does_not_show_are_refused_before_a_rank_starts(
    cardscale: CardScale, tmp_path: Path
) -> None:
    done = cardscale("run", "-m", "machine=h100_80g", "mode=ddp", "cards=1,8", CUDA_VISIBLE_DEVICES="")
    assert done.returncode == 2
    assert done.stderr.startswith("cards=8 machine=h100_80g: 8 cards are needed here and torch sees 0; machine=cpu")
    assert done.stderr.count("\n") == 1
    assert not (tmp_path / "results").exists()
