"""Evidence of the kernel's memory killer, so that a kill by an unknown hand is not taken for running out of memory."""

from __future__ import annotations

import contextlib
from pathlib import Path

PROC, MOUNT = Path("/proc"), Path("/sys/fs/cgroup")


class MemoryKills:
    """Counts the memory killer's victims in this process's control group, or on the whole machine, from now on."""

    def __init__(self, proc: Path = PROC, mount: Path = MOUNT) -> None:
        self._counters = _counter_files(proc, mount)
        self._before = [_read(path, key) for path, key, _ in self._counters]

    def evidence(self) -> str:
        """What the kernel has counted since this object was made, as a phrase; empty where it counted nothing."""
        for (path, key, where), before in zip(self._counters, self._before, strict=True):
            now = _read(path, key)
            if before is not None and now is not None:
                return f"the kernel's memory killer ended {now - before} in {where}" if now > before else ""
        return ""


def _counter_files(proc: Path, mount: Path) -> list[tuple[Path, str, str]]:
    """The counters to ask, nearest first: the control group's (version 2, version 1), then the machine's.

    The machine's counter is the last resort: inside a container it counts other containers' victims too.
    """
    files = []
    with contextlib.suppress(OSError):
        for line in (proc / "self" / "cgroup").read_text().splitlines():
            _, controllers, group = line.split(":", 2)
            if not controllers:
                for root in (mount, mount / "unified"):
                    files.append((root / group.lstrip("/") / "memory.events", "oom_kill", "this control group"))
            elif "memory" in controllers.split(","):
                # a container sees its own group as the root of the mount, under whatever name its host has for it
                for root in (mount / "memory" / group.lstrip("/"), mount / "memory"):
                    files.append((root / "memory.oom_control", "oom_kill", "this control group"))
    files.append((proc / "vmstat", "oom_kill", "this machine"))
    return files


def _read(path: Path, key: str) -> int | None:
    with contextlib.suppress(OSError, ValueError):
        for line in path.read_text().splitlines():
            name, _, value = line.partition(" ")
            if name == key:
                return int(value)
    return None
