"""What NVML says of this machine's cards; anything may be missing, and then there is a reason instead of a value.

NVML counts cards by PCI bus id and knows no mask; CUDA counts as CUDA_VISIBLE_DEVICES and CUDA_DEVICE_ORDER say. Cards
are therefore matched by UUID, and a match that is not certain is not made.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from benchmarks.device.visibility import Card

GIB = 2**30

# nvml.h, nvmlClocksEventReasons: what can hold a card's clock down, by bit.
CLOCK_REASONS = {
    0x1: "idle",
    0x2: "application clocks setting",
    0x4: "software power cap",
    0x8: "hardware slowdown",
    0x10: "sync boost",
    0x20: "software thermal slowdown",
    0x40: "hardware thermal slowdown",
    0x80: "hardware power brake",
    0x100: "display clock setting",
}
BF16_CAPABILITY = (8, 0)  # Ampere is the first with bf16 in hardware; older cards emulate it
# A card at its full power limit is a card at work; these say that something is wrong with its cooling or supply.
THROTTLING = ("hardware slowdown", "software thermal slowdown", "hardware thermal slowdown", "hardware power brake")


class NvmlUnavailable(Exception):
    """There is no NVML to ask; the message says why."""


@dataclass(frozen=True)
class Answer:
    """One query's value, or None and why."""

    value: Any
    reason: str = ""


@contextlib.contextmanager
def session() -> Iterator[Any]:
    """The NVML bindings, ready to be asked. Raises NvmlUnavailable without the package, the library or a driver."""
    try:
        import pynvml
    except ImportError:
        raise NvmlUnavailable("the package nvidia-ml-py is not installed") from None
    try:
        pynvml.nvmlInit()
    except (pynvml.NVMLError, OSError, AttributeError) as error:
        raise NvmlUnavailable(f"NVML does not start: {error}") from None
    try:
        yield pynvml
    finally:
        with contextlib.suppress(pynvml.NVMLError):  # the driver went away meanwhile: there is nothing left to close
            pynvml.nvmlShutdown()


def ask(nvml: Any, query: str, *arguments: Any) -> Answer:
    """The answer of NVML's function `query`. A card, driver or binding that cannot tell is a reason, not an error."""
    function: Callable[..., Any] | None = getattr(nvml, query, None)
    if function is None:
        return Answer(None, "these bindings do not know the query")
    try:
        value = function(*arguments)
    except (nvml.NVMLError, UnicodeDecodeError, OSError, TypeError) as error:
        return Answer(None, str(error) or type(error).__name__)
    return Answer(value)


def first_answer(nvml: Any, queries: tuple[str, ...], *arguments: Any) -> Answer:
    """The first of `queries` that is answered: newer names before those that older drivers have."""
    answer = Answer(None, "no query")
    for query in queries:
        answer = ask(nvml, query, *arguments)
        if not answer.reason:
            return answer
    return answer


def cards(nvml: Any) -> list[Card]:
    """The cards that this process may use, in NVML's order, each with its MIG slices.

    A card that NVML counts and does not let us open (another job's, behind a cgroup) is left out, as CUDA does.
    """
    found = []
    for index in range(ask(nvml, "nvmlDeviceGetCount").value or 0):
        handle = ask(nvml, "nvmlDeviceGetHandleByIndex", index).value
        if handle is None:
            continue
        uuid = ask(nvml, "nvmlDeviceGetUUID", handle).value
        if uuid is None:  # without an identity nothing of it could be assigned to a rank
            continue
        pci = ask(nvml, "nvmlDeviceGetPciInfo", handle).value
        found.append(
            Card(
                index=index,
                uuid=_text(uuid),
                name=_text(ask(nvml, "nvmlDeviceGetName", handle).value or "unknown card"),
                pci_bus_id=_text(pci.busId) if pci is not None else "",
                memory_gib=total_gib(nvml, handle).value,
                slices=tuple(_slices(nvml, handle, index, _text(uuid))),
            )
        )
    return found


def _slices(nvml: Any, handle: Any, index: int, card_uuid: str) -> Iterator[Card]:
    mode = ask(nvml, "nvmlDeviceGetMigMode", handle).value
    if not mode or not mode[0]:
        return
    for place in range(ask(nvml, "nvmlDeviceGetMaxMigDeviceCount", handle).value or 0):
        part = ask(nvml, "nvmlDeviceGetMigDeviceHandleByIndex", handle, place).value
        uuid = ask(nvml, "nvmlDeviceGetUUID", part).value if part is not None else None
        if uuid is None:
            continue
        ids = [ask(nvml, f"nvmlDeviceGet{kind}InstanceId", part).value for kind in ("Gpu", "Compute")]
        yield Card(
            index=index,
            uuid=_text(uuid),
            name=_text(ask(nvml, "nvmlDeviceGetName", part).value or "MIG slice"),
            memory_gib=total_gib(nvml, part).value,
            is_slice=True,
            alias="" if None in ids else f"MIG-{card_uuid}/{ids[0]}/{ids[1]}",
        )


