"""The link model: how long a collective takes, from sizes that were measured, with what it is worth.

One curve for each op, group (inside a node, across nodes) and number of ranks that was measured; see analysis.links.fit
for its form. Other sizes are read off the curve; other numbers of ranks are carried over from the nearest curves and
said to be. Pure data: to_json and from_json keep it beside a study.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pandas as pd

from analysis.links.fit import Piece, fit_pieces, held_out_errors, points, predict
from configs.errors import ConfigError, choose
from results.bandwidth import OPS, bus_factor

INTRA, INTER, UNKNOWN = "intra_node", "inter_node", "unknown"
LEAST_ERROR = 0.01  # no timing repeats better than to 1 %
OUTLIER = 1.5  # measured over predicted, of a row that says something disturbed it
_OPEN = ("to_bytes", "algbw_gbps", "algbw_low_gbps", "algbw_high_gbps")  # infinite is written as null


@dataclass(frozen=True)
class Curve:
    """The times of one op over one group of ranks.

    median_error: the median relative error on held-out sizes; error_95: 95 % of them are within it. Both None where
    fewer than three sizes were measured. outliers: sizes that took half as long again as the curve says, or more.
    """

    op: str
    group: str
    ranks: int
    nodes: int | None
    sizes: int
    smallest_bytes: float
    largest_bytes: float
    median_error: float | None
    error_95: float | None
    outliers: tuple[float, ...]
    pieces: tuple[Piece, ...]

    @property
    def latency_us(self) -> float:
        """alpha of the smallest sizes: what a call costs however little it moves."""
        return self.pieces[0].alpha_us

    @property
    def busbw_gbps(self) -> tuple[float, float, float] | None:
        """(value, low, high) of the largest sizes' bus bandwidth, GB/s; None where only latency was measured."""
        last = self.pieces[-1]
        if math.isinf(last.algbw_gbps):
            return None
        factor = bus_factor(self.op, self.ranks)
        return last.algbw_gbps * factor, last.algbw_low_gbps * factor, last.algbw_high_gbps * factor


@dataclass(frozen=True)
class Estimate:
    """A predicted call: time in us, its 95 % interval, and what to know about it. None bounds: the error is unknown."""

    time_us: float
    low_us: float | None
    high_us: float | None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class LinkModel:
    """The curves of a study's links."""

    curves: tuple[Curve, ...]

    def time(self, op: str, size_bytes: float, ranks: int, nodes: int | None = None) -> Estimate:
        """Time of one call of `op` on `size_bytes` (NCCL tests' convention) over `ranks` ranks on `nodes` nodes.

        nodes: 1 asks for links inside a node, more for those across; None takes the curves that fit the ranks best.
        Raises ConfigError for an op that was not measured and for sizes or ranks out of range.
        """
        if size_bytes <= 0 or ranks < 2:
            raise ConfigError("links", f"{size_bytes:g} bytes over {ranks} ranks", "bytes above 0, ranks 2 or more")
        choose("links: op", op, sorted({curve.op for curve in self.curves}))
        curves, notes = _candidates([curve for curve in self.curves if curve.op == op], nodes, ranks)
        if nodes is not None and nodes > 2 and all(curve.nodes == 2 for curve in curves):
            notes.append("measured on two nodes, where NCCL's tree has an advantage that more nodes do not have")
        below = max((c for c in curves if c.ranks <= ranks), key=lambda c: c.ranks, default=None)
        above = min((c for c in curves if c.ranks >= ranks), key=lambda c: c.ranks, default=None)
        if below and above:
            return _between(below, above, size_bytes, ranks, notes)
        nearest = below or above
        assert nearest is not None  # _candidates gives at least one
        return _scaled(nearest, size_bytes, ranks, notes)

    def table(self) -> pd.DataFrame:
        """One row a curve: latency and bus bandwidth with intervals, and how well held-out sizes are predicted."""
        rows = []
        for curve in self.curves:
            first, rate = curve.pieces[0], curve.busbw_gbps or (math.nan, math.nan, math.nan)
            rows.append(
                {
                    "op": curve.op,
                    "group": curve.group,
                    "ranks": curve.ranks,
                    "nodes": curve.nodes,
                    "latency_us": first.alpha_us,
                    "latency_low_us": first.alpha_low_us,
                    "latency_high_us": first.alpha_high_us,
                    "busbw_gbps": rate[0],
                    "busbw_low_gbps": rate[1],
                    "busbw_high_gbps": rate[2],
                    "sizes": curve.sizes,
                    "pieces": sum(not piece.bridge for piece in curve.pieces),
                    "median_error": curve.median_error,
                    "error_95": curve.error_95,
                    "outliers": len(curve.outliers),
                }
            )
        return pd.DataFrame(rows)

    def to_json(self) -> dict[str, Any]:
        """Plain data in which every number is finite; null stands for "without end"."""
        curves = []
        for curve in self.curves:
            data = asdict(curve)
            for piece in data["pieces"]:
                piece.update({name: None for name in _OPEN if math.isinf(piece[name])})
            curves.append({**data, "pieces": list(data["pieces"]), "outliers": list(curve.outliers)})
        return {"schema_version": 1, "curves": curves}

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> LinkModel:
        """What to_json gave. Raises ConfigError for anything else."""
        try:
            curves = []
            for curve in data["curves"]:
                pieces = [
                    Piece(**piece | {name: math.inf for name in _OPEN if piece[name] is None})
                    for piece in curve["pieces"]
                ]
                curves.append(Curve(**{**curve, "pieces": tuple(pieces), "outliers": tuple(curve["outliers"])}))
        except (KeyError, TypeError) as error:
            raise ConfigError("links", f"is no link model: {error}", "what fit_links wrote") from None
        return LinkModel(tuple(curves))


