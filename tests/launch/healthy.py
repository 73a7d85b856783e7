"""Facts of machines on which nothing is wrong; a test plants one fault and looks for one finding."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

from benchmarks.device.topology import Topology
from configs.machines import load_machines
from configs.schema import Machine
from launch.checks.facts import UNLIMITED, CardFacts, Facts, GpuFacts, HostFacts, NetworkFacts, Plan, TorchFacts
from launch.checks.findings import Finding, Result

MACHINES = load_machines()
H100 = "NVIDIA H100 80GB HBM3"


def card(number: int, **changes: Any) -> CardFacts:
    healthy = CardFacts(
        index=number,
        uuid=f"GPU-{number}",
        name=H100,
        memory_gib=79.6,
        used_gib=0.0,
        pids=(),
        capability=(9, 0),
        persistence=True,
        ecc=True,
        ecc_uncorrected=0,
        remap_pending=False,
        remap_failed=False,
        clock_reasons=("idle",),
        celsius=31,
        power_limit_w=700,
        power_default_w=700,
        pcie_width=16,
        pcie_max_width=16,
        compute_mode=0,
        links_up=18,
        link_errors={"replay": 0, "recovery": 0},
    )
    return replace(healthy, **changes)


def mesh(count: int, cell: str = "NV18") -> Topology:
    rows = tuple(tuple("X" if i == j else cell for j in range(count)) for i in range(count))
    return Topology(tuple(f"GPU{i}" for i in range(count)), rows)


HOST = HostFacts(
    cores=64,
    cpu_flags=frozenset({"avx2"}),
    shm_gib=32,
    open_files=65536,
    open_files_hard=UNLIMITED,
    memlock_bytes=UNLIMITED,
    results_dir="results/runs",
    results_free_gib=500,
    results_filesystem="ext4",
)
NETWORK = NetworkFacts(
    host="node0",
    addresses=("10.0.0.5",),
    interfaces={"lo": ("127.0.0.1", "::1"), "eth0": ("10.0.0.5", "fe80::1%eth0")},
)
TORCH = TorchFacts("2.6.0", cuda="12.4", nccl="2.21.5", nccl_wheel="2.21.5", archs=("sm_80", "sm_90"))


def on_cards(count: int = 2, cards: Iterable[CardFacts] | None = None, **plan: Any) -> Facts:
    """A node of H100s for `count` ranks; `plan` changes the plan's fields."""
    have = tuple(cards if cards is not None else (card(i) for i in range(count)))
    machine = {"machine": MACHINES["h100_80g"], "cards": count}
    return Facts(
        plan=Plan(**{**machine, **plan}),
        gpu=GpuFacts(driver="550.54.15", driver_cuda="12.4", cards=have, visible=have, topology=mesh(len(have))),
        torch=replace(TORCH, uuids=tuple(each.uuid for each in have)),
        host=HOST,
        network=NETWORK,
    )


def on_processor(**plan: Any) -> Facts:
    return Facts(
        plan=Plan(**{"machine": Machine(), "cards": 2, **plan}),
        gpu=GpuFacts(missing="NVML does not start: NVML Shared Library Not Found"),
        torch=TorchFacts("2.6.0"),
        host=HOST,
        network=NETWORK,
    )


def only(check: Callable[[Facts], Iterable[Result]], facts: Facts) -> Finding:
    """The one finding of `check`."""
    (result,) = check(facts)
    assert isinstance(result, Finding)
    return result