def total_gib(nvml: Any, handle: Any) -> Answer:
    """Memory of the card, or of the MIG slice that `handle` is, in GiB."""
    answer = ask(nvml, "nvmlDeviceGetMemoryInfo", handle)
    return answer if answer.value is None else Answer(answer.value.total / GIB)


def used_gib(nvml: Any, handle: Any) -> Answer:
    """Memory that everybody's processes use on the card or MIG slice, in GiB; not what the driver keeps for itself.

    As nvidia-smi prints it. An older driver has only the first form of the query, which counts the driver's share in.
    """
    answer = _memory_v2(nvml, handle)
    if answer.value is None:
        answer = ask(nvml, "nvmlDeviceGetMemoryInfo", handle)
    return answer if answer.value is None else Answer(answer.value.used / GIB)


def driver_reserved_gib(nvml: Any, handle: Any) -> Answer:
    """What the driver keeps of the card's memory for itself, in GiB: no process can have it."""
    answer = _memory_v2(nvml, handle)
    return answer if answer.value is None else Answer(answer.value.reserved / GIB)


def _memory_v2(nvml: Any, handle: Any) -> Answer:
    version = getattr(nvml, "nvmlMemory_v2", None)
    if version is None:
        return Answer(None, "these bindings do not know the query")
    return ask(nvml, "nvmlDeviceGetMemoryInfo", handle, version)


def utilisation_pct(nvml: Any, handle: Any) -> Answer:
    """Share of the driver's last sampling period with a kernel resident: one kernel that waits is 100 %."""
    answer = ask(nvml, "nvmlDeviceGetUtilizationRates", handle)
    return answer if answer.value is None else Answer(float(answer.value.gpu))


def power_w(nvml: Any, handle: Any) -> Answer:
    answer = ask(nvml, "nvmlDeviceGetPowerUsage", handle)
    return answer if answer.value is None else Answer(answer.value / 1000)


def energy_j(nvml: Any, handle: Any) -> Answer:
    """The card's energy counter, which runs from the loading of its driver. Volta and newer have one."""
    answer = ask(nvml, "nvmlDeviceGetTotalEnergyConsumption", handle)
    return answer if answer.value is None else Answer(answer.value / 1000)


def capability(nvml: Any, handle: Any) -> Answer:
    """The card's compute capability, as (major, minor)."""
    answer = ask(nvml, "nvmlDeviceGetCudaComputeCapability", handle)
    return answer if answer.value is None else Answer(tuple(answer.value))


def sm_clock_mhz(nvml: Any, handle: Any) -> Answer:
    answer = ask(nvml, "nvmlDeviceGetClockInfo", handle, getattr(nvml, "NVML_CLOCK_SM", 1))
    return answer if answer.value is None else Answer(float(answer.value))


def open_card(nvml: Any, uuid: str) -> Answer:
    """The handle of the card or MIG slice `uuid`."""
    return ask(nvml, "nvmlDeviceGetHandleByUUID", uuid)


def whole_card(nvml: Any, handle: Any, is_slice: bool) -> Answer:
    """The handle of the card that a MIG slice belongs to; a whole card's own."""
    return ask(nvml, "nvmlDeviceGetDeviceHandleFromMigDeviceHandle", handle) if is_slice else Answer(handle)


def clock_reasons(nvml: Any, handle: Any) -> Answer:
    """What holds the clock down now, as names; an empty tuple where nothing does."""
    answer = first_answer(
        nvml, ("nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetCurrentClocksThrottleReasons"), handle
    )
    if answer.value is None:
        return answer
    return Answer(tuple(name for bit, name in CLOCK_REASONS.items() if answer.value & bit))


def compute_processes(nvml: Any, handle: Any) -> Answer:
    """Process ids with a compute context on the card, as the driver counts them: a container sees the host's ids."""
    queries = ("nvmlDeviceGetComputeRunningProcesses", "nvmlDeviceGetComputeRunningProcesses_v2")
    answer = first_answer(nvml, queries, handle)
    return answer if answer.value is None else Answer(tuple(process.pid for process in answer.value))


def driver_version(nvml: Any) -> Answer:
    answer = ask(nvml, "nvmlSystemGetDriverVersion")
    return answer if answer.value is None else Answer(_text(answer.value))


def driver_cuda(nvml: Any) -> Answer:
    """The newest CUDA that the driver can run, as "12.4"."""
    answer = first_answer(nvml, ("nvmlSystemGetCudaDriverVersion_v2", "nvmlSystemGetCudaDriverVersion"))
    return answer if answer.value is None else Answer(f"{answer.value // 1000}.{answer.value % 1000 // 10}")


def _text(value: str | bytes) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
