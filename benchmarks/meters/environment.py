"""What a measurement depends on beside its config: versions, host, threads, variables. No secrets, no home paths."""

from __future__ import annotations

import functools
import importlib.metadata
import importlib.util
import os
import platform
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks.device import nvml
from benchmarks.device.topology import from_nvml, to_dict
from benchmarks.device.visibility import MASK, ORDER, visible

PACKAGES = ("cardscale", "torch", "transformers", "numpy", "pandas", "hydra-core", "deepspeed", "peft", "bitsandbytes")
NATIVE_BF16 = frozenset({"avx512_bf16", "amx_bf16", "bf16"})  # of x86 and Arm, as Linux names them
_KEPT = re.compile(
    r"^((NCCL|CUDA|GLOO|OMP|KMP|MKL|TORCH|PYTORCH|DS|SLURM_JOB|UCX)_[A-Z0-9_]+|NVIDIA_VISIBLE_DEVICES|HF_HUB_OFFLINE)$"
)
_SECRET = re.compile(r"TOKEN|SECRET|PASSWORD|PASSWD|KEY|CREDENTIAL|ACCOUNT|USER|_UID$|_GID$", re.IGNORECASE)
_HOMES = re.compile(r"/(?:home|Users)/[^/:,;\s]+|/root(?=[/:,;\s]|$)")
_LOGIN = re.compile(r"(?<=://)[^/@\s]+@")
_SYSTEM = Path("/")


def environment(variables: Mapping[str, str], cluster_env: Mapping[str, str] | None = None) -> dict[str, Any]:
    """The record's environment section. `cluster_env` are the variables that the cell gives its ranks.

    Cheap and without side effects: packages are asked for their versions, not imported.
    """
    every = {**variables, **(cluster_env or {})}
    return {
        "packages": versions(PACKAGES),
        "python": platform.python_version(),
        "platform": platform.platform(),
        "host": platform.node().split(".")[0],
        "cpu": {"model": processor_name(), "cores": cores()},
        **driver(every.get(MASK), every.get(ORDER)),
        "cuda": torch_cuda(),
        "nccl": nccl_version(),
        "git": git_commit(Path(__file__).resolve().parents[2]),
        "variables": public_variables(every),
    }


def processor() -> dict[str, Any]:
    """The device section of a CPU: name, cores this process may use. Blank figures have a reason beside them."""
    return {
        "name": processor_name(),
        "count": 1,
        "cores": cores(),
        "utilisation_pct": None,
        "power_w": None,
        "energy_j_per_token": None,
        "sm_clock_mhz": None,
        "throttled": None,
        "bf16_in_hardware": None if (flags := cpu_flags()) is None else bool(flags & NATIVE_BF16),
        "blank_because": "no card: ranks stand in for cards on the processor",
    }


def cpu_flags() -> frozenset[str] | None:
    """The processor's feature flags as the kernel lists them; None where it does not."""
    try:
        match = re.search(r"^(?:flags|Features)\s*:(.*)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    except OSError:
        return None
    return frozenset(match[1].split()) if match else None


def processor_name() -> str:
    """The model name as the kernel gives it, else what Python knows."""
    info = Path("/proc/cpuinfo")
    if sys.platform == "linux" and info.exists():
        match = re.search(r"^model name\s*:\s*(.+)$", info.read_text(), re.MULTILINE)
        if match:
            return match[1].strip()
    return platform.processor() or platform.machine()


def cores(system: Path = _SYSTEM) -> float:
    """Processor cores that this process may use: its affinity, or its container's quota where that is less.

    A container of two cores on a large host sees all of the host's; only the quota tells. system: where the file tree
    of the kernel is.
    """
    allowed = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    quota = _cpu_quota(system)
    return allowed if quota is None else min(allowed, quota)


def _cpu_quota(system: Path) -> float | None:
    """The tightest limit in cores over this process's control group and those around it; None where there is none.

    A container sees its own group as the root of the mount. Version 2 of control groups, then version 1.
    """
    mount = system / "sys/fs/cgroup"
    limits = [_quota(mount / "cpu/cpu.cfs_quota_us", mount / "cpu/cpu.cfs_period_us")]
    try:
        own = (system / "proc/self/cgroup").read_text()
    except OSError:
        own = ""
    match = re.search(r"^0::/(.*)$", own, re.MULTILINE)
    group = mount / match[1] if match else mount
    limits += [_quota(folder / "cpu.max") for folder in (group, *group.parents) if folder.is_relative_to(mount)]
    return min((limit for limit in limits if limit is not None), default=None)


def _quota(*files: Path) -> float | None:
    try:
        limit, period = " ".join(file.read_text().strip() for file in files).split()
    except (OSError, ValueError):
        return None
    return int(limit) / int(period) if limit.isdigit() and int(period) else None


@functools.cache
def driver(mask: str | None = None, order: str | None = None) -> dict[str, Any]:
    """The NVIDIA driver, the newest CUDA it can run, and how the visible cards are linked; None without a driver.

    Asked once for each mask: a machine does not change under a sweep, and a driver may take seconds to wake up.
    """
    variables = {name: value for name, value in ((MASK, mask), (ORDER, order)) if value is not None}
    try:
        with nvml.session() as bindings:
            topology, _ = from_nvml(bindings, visible(nvml.cards(bindings), variables).cards)
            return {
                "driver": nvml.driver_version(bindings).value,
                "driver_cuda": nvml.driver_cuda(bindings).value,
                "topology": to_dict(topology) if topology.cards else None,
            }
    except nvml.NvmlUnavailable:
        return {"driver": None, "driver_cuda": None, "topology": None}


@functools.cache
def torch_cuda() -> str | None:
    """The CUDA that the installed torch was built for, read from its version file; None for a CPU build or no torch."""
    return torch_build().get("cuda")


@functools.cache
def torch_build() -> dict[str, str]:
    """What torch's own version file says it was built for: `cuda` or `hip`, without importing torch."""
    found = importlib.util.find_spec("torch")
    if found is None or found.origin is None:
        return {}
    try:
        text = (Path(found.origin).parent / "version.py").read_text(encoding="utf-8")
    except OSError:
        return {}
    return {m[1]: m[2] for m in re.finditer(r"^(cuda|hip)\b[^=\n]*= *['\"]([^'\"]+)['\"]", text, re.MULTILINE)}


def nccl_version() -> str | None:
    """The NCCL that torch uses: its own word where it is loaded, else the wheel it depends on, else None."""
    torch = sys.modules.get("torch")
    if torch is not None and torch_cuda() is not None:
        version = getattr(getattr(torch.cuda, "nccl", None), "version", None)
        if version is not None:
            return ".".join(map(str, version()))
    wheels = versions(tuple(f"nvidia-nccl-cu{major}" for major in (11, 12, 13)))
    return next(iter(wheels.values()), None)


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
    """The variables that steer cards, communication and threads; no secrets, no people, no home folders."""
    return {
        name: without_identity(value)
        for name, value in sorted(variables.items())
        if _KEPT.match(name) and not _SECRET.search(name)
    }


def without_identity(text: str) -> str:
    """`text` with home folders as ~ and logins of addresses cut out."""
    home = str(Path.home())
    if home not in ("", "/"):
        text = text.replace(home, "~")
    return _LOGIN.sub("", _HOMES.sub("~", text))


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
