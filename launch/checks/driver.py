"""Whether driver, CUDA, NCCL and torch go together, and whether the ranks get the cards that were promised."""

from __future__ import annotations

import re

from configs.machines import load_machines, machine_for
from launch.checks.facts import CardFacts, Facts
from launch.checks.findings import FAIL, WARN, Finding, Result, Results, listed, ok, unknown


def driver(facts: Facts) -> Results:
    if not facts.plan.on_cards:
        return ok("driver", "not needed: the ranks run on the processor")
    gpu = facts.gpu
    if gpu.missing:
        return [
            Finding(
                "driver",
                FAIL,
                f"no card can be asked: {gpu.missing}",
                f"machine={facts.plan.machine.name} needs NVIDIA cards and a driver that this process can reach",
                "in a container start it with --gpus all; on a host install the driver; or take machine=cpu",
            )
        ]
    return ok("driver", f"NVIDIA {gpu.driver or 'driver of unknown version'}, runs CUDA up to {gpu.driver_cuda or '?'}")


def torch_cuda(facts: Facts) -> Results:
    """torch's CUDA against the driver's: within one major version newer runtimes work on older drivers, not beyond."""
    torch, newest = facts.torch, facts.gpu.driver_cuda
    if torch.version is None:
        return [Finding("torch", FAIL, "torch is not installed", "the ranks are torch processes", "pip install torch")]
    if not facts.plan.on_cards:
        return ok("torch", f"torch {torch.version}")
    if torch.cuda is None:
        return [
            Finding(
                "torch",
                FAIL,
                f"torch {torch.version} is built without CUDA",
                "it cannot use a card; pip takes such a build from some mirrors",
                "install the build for CUDA " + (newest or "of this driver"),
            )
        ]
    if newest is None:
        return unknown("torch", facts.gpu.missing or "the driver does not tell which CUDA it runs")
    built, runs = _version(torch.cuda), _version(newest)
    do = f"a driver for CUDA {torch.cuda}, or the torch build for CUDA {newest}"
    if built[0] > runs[0]:
        why = "a runtime of a newer major version does not start: CUDA driver version is insufficient"
        return [
            Finding("torch", FAIL, f"torch is built for CUDA {torch.cuda}, the driver runs up to {newest}", why, do)
        ]
    if torch.error:
        return [Finding("torch", FAIL, f"torch cannot use the cards: {torch.error}", "no rank would start", do)]
    if built > runs:
        why = "it starts, by minor-version compatibility, but what is compiled while it runs may not load"
        return [
            Finding("torch", WARN, f"torch is built for CUDA {torch.cuda}, the driver runs up to {newest}", why, do)
        ]
    return ok("torch", f"torch {torch.version} for CUDA {torch.cuda}, the driver runs up to {newest}")


def kernels(facts: Facts) -> Results:
    """Whether torch holds kernels for these cards: sm_XY of the same generation and not newer, or PTX to compile."""
    if not facts.plan.on_cards:
        return []
    archs = facts.torch.archs
    capabilities = {card.capability for card in facts.gpu.visible if card.capability}
    if not archs or not capabilities:
        return unknown("kernels", "torch was not asked what it is built for" if not archs else "no card tells its kind")
    missing = [have for have in sorted(capabilities) if not any(_serves(arch, have) for arch in archs)]
    if missing:
        names = listed([f"{a}.{b}" for a, b in missing])
        why = "every kernel would end with: no kernel image is available for execution on the device"
        return [
            Finding(
                "kernels",
                FAIL,
                f"no kernels for compute capability {names} in torch ({listed(archs)})",
                why,
                "newer torch",
            )
        ]
    return ok("kernels", f"torch has kernels for {listed([f'{a}.{b}' for a, b in sorted(capabilities)])}")


def nccl(facts: Facts) -> Results:
    if not facts.plan.on_cards:
        return []
    used, wheel = facts.torch.nccl, facts.torch.nccl_wheel
    if used is None:
        return unknown("nccl", "torch was not asked: no card to ask it on")
    if wheel is not None and _version(wheel)[:2] != _version(used)[:2]:
        return [
            Finding(
                "nccl",
                WARN,
                f"NCCL {used} is in use, {wheel} is installed beside torch",
                "another library is found first; nodes that load different ones hang or fail at the start",
                "look for libnccl.so.2 on LD_LIBRARY_PATH and in LD_PRELOAD",
            )
        ]
    return ok("nccl", f"NCCL {used}")


