"""Works back from a deadline to a number of cards: the ideal count, and the count with real efficiency and margin."""

from __future__ import annotations

import math
from dataclasses import dataclass

from configs.errors import ConfigError


@dataclass(frozen=True)
class CardsForDeadline:
    """ideal: cards if n cards were n times as fast. cards: what to rent at `efficiency`, never just the ideal."""

    work_hours: float  # of one card, all epochs
    deadline_hours: float
    efficiency: float
    ideal: float
    cards: int

    @property
    def hours(self) -> float:
        """How long `cards` cards take at this efficiency."""
        return self.work_hours / (self.cards * (self.efficiency if self.cards > 1 else 1.0))


def cards_for_deadline(
    epoch_hours_1card: float, epochs: float, deadline_hours: float, efficiency: float = 1.0
) -> CardsForDeadline:
    """How many cards finish `epochs` epochs within `deadline_hours`.

    efficiency: speedup / cards, as a share; above 1 is possible and taken as it is. The count is the ideal one divided
    by the efficiency, rounded up, and always above the ideal one, as margin: https://idctop.com/article/573547.html
    gives 100 h in 24 h as 4.17 ideal cards, "one more than the theory says". One card has no efficiency to lose.
    Raises ConfigError on a value that is not positive.
    """
    for name, value in (
        ("epoch_hours", epoch_hours_1card),
        ("workload.epochs", epochs),
        ("workload.deadline_hours", deadline_hours),
        ("efficiency", efficiency),
    ):
        if not 0 < value < math.inf:
            raise ConfigError(name, f"{value!r} is not a positive number")
    work = epoch_hours_1card * epochs
    ideal = round(work / deadline_hours, 9)
    cards = 1 if ideal < 1 else max(math.ceil(round(ideal / efficiency, 9)), math.floor(ideal) + 1)
    return CardsForDeadline(work, deadline_hours, efficiency, ideal, cards)
