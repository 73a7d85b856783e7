"""Bus bandwidth over message size as a figure, one curve a call."""

from __future__ import annotations

import pandas as pd

from analysis.figures import Curve, Figure, at_most
from analysis.tables import number
from analysis.tables.collectives import collective_name
from analysis.text import Say


def bandwidth_figure(collectives: pd.DataFrame, say: Say) -> Figure | None:
    """busbw over size, sizes without a bandwidth left out; None where there is none to show."""
    points: dict[str, dict[float, float]] = {}
    one_device = "device" not in collectives.columns or collectives["device"].nunique() <= 1
    for row in collectives.to_dict("records"):
        size, rate = number(row.get("bytes")), number(row.get("busbw_gbps"))
        if size and rate and not isinstance(row.get("pattern"), str):
            name = collective_name({**row, "device": None} if one_device else row, say)
            points.setdefault(name, {})[size] = rate
    if not points:
        return None
    curves = []
    for style, (name, rates) in enumerate(points.items()):
        sizes = sorted(rates)
        blank = (None,) * len(sizes)
        curves.append(Curve(name, tuple(sizes), tuple(rates[size] for size in sizes), blank, blank, style))
    figure = Figure(
        name="bandwidth",
        title=say("figure.bandwidth"),
        x_label=say("figure.bytes"),
        y_label=say("figure.busbw_axis"),
        curves=tuple(curves),
        x_log=2,
        x_bytes=True,
        y_log=True,
        note=say("figure.bandwidth_note"),
    )
    return at_most(figure, say, [max(rates.values()) for rates in points.values()])
