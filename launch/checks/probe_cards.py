"""Ask NVML and torch for the facts that the doctor's checks of cards look at."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from typing import Any

from benchmarks.device import nvml
from benchmarks.device.nvlink import CardLinks
from benchmarks.device.topology import from_nvml
from benchmarks.device.visibility import Card, Visible, visible
from benchmarks.meters.environment import nccl_version, torch_cuda, versions
from configs.machines import FOLDER
from launch.checks.facts import CardFacts, GpuFacts, TorchFacts

TORCH_PATIENCE_S = 60.0  # importing torch from a network drive
UNCORRECTED, SINCE_LOADED = 1, 0  # nvml.h: nvmlMemoryErrorType_t, nvmlEccCounterType_t

# Run in a process of its own: asking CUDA opens contexts, and the doctor must not import torch.
ASK_TORCH = """
import json, torch
out = {"error": "", "uuids": None, "archs": None, "nccl": None}
try:
    out["archs"] = torch.cuda.get_arch_list()
    torch.cuda.init()
    properties = [torch.cuda.get_device_properties(i) for i in range(torch.cuda.device_count())]
    uuids = [str(getattr(p, "uuid", "")) for p in properties]
    out["uuids"] = [u if u.startswith(("GPU-", "MIG-")) else "GPU-" + u for u in uuids] if all(uuids) else None
    out["nccl"] = ".".join(map(str, torch.cuda.nccl.version()))
except Exception as error:
    out["error"] = " ".join(str(error).split())[:300]
print(json.dumps(out))
"""


def ask_cards(variables: Mapping[str, str]) -> GpuFacts:
    """NVML's side of the facts, for the mask in `variables`."""
    try:
        with nvml.session() as bindings:
            every = nvml.cards(bindings)
            seen = visible(every, variables)
            topology, links = from_nvml(bindings, seen.cards)
            return GpuFacts(
                driver=nvml.driver_version(bindings).value,
                driver_cuda=nvml.driver_cuda(bindings).value,
                cards=tuple(card_facts(bindings, card, CardLinks()) for card in every),
                visible=tuple(card_facts(bindings, card, links[card.uuid]) for card in seen.cards),
                unresolved=seen.unresolved,
                certain=seen.certain or _all_alike(seen),
                mask_notes=seen.notes,
                topology=topology,
            )
    except nvml.NvmlUnavailable as missing:
        return GpuFacts(missing=str(missing))


def _all_alike(seen: Visible) -> bool:
    return len({card.name for card in seen.cards}) < 2


def card_facts(bindings: Any, card: Card, links: CardLinks) -> CardFacts:
    """One card's state. What belongs to the whole card is asked of the card a slice is cut from."""
    own = nvml.open_card(bindings, card.uuid).value
    whole = nvml.whole_card(bindings, own, card.is_slice).value if own is not None else None

    def ask(query: str, *more: Any) -> Any:
        return nvml.ask(bindings, query, whole, *more).value if whole is not None else None

    def shared(query: Callable[[Any, Any], nvml.Answer], handle: Any) -> Any:
        return query(bindings, handle).value if handle is not None else None

    ecc, remap = ask("nvmlDeviceGetEccMode"), ask("nvmlDeviceGetRemappedRows")
    limit, default = ask("nvmlDeviceGetEnforcedPowerLimit"), ask("nvmlDeviceGetPowerManagementDefaultLimit")
    return CardFacts(
        index=card.index,
        uuid=card.uuid,
        name=card.name,
        memory_gib=card.memory_gib,
        is_slice=card.is_slice,
        used_gib=shared(nvml.used_gib, own),
        pids=shared(nvml.compute_processes, own),
        capability=shared(nvml.capability, whole),
        persistence=_flag(ask("nvmlDeviceGetPersistenceMode")),
        ecc=_flag(ecc[0]) if ecc else None,
        ecc_uncorrected=ask("nvmlDeviceGetTotalEccErrors", UNCORRECTED, SINCE_LOADED),
        remap_pending=_flag(remap[2]) if remap else None,
        remap_failed=_flag(remap[3]) if remap else None,
        clock_reasons=shared(nvml.clock_reasons, whole),
        celsius=ask("nvmlDeviceGetTemperature", 0),
        power_limit_w=limit / 1000 if limit is not None else None,
        power_default_w=default / 1000 if default is not None else None,
        pcie_width=ask("nvmlDeviceGetCurrPcieLinkWidth"),
        pcie_max_width=ask("nvmlDeviceGetMaxPcieLinkWidth"),
        compute_mode=ask("nvmlDeviceGetComputeMode"),
        links_up=links.up,
        links_down=links.down,
        link_errors=links.errors,
    )


def _flag(value: int | None) -> bool | None:
    return None if value is None else bool(value)


def ask_torch(gpu: GpuFacts, variables: Mapping[str, str]) -> TorchFacts:
    """torch as installed; where it is built for CUDA and there are cards, a process of its own asks what it sees."""
    facts = TorchFacts(
        version=versions(("torch",)).get("torch"),
        cuda=torch_cuda(),
        nccl_wheel=nccl_version(),
    )
    if facts.cuda is None or not gpu.visible:
        return facts
    try:
        done = subprocess.run(
            [sys.executable, "-c", ASK_TORCH],
            env={**os.environ, **variables},
            cwd=FOLDER,  # only data there: a torch.py of the user's folder is not taken for torch
            capture_output=True,
            text=True,
            timeout=TORCH_PATIENCE_S,
            check=False,
        )
        found = json.loads(done.stdout.strip().splitlines()[-1])
    except subprocess.TimeoutExpired:
        found = {"error": f"it did not answer in {TORCH_PATIENCE_S:.0f} s"}
    except (OSError, ValueError, IndexError):
        found = {"error": (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1][:300]}
    uuids, archs = found.get("uuids"), found.get("archs")
    return TorchFacts(
        version=facts.version,
        cuda=facts.cuda,
        nccl=found.get("nccl"),
        nccl_wheel=facts.nccl_wheel,
        error=found.get("error", ""),
        uuids=None if uuids is None else tuple(uuids),
        archs=None if archs is None else tuple(archs),
    )
