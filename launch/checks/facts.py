"""What a check may know of a machine and of the run that is planned on it: plain data. None is not known."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from benchmarks.device.topology import Topology
from configs.schema import Machine


@dataclass(frozen=True)
class Plan:
    """What the run asks of this node. hosts: other nodes to reach, by name or address."""

    machine: Machine = field(default_factory=Machine)
    cards: int = 1  # over all nodes
    nodes: int = 1
    node_rank: int = 0
    rendezvous: str | None = None  # host:port of node 0
    hosts: tuple[str, ...] = ()
    precision: str = "fp32"
    threads_per_rank: int = 1
    model_path: str | None = None
    loader_workers: int = 0
    loader_batch_gib: float = 0.0  # one batch of one worker
    loader_prefetch: int = 2  # torch's default
    env: Mapping[str, str] = field(default_factory=dict)  # what the ranks get

    @property
    def on_cards(self) -> bool:
        return self.machine.device != "cpu"

    @property
    def ranks(self) -> int:
        """Ranks on this node."""
        return max(self.cards // max(self.nodes, 1), 1)


@dataclass(frozen=True)
class CardFacts:
    """One card or MIG slice as NVML tells of it."""

    index: int
    uuid: str
    name: str
    memory_gib: float | None = None
    is_slice: bool = False
    used_gib: float | None = None
    pids: tuple[int, ...] | None = None
    capability: tuple[int, int] | None = None
    persistence: bool | None = None
    ecc: bool | None = None
    ecc_uncorrected: int | None = None  # since the driver was loaded
    remap_pending: bool | None = None
    remap_failed: bool | None = None
    clock_reasons: tuple[str, ...] | None = None
    celsius: float | None = None
    power_limit_w: float | None = None
    power_default_w: float | None = None
    pcie_width: int | None = None
    pcie_max_width: int | None = None
    compute_mode: int | None = None  # nvml.h: 0 default, 2 prohibited, 3 one process
    links_up: int = 0
    links_down: tuple[int, ...] = ()
    link_errors: Mapping[str, int] | None = None


@dataclass(frozen=True)
class TorchFacts:
    """torch as it is installed, and, where it was asked on a machine with cards, what it sees."""

    version: str | None = None
    cuda: str | None = None  # built for; None is a build without cards
    nccl: str | None = None  # in use
    nccl_wheel: str | None = None  # installed beside it
    error: str = ""  # why it cannot use the cards
    uuids: tuple[str, ...] | None = None  # of its devices, in its order
    archs: tuple[str, ...] | None = None  # sm_90, compute_90: what its kernels are built for


@dataclass(frozen=True)
class GpuFacts:
    """NVML's side. missing: why there is no NVML; "" where there is. visible: what the mask leaves, in CUDA's order."""

    missing: str = ""
    driver: str | None = None
    driver_cuda: str | None = None
    cards: tuple[CardFacts, ...] = ()  # that this process may use, whatever the mask
    visible: tuple[CardFacts, ...] = ()
    unresolved: tuple[str, ...] = ()
    certain: bool = True
    mask_notes: tuple[str, ...] = ()
    topology: Topology | None = None  # of the visible cards


@dataclass(frozen=True)
class HostFacts:
    """The host, or what its container is given of it."""

    cores: float | None = None
    cpu_flags: frozenset[str] | None = None
    shm_gib: float | None = None  # free in /dev/shm
    open_files: float | None = None  # soft limit; inf is none
    open_files_hard: float | None = None
    memlock_bytes: float | None = None
    results_dir: str = ""
    results_error: str = ""  # why nothing can be written there
    results_free_gib: float | None = None
    results_filesystem: str | None = None  # tmpfs, nfs4, overlay
    model_error: str = ""  # what is wrong with plan.model_path


@dataclass(frozen=True)
class PeerFacts:
    """Another node, as seen from here. clock_offset_s: its clock less ours; within clock_error_s."""

    host: str
    addresses: tuple[str, ...] = ()
    error: str = ""
    seconds: float = 0.0  # what finding out took
    clock_offset_s: float | None = None
    clock_error_s: float = 0.0


@dataclass(frozen=True)
class NetworkFacts:
    """Names, addresses, ports. addresses: what this host's own name resolves to, in order."""

    host: str = ""
    addresses: tuple[str, ...] = ()
    resolve_error: str = ""
    interfaces: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # name -> addresses, loopback included
    infiniband: tuple[str, ...] = ()
    port_error: str = ""  # why no free port was had
    rendezvous_busy: bool | None = None  # node 0: whether somebody listens there already
    peers: tuple[PeerFacts, ...] = ()


@dataclass(frozen=True)
class Facts:
    """Everything the checks look at. variables: this process's environment."""

    plan: Plan = field(default_factory=Plan)
    gpu: GpuFacts = field(default_factory=GpuFacts)
    torch: TorchFacts = field(default_factory=TorchFacts)
    host: HostFacts = field(default_factory=HostFacts)
    network: NetworkFacts = field(default_factory=NetworkFacts)
    variables: Mapping[str, str] = field(default_factory=dict)

    @property
    def rank_variables(self) -> dict[str, str]:
        """What the ranks will find: the cell's own over this process's."""
        return {**self.variables, **self.plan.env}


UNLIMITED = math.inf
