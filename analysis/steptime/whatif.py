"""A cluster other than the measured one: how its nodes, rails, upper stage and stragglers change what is known."""

from __future__ import annotations

from dataclasses import replace

from analysis.steptime.call_times import Links
from analysis.steptime.condition import Knowledge
from configs.errors import ConfigError
from configs.schema import WhatIf


def check_what_if(asked: WhatIf) -> None:
    """Refuse numbers out of range. Raises ConfigError."""
    for name, value, least in (
        ("nodes", asked.nodes, 1),
        ("rails", asked.rails, 1),
        ("oversubscription", asked.oversubscription, 1),
        ("pod_nodes", asked.pod_nodes, 1),
        ("straggler_cv", asked.straggler_cv, 0),
    ):
        if value is not None and not least <= value < float("inf"):
            raise ConfigError(f"whatif.{name}", f"{value} is out of range", f"{least} or more")
    if asked.straggler_cv is not None and asked.straggler_cv > 1:
        raise ConfigError("whatif.straggler_cv", f"{asked.straggler_cv} is out of range", "0 to 1")


def cards_a_node(asked: WhatIf, cards: int, stated: int) -> int:
    """Of `cards` on the asked nodes, or `stated`. Raises ConfigError where they do not share out."""
    if asked.nodes is None:
        return stated
    if cards % asked.nodes:
        raise ConfigError("whatif.nodes", f"{cards} cards do not share out over {asked.nodes} nodes")
    return cards // asked.nodes


def changed(known: Knowledge, asked: WhatIf, per_node: int) -> Knowledge:
    """`known` on the asked cluster with `per_node` cards a node."""
    before = known.links.sheet
    sheet = replace(before, cards_per_node=per_node, rails=asked.rails)
    if asked.oversubscription is not None:
        sheet = replace(sheet, oversubscription=asked.oversubscription, pod_nodes=asked.pod_nodes)
    old = known.links
    links = Links(old.fitted, sheet, old.intra_stated, old.inter_stated, old.processor, measured_on=before)
    rates = known.rates
    if asked.straggler_cv is not None:
        rates = replace(rates, straggler_cv=asked.straggler_cv)
    return replace(known, rates=rates, links=links)


def in_words(asked: WhatIf) -> str:
    """The changes, for a row's basis; empty where nothing is asked."""
    said = []
    if asked.nodes is not None:
        said.append(f"{asked.nodes} nodes")
    if asked.rails is not None:
        said.append(f"{asked.rails} rails a node")
    if asked.oversubscription is not None:
        pod = "a node" if asked.pod_nodes == 1 else f"{asked.pod_nodes} nodes"
        said.append(f"{asked.oversubscription:g}:1 oversubscribed past {pod}")
    if asked.straggler_cv is not None:
        said.append(f"straggler cv {asked.straggler_cv:g}")
    return f"what if: {', '.join(said)}" if said else ""
