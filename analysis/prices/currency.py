"""Exchange at stated, dated rates only. Two currencies without a rate between them are never added or ranked."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any

from analysis.prices.fields import Fields
from configs.errors import ConfigError

RATE_FIELDS = ("from", "to", "rate", "date")


@dataclass(frozen=True)
class ExchangeRate:
    """One unit of `source` buys `rate` units of `target`, on `date`."""

    source: str
    target: str
    rate: float
    date: date | None = None


def parse_rates(rows: Iterable[Mapping[str, Any]]) -> tuple[ExchangeRate, ...]:
    """Check rates given as plain data, one mapping {from, to, rate, date} each. Raises ConfigError naming the row."""
    parsed = []
    for i, row in enumerate(rows):
        where = f"rates[{i}]"
        if not isinstance(row, Mapping):
            raise ConfigError(where, f"{row!r} is not a rate", f"a mapping with {', '.join(RATE_FIELDS)}")
        fields = Fields(row, lambda field, where=where: f"{where}.{field}")  # type: ignore[misc]
        fields.only(RATE_FIELDS)
        source, target = (str(row.get(end) or "").strip().upper() for end in ("from", "to"))
        for end, code in (("from", source), ("to", target)):
            if len(code) != 3 or not code.isalpha():
                raise ConfigError(f"{where}.{end}", f"{row.get(end)!r} is not a currency", "three letters, such as USD")
        rate = fields.number("rate", math.nan)
        if not rate > 0:
            raise ConfigError(f"{where}.rate", f"{row.get('rate')!r} is not a rate", "above zero")
        stated = row.get("date")
        try:
            day = None if stated is None else date.fromisoformat(str(stated)[:10])
        except ValueError:
            raise ConfigError(f"{where}.date", f"{stated!r} is not a date", "such as 2026-01-31") from None
        parsed.append(ExchangeRate(source, target, rate, day))
    return tuple(parsed)


def exchange(rates: Sequence[ExchangeRate], source: str, target: str) -> tuple[float, str]:
    """(how much `target` one unit of `source` buys, a note that states the rate). The reverse of a rate is used too.

    Raises ConfigError where no rate is stated, or where two contradict each other.
    """
    if source == target:
        return 1.0, ""
    found = [(r.rate, r.date) for r in rates if (r.source, r.target) == (source, target)]
    found += [(1 / r.rate, r.date) for r in rates if (r.source, r.target) == (target, source)]
    if not found:
        stated = f"decide.rates=[{{from: {source}, to: {target}, rate: R, date: D}}]"
        raise ConfigError("rates", f"{source} and {target} cannot be compared", stated)
    if max(f[0] for f in found) > 1.001 * min(f[0] for f in found):
        raise ConfigError("rates", f"{source} to {target} has two rates: {found[0][0]:g} and {found[1][0]:g}")
    rate, day = found[0]
    return rate, f"converted at 1 {source} = {rate:g} {target}" + (f" of {day}" if day else ", a rate without a date")
