"""Ask the host for the facts that the doctor's checks look at: limits, disk, names, addresses, ports, other nodes."""

from __future__ import annotations

import contextlib
import errno
import re
import shutil
import socket
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

import psutil

from benchmarks.meters.environment import cores, cpu_flags
from configs.cell import load_model
from configs.errors import ConfigError
from configs.schema import Model
from launch.checks.clocks import ClockServer, Offset, ask_clock
from launch.checks.facts import UNLIMITED, HostFacts, NetworkFacts, PeerFacts, Plan

GIB = 2**30
LOOK_UP_S = 3.0  # a name that takes longer is a finding by itself
CONNECT_S = 2.0
CLOCK_S = 5.0  # how long the nodes wait for each other's doctor
DISCARD_PORT = 9  # nobody need listen: a refusal is an answer
T = TypeVar("T")


def ask_host(plan: Plan, results_dir: str, model: Model) -> HostFacts:
    error, free, filesystem = results_folder(Path(results_dir).expanduser())
    files, hard, locked = _limits()
    return HostFacts(
        cores=cores(),
        cpu_flags=cpu_flags(),
        shm_gib=_free_gib(Path("/dev/shm")),
        open_files=files,
        open_files_hard=hard,
        memlock_bytes=locked,
        results_dir=results_dir,
        results_error=error,
        results_free_gib=free,
        results_filesystem=filesystem,
        model_error=model_error(model),
    )


def results_folder(folder: Path) -> tuple[str, float | None, str | None]:
    """(why it cannot be written, GiB free, filesystem) of the folder, or of the nearest that exists above it."""
    there = folder.resolve()
    while not there.exists():
        there = there.parent
    if not there.is_dir():
        return f"{there} is not a folder", None, None
    error = ""
    try:
        with tempfile.NamedTemporaryFile(dir=there, prefix=".doctor-"):
            pass
    except OSError as trouble:
        error = trouble.strerror or str(trouble)
    mounts = [part for part in psutil.disk_partitions(all=True) if there.is_relative_to(part.mountpoint)]
    mount = max(mounts, key=lambda part: len(part.mountpoint), default=None)
    return error, _free_gib(there), mount.fstype if mount else None


def model_error(model: Model) -> str:
    """What is missing of a model that is read from a folder; "" where nothing is, or where none is read."""
    if model.path is None:
        return ""
    try:
        load_model(model)
    except ConfigError as error:
        return error.what
    return ""


def _free_gib(folder: Path) -> float | None:
    try:
        return shutil.disk_usage(folder).free / GIB
    except OSError:
        return None


def _limits() -> tuple[float | None, float | None, float | None]:
    """(open files, its hard limit, bytes that may be locked); inf is no limit, None on systems without limits."""
    try:
        import resource
    except ImportError:
        return None, None, None

    def number(limit: int) -> float:
        return UNLIMITED if limit == resource.RLIM_INFINITY else limit

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    locked = resource.getrlimit(resource.RLIMIT_MEMLOCK)[0] if hasattr(resource, "RLIMIT_MEMLOCK") else 0
    return number(soft), number(hard), number(locked) if hasattr(resource, "RLIMIT_MEMLOCK") else None


def ask_network(plan: Plan) -> NetworkFacts:
    """Names, addresses and ports of this host, and the other nodes of the plan; all look-ups at once, each bounded."""
    host = socket.gethostname()
    endpoint = parse_endpoint(plan.rendezvous)
    others = [*plan.hosts, *([endpoint[0]] if endpoint and plan.node_rank else [])]
    with ThreadPoolExecutor(max_workers=8) as pool:
        own = pool.submit(_resolve, host)
        found = pool.map(reach, dict.fromkeys(others))
        addresses, error, _ = own.result()
        peers = list(found)
    busy = port_busy(endpoint) if endpoint and plan.node_rank == 0 else None
    if plan.nodes > 1 and endpoint and not busy:
        peers = with_clocks(peers, clock_offsets(plan, endpoint, host))
    return NetworkFacts(
        host=host,
        addresses=addresses,
        resolve_error=error,
        interfaces=_interfaces(),
        infiniband=_infiniband(),
        port_error=_port_error(),
        rendezvous_busy=busy,
        peers=tuple(peers),
    )