def cards(facts: Facts) -> Results:
    """Cards visible against cards that this node's ranks need."""
    plan, gpu = facts.plan, facts.gpu
    if not plan.on_cards:
        idle = [card.name for card in gpu.cards]
        if idle:
            known = [machine_for(name, load_machines())[0] for name in idle]
            word = next((machine.name for machine in known if machine), "NAME")
            what = f"machine=cpu, and this machine has {len(idle)} cards ({listed(sorted(set(idle)))})"
            return [Finding("cards", WARN, what, "they would be paid for and not used", f"machine={word}")]
        return ok("cards", "none, and none needed")
    if gpu.missing:
        return unknown("cards", gpu.missing)
    have, need = len(gpu.visible), plan.ranks
    what = f"{have} visible cards for {need} ranks on this node ({plan.cards} cards over {plan.nodes} nodes)"
    if any(card.is_slice for card in gpu.visible) and need > 1:
        why = "a process sees one MIG slice, and slices have no peer-to-peer: ranks would share one"
        return [Finding("cards", FAIL, f"{need} ranks on MIG slices", why, "turn MIG off, or cards=1")]
    if have < need:
        do = f"cards={have * plan.nodes}" if have else "check CUDA_VISIBLE_DEVICES and what the quote promised"
        return [Finding("cards", FAIL, what, "each rank needs a card of its own", do)]
    promised = facts.rank_variables.get("SLURM_GPUS_ON_NODE")
    if promised and promised.isdigit() and int(promised) > len(gpu.cards):
        what = f"Slurm gave this node {promised} cards, {len(gpu.cards)} can be used"
        return [Finding("cards", WARN, what, "one may have fallen off the bus", "nvidia-smi; dmesg | grep -i xid")]
    return ok("cards", what)


def mask(facts: Facts) -> Results:
    """CUDA_VISIBLE_DEVICES against what NVML sees; and torch's own order, where it was asked, against both."""
    gpu, variables = facts.gpu, facts.rank_variables
    if not facts.plan.on_cards or gpu.missing:
        return []
    text = variables.get("CUDA_VISIBLE_DEVICES")
    hidden = [entry for entry in gpu.unresolved if not entry.startswith("-")]
    why = "local rank i works on the i-th visible card; a monitor that counts otherwise reads another card"
    if hidden and not all(entry in ("", "NoDevFiles") for entry in hidden):
        do = "cards by NVML: " + listed([f"{card.index}={card.uuid}" for card in gpu.cards], 16)
        return [Finding("mask", FAIL, "; ".join(gpu.mask_notes), "the ranks would see fewer cards than you named", do)]
    if not gpu.certain:
        return [Finding("mask", WARN, "; ".join(gpu.mask_notes), why, "export CUDA_DEVICE_ORDER=PCI_BUS_ID")]
    ours = tuple(card.uuid for card in gpu.visible)
    theirs = facts.torch.uuids
    if theirs is not None and not any(card.is_slice for card in gpu.visible) and ours != theirs:
        what = f"torch counts the cards as {listed(theirs)}, NVML and the mask as {listed(ours)}"
        return [Finding("mask", WARN, what, why, "name the cards by UUID in CUDA_VISIBLE_DEVICES")]
    indices = listed([card.index for card in gpu.visible], 16)
    return ok("mask", f"CUDA_VISIBLE_DEVICES {'is not set' if text is None else '= ' + text}: NVML cards {indices}")


def promised_card(facts: Facts) -> Results:
    """The card's name against the machine that was named: its peak, memory and links are those of the promise."""
    used = facts.gpu.visible[: facts.plan.ranks]
    if not facts.plan.on_cards or not used:
        return []
    machines = {**load_machines(), facts.plan.machine.name: facts.plan.machine}
    names = sorted({card.name for card in used})
    found = [machine_for(name, machines) for name in names]
    others = [name for name, (machine, _) in zip(names, found, strict=True) if machine != facts.plan.machine]
    if not others:
        return ok("promised card", f"{listed(names)} is machine={facts.plan.machine.name}")
    machine, message = found[names.index(others[0])]
    what = f"machine={facts.plan.machine.name} was named, and the card is {listed(others)}"
    why = "MFU, the memory gate and the link share would be another card's"
    return [Finding("promised card", WARN, what, why, f"machine={machine.name}" if machine else message)]


def like_cards(facts: Facts) -> Results:
    used: tuple[CardFacts, ...] = facts.gpu.visible[: facts.plan.ranks]
    if not facts.plan.on_cards or len(used) < 2:
        return []
    kinds = sorted({(card.name, round(card.memory_gib or 0)) for card in used})
    if len(kinds) > 1:
        what = "the ranks' cards differ: " + listed([f"{name} ({gib} GiB)" for name, gib in kinds])
        why = "the smallest memory bounds all, the slowest card sets the pace; efficiency is not comparable"
        return [Finding("like cards", WARN, what, why, "CUDA_VISIBLE_DEVICES with cards of one kind")]
    return ok("like cards", f"{len(used)} x {kinds[0][0]}")


def _version(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", text)[:3])


def _serves(arch: str, have: tuple[int, int]) -> bool:
    """sm_86 code runs on 8.6 and newer of major 8; compute_80 is PTX, compiled for anything newer."""
    match = re.fullmatch(r"(sm|compute)_(\d+)(\d)[a-z]?", arch)
    if match is None:
        return False
    built = (int(match[2]), int(match[3]))
    return built <= have and (match[1] == "compute" or built[0] == have[0])


CHECKS = (driver, torch_cuda, kernels, nccl, cards, mask, promised_card, like_cards)

__all__ = ["CHECKS", "Result"]
