"""Figures as data: curves with intervals, guide lines, axes. What draws them, paper or page, knows no study."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from analysis.text import Say

MOST_CURVES = 12  # in one figure; colours and markers cannot tell more apart

Kind = Literal["lines", "points", "stack"]


@dataclass(frozen=True)
class Curve:
    """One series: x, y and the ends of its intervals (None where not known), in step. style: which look it has.

    Curves of one style share colour and marker, so that a prediction continues its measurement; `predicted` is drawn
    open and dashed. labels: what each point is called.
    """

    name: str
    x: tuple[float | str, ...]
    y: tuple[float | None, ...]
    low: tuple[float | None, ...]
    high: tuple[float | None, ...]
    style: int
    predicted: bool = False
    labels: tuple[str, ...] = ()


@dataclass(frozen=True)
class Guide:
    """A line to read the curves against: the ideal, a card's memory."""

    name: str
    x: tuple[float, ...]  # empty: across the whole figure, at y[0]
    y: tuple[float, ...]
    firm: bool = False  # a limit, not a mark on the way to it


@dataclass(frozen=True)
class Figure:
    """name: for files and scripts. note: what to know. x_log: base 2 ticks the points themselves (counts, sizes).
    x_bytes: whether x is in bytes, written as 64Ki.
    """

    name: str
    title: str
    x_label: str
    y_label: str
    curves: tuple[Curve, ...]
    guides: tuple[Guide, ...] = ()
    kind: Kind = "lines"
    x_log: Literal[0, 2, 10] = 0
    x_bytes: bool = False
    y_log: bool = False
    note: str = ""


def y_limits(figure: Figure) -> tuple[float, float] | None:
    """What the y axis has to show: every point, measured intervals and guides; None where there is no point.

    The interval of a prediction far from any measurement may span decades: it is cut at the edge rather than let
    everything else shrink to a line.
    """
    found = [end for guide in figure.guides for end in guide.y]
    for curve in figure.curves:
        found += [value for value in curve.y if value is not None]
        if not curve.predicted:
            found += [end for end in (*curve.low, *curve.high) if end is not None]
    found = [value for value in found if value > 0 or not figure.y_log]
    if not found:
        return None
    low, high = min(found), max(found)
    if figure.y_log:
        room = max((high / low) ** 0.06, 1.05)
        return low / room, high * room
    return 0.0, high * 1.06


def at_most(figure: Figure, say: Say, best: Sequence[float]) -> Figure:
    """`figure` with the `MOST_CURVES` styles of the highest `best` (one a style), and a note of how many it leaves out.

    Styles are numbered anew in order, so that those kept look as different as can be.
    """
    styles = list(dict.fromkeys(curve.style for curve in figure.curves))
    kept = sorted(sorted(styles, key=lambda style: -best[style])[:MOST_CURVES])
    number = {style: place for place, style in enumerate(kept)}
    curves = tuple(replace(curve, style=number[curve.style]) for curve in figure.curves if curve.style in number)
    if len(styles) == len(kept):
        return replace(figure, curves=curves)
    left_out = say("figure.left_out", shown=len(kept), total=len(styles))
    return replace(figure, curves=curves, note=f"{figure.note} {left_out}".strip())
