"""The folder of a storage test is gone whatever ends the test."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from benchmarks.storage.scratch import PREFIX, remove_stale, scratch

HOLD = """
import sys, time
from pathlib import Path
from benchmarks.storage.scratch import PREFIX, scratch
with scratch(Path(sys.argv[1]), PREFIX + "held") as folder:
    (folder / "data").write_bytes(b"x" * 100000)
    print("ready", flush=True)
    time.sleep(600)
"""


def hold(parent: Path) -> subprocess.Popen[str]:
    """A process that is in the middle of a test under `parent`."""
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[3])}
    command = [sys.executable, "-c", HOLD, str(parent)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment, start_new_session=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


def gone(folder: Path) -> bool:
    """Whether `folder` is away; a guard is given seconds, for the machine may be busy."""
    for _ in range(200):
        if not folder.exists():
            return True
        time.sleep(0.1)
    return False


def test_it_is_gone_after_a_test_and_after_an_exception(tmp_path: Path) -> None:
    with scratch(tmp_path, f"{PREFIX}a") as folder:
        (folder / "data").write_text("x")
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(RuntimeError), scratch(tmp_path, f"{PREFIX}b") as folder:
        raise RuntimeError
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGKILL])
def test_it_is_gone_when_its_process_is_ended(tmp_path: Path, number: signal.Signals) -> None:
    process = hold(tmp_path)
    process.send_signal(number)
    process.wait()
    assert gone(tmp_path / f"{PREFIX}held")


def test_it_is_gone_when_the_whole_process_group_is_killed(tmp_path: Path) -> None:
    process = hold(tmp_path)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    assert gone(tmp_path / f"{PREFIX}held")


def test_what_a_dead_host_left_is_removed_and_what_is_in_use_is_not(tmp_path: Path) -> None:
    left = tmp_path / f"{PREFIX}left"
    left.mkdir()
    (left / "lock").touch()
    (left / "data").write_text("x")
    (tmp_path / "mine").mkdir()
    with scratch(tmp_path, f"{PREFIX}used") as used:
        assert remove_stale(tmp_path) == [left]
        assert used.exists()
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]


def test_signals_do_what_they_did_before_once_the_test_is_over(tmp_path: Path) -> None:
    before = signal.getsignal(signal.SIGTERM)
    with scratch(tmp_path, f"{PREFIX}a"):
        assert signal.getsignal(signal.SIGTERM) != before
    assert signal.getsignal(signal.SIGTERM) == before
