"""The command line as a process that tests send signals to, and what its ranks say meanwhile."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PATIENCE_S = 120.0


def start(
    folder: Path, mark: str, *words: str, prefix: tuple[str, ...] = (), **variables: str
) -> subprocess.Popen[str]:
    """`cardscale run WORDS` in `folder`, with `mark` in the environment of all that it starts."""
    return subprocess.Popen(
        [*prefix, sys.executable, "-m", "tests.e2e.light", "run", *words],
        cwd=folder,
        env={**os.environ, "MARK": mark, "PYTHONPATH": str(ROOT), "COLUMNS": "200", **variables},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )


def fault(name: str) -> str:
    return f"benchmark.name=tests.launch.faults:{name}"


def until(condition: Callable[[], object], what: str) -> object:
    """Wait for `condition()`; its value. Fails with `what` if it never comes."""
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        if found := condition():
            return found
        time.sleep(0.05)
    raise AssertionError(f"{what} did not happen within {PATIENCE_S:.0f} s")


def measuring(study: Path, cell: str = "", rank: int = 0) -> int:
    """The process id of a rank of a cell whose id contains `cell`, once it has measured a step."""

    def look() -> int:
        for path in study.glob(f"cells/*{cell}*/ranks/rank{rank}.heartbeat"):
            text = path.read_text()
            if '"measure"' in text:
                return int(json.loads(text)["pid"])
        return 0

    return int(str(until(look, f"a step of rank {rank}")))
