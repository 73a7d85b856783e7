"""Reads the fields of one mapping of a price sheet: numbers, ranges, counts; each error says where the field stands."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from analysis.prices.numerals import is_unknown, read_range, settle
from configs.errors import ConfigError, choose

Range = tuple[float, float]
Place = Callable[[str], str]  # field -> where a person finds it


@dataclass(frozen=True)
class Fields:
    """One mapping of a sheet, and how its fields are called in messages. `currency` is what money signs must mean."""

    data: Mapping[str, Any]
    place: Place
    currency: str = ""

    def only(self, known: Sequence[str]) -> None:
        """Refuse a field that nobody would read: a misspelt `discuont` would cost money."""
        for key in self.data:
            choose(self.place("field"), str(key), known)

    def range(self, field: str) -> Range | None:
        """A number, a [low, high] pair, or text that holds either; None where it is not stated. Never negative."""
        given = self.data.get(field)
        if given is None or (isinstance(given, str) and is_unknown(given)):
            return None
        if isinstance(given, str):
            low, high = self._typed(given, field)
        elif isinstance(given, Sequence):
            if len(given) != 2:
                raise ConfigError(self.place(field), f"{list(given)} is not a range", "one number or [low, high]")
            if all(end is None for end in given):
                return None
            low, high = (self._end(end, field) for end in given)
        else:
            low = high = self._end(given, field)
        if low < 0 or high < 0:
            raise ConfigError(self.place(field), f"{given!r} is negative", "zero or more")
        if low > high:
            raise ConfigError(self.place(field), f"{given!r} has its ends swapped", "[low, high]")
        return low, high

    def number(self, field: str, default: float) -> float:
        value = self.range(field)
        if value is None:
            return default
        if value[0] != value[1]:
            raise ConfigError(self.place(field), f"{self.data[field]!r} is a range", "one number")
        return value[0]

    def speed(self, field: str) -> float | None:
        """GB/s above zero, or None where it is not stated."""
        value = self.number(field, math.nan)
        if value == 0:
            raise ConfigError(self.place(field), "0 is not a speed", "GB/s above 0, or blank")
        return None if math.isnan(value) else value

    def count(self, field: str) -> int | None:
        """A positive whole number, or None where it is not stated."""
        value = self.number(field, math.nan)
        if math.isnan(value):
            return None
        if value < 1 or value % 1:
            raise ConfigError(self.place(field), f"{self.data[field]!r} is not a count", "a positive whole number")
        return int(value)

    def flag(self, field: str) -> bool | None:
        value = self.data.get(field)
        if value is not None and not isinstance(value, bool):
            raise ConfigError(self.place(field), f"{value!r} is not true or false")
        return value

    def _end(self, value: Any, field: str) -> float:
        if isinstance(value, str):
            value, high = self._typed(value, field)
            if value != high:
                raise ConfigError(self.place(field), f"{self.data[field]!r} has a range inside a range")
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
            raise ConfigError(self.place(field), f"{value!r} is not a number")
        return float(value)

    def _typed(self, text: str, field: str) -> Range:
        where = self.place(field)
        ends = read_range(text, where)
        for numeral in ends:
            if numeral.currencies and self.currency not in numeral.currencies:
                meant = " or ".join(numeral.currencies)
                raise ConfigError(where, f"{text!r} is in {meant}", f"one currency a sheet, here {self.currency}")
        return settle(ends[0], where), settle(ends[1], where)
