"""Interval arithmetic: how much of a window some spans cover, and how much of one kind no other kind covers."""

from __future__ import annotations

from collections.abc import Iterable

Span = tuple[float, float]  # begin and end, in one clock and unit


def union(spans: Iterable[Span]) -> list[Span]:
    """The same time as disjoint spans in order; touching ones become one, empty ones vanish."""
    merged: list[Span] = []
    for begin, end in sorted(span for span in spans if span[1] > span[0]):
        if merged and begin <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(merged[-1][1], end))
        else:
            merged.append((begin, end))
    return merged


def within(spans: Iterable[Span], window: Span) -> list[Span]:
    """The parts of `spans` inside `window`, as disjoint spans."""
    return union((max(begin, window[0]), min(end, window[1])) for begin, end in spans)


def length(spans: Iterable[Span]) -> float:
    return sum(end - begin for begin, end in union(spans))


def minus(spans: Iterable[Span], others: Iterable[Span]) -> list[Span]:
    """What of `spans` no span of `others` covers."""
    left: list[Span] = []
    cuts = union(others)
    for begin, end in union(spans):
        for cut_begin, cut_end in cuts:
            if cut_end <= begin or cut_begin >= end:
                continue
            if cut_begin > begin:
                left.append((begin, cut_begin))
            begin = max(begin, cut_end)
        if begin < end:
            left.append((begin, end))
    return left