def fit_links(rows: Iterable[Mapping[str, Any]] | pd.DataFrame) -> LinkModel:
    """Fit a curve to every op, group and number of ranks among `rows` (the record's collectives, or imported ones).

    Left out: rows without a time, of size 0, on one rank, with wrong elements, of training patterns, and those whose
    time includes a copy that the op does not need. Raises ConfigError where nothing is left.
    """
    frame = pd.DataFrame(rows if isinstance(rows, pd.DataFrame) else list(rows))
    if frame.empty or "time_us" not in frame:
        raise ConfigError("links", "nothing was measured", "rows of benchmark=collectives or of an imported log")
    for column in ("nodes", "wrong", "pattern", "note"):
        if column not in frame:
            frame[column] = None
    usable = (frame["time_us"].astype(float) > 0) & (frame["bytes"].astype(float) > 0) & frame["op"].isin(OPS)
    usable &= (frame["ranks"].astype(float) > 1) & ~(frame["wrong"].astype(float) > 0)
    frame = frame[usable & frame["pattern"].isna() & frame["note"].isna()].copy()
    frame["nodes"] = frame["nodes"].astype(float).fillna(0).astype(int)
    curves = []
    for _, part in frame.groupby(["op", "ranks", "nodes"], sort=True):
        first = part.iloc[0]
        curve = _curve(str(first["op"]), int(first["ranks"]), int(first["nodes"]) or None, part)
        curves += [curve] if curve else []
    if not curves:
        raise ConfigError("links", "no two sizes of one op were measured on two ranks or more", "at least two sizes")
    return LinkModel(tuple(curves))


def _curve(op: str, ranks: int, nodes: int | None, part: pd.DataFrame) -> Curve | None:
    sizes, times = part["bytes"].astype(float).tolist(), part["time_us"].astype(float).tolist()
    pieces = fit_pieces(sizes, times)
    if not pieces:
        return None
    x, y = points(sizes, times)
    errors = held_out_errors(sizes, times)
    slow = [float(size) for size, time in zip(x, y, strict=True) if time > OUTLIER * predict(pieces, float(size))]
    group = UNKNOWN if nodes is None else INTRA if nodes == 1 else INTER
    return Curve(
        op=op,
        group=group,
        ranks=ranks,
        nodes=nodes,
        sizes=len(x),
        smallest_bytes=float(x[0]),
        largest_bytes=float(x[-1]),
        median_error=float(np.median(errors)) if errors.size else None,
        error_95=max(float(np.quantile(errors, 0.95, method="higher")), LEAST_ERROR) if errors.size else None,
        outliers=tuple(slow),
        pieces=pieces,
    )


