"""Step one of the three-step test: what one card's memory and utilisation say, with causes named before more cards.

The lines are those of https://idctop.com/article/573547.html: memory is tight above 90 % of the card; above 80 %
utilisation one card is enough; below 30 % one is told there to look at several cards. But a card that idles is more
often starved than too few, so the cause comes first: more starved cards are only more starved cards.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from configs.errors import ConfigError

TIGHT_MEMORY_SHARE = 0.90
ENOUGH_UTILISATION_PCT = 80.0
LOW_UTILISATION_PCT = 30.0
# From which share of a step a wait is named as the cause. Judgement: below that, removing it changes little.
NAMED_SHARE = 0.15
SMALL_MEMORY_SHARE = 0.50  # below it a larger batch has room

ENOUGH = "one card is enough"
SEVERAL = "look at several cards"
FIX_FIRST = "fix the cause first"
BETWEEN = "one card works; several may be faster"
TIGHT = "one card is tight"
UNKNOWN = "not measured"


@dataclass(frozen=True)
class SingleCardTest:
    """What a run of an hour or two on one card showed; None is not measured."""

    memory_used_gib: float | None = None
    card_gib: float | None = None
    utilisation_pct: float | None = None
    out_of_memory: bool = False
    data_wait_fraction: float | None = None  # of a step, 0 to 1
    sm_clock_low: bool = False  # throttled by heat or power
    micro_batch: int | None = None
    mfu: float | None = None  # 0 to 1


@dataclass(frozen=True)
class Verdict:
    """verdict: one of the module's phrases. reasons and causes are sentences, each with its numbers."""

    verdict: str
    reasons: tuple[str, ...]
    causes: tuple[str, ...] = ()

    @property
    def more_cards(self) -> bool:
        """Whether several cards are what to look at next."""
        return self.verdict == SEVERAL


def single_card_verdict(test: SingleCardTest) -> Verdict:
    """Read one card's test. Raises ConfigError on a utilisation outside 0 to 100 or a memory that is not positive."""
    _check(test)
    if test.out_of_memory:
        reason = "One card ran out of memory: shard the model over several, or train it with a recipe that needs less."
        return Verdict(SEVERAL, (reason,))
    share = None
    if test.memory_used_gib is not None and test.card_gib is not None:
        share = test.memory_used_gib / test.card_gib
    if share is None and test.utilisation_pct is None:
        return Verdict(UNKNOWN, ("Neither memory nor utilisation was measured: run one card for an hour first.",))
    reasons: list[str] = []
    if share is not None:
        side = "above" if share > TIGHT_MEMORY_SHARE else "below"
        reasons.append(
            f"The peak of {test.memory_used_gib:.1f} GiB is {share:.0%} of the card's {test.card_gib:.1f} GiB, "
            f"{side} the {TIGHT_MEMORY_SHARE:.0%} line."
        )
    tight = share is not None and share > TIGHT_MEMORY_SHARE
    if test.utilisation_pct is None:
        reasons.append("Utilisation was not measured.")
        return Verdict(TIGHT if tight else UNKNOWN, tuple(reasons))
    busy = test.utilisation_pct
    reasons.append(_utilisation_sentence(busy))
    if busy < LOW_UTILISATION_PCT:
        causes = starvation_causes(test, share)
        if not causes and (test.data_wait_fraction is None or test.mfu is None):
            causes = ("Not measured yet: waits for data, room for a larger batch, launch overhead. Measure those.",)
        return Verdict(FIX_FIRST if causes else SEVERAL, tuple(reasons), causes)
    if tight:
        reasons.append("A longer sequence or a restart may run out of memory: leave room, or shard over several cards.")
        return Verdict(TIGHT, tuple(reasons))
    if busy > ENOUGH_UTILISATION_PCT:
        return Verdict(ENOUGH if share is not None else BETWEEN, tuple(reasons))
    return Verdict(BETWEEN, tuple(reasons), starvation_causes(test, share))


def starvation_causes(test: SingleCardTest, memory_share: float | None) -> tuple[str, ...]:
    """Why a card idles, the likeliest first; empty where what was measured shows no cause."""
    causes = []
    if test.data_wait_fraction is not None and test.data_wait_fraction >= NAMED_SHARE:
        causes.append(
            f"Slow input: {test.data_wait_fraction:.0%} of each step waits for data. Tokenise beforehand, add workers, "
            "or read from faster storage."
        )
    roomy = memory_share is not None and memory_share < SMALL_MEMORY_SHARE
    if test.micro_batch is not None and roomy:
        causes.append(
            f"Small batch: micro_batch {test.micro_batch} fills {memory_share:.0%} of the memory. Raise it before "
            "renting more cards."
        )
    if test.sm_clock_low:
        causes.append("Throttled: heat or power held the card's clock down. Ask the provider, or take another card.")
    if not causes and test.mfu is not None and test.mfu < 0.10:
        causes.append(
            f"Launch overhead: {test.mfu:.0%} of the peak FLOP/s with no wait for data points to small kernels. "
            "Compile the model or take a larger batch."
        )
    return tuple(causes)


def _utilisation_sentence(busy: float) -> str:
    if busy > ENOUGH_UTILISATION_PCT:
        return f"Utilisation of {busy:.0f} % is above the {ENOUGH_UTILISATION_PCT:.0f} % line."
    if busy < LOW_UTILISATION_PCT:
        return f"Utilisation of {busy:.0f} % is below the {LOW_UTILISATION_PCT:.0f} % line."
    return (
        f"Utilisation of {busy:.0f} % is between the {LOW_UTILISATION_PCT:.0f} % and "
        f"{ENOUGH_UTILISATION_PCT:.0f} % lines."
    )


def _check(test: SingleCardTest) -> None:
    busy = test.utilisation_pct
    if busy is not None and not 0 <= busy <= 100:
        raise ConfigError("device.utilisation_pct", f"{busy!r} is not a percentage", "0 to 100")
    for name, value in (("memory.device_used_gib", test.memory_used_gib), ("memory.card_gib", test.card_gib)):
        if value is not None and not 0 < value < math.inf:
            raise ConfigError(name, f"{value!r} is not an amount of memory", "GiB above zero")
