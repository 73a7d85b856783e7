"""Step one of the three-step test on a study's records: what one card's memory and utilisation say."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from rich.console import Console

from analysis.threestep import UNKNOWN, SingleCardTest, Verdict, single_card_verdict
from results.record import Record


def one_card_record(records: Iterable[Record]) -> Record | None:
    """The fastest good one-card training record; where there is none, one that ran out of memory; else None."""
    training = [r for r in records if r.benchmark == "finetune" and r.parallel.get("cards") == 1]
    good = [r for r in training if r.status == "ok"]
    if good:
        return max(good, key=lambda record: float(record.throughput.get("tokens_per_s") or 0))
    return next((r for r in training if r.status in ("oom", "infeasible")), None)


def verdict_of(record: Record) -> Verdict:
    """The verdict on one card's record. A processor's own figures say nothing of a card's."""
    if record.config.get("machine", {}).get("device") != "cuda":
        why = "This was measured on the processor, which says nothing of a card's memory and utilisation."
        return Verdict(UNKNOWN, (why,))
    memory, device = record.memory, record.device
    return single_card_verdict(
        SingleCardTest(
            memory_used_gib=_number(memory.get("device_used_gib")),
            card_gib=_number(memory.get("card_gib")),
            utilisation_pct=_number(device.get("utilisation_pct")),
            out_of_memory=record.status in ("oom", "infeasible"),
            data_wait_fraction=_number(record.throughput.get("data_wait_fraction")),
            sm_clock_low=bool(device.get("throttled")),
            micro_batch=record.workload.get("micro_batch"),
            mfu=_number(record.throughput.get("mfu")),
        )
    )


def say_verdict(record: Record, console: Console) -> None:
    """One card's verdict for a person: the phrase, then its reasons and causes."""
    verdict = verdict_of(record)
    console.print(f"one card: {verdict.verdict}", markup=False, highlight=False)
    for sentence in (*verdict.reasons, *verdict.causes):
        console.print(f"- {sentence}", markup=False, highlight=False)


def _number(value: Any) -> float | None:
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None
