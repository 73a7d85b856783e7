"""How many accelerator cards this machine shows, without starting a context on any."""

from __future__ import annotations

from collections.abc import Iterable

from configs.cell import Cell
from configs.errors import ConfigError


def visible_cards() -> int:
    """Cards that torch can use here, CUDA_VISIBLE_DEVICES obeyed; 0 where there is none."""
    import torch

    count: int = torch.cuda.device_count()
    return count


def check_cards(cells: Iterable[Cell]) -> None:
    """Raises ConfigError where this machine shows fewer cards than a cell needs of it: its ranks would all fail."""
    needs = {cell.cards // cell.cluster.nodes: cell for cell in cells if cell.machine.device != "cpu"}
    if not needs:
        return
    seen = visible_cards()
    if max(needs) > seen:
        cell = needs[max(needs)]
        fewer = f"cards of 1 to {seen}, or " if seen else ""
        raise ConfigError(
            f"cards={cell.cards} machine={cell.machine.name}",
            f"{max(needs)} cards are needed here and torch sees {seen}",
            f"{fewer}machine=cpu to rehearse on the processor; `cardscale doctor machine={cell.machine.name}` says why",
        )
