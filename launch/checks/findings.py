"""What a check returns: a finding, or the reason why it could not look."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

OK, WARN, FAIL = "ok", "warn", "fail"
LEVELS = (OK, WARN, FAIL)


@dataclass(frozen=True)
class Finding:
    """level: ok, warn (the figures will suffer), fail (the run will break). what: the fact. why: why it matters.

    do: what to do about it. A finding that is ok needs neither.
    """

    check: str
    level: str
    what: str
    why: str = ""
    do: str = ""


@dataclass(frozen=True)
class NotChecked:
    """A check that this machine gave no answer to; never shown as ok."""

    check: str
    why: str


Result = Finding | NotChecked
Results = Sequence[Result]


def ok(check: str, what: str) -> list[Result]:
    return [Finding(check, OK, what)]


def unknown(check: str, why: str) -> list[Result]:
    return [NotChecked(check, why)]


def listed(items: Sequence[object], most: int = 8) -> str:
    """Items as a phrase; a long list is cut with its length."""
    words = [str(item) for item in items]
    return ", ".join(words if len(words) <= most else [*words[:most], f"... ({len(words)})"])