def parse_endpoint(text: str | None) -> tuple[str, int] | None:
    """host:port, [address]:port or host, as cluster.rendezvous has it. Raises ConfigError on a port that is none."""
    if not text:
        return None
    match = re.fullmatch(r"(?:\[([^]]+)\]|([^:]+))(?::(\d+))?", text)
    if match is None or int(match[3] or 0) > 65535:
        raise ConfigError(
            "cluster.rendezvous", f"{text!r} is no host and port", "host:port, or [address]:port for IPv6"
        )
    return match[1] or match[2], int(match[3] or 29400)  # torchrun's default


def bounded(call: Callable[[], T], seconds: float) -> T | None:
    """call() in a thread, None where it takes longer: the resolver knows no time limit of its own."""
    result: list[T] = []
    thread = threading.Thread(target=lambda: result.append(call()), daemon=True)
    thread.start()
    thread.join(seconds)
    return result[0] if result else None


def _resolve(host: str) -> tuple[tuple[str, ...], str, float]:
    """(addresses, why there are none, seconds) of a name."""
    started = time.monotonic()

    def look_up() -> tuple[tuple[str, ...], str]:
        try:
            found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
        except OSError as error:
            return (), error.strerror or str(error)
        return tuple(dict.fromkeys(str(entry[4][0]) for entry in found)), ""

    answer = bounded(look_up, LOOK_UP_S)
    addresses, error = answer if answer is not None else ((), f"no answer in {LOOK_UP_S:.0f} s")
    return addresses, error, time.monotonic() - started


def reach(host: str) -> PeerFacts:
    """Whether `host` resolves and answers. Nobody needs to listen there yet: a refused connection is an answer."""
    started = time.monotonic()
    addresses, error, seconds = _resolve(host)
    if error:
        return PeerFacts(host, error=f"does not resolve: {error}", seconds=seconds)
    trouble = "does not answer"
    for address in addresses:
        try:
            socket.create_connection((address, DISCARD_PORT), timeout=CONNECT_S).close()
            trouble = ""
        except ConnectionRefusedError:
            trouble = ""
        except OSError as error_:
            trouble = f"{address} does not answer: {error_.strerror or error_}"
        if not trouble:
            break
    return PeerFacts(host, addresses, trouble, time.monotonic() - started)


def port_busy(endpoint: tuple[str, int]) -> bool | None:
    """Whether somebody listens on this port of ours already; None where its host is not us."""
    try:
        family, kind, _, _, address = socket.getaddrinfo(*endpoint, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, kind) as trial:
            trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            trial.bind(address)
    except OSError as error:
        return True if error.errno == errno.EADDRINUSE else None
    return False


def clock_offsets(plan: Plan, endpoint: tuple[str, int], own_name: str) -> list[Offset]:
    """The other nodes' clocks: node 0 answers at the rendezvous, the others ask it. Empty where nobody came."""
    if plan.node_rank:
        with contextlib.suppress(OSError):
            return [ask_clock(endpoint, own_name, CLOCK_S)]
        return []
    try:
        with ClockServer(endpoint) as server:
            server.wait(plan.nodes - 1, CLOCK_S)
            return list(server.heard)
    except OSError:
        return []


def with_clocks(peers: Sequence[PeerFacts], offsets: Sequence[Offset]) -> list[PeerFacts]:
    """`peers` with what is known of their clocks; nodes that only the exchange knows of are added."""
    known = {offset.host: offset for offset in offsets}
    merged = []
    for peer in peers:
        offset = known.pop(peer.host, None)
        if offset is not None:
            peer = replace(peer, clock_offset_s=offset.offset_s, clock_error_s=offset.error_s)
        merged.append(peer)
    rest = [PeerFacts(o.host, clock_offset_s=o.offset_s, clock_error_s=o.error_s) for o in known.values()]
    return [*merged, *rest]


def _interfaces() -> dict[str, tuple[str, ...]]:
    up = {name for name, state in psutil.net_if_stats().items() if state.isup}
    families = (socket.AF_INET, socket.AF_INET6)
    found = {
        name: tuple(each.address for each in addresses if each.family in families)
        for name, addresses in psutil.net_if_addrs().items()
        if name in up
    }
    return {name: addresses for name, addresses in found.items() if addresses}


def _infiniband(folder: Path = Path("/sys/class/infiniband")) -> tuple[str, ...]:
    return tuple(sorted(path.name for path in folder.iterdir())) if folder.is_dir() else ()


def _port_error() -> str:
    try:
        with socket.create_server(("localhost", 0)):
            return ""
    except OSError as error:
        return error.strerror or str(error)
