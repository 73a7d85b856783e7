"""Which card counts a plan considers, and a cell's config at another count."""

from __future__ import annotations

from dataclasses import replace

from configs.cell import Cell, resolve
from configs.errors import ConfigError
from configs.layout import resolve_layout
from configs.schema import Config

MOST_CARDS = 1024


def counts(config: Config) -> list[int]:
    """Card counts that people rent: any within a node, whole nodes up to eight, then doublings up to 1024."""
    node = max(config.machine.cards_per_node, 1)
    wanted = {*range(1, node + 1), *(node * n for n in range(1, 9)), *(2**n for n in range(11)), config.cards}
    return sorted(count for count in wanted if count <= MOST_CARDS)


def at_cards(config: Config, cards: int) -> Cell | None:
    """`config` on `cards` cards, its global batch raised to the next that shares out; None where none is legal."""
    there = replace(config, cards=cards)
    try:
        return resolve(there)
    except ConfigError:
        if not isinstance(there.micro_batch, int):
            return None
    try:
        layout = resolve_layout(there.mode, cards)
        share = there.micro_batch * layout.dp * layout.pp
        return resolve(replace(there, global_batch=-(-there.global_batch // share) * share))
    except ConfigError:
        return None
