"""Two hosts made of network namespaces, with links shaped to a known rate: is that rate what is measured and fitted?"""

from __future__ import annotations

import json
import math
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from analysis.links import LinkModel, fit_links

RANKS = Path(__file__).with_name("gloo_ranks.py")
OPS = ["all_reduce", "broadcast", "send_recv"]  # Gloo's others use one direction of the link after the other
FAST_GBPS, SLOW_GBPS = 0.125, 0.025  # 1 Gbit/s and 200 Mbit/s, in GB/s
BURST_S = 0.002  # the bucket must hold what a busy processor comes late for, and little of a message: no link is faster
MESSAGE_S = 0.07  # what the largest message takes
ATTEMPTS = (
    2  # the processors are shared: a disturbed size is slower than the link, never faster, so the faster one counts
)
MTU = 9000  # jumbo frames, as cluster networks have
GOODPUT = (MTU - 52) / (MTU + 14)  # without IP and TCP headers, over with Ethernet's: what a perfect transfer reaches


class Hosts:
    """Two namespaces joined by one veth pair whose both ends send at a shaped rate."""

    def __init__(self, name: str) -> None:
        self.names = [f"{name}a", f"{name}b"]
        self.devices = [f"{name}0", f"{name}1"]

    def start(self, rate_gbps: float) -> None:
        for name in self.names:
            _ip("netns", "add", name)
        _ip("link", "add", self.devices[0], "netns", self.names[0], "type", "veth", "peer", "name", self.devices[1])
        _ip("link", "set", self.devices[1], "netns", self.names[1])
        for number, (name, device) in enumerate(zip(self.names, self.devices, strict=True), start=1):
            _ip("-n", name, "addr", "add", f"10.77.0.{number}/24", "dev", device)
            _ip("-n", name, "link", "set", device, "mtu", str(MTU), "up")
            _ip("-n", name, "link", "set", "lo", "up")
            bits, burst = rate_gbps * 8e9, rate_gbps * 1e9 * BURST_S
            shape = ["tbf", "rate", f"{bits:.0f}bit", "burst", f"{burst:.0f}", "latency", "20ms"]
            _checked(["tc", "-n", name, "qdisc", "add", "dev", device, "root", *shape])

    def stop(self) -> None:
        for name in self.names:
            subprocess.run(["ip", "netns", "del", name], capture_output=True, check=False)

    def run(self, folder: Path, cells: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Measure `cells` with one rank on each host; all their rows."""
        processes = []
        for rank, (name, device) in enumerate(zip(self.names, self.devices, strict=True)):
            spec = {"ranks": [rank], "world": 2, "store": "tcp://10.77.0.1:29577", "out": str(folder / "rows")}
            file = folder / f"spec{rank}.json"
            file.write_text(json.dumps(spec | {"cells": cells}))
            variables = {"GLOO_SOCKET_IFNAME": device, "LOCAL_WORLD_SIZE": "1", "OMP_NUM_THREADS": "1"}
            environment = os.environ | variables | {"PYTHONPATH": str(RANKS.parents[2])}
            command = ["ip", "netns", "exec", name, sys.executable, str(RANKS), str(file)]
            processes.append(
                subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
            )
        try:
            errors = [process.communicate(timeout=300)[1] for process in processes]
        finally:
            for process in processes:
                process.kill()
        assert [process.returncode for process in processes] == [0, 0], errors
        return [row for outcome in json.loads((folder / "rows.0").read_text()) for row in outcome["rows"]]


def _checked(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise OSError(f"{' '.join(command)}: {done.stderr.strip()}")


def _ip(*words: str) -> None:
    _checked(["ip", *words])


@pytest.fixture(scope="module", params=[FAST_GBPS, SLOW_GBPS], ids=["1gbit", "200mbit"])
def shaped(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """(rate in GB/s, rows measured across it)."""
    if not (shutil.which("ip") and shutil.which("tc")):
        pytest.skip("ip and tc (iproute2) are not installed")
    rate = request.param
    hosts = Hosts(f"cs{os.getpid() % 100000}")
    try:
        try:
            hosts.start(rate)
        except OSError as error:
            pytest.skip(f"network namespaces cannot be made or shaped here: {error}")
        yield rate, hosts.run(tmp_path_factory.mktemp("hosts"), [cell(rate)] * ATTEMPTS)
    finally:
        hosts.stop()


def cell(rate_gbps: float) -> dict[str, Any]:
    largest = 2 ** round(math.log2(rate_gbps * 1e9 * MESSAGE_S))
    settings = {"ops": OPS, "min_bytes": largest // 8, "max_bytes": largest, "factor": 2, "warmup_iters": 2, "iters": 6}
    benchmark = {"name": "collectives", "collectives": {**settings, "max_seconds_per_size": 2.0, "out_of_place": False}}
    model = {"config": {"model_type": "llama", "hidden_size": 8, "intermediate_size": 8, "num_hidden_layers": 1}}
    model["config"] |= {"num_attention_heads": 1, "vocab_size": 8}
    return {"cards": 2, "cluster": {"nodes": 2}, "model": model, "benchmark": benchmark, "micro_batch": 1}


@pytest.mark.parametrize("op", OPS)
def test_bus_bandwidth_across_nodes_is_the_links_rate(shaped: Any, op: str) -> None:
    rate, rows = shaped
    largest = max(row["bytes"] for row in rows)
    measured = max(row["busbw_gbps"] for row in rows if (row["op"], row["bytes"]) == (op, largest))
    assert measured == pytest.approx(rate, rel=0.10)


def test_nothing_is_wrong_across_nodes(shaped: Any) -> None:
    assert {(row["wrong"], row["nodes"]) for row in shaped[1]} == {(0, 2)}


def test_the_fitted_bandwidth_is_the_links_rate_and_none_other(shaped: Any) -> None:
    """The interval holds what frames leave of the rate, and stays far from the other link's rate."""
    rate, rows = shaped
    model: LinkModel = fit_links(rows)
    [curve] = [curve for curve in model.curves if curve.op == "all_reduce"]
    assert curve.group == "inter_node"
    assert curve.busbw_gbps is not None
    value, low, high = curve.busbw_gbps
    assert value == pytest.approx(rate * GOODPUT, rel=0.10)
    other = SLOW_GBPS if rate == FAST_GBPS else FAST_GBPS
    assert not low <= other <= high
