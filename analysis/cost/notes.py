"""What has to be said beside a cost: idle cards, carried-over links, another card, tight memory, doubtful prices."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analysis.cost.tiers import TierArrays

TIGHT_MEMORY_SHARE = 0.90  # https://idctop.com/article/573547.html: a card is tight above 90 % of its memory


def pair_notes(
    rows: pd.DataFrame,
    tiers: TierArrays,
    idle_cards: NDArray[np.float64],
    links_adjusted: NDArray[np.bool_],
    border_unknown: NDArray[np.bool_],
    machine_matches: NDArray[np.float64],
    memory_share: NDArray[np.float64],
) -> NDArray[np.object_]:
    """Notes for each cell x tier, joined by "; ", shape (cells, tiers). All other arrays have that shape too."""
    shape = idle_cards.shape
    notes = np.broadcast_to(np.array(tiers.notes, dtype=object), shape).copy()

    def say(where: NDArray[np.bool_], what: NDArray[Any] | str) -> None:
        """Append `what` where `where` holds; an array of texts has the shape of the whole."""
        if where.any():
            before = notes[where]
            text = what if isinstance(what, str) else np.broadcast_to(what, shape)[where]
            notes[where] = np.where(before == "", text, before + "; " + text)

    of_cell = np.broadcast_to(rows["notes"].to_numpy(dtype=object)[:, None], shape)
    say(of_cell != "", of_cell)
    counts = np.unique(idle_cards[idle_cards > 0])
    idle = {count: f"{count:g} idle card{'s are' if count > 1 else ' is'} billed" for count in counts}
    say(idle_cards > 0, np.array([idle.get(c, "") for c in idle_cards.ravel()], dtype=object).reshape(shape))
    say(links_adjusted, "throughput carried over from other links by the band for them, not measured")
    say(border_unknown, "needs several servers; the cell does not say how many it was measured on")
    devices = rows["device"].to_numpy(dtype=object)[:, None]
    machines = np.array([quote.machine for quote in tiers.quotes], dtype=object)
    say(machine_matches == 0, "measured on another card (" + devices + ") than " + machines)
    unknown = np.isnan(machine_matches)
    say(unknown & (devices == ""), "no card is named: taken for the quote's " + machines)
    say(unknown & (devices != ""), "cannot tell whether " + devices + " is the quote's " + machines)
    say(memory_share > 1, "does not fit: needs more memory than the " + machines + " has")
    tight = (memory_share > TIGHT_MEMORY_SHARE) & ~(memory_share > 1)
    say(tight, f"memory is tight: above {TIGHT_MEMORY_SHARE:.0%} of the card")
    many = idle_cards + rows["cards"].to_numpy(dtype=float)[:, None] > tiers.max_cards
    say(many, "more cards than the tier offers")
    return notes
