"""The state of the cards: who else is on them, their health, clocks and power, their links against the promise."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from benchmarks.device.nvml import BF16_CAPABILITY, THROTTLING
from benchmarks.device.topology import FULL_MESH, PCIE, groups, remarks, verdict
from benchmarks.meters.environment import NATIVE_BF16
from launch.checks.facts import CardFacts, Facts
from launch.checks.findings import FAIL, WARN, Finding, Results, listed, ok, unknown

TAKEN_GIB = 1.0  # a desktop or a monitoring agent takes less
HALF = 0.5
POWER_TOLERANCE = 0.98
PROHIBITED = 2


def others(facts: Facts) -> Results:
    """Processes of somebody else on the cards, and memory that is taken without a process to be seen."""
    used = _ours(facts)
    if not used:
        return []
    busy = [card for card in used if card.pids]
    taken = [card for card in used if (card.used_gib or 0) > TAKEN_GIB]
    why = "they take memory and time from every figure; nothing measured beside them can be compared"
    if not busy and not taken:
        if all(card.pids is None and card.used_gib is None for card in used):
            return unknown("other processes", "the cards do not tell")
        return ok("other processes", "none on the cards")
    full = [card for card in taken if card.memory_gib and (card.used_gib or 0) > HALF * card.memory_gib]
    what = "; ".join(
        f"card {card.index}: {len(card.pids or ())} processes ({listed(card.pids or ())}), {card.used_gib or 0:.1f} GiB"
        if card.pids
        else f"card {card.index}: {card.used_gib or 0:.1f} GiB in use by processes that cannot be seen from here"
        for card in used
        if card in busy or card in taken
    )
    do = "end what is yours; else other cards by CUDA_VISIBLE_DEVICES, or ask the provider who is on them"
    return [Finding("other processes", FAIL if full else WARN, what, why, do)]


def persistence(facts: Facts) -> Results:
    used = _ours(facts)
    off = [card.index for card in used if card.persistence is False]
    if off:
        why = "the driver is loaded anew whenever nobody is on the card: seconds at the start of each cell"
        do = "ask for nvidia-persistenced; it needs root"
        return [Finding("persistence", WARN, f"persistence is off on card {listed(off)}", why, do)]
    return _asked("persistence", used, lambda card: card.persistence, "on")


def ecc(facts: Facts) -> Results:
    """Memory errors that were not corrected, rows that wait for a reset to be replaced, and correction turned off."""
    used = _ours(facts)
    wrong = [card for card in used if card.ecc_uncorrected]
    if wrong:
        what = "; ".join(f"card {card.index}: {card.ecc_uncorrected} uncorrected memory errors" for card in wrong)
        why = "a process that touches such memory is ended, or computes with wrong values"
        return [Finding("memory errors", FAIL, what, why, "give the card back: ask for another")]
    broken = [card.index for card in used if card.remap_failed]
    if broken:
        what = f"card {listed(broken)} has no spare rows left for its bad memory"
        return [Finding("memory errors", FAIL, what, "the next error ends the run", "give the card back")]
    waiting = [card.index for card in used if card.remap_pending]
    if waiting:
        what = f"card {listed(waiting)} has bad memory rows that a reset would replace"
        return [Finding("memory errors", WARN, what, "until then errors may come again", "ask for a reset of the card")]
    off = [card.index for card in used if card.ecc is False]
    if off:
        why = "a flipped bit goes unnoticed; also, memory size and bandwidth differ from a card with correction"
        return [
            Finding("memory errors", WARN, f"error correction is off on card {listed(off)}", why, "ask the provider")
        ]
    return _asked("memory errors", used, lambda card: card.ecc_uncorrected, "none")


def throttle(facts: Facts) -> Results:
    used = _ours(facts)
    held = [card for card in used if set(card.clock_reasons or ()) & set(THROTTLING)]
    if held:
        what = "; ".join(f"card {card.index}: {listed(card.clock_reasons or ())}{_heat(card)}" for card in held)
        why = "the clock is held down before the run has begun: it will be slower than what you pay for"
        return [Finding("throttling", WARN, what, why, "ask about cooling and power, or take another machine")]
    return _asked("throttling", used, lambda card: card.clock_reasons, "none now")


def power_limit(facts: Facts) -> Results:
    used = [card for card in _ours(facts) if card.power_limit_w and card.power_default_w]
    low = [c for c in used if (c.power_limit_w or 0) < POWER_TOLERANCE * (c.power_default_w or 0)]
    if low:
        what = "; ".join(f"card {c.index}: {c.power_limit_w:.0f} W of {c.power_default_w:.0f} W" for c in low)
        why = "under load its clock stays below that of a card at its full limit"
        return [Finding("power limit", WARN, what, why, "nvidia-smi -pl needs root: ask the provider to raise it")]
    return _asked("power limit", used or _ours(facts), lambda card: card.power_default_w, "as the card's default")


def compute_mode(facts: Facts) -> Results:
    used = _ours(facts)
    closed = [card.index for card in used if card.compute_mode == PROHIBITED]
    if closed:
        do = "nvidia-smi -c DEFAULT needs root: ask the provider"
        return [Finding("compute mode", FAIL, f"card {listed(closed)} takes no compute work", "no rank can start", do)]
    return _asked("compute mode", used, lambda card: card.compute_mode, "open")


def pcie(facts: Facts) -> Results:
    used = [card for card in _ours(facts) if card.pcie_width and card.pcie_max_width]
    narrow = [card for card in used if (card.pcie_width or 0) < (card.pcie_max_width or 0)]
    if narrow:
        what = "; ".join(f"card {card.index}: x{card.pcie_width} of x{card.pcie_max_width}" for card in narrow)
        why = "host copies, and peers without NVLink, get that share of the bandwidth"
        return [Finding("pcie", WARN, what, why, "another slot or riser: ask the provider")]
    return _asked("pcie", used or _ours(facts), lambda card: card.pcie_max_width, "full width")


def nvlink(facts: Facts) -> Results:
    """Links that are down beside links that are up, and errors that the links have counted."""
    used = _ours(facts)
    if not any(card.links_up or card.links_down for card in used):
        return ok("nvlink", "the cards have none") if used else []
    down = [card for card in used if card.links_down and card.links_up]
    if down:
        what = "; ".join(f"card {c.index}: link {listed(c.links_down)} down, {c.links_up} up" for c in down)
        why = "its collectives run at the pace of what is left"
        return [Finding("nvlink", WARN, what, why, "ask for another machine: a broken link or bridge")]
    dead = [card.index for card in used if card.links_down]
    if dead:
        what, why = f"all NVLinks of card {listed(dead)} are down", "peers then talk over PCIe"
        return [Finding("nvlink", WARN, what, why, "a bridge is missing, or the fabric manager does not run")]
    errors = [(c.index, {k: n for k, n in (c.link_errors or {}).items() if n}) for c in used]
    counted = [(index, kinds) for index, kinds in errors if kinds]
    if counted:
        what = "; ".join(f"card {i}: " + listed([f"{n} {kind}" for kind, n in kinds.items()]) for i, kinds in counted)
        why = "each is data sent again; where they grow during a run, a link is bad"
        return [Finding("nvlink", WARN, f"NVLink errors: {what}", why, "run once and look again: they must not grow")]
    return ok("nvlink", f"{min(card.links_up for card in used)} links up on each card, no errors")


def links(facts: Facts) -> Results:
    """The links that are there against those that the machine promises."""
    topology, plan = facts.gpu.topology, facts.plan
    if not plan.on_cards or topology is None or len(topology.cards) < 2:
        return []
    found, promised = verdict(topology), plan.machine.interconnect
    said = f"{found}" + "".join(f"; {remark}" for remark in remarks(topology))
    if ("NVLink" in promised and found == PCIE) or (promised == FULL_MESH and found != FULL_MESH):
        what = f"{said}; machine={plan.machine.name} promises {promised}"
        why = "with PCIe in place of NVLink the same cards train 20 to 40 % slower"
        return [Finding("links", WARN, what, why, "measure them with benchmark=collectives before renting on")]
    sets = [group for group in groups(topology) if len(group) > 1]
    joined = f" ({'; '.join(listed(group) for group in sets)})" if len(sets) > 1 else ""
    return ok("links", said + joined)


def bf16(facts: Facts) -> Results:
    """bf16 that the hardware does not have runs all the same, emulated and slow."""
    if not facts.plan.precision.startswith("bf16"):
        return []
    why = "it is accepted and emulated: the speed is not that of bf16 and not comparable with cards that have it"
    if not facts.plan.on_cards:
        flags = facts.host.cpu_flags
        if flags is None:
            return unknown("bf16", "the processor does not tell what it can do")
        if not flags & NATIVE_BF16:
            what = "this processor has no bf16 instructions"
            return [Finding("bf16", WARN, what, why, "recipe.precision=fp32 for figures that mean something")]
        return ok("bf16", "in the processor's hardware")
    capable = [card for card in _ours(facts) if card.capability is not None]
    old = [card for card in capable if card.capability is not None and card.capability < BF16_CAPABILITY]
    if old:
        what = "; ".join(f"card {c.index}: {c.name}, compute capability {_dotted(c)}" for c in old)
        return [Finding("bf16", WARN, f"no bf16 in hardware: {what}", why, "recipe.precision=fp32, or a newer card")]
    return ok("bf16", "in the cards' hardware") if capable else unknown("bf16", "no card tells its kind")


def _ours(facts: Facts) -> Sequence[CardFacts]:
    """The cards that this node's ranks will work on."""
    return facts.gpu.visible[: facts.plan.ranks] if facts.plan.on_cards else ()


def _asked(check: str, used: Sequence[CardFacts], answer: Callable[[CardFacts], object], good: str) -> Results:
    if not used:
        return []
    if all(answer(card) is None for card in used):
        return unknown(check, "the cards do not tell")
    return ok(check, good)


def _heat(card: CardFacts) -> str:
    return f" at {card.celsius:.0f} C" if card.celsius is not None else ""


def _dotted(card: CardFacts) -> str:
    return ".".join(map(str, card.capability or ()))


CHECKS = (others, persistence, ecc, throttle, power_limit, compute_mode, pcie, nvlink, links, bf16)
