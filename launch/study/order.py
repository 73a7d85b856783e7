"""In which order the cells of a sweep are measured: cheapest and most informative first."""

from __future__ import annotations

from collections.abc import Callable

from configs.cell import Cell


def in_order(cells: list[Cell], doubt: Callable[[Cell], float] = lambda cell: 0.0) -> list[Cell]:
    """`cells` as they are to be measured.

    Every cell once before any is repeated; fewer cards before more, so that what one card shows is known before eight
    are kept waiting; fine-tunes before the links that explain them; the more doubtful before the surer, because what
    may run out of memory decides what else is worth measuring. doubt(cell): 0 is sure to fit, 1 is not known at all.
    """
    return sorted(cells, key=lambda cell: (cell.repeat, cell.cards, cell.benchmark.name != "finetune", -doubt(cell)))
