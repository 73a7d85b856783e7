"""A plan's tables: what each cell needs on a card, by component, what would make it fit, and the smallest counts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from analysis.tables import Column, Estimate, Group, Row, Table, Tone, Value
from analysis.vram import GIB, TIGHT_SHARE, TRAINING_BYTES_PER_PARAMETER
from analysis.vram.counts import MOST_CARDS
from analysis.vram.plan import COMPONENTS, Planned
from analysis.vram.remedies import Remedy

RULE = f"{TRAINING_BYTES_PER_PARAMETER} bytes a parameter, shared out over the cards"
_TITLES = {"optimizer_states": "optimizer", "logits_and_loss": "logits, loss", "communication": "buffers"}


def plan_tables(planned: Sequence[Planned]) -> list[Table]:
    """The tables of a plan, in the order in which a person reads them; those that would be empty are left out."""
    tables = [needs_view(planned), components_view(planned), smallest_view(planned), remedies_view(planned)]
    return [table for table in [*tables, refused_view(planned)] if table.rows]


def heading(planned: Planned) -> str:
    """Model, mode, machine, recipe and batch of a cell."""
    config = planned.config
    parts = (config.model.name, config.mode.name, config.machine.name, config.recipe.name)
    return " · ".join([*parts, f"sequence {config.seq_len}", f"micro-batch {config.micro_batch}"])


def needs_view(planned: Sequence[Planned]) -> Table:
    """The rule of thumb beside the closed form, with the verdict."""
    columns = (
        Column("cards", "cards", form="count"),
        Column("rule", "rule of thumb", "GiB", "percent"),
        Column("device", "closed form", "GiB [interval]", "percent"),
        Column("share", "of the card", "%", "count"),
        Column("verdict", "verdict"),
        Column("largest", "largest micro-batch", form="count", rank=1),
    )

    def values(one: Planned) -> tuple[Value, ...]:
        need = one.need
        assert need is not None
        estimate = Estimate(need.device / GIB, need.low / GIB, need.high / GIB)
        share = 100 * need.device / one.card_bytes
        return (one.config.cards, need.rule_of_thumb / GIB, estimate, share, one.verdict, one.largest_micro_batch)

    notes = (
        "Closed form: the fullest rank at the highest moment of a step, as the driver would show it. "
        f"tight: above {TIGHT_SHARE:.0%} of the card.",
        f"Rule of thumb: {RULE}. It knows neither mode, recipe, batch nor sequence: too low where a mode keeps copies "
        "on every card or activations are large, too high where states are narrower; the verdict does not use it.",
        f"Largest micro-batch: within {TIGHT_SHARE:.0%} of the card, accumulation as here; 0: not even one sequence.",
    )
    return Table("plan", "Memory a card needs: computed, not measured", columns, _grouped(planned, values), notes)


def components_view(planned: Sequence[Planned]) -> Table:
    """What the need is made of."""
    titles = [Column(name, _TITLES.get(name, name), "GiB", "percent") for name in COMPONENTS]
    columns = (Column("cards", "cards", form="count"), *titles, Column("phase", "highest at", rank=1))

    def values(one: Planned) -> tuple[Value, ...]:
        need = one.need
        assert need is not None
        return (one.config.cards, *(need.components[name] / GIB for name in COMPONENTS), need.phase)

    waits = [one for one in planned if one.cell and one.cell.mode.shard == "full" and one.cell.grad_accum > 1]
    notes = [
        "Fully sharded cells that accumulate keep whole fp32 gradients between their micro-batches (gradients above); "
        "mode=zero3 keeps a share and communicates in each."
    ]
    title = "By component, on the fullest rank"
    return Table("plan_components", title, columns, _grouped(planned, values), tuple(notes if waits else ()))


def smallest_view(planned: Sequence[Planned]) -> Table:
    """The smallest count of cards for each model, mode, machine and recipe."""
    columns = (
        Column("what", "model · mode · machine"),
        Column("cards", "cards", form="count"),
        Column("global_batch", "global batch", "sequences", "count", rank=1),
        Column("note", "note"),
    )
    rows: dict[str, Row] = {}
    for one in planned:
        if one.need is None:
            continue
        least = one.smallest
        note = "" if least else f"none up to {MOST_CARDS}: more cards alone do not help"
        found = (least.cards, least.global_batch) if least else (None, None)
        values: tuple[Value, ...] = (heading(one), *found, note)
        rows.setdefault(heading(one), Row(values, ("",) * len(values), "predicted"))
    title = f"Smallest number of cards that fits ({TIGHT_SHARE:.0%} of each)"
    return Table("plan_smallest", title, columns, (Group("", tuple(rows.values())),))


def remedies_view(planned: Sequence[Planned]) -> Table:
    """For every cell that does not fit or is tight: the cheapest changes, each with its effect."""
    columns = (
        Column("change", "change"),
        Column("lowers", "effect", "GiB", "percent"),
        Column("device", "then", "GiB", "percent"),
        Column("costs", "what it costs", rank=1),
    )
    groups = []
    for one in planned:
        if one.need is None or not (one.remedies or one.verdict != "fits"):
            continue
        rows = []
        for place, remedy in enumerate(one.remedies, 1):
            for step in remedy.steps:
                last = step is remedy.steps[-1]
                then = remedy.device / GIB if last else None
                lead = f"{place}. " if step is remedy.steps[0] else "   and "
                values: tuple[Value, ...] = (lead + step.words, -step.lowers / GIB, then, step.costs)
                rows.append(Row(values, ("",) * len(values), "predicted"))
        if not rows:
            rows = [Row(("no three changes together make it fit", None, None, ""), ("",) * 4)]
        cards = f"{one.config.cards} card{'s' if one.config.cards != 1 else ''}"
        groups.append(Group(f"{heading(one)} · {cards}: {one.verdict}, {one.need.device / GIB:.1f} GiB", tuple(rows)))
    title = f"What would make it fit (below {TIGHT_SHARE:.0%}), cheapest first"
    return Table("plan_remedies", title, columns, tuple(groups))


def refused_view(planned: Sequence[Planned]) -> Table:
    """The cells that have no number, and why."""
    columns = (Column("cards", "cards", form="count"), Column("why", "why"))
    groups: dict[str, list[Row]] = {}
    for one in planned:
        if one.need is None:
            values: tuple[Value, ...] = (one.config.cards, f"{one.verdict}: {one.reason}")
            groups.setdefault(heading(one), []).append(Row(values, ("", ""), "failed"))
    return Table("plan_refused", "Without a number", columns, tuple(Group(h, tuple(r)) for h, r in groups.items()))


def plan_json(planned: Sequence[Planned]) -> list[dict[str, Any]]:
    """The plan for a script: one object a cell. What has no number is null."""
    return [_cell_json(one) for one in planned]


def _cell_json(one: Planned) -> dict[str, Any]:
    config, cell, need, least = one.config, one.cell, one.need, one.smallest
    layout = cell.layout if cell else None
    return {
        "model": config.model.name,
        "mode": config.mode.name,
        "machine": config.machine.name,
        "recipe": config.recipe.name,
        "cards": config.cards,
        "dp": layout.dp if layout else None,
        "tp": layout.tp if layout else None,
        "pp": layout.pp if layout else None,
        "seq_len": config.seq_len,
        "micro_batch": config.micro_batch,
        "grad_accum": cell.grad_accum if cell else None,
        "global_batch": cell.global_batch if cell else None,
        "verdict": one.verdict,
        "reason": one.reason or None,
        "parameters": int(need.parameters) if need else None,
        "card_gib": config.machine.card_memory_gib,
        "rule_of_thumb": {"rule": RULE, "gib": need.rule_of_thumb / GIB} if need else None,
        "closed_form": _need_json(one) if need else None,
        "largest_micro_batch": one.largest_micro_batch,
        "smallest": {"cards": least.cards, "global_batch": least.global_batch} if least else None,
        "remedies": [_remedy_json(remedy) for remedy in one.remedies],
    }


def _remedy_json(remedy: Remedy) -> dict[str, Any]:
    steps = [{"words": s.words, "effect_gib": -s.lowers / GIB, "costs": s.costs} for s in remedy.steps]
    return {"words": remedy.words, "device_gib": remedy.device / GIB, "steps": steps}


def _need_json(one: Planned) -> dict[str, Any]:
    need = one.need
    assert need is not None
    return {
        "allocated_gib": need.allocated / GIB,
        "reserved_gib": need.reserved / GIB,
        "device_gib": need.device / GIB,
        "device_gib_interval": {"low": need.low / GIB, "high": need.high / GIB},
        "share_of_card": need.device / one.card_bytes,
        "components_gib": {name: value / GIB for name, value in need.components.items()},
        "highest_at": need.phase,
        "fullest_stage": need.stage,
    }


def _grouped(planned: Sequence[Planned], values: Callable[[Planned], tuple[Value, ...]]) -> tuple[Group, ...]:
    """The cells that have a number, one group a heading, everything toned as computed."""
    groups: dict[str, list[Row]] = {}
    for one in planned:
        if one.need is not None:
            row = values(one)
            tone: Tone = "failed" if one.verdict == "does not fit" else "predicted"
            groups.setdefault(heading(one), []).append(Row(row, ("",) * len(row), tone))
    return tuple(Group(title, tuple(rows)) for title, rows in groups.items())
