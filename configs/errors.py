"""The one exception for wrong input: where it is, what is wrong, what is allowed."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class ConfigError(Exception):
    """Wrong input from a person. The command line prints it as one line and exits with code 2.

    where: the file or field ("mode=tp", "prices/jiangsu.yaml: tiers[2].price"). what: the value and what is wrong
    with it. allowed: the legal choices, as a phrase; empty where there is no list to give.
    """

    def __init__(self, where: str, what: str, allowed: str = "") -> None:
        self.where, self.what, self.allowed = where, what, allowed
        super().__init__(where, what, allowed)

    def __str__(self) -> str:
        line = f"{self.where}: {self.what}"
        return " ".join((f"{line}; {self.allowed}" if self.allowed else line).split())


def choose(where: str, value: str, legal: Iterable[str]) -> str:
    """Return `value` when it is one of `legal`; else raise ConfigError with the list and the nearest name."""
    names = list(legal)
    if value in names:
        return value
    near = difflib.get_close_matches(str(value), names, n=1)
    hint = f"did you mean {near[0]}? " if near else ""
    raise ConfigError(where, f"{value!r} is unknown", f"{hint}known: {', '.join(names)}")
