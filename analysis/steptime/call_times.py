"""How long a call of a training step takes on a study's links: off the curves it measured, else off the data sheet.

A group that was measured (inside a node, across nodes) answers for itself only: a border that no collective crossed in
the study is taken from the sheet, however well the links inside the node are known.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from analysis.links import INTER, INTRA, UNKNOWN, LinkModel
from analysis.links.collective_time import Group, Link, Network, collective_parts_s
from analysis.steptime.plan import INTER_LATENCY_US, INTRA_LATENCY_US, NETWORK_GBPS, NORMAL_95
from configs.schema import Machine
from results.bandwidth import bus_factor

SHEET_EFFICIENCY, SHEET_SIGMA = 0.75, 0.35  # of the stated bandwidth; sigma of its natural logarithm, as in plan
ASSUMED_SIGMA = 1.0  # where the sheet is silent too
# A collective inside a training step against the same one alone: it shares the card with kernels, or the processor's
# cores with the computing threads.
CARD_SIGMA, PROCESSOR_SIGMA = 0.15, 0.7
PROCESSOR_LINK = Link(1.5, 50.0)  # Gloo between processes of one host
UNKNOWN_ERROR = 0.5  # relative, of a curve through fewer than three sizes
LARGEST_FACTOR = 10.0  # an open upper bound is not taken as more than this


@dataclass(frozen=True)
class CallTime:
    """Seconds of one call. latency_s does not change with the links' efficiency, transfer_s does; low_s and high_s:
    the 95 % interval of their sum that the curve itself earns.
    """

    latency_s: float
    transfer_s: float
    low_s: float
    high_s: float

    @property
    def total_s(self) -> float:
        return self.latency_s + self.transfer_s

    def moved(self, deviations: float) -> float:
        """Factor on the time at so many standard deviations above (or below) the middle of its interval."""
        bound = self.high_s if deviations > 0 else self.low_s
        return (bound / self.total_s) ** (abs(deviations) / NORMAL_95) if self.total_s and bound else 1.0


@dataclass(frozen=True)
class Links:
    """What is known of the links of a study. stated: False for a bandwidth that the sheet does not give.

    processor: ranks stand in for cards, so they share cores with what they send. measured_on: the network that `fitted`
    was measured on, where `sheet` is another: curves are stretched by the ratio of the two.
    """

    fitted: LinkModel | None
    sheet: Network
    intra_stated: bool = True
    inter_stated: bool = True
    processor: bool = False
    measured_on: Network | None = None
    _known: dict[tuple[str, float, Group], CallTime] = field(default_factory=dict, compare=False, repr=False)

    def measured(self, nodes: int) -> bool:
        """Whether the study measured links of this kind: inside a node, or across several."""
        wanted = (INTRA, UNKNOWN) if nodes == 1 else (INTER,)
        return self.fitted is not None and any(curve.group in wanted for curve in self.fitted.curves)

    def efficiency(self, nodes: int) -> tuple[float, float]:
        """(centre, sigma of its logarithm) of the share of `call_time`'s bandwidth that a training step gets."""
        if self.measured(nodes):
            return 1.0, PROCESSOR_SIGMA if self.processor else CARD_SIGMA
        stated = self.intra_stated if nodes == 1 else self.inter_stated
        return SHEET_EFFICIENCY, SHEET_SIGMA if stated else ASSUMED_SIGMA

    def basis(self, nodes: int) -> str:
        """What links of this kind rest on, in words."""
        where = "links in the node" if nodes == 1 else "links between nodes"
        if self.measured(nodes):
            return f"{where} measured"
        stated = self.intra_stated if nodes == 1 else self.inter_stated
        link = self.sheet.intra if nodes == 1 else self.sheet.inter
        how = "from the data sheet" if stated else "assumed"
        return f"{where} {how}, {link.bandwidth_gbps:g} GB/s"

    def call_time(self, op: str, size_bytes: float, of: Group) -> CallTime:
        """Of one call of `op` on `size_bytes` (NCCL tests' convention) over `of`, at an efficiency of 1."""
        key = op, size_bytes, of
        if key not in self._known:
            self._known[key] = self._fitted(*key) if self.measured(of.nodes) else self._sheet(*key)
        return self._known[key]

    def _sheet(self, op: str, size_bytes: float, of: Group) -> CallTime:
        latency, transfer = collective_parts_s(op, size_bytes, of, self.sheet)
        return CallTime(latency, transfer, latency + transfer, latency + transfer)

    def _fitted(self, op: str, size_bytes: float, of: Group) -> CallTime:
        assert self.fitted is not None  # measured() says so
        wanted = (INTRA, UNKNOWN) if of.nodes == 1 else (INTER,)
        ops = {curve.op for curve in self.fitted.curves if curve.group in wanted}
        # Equal bus bandwidth: a ring's all-reduce is a reduce-scatter and an all-gather, one after the other.
        stand_in = op if op in ops else "all_reduce" if "all_reduce" in ops else min(ops)
        share = 1.0 if stand_in == op else bus_factor(op, of.ranks) / bus_factor(stand_in, of.ranks)
        at = self.fitted.time(stand_in, size_bytes, of.ranks, of.nodes)
        stretched = self._stretch(op, size_bytes, of)
        low = at.time_us / (1 + UNKNOWN_ERROR) if at.low_us is None else at.low_us
        high = at.time_us * (1 + UNKNOWN_ERROR) if at.high_us is None else at.high_us
        high = min(high, at.time_us * LARGEST_FACTOR)
        seconds = share * stretched * 1e-6
        return CallTime(0.0, at.time_us * seconds, low * seconds, high * seconds)

    def _stretch(self, op: str, size_bytes: float, of: Group) -> float:
        if self.measured_on is None:
            return 1.0
        here, there = (sum(collective_parts_s(op, size_bytes, of, net)) for net in (self.sheet, self.measured_on))
        return here / there if there > 0 else 1.0


def study_links(fitted: LinkModel | None, machine: Machine, cards_per_node: int) -> Links:
    """The links of a study on `machine`; `fitted` from its own collectives, None where it measured none."""
    processor = machine.device == "cpu"
    assumed = PROCESSOR_LINK if processor else Link(NETWORK_GBPS, INTRA_LATENCY_US)
    intra = Link(machine.intra_node_gbps, INTRA_LATENCY_US) if machine.intra_node_gbps else assumed
    inter = Link(machine.inter_node_gbps or NETWORK_GBPS, INTER_LATENCY_US)
    return Links(
        fitted,
        Network(intra, inter, cards_per_node),
        intra_stated=bool(machine.intra_node_gbps),
        inter_stated=bool(machine.inter_node_gbps),
        processor=processor,
    )