def _candidates(curves: list[Curve], nodes: int | None, ranks: int) -> tuple[list[Curve], list[str]]:
    """The curves of the group asked for, and a note where there is none and another group stands in."""
    wanted = None if nodes is None else INTRA if nodes == 1 else INTER
    if wanted is None:
        groups = sorted({c.group for c in curves}, key=lambda g: (ranks not in _ranks(curves, g), g != INTRA))
        return _one_node_count([c for c in curves if c.group == groups[0]], None), []
    found = _one_node_count([c for c in curves if c.group == wanted], nodes)
    if found:
        return found, []
    unknown = [c for c in curves if c.group == UNKNOWN]
    if unknown:
        return unknown, ["the log does not say on how many nodes its ranks were"]
    other = INTER if wanted == INTRA else INTRA
    return _one_node_count(curves, nodes), [f"{wanted} links were not measured; this is the time on {other} ones"]


def _ranks(curves: Iterable[Curve], group: str) -> set[int]:
    return {curve.ranks for curve in curves if curve.group == group}


def _one_node_count(curves: list[Curve], nodes: int | None) -> list[Curve]:
    """One curve for each number of ranks: the one measured on the number of nodes nearest to the one asked for."""
    best: dict[int, Curve] = {}
    for curve in curves:
        kept = best.get(curve.ranks)
        if kept is None or (nodes and abs((curve.nodes or 1) - nodes) < abs((kept.nodes or 1) - nodes)):
            best[curve.ranks] = curve
    return list(best.values())


def _read(curve: Curve, size_bytes: float, ranks: int) -> tuple[float, list[str]]:
    """The curve's time for the same traffic on each rank's links, and notes on how far it was measured."""
    ours, theirs = bus_factor(curve.op, ranks), bus_factor(curve.op, curve.ranks)
    size = size_bytes * ours / theirs
    notes = []
    if size > curve.largest_bytes:
        notes.append(f"beyond the largest measured size, {curve.largest_bytes:.0f} bytes")
    elif size < curve.smallest_bytes:
        notes.append(f"below the smallest measured size, {curve.smallest_bytes:.0f} bytes")
    return predict(curve.pieces, size), notes


def _estimate(curve: Curve, size_bytes: float, ranks: int, notes: list[str]) -> Estimate:
    """The curve's time with the interval that its held-out sizes earn it."""
    time_us, more = _read(curve, size_bytes, ranks)
    last = curve.pieces[-1]
    flat = size_bytes > 2 * curve.largest_bytes and last.alpha_us > 0.5 * last.time_us(curve.largest_bytes)
    if flat:
        more.append("the largest measured size is still bound by latency, so the bandwidth is not known")
    if curve.error_95 is None:
        return Estimate(time_us, None, None, (*notes, *more))
    within = 1 + curve.error_95
    return Estimate(time_us, time_us / within, math.inf if flat else time_us * within, (*notes, *more))


def _scaled(curve: Curve, size_bytes: float, ranks: int, notes: list[str]) -> Estimate:
    """A number of ranks outside what was measured: the same traffic on the links, and more or fewer steps.

    Latency grows with log2 of the ranks for a tree and with the ranks for a ring: the tree gives the time, and the
    interval holds both.
    """
    at = _estimate(curve, size_bytes, ranks, [*notes, f"scaled from {curve.ranks} ranks to {ranks}"])
    latency_us = min(curve.latency_us, at.time_us)
    moving_us = at.time_us - latency_us
    steps = [1.0, math.log2(ranks) / math.log2(curve.ranks), (ranks - 1) / (curve.ranks - 1)]
    times = [moving_us + latency_us * step for step in steps]
    if at.low_us is None or at.high_us is None:
        return Estimate(times[1], None, None, at.notes)
    low, high = at.low_us / at.time_us * min(times), at.high_us / at.time_us * max(times)
    return Estimate(times[1], low, high, at.notes)


def _between(below: Curve, above: Curve, size_bytes: float, ranks: int, notes: list[str]) -> Estimate:
    """The measured curve, or the two that enclose `ranks`, weighed by the logarithm of the number of ranks."""
    if below.ranks == above.ranks:
        return _estimate(below, size_bytes, ranks, notes)
    first, second = (_estimate(c, size_bytes, ranks, []) for c in (below, above))
    weight = math.log(ranks / below.ranks) / math.log(above.ranks / below.ranks)
    time_us = first.time_us ** (1 - weight) * second.time_us**weight
    notes = [*notes, f"between {below.ranks} and {above.ranks} measured ranks", *first.notes, *second.notes]
    bounds = [b for e in (first, second) for b in (e.low_us, e.high_us) if b is not None]
    if len(bounds) < 4:
        return Estimate(time_us, None, None, tuple(dict.fromkeys(notes)))
    return Estimate(time_us, min(bounds), max(bounds), tuple(dict.fromkeys(notes)))
