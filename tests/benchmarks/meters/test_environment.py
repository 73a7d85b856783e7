"""What the record says of its surroundings, and what it must not say."""

from __future__ import annotations

import importlib.metadata
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from benchmarks.meters.environment import cores, driver, environment, git_commit, processor, public_variables


def test_versions_are_those_installed() -> None:
    packages = environment({}, {})["packages"]
    assert packages["torch"] == importlib.metadata.version("torch")


def test_variables_of_the_cell_are_recorded_with_those_of_the_launcher() -> None:
    kept = environment({"NCCL_DEBUG": "INFO", "PATH": "/bin"}, {"NCCL_P2P_DISABLE": "1"})["variables"]
    assert kept == {"NCCL_DEBUG": "INFO", "NCCL_P2P_DISABLE": "1"}


def test_nothing_that_looks_like_a_secret_is_kept() -> None:
    assert public_variables({"CUDA_API_TOKEN": "x", "NCCL_SECRET_KEY": "y", "HF_TOKEN": "z"}) == {}


def test_home_folders_are_cut_out() -> None:
    home = str(Path.home())
    assert public_variables({"NCCL_TOPO_FILE": f"{home}/topo.xml"}) == {"NCCL_TOPO_FILE": "~/topo.xml"}


def test_a_processor_is_named_and_its_blanks_have_a_reason() -> None:
    device = processor()
    assert device["name"]
    assert device["cores"] >= 1
    assert device["utilisation_pct"] is None
    assert "no card" in device["blank_because"]


def test_a_folder_that_is_no_checkout_has_no_commit(tmp_path: Path) -> None:
    assert git_commit(tmp_path) is None


def test_describing_the_environment_does_not_import_torch() -> None:
    code = "import sys, benchmarks.meters.environment as e; e.environment({}, {}); print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_other_peoples_home_folders_and_logins_are_cut_out() -> None:
    variables = {"NCCL_TOPO_FILE": "/home/alice/topo.xml", "NCCL_NET_PLUGIN": "http://bob:pw@host/x"}
    assert public_variables(variables) == {"NCCL_TOPO_FILE": "~/topo.xml", "NCCL_NET_PLUGIN": "http://host/x"}


def test_who_submitted_the_job_is_not_recorded() -> None:
    variables = {"SLURM_JOB_ID": "7", "SLURM_JOB_USER": "alice", "SLURM_JOB_ACCOUNT": "lab", "SLURM_JOB_UID": "1000"}
    assert public_variables(variables) == {"SLURM_JOB_ID": "7"}


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({"sys/fs/cgroup/cpu.max": "50000 100000"}, 0.5),
        ({"sys/fs/cgroup/cpu/cpu.cfs_quota_us": "150000", "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000"}, 1.5),
        (
            {
                "proc/self/cgroup": "0::/slurm/job_7",
                "sys/fs/cgroup/slurm/job_7/cpu.max": "max 100000",
                "sys/fs/cgroup/slurm/cpu.max": "400000 100000",
            },
            4,
        ),
    ],
)
def test_a_containers_quota_is_how_many_cores_there_are(
    tmp_path: Path, files: dict[str, str], expected: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(64)), raising=False)
    for name, text in files.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    assert cores(tmp_path) == expected


def test_without_a_quota_the_affinity_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 5}, raising=False)
    assert cores(tmp_path) == 2


@pytest.fixture
def _asked_anew() -> Iterator[None]:
    driver.cache_clear()
    yield
    driver.cache_clear()


@pytest.mark.usefixtures("_asked_anew")
def test_the_driver_is_recorded(fake_cards: Callable[..., None]) -> None:
    fake_cards(system={"driver": "535.161.08", "cuda": 12020})
    assert driver() == {"driver": "535.161.08", "driver_cuda": "12.2", "topology": None}


@pytest.mark.usefixtures("_asked_anew")
def test_the_links_of_the_visible_cards_are_recorded(fake_cards: Callable[..., None]) -> None:
    fake_cards(*({"uuid": f"GPU-{i}", "bus": f"00000000:0{i}:00.0", "links": "switch"} for i in range(4)))
    topology = environment({"CUDA_VISIBLE_DEVICES": "1,3"})["topology"]
    assert topology["verdict"] == "NVLink full mesh"
    assert topology["cards"] == ["GPU1", "GPU3"]
