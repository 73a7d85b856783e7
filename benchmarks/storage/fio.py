"""The same block tests through fio, where it is installed: run it, and read its JSON.

Source of the fields: fio 3's documentation of JSON output (`jobs[].read|write`: io_bytes, runtime in ms, total_ios,
clat_ns.percentile).
"""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

from benchmarks.storage.block_io import Transfer, evict

MODES = {"write_fsync": "write", "read_sequential": "read", "read_random": "randread"}
TIMEOUT_S = 60.0  # beyond its own run time, for laying out files and the last fsync


def available() -> bool:
    return shutil.which("fio") is not None


def run(test: str, path: Path, size: int, block: int, direct: bool, max_seconds: float) -> Transfer:
    """One block test of one rank. A read needs the whole file to be there. Raises OSError where fio fails."""
    mode = MODES[test]
    cache = "direct" if direct else "fsync" if mode == "write" else evict([path])
    command = [
        "fio",
        f"--name={test}",
        f"--filename={path}",
        f"--rw={mode}",
        f"--size={size}",
        f"--bs={block}",
        f"--direct={int(direct)}",
        f"--runtime={max(round(max_seconds), 1)}",
        "--ioengine=psync",
        "--iodepth=1",
        "--end_fsync=1",
        "--invalidate=0",
        "--output-format=json",
    ]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=max_seconds + TIMEOUT_S, check=False)
    except subprocess.TimeoutExpired:
        raise OSError(f"fio did not end {TIMEOUT_S:g} s after its time was up") from None
    if done.returncode:
        raise OSError(f"fio ended with {done.returncode}: {' '.join((done.stderr or done.stdout).split())[:300]}")
    return parse(done.stdout, mode, cache)


def parse(text: str, mode: str, cache: str) -> Transfer:
    """fio's JSON as a transfer; warnings that fio prints before it are skipped. Raises OSError on anything else."""
    try:
        job: dict[str, Any] = json.loads(text[text.index("{") :])["jobs"][0]
        part = job["write" if mode == "write" else "read"]
        milliseconds = part["runtime"]  # of a write with --end_fsync, up to the end of the fsync
        percentiles = part.get("clat_ns", {}).get("percentile", {})
        if job.get("error"):
            raise OSError(job["error"], f"fio: error {job['error']}")
    except (ValueError, KeyError, IndexError, TypeError) as error:
        raise OSError(f"fio's output is not the JSON it should be: {error!r}") from None
    facts = {
        name: percentiles[key] / 1e3
        for name, key in (("latency_us", "50.000000"), ("latency_p99_us", "99.000000"))
        if key in percentiles
    }
    seconds = max(milliseconds, 1) / 1e3
    return Transfer(part["io_bytes"], seconds, part["total_ios"], cache, tool="fio", facts=facts)
