"""Faults of ranks, injected for real: the first cause is told, in the right class, and nothing is left running."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from launch.ranks.heartbeats import read_beats
from tests.launch.conftest import Strike


def test_a_rank_that_raises_is_the_cause_not_the_peers_that_lose_it(strike: Strike) -> None:
    ending = strike("raises", "cards=4", "+cluster.env.FAULT_RANK='2'")
    assert ending.status == "failed"
    assert ending.error is not None
    assert (ending.error.rank, ending.error.kind) == (2, "ValueError")
    assert ending.error.message == "the data set is empty"
    assert ending.error.host == socket.gethostname()


def test_the_last_words_of_a_rank_are_told_whatever_bytes_they_hold(strike: Strike) -> None:
    error = strike("raises").error
    assert error is not None
    assert "last words: \ufffd\ufffd" in error.log_tail
    assert "ValueError: the data set is empty" in error.log_tail


def test_every_rank_has_a_log_of_its_own_in_the_cells_folder(strike: Strike, tmp_path: Path) -> None:
    strike("raises", "cards=2")
    assert sorted(path.name for path in (tmp_path / "ranks").glob("*.err.log")) == ["rank0.err.log", "rank1.err.log"]
    assert b"last words" in (tmp_path / "ranks" / "rank1.err.log").read_bytes()


@pytest.mark.parametrize(
    ("fault", "status", "kind"),
    [
        ("out_of_memory", "oom", "RuntimeError"),  # torch's CPU allocator says it in words
        ("device_out_of_memory", "oom", "OutOfMemoryError"),
        ("memory_error", "oom", "MemoryError"),
        ("killed", "failed", "SIGKILL"),
        ("killed_and_peer_cut_off", "failed", "SIGKILL"),
        ("exits_137", "failed", "exit code 137"),
        ("segfaults", "failed", "SIGSEGV"),
        ("disk_full", "failed", "OSError"),
    ],
)
def test_how_a_rank_ends_decides_the_class(strike: Strike, fault: str, status: str, kind: str) -> None:
    """A kill, or exit code 137, is not proof that memory ran out."""
    ending = strike(fault)
    assert ending.error is not None
    assert (ending.status, ending.error.kind, ending.error.rank) == (status, kind, 1)
    assert ending.measurement is None


def test_a_crash_below_python_leaves_its_stack(strike: Strike) -> None:
    error = strike("segfaults").error
    assert error is not None
    assert "Segmentation fault" in error.log_tail
    assert "faults.py" in error.log_tail


def test_a_stopped_rank_is_found_among_those_that_wait_for_it(strike: Strike) -> None:
    ending = strike("stops", "cards=4", "measure.step_timeout_s=3")
    assert ending.status == "timeout"
    assert ending.error is not None
    assert (ending.error.kind, ending.error.rank) == ("hang", 1)
    assert "its process is stopped" in ending.error.message
    assert "faults.py" in ending.error.log_tail


def test_a_rank_that_never_joins_a_collective_is_found_among_those_in_it(strike: Strike) -> None:
    ending = strike("slow_peer", "cards=4", "measure.step_timeout_s=3")
    assert ending.error is not None
    assert (ending.status, ending.error.rank) == ("timeout", 1)
    assert "_slow_peer" in ending.error.log_tail


def test_without_py_spy_the_ranks_tell_their_stacks_themselves(strike: Strike, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("launch.ranks.stacks._py_spy", lambda: None)
    ending = strike("slow_peer", "cards=2", "measure.step_timeout_s=3")
    assert ending.error is not None
    assert ending.error.rank == 1
    assert "_slow_peer" in ending.error.log_tail


def test_a_rank_that_leaves_early_does_not_make_a_measurement(strike: Strike) -> None:
    ending = strike("leaves", "cards=2", "measure.step_timeout_s=3")
    assert ending.status in ("failed", "timeout")
    assert ending.measurement is None


def test_trouble_in_the_tear_down_does_not_undo_a_measurement(strike: Strike) -> None:
    ending = strike("aborts_after", "cards=2")
    assert ending.status == "ok"
    assert ending.measurement == {"throughput": {"tokens_per_s": 1000.0}}


def test_children_that_a_rank_leaves_behind_are_ended(strike: Strike, tmp_path: Path) -> None:
    strike("stubborn_child")
    sessions = {beat["pid"] for beat in read_beats(tmp_path / "ranks")}
    assert len(sessions) == 2
    assert not [path for path in Path("/proc").glob("[0-9]*/stat") if _living_session(path) in sessions]


def _living_session(path: Path) -> int:
    """The session of a process; 0 for one that is gone or waits to be reaped."""
    try:
        state, _, _, session = path.read_text().rsplit(")", 1)[1].split()[:4]
    except OSError:
        return 0
    return 0 if state == "Z" else int(session)


def test_a_benchmark_that_cannot_be_imported_is_the_error(strike: Strike) -> None:
    error = strike("no_such_fault").error
    assert error is not None
    assert error.kind == "AttributeError"
    assert "no_such_fault" in error.message
