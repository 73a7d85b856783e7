"""What the record says of its surroundings, and what it must not say."""

from __future__ import annotations

import importlib.metadata
import subprocess
import sys
from pathlib import Path

from benchmarks.environment import environment, git_commit, processor, public_variables


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
    code = "import sys, benchmarks.environment as e; e.environment({}, {}); print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
