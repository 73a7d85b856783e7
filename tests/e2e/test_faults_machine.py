"""What a machine does to a sweep: too little memory, a name that does not resolve, a port that is taken."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from results.store import read_study
from tests.e2e.launchers import fault, start, until
from tests.launch.conftest import processes_with

GROUPS = Path("/sys/fs/cgroup")


@pytest.fixture
def mark() -> Iterator[str]:
    mark = f"mark-{os.urandom(8).hex()}"
    yield mark
    until(lambda: not processes_with(mark), "the end of every process that the launcher started")


@pytest.fixture
def memory_limit() -> Iterator[tuple[str, ...]]:
    """Words that start a command in a control group of 3 GiB of memory."""
    if os.geteuid() != 0:
        pytest.skip("only root makes control groups")
    old, name = GROUPS / "memory", f"cardscale-test-{uuid.uuid4().hex[:8]}"
    group = (old if old.is_dir() else GROUPS) / name
    file = "memory.limit_in_bytes" if old.is_dir() else "memory.max"
    try:
        group.mkdir()
        (group / file).write_text(str(3 * 2**30))
    except OSError as error:
        pytest.skip(f"no control group with a memory limit can be made here: {error}")
    yield ("sh", "-c", f'echo $$ > {group}/cgroup.procs && exec "$@"', "sh")
    until(lambda: not (group / "cgroup.procs").read_text().strip(), "the end of every process in the control group")
    group.rmdir()


def test_a_rank_that_the_kernel_ends_for_memory_is_oom_and_the_sweep_goes_on(
    tmp_path: Path, mark: str, memory_limit: tuple[str, ...]
) -> None:
    words = ("-m", "benchmark.name=tests.launch.faults:eats_memory,tests.launch.faults:good", "cards=2", "study=s")
    launcher = start(tmp_path, mark, *words, prefix=memory_limit)
    _, said = launcher.communicate(timeout=300)
    assert launcher.returncode == 1, said
    frame = read_study(tmp_path / "results" / "runs" / "s").set_index("benchmark")
    assert frame["status"].to_dict() == {"tests.launch.faults:eats_memory": "oom", "tests.launch.faults:good": "ok"}
    bad = frame.loc["tests.launch.faults:eats_memory"]
    assert (bad["error.kind"], bad["error.rank"]) == ("HostOutOfMemory", 1)
    assert "memory killer" in bad["error.message"]


def test_eight_ranks_run_on_a_host_whose_name_does_not_resolve(tmp_path: Path, mark: str) -> None:
    """A name of its own that no file and no server knows, in name spaces of this test's making."""
    if os.geteuid() != 0 or shutil.which("unshare") is None:
        pytest.skip("only root gives a process a host name of its own")
    hide = 'mount --bind /dev/null /etc/hosts && hostname no-such-host-a1b2 && exec "$@"'
    prefix = ("unshare", "--uts", "--mount", "sh", "-c", hide, "sh")
    if subprocess.run([*prefix, "true"], capture_output=True, check=False).returncode:
        pytest.skip("no name spaces can be made here")
    launcher = start(tmp_path, mark, fault("good"), "cards=8", "study=s", prefix=prefix)
    _, said = launcher.communicate(timeout=300)
    assert launcher.returncode == 0, said


def test_a_taken_default_port_is_in_nobodys_way(tmp_path: Path, mark: str) -> None:
    with socket.socket() as taken:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            taken.bind(("127.0.0.1", 29500))
            taken.listen()
        except OSError:
            pass  # taken by somebody else: as good
        launcher = start(tmp_path, mark, fault("good"), "cards=2", "study=s")
        _, said = launcher.communicate(timeout=300)
    assert launcher.returncode == 0, said
