"""A serving plan's tables: what a replica needs on a card, how many requests it holds, and what would make it fit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from analysis.tables import Column, Group, Row, Table, Tone, Value
from analysis.vram import GIB, INFERENCE_BYTES_PER_PARAMETER, TIGHT_SHARE
from analysis.vram.inference import COMPONENTS, ServingPlan

RULE = f"{INFERENCE_BYTES_PER_PARAMETER} bytes a parameter, shared out over a replica's cards"


def serving_tables(planned: Sequence[ServingPlan]) -> list[Table]:
    """The tables of a serving plan; those that would be empty are left out."""
    tables = [serving_view(planned), remedies_view(planned), refused_view(planned)]
    return [table for table in tables if table.rows]


def heading(planned: ServingPlan) -> str:
    """Model, mode, machine, and what is served."""
    config, asked = planned.config, planned.config.plan
    groups = f" in groups of {asked.group_size}" if asked.weights != "fp16" and asked.group_size else ""
    parts = (config.model.name, config.mode.name, config.machine.name, f"{asked.weights} weights{groups}")
    return " · ".join([*parts, f"{asked.kv_cache} cache", f"context {asked.context:,}"])


def serving_view(planned: Sequence[ServingPlan]) -> Table:
    """The rule of thumb beside the closed form by component, the verdict, and the requests that fit."""
    columns = (
        Column("cards", "cards", form="count"),
        Column("requests", "requests at once", form="count"),
        Column("rule", "rule of thumb", "GiB", "percent"),
        Column("device", "closed form", "GiB", "percent"),
        Column("verdict", "verdict"),
        Column("most", "most requests", form="count"),
        *(Column(name, name.replace("_", " "), "GiB", "percent") for name in COMPONENTS),
        Column("smallest", "smallest replica", "cards", "count", rank=1),
        Column("replicas", "replicas needed", form="count", rank=1),
    )
    groups: dict[str, list[Row]] = {}
    for one in planned:
        need = one.need
        if need is None:
            continue
        values: tuple[Value, ...] = (
            one.config.cards,
            one.config.plan.concurrency,
            need.rule_of_thumb / GIB,
            need.device / GIB,
            one.verdict,
            one.most_requests,
            *(getattr(need, name) / GIB for name in COMPONENTS),
            one.smallest_cards,
            one.replicas_needed,
        )
        tone: Tone = "failed" if one.verdict == "does not fit" else "predicted"
        groups.setdefault(heading(one), []).append(Row(values, ("",) * len(values), tone))
    notes = (
        f"Rule of thumb: {RULE}: weights in fp16 alone, no cache. The verdict does not use it.",
        "Weights hold each group's scale and zero point; embedding, head and norms stay 16 bit. The cache is that of "
        "requests that fill their context; many do not, and more then fit.",
        f"Most requests: at once on one replica, within {TIGHT_SHARE:.0%} of the card. tight: above that.",
    )
    title = "Memory a card needs to serve: computed, not measured"
    return Table("serving", title, columns, tuple(Group(h, tuple(r)) for h, r in groups.items()), notes, stub=2)


def remedies_view(planned: Sequence[ServingPlan]) -> Table:
    """For what does not fit or is tight: single changes that make it fit."""
    columns = (
        Column("change", "change"),
        Column("effect", "effect", "GiB", "percent"),
        Column("device", "then", "GiB", "percent"),
    )
    groups = []
    for one in planned:
        if one.need is None or one.verdict == "fits":
            continue
        rows = [
            Row((r.words, (r.device - one.need.device) / GIB, r.device / GIB), ("",) * 3, "predicted")
            for r in one.remedies
        ] or [Row(("no single change makes it fit", None, None), ("",) * 3)]
        cards = f"{one.config.cards} card{'s' if one.config.cards != 1 else ''}"
        title = f"{heading(one)} · {cards}: {one.verdict}, {one.need.device / GIB:.1f} GiB"
        groups.append(Group(title, tuple(rows)))
    return Table("serving_remedies", f"What would make it fit (below {TIGHT_SHARE:.0%})", columns, tuple(groups))


def refused_view(planned: Sequence[ServingPlan]) -> Table:
    """The cells that have no number, and why."""
    columns = (Column("cards", "cards", form="count"), Column("why", "why"))
    groups: dict[str, list[Row]] = {}
    for one in planned:
        if one.need is None:
            row = Row((one.config.cards, f"{one.verdict}: {one.reason}"), ("", ""), "failed")
            groups.setdefault(heading(one), []).append(row)
    return Table("serving_refused", "Without a number", columns, tuple(Group(h, tuple(r)) for h, r in groups.items()))


def serving_json(planned: Sequence[ServingPlan]) -> list[dict[str, Any]]:
    """The plan for a script: one object a cell. What has no number is null."""
    return [_cell_json(one) for one in planned]


def _cell_json(one: ServingPlan) -> dict[str, Any]:
    config, asked, need, layout = one.config, one.config.plan, one.need, one.layout
    return {
        "model": config.model.name,
        "mode": config.mode.name,
        "machine": config.machine.name,
        "cards": config.cards,
        "replicas": layout.dp if layout else None,
        "tp": layout.tp if layout else None,
        "pp": layout.pp if layout else None,
        "weights": asked.weights,
        "group_size": asked.group_size,
        "bits_per_weight": need.bits_per_weight if need else None,
        "kv_cache": asked.kv_cache,
        "context": asked.context,
        "concurrency": asked.concurrency,
        "verdict": one.verdict,
        "reason": one.reason or None,
        "parameters": int(need.parameters) if need else None,
        "card_gib": config.machine.card_memory_gib,
        "rule_of_thumb": {"rule": RULE, "gib": need.rule_of_thumb / GIB} if need else None,
        "closed_form": {
            "device_gib": need.device / GIB,
            "share_of_card": need.device / one.card_bytes,
            "components_gib": {name: getattr(need, name) / GIB for name in COMPONENTS},
            "per_request_gib": need.per_request / GIB,
        }
        if need
        else None,
        "most_requests": one.most_requests,
        "most_requests_of_all_replicas": one.most_requests * layout.dp
        if one.most_requests is not None and layout
        else None,
        "smallest_replica_cards": one.smallest_cards,
        "replicas_needed": one.replicas_needed,
        "remedies": [
            {"words": r.words, "device_gib": r.device / GIB, "effect_gib": (r.device - need.device) / GIB}
            for r in one.remedies
            if need
        ],
    }
