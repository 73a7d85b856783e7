"""What a measurement depends on beside its config: versions, host, threads, variables. No secrets, no home paths."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

PACKAGES = ("cardscale", "torch", "transformers", "numpy", "pandas", "hydra-core", "deepspeed", "peft", "bitsandbytes")
_KEPT = re.compile(r"^(NCCL|CUDA|GLOO|OMP|MKL|TORCH|PYTORCH|DS|SLURM_JOB)_[A-Z0-9_]+$")
_SECRET = re.compile(r"TOKEN|SECRET|PASSWORD|KEY|CREDENTIAL", re.IGNORECASE)


def environment(variables: Mapping[str, str], cluster_env: Mapping[str, str]) -> dict[str, Any]:
    """The record's environment section. `cluster_env` are the variables that the cell gives its ranks."""
    return {
        "packages": versions(PACKAGES),
        "python": platform.python_version(),
        "platform": platform.platform(),
        "host": platform.node().split(".")[0],
        "git": git_commit(Path(__file__).resolve().parent.parent),
        "variables": public_variables({**variables, **cluster_env}),
    }


def processor() -> dict[str, Any]:
    """The device section of a CPU: name, cores this process may use. Blank figures have a reason beside them."""
    return {
        "name": processor_name(),
        "count": 1,
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "utilisation_pct": None,
        "power_w": None,
        "energy_j_per_token": None,
        "sm_clock_mhz": None,
        "throttled": None,
        "blank_because": "no card: ranks stand in for cards on the processor",
    }


def processor_name() -> str:
    """The model name as the kernel gives it, else what Python knows."""
    info = Path("/proc/cpuinfo")
    if sys.platform == "linux" and info.exists():
        match = re.search(r"^model name\s*:\s*(.+)$", info.read_text(), re.MULTILINE)
        if match:
            return match[1].strip()
    return platform.processor() or platform.machine()


def versions(packages: tuple[str, ...]) -> dict[str, str]:
    """Versions of those `packages` that are installed; none of them is imported."""
    found = {}
    for package in packages:
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def public_variables(variables: Mapping[str, str]) -> dict[str, str]:
    """The variables that steer communication and threads; nothing that looks like a secret, home folders cut out."""
    home = str(Path.home())
    return {
        name: value.replace(home, "~") if home not in ("", "/") else value
        for name, value in sorted(variables.items())
        if _KEPT.match(name) and not _SECRET.search(name)
    }


def git_commit(folder: Path) -> str | None:
    """The commit of the checkout that `folder` is, with + where it was changed; None where it is none."""
    try:
        done = subprocess.run(
            ["git", "-C", str(folder), "describe", "--always", "--dirty=+", "--exclude=*"],
            capture_output=True,
            text=True,
            timeout=10,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() or None if done.returncode == 0 else None
