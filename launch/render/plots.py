"""Figures as plotly.js draws them: traces and a layout as plain data, every text safe from plotly's own markup.

Looks are those of the printed figures, so that a curve is known again: same colours, markers and dashes.
"""

from __future__ import annotations

import math
from importlib.util import find_spec
from typing import Any

from analysis.figures import Curve, Figure, Guide, y_limits
from launch.render.figures import COLOURS, short_number, spread

# In the order of MARKERS and DASHES of the printed figures.
SYMBOLS = (
    "circle",
    "square",
    "triangle-up",
    "diamond",
    "triangle-down",
    "cross",
    "x",
    "triangle-left",
    "triangle-right",
    "pentagon",
    "hexagon",
    "star",
)
LINES = ("solid", "dash", "dashdot", "dot")
PATTERNS = ("", "/", ".", "x", "\\")
FEW_DECADES = 2.5  # up to here a logarithmic axis has room for 2 and 5 between the powers of ten
GREY = "#666666"


def is_available() -> bool:
    """Whether plotly is installed, whose plotly.js the page embeds: it is an extra."""
    return find_spec("plotly") is not None


def plotly_js() -> str:
    """The source of plotly.js, some five megabytes, as the installed plotly carries it."""
    from plotly.offline import get_plotlyjs

    return str(get_plotlyjs())


def plot(figure: Figure, predicted: str = "{name}, predicted") -> dict[str, Any]:
    """`figure` as {data, layout} for Plotly.newPlot. predicted: how a legend says that a curve is a prediction."""
    if figure.kind == "stack":
        data = [_bar(curve, figure) for curve in figure.curves]
    else:
        measured = {curve.style for curve in figure.curves if not curve.predicted}
        data = [
            _trace(curve, figure, predicted, named=not (curve.predicted and curve.style in measured))
            for curve in figure.curves
        ]
    data += [_line(guide) for guide in figure.guides if guide.x]
    return {"data": data, "layout": _layout(figure)}


def text(words: str) -> str:
    """`words` as themselves: plotly reads tags such as <a> and <b> in names, labels and hover texts."""
    return words.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _trace(curve: Curve, figure: Figure, predicted: str, named: bool) -> dict[str, Any]:
    """named: whether the legend has it; a prediction that continues a measurement is not named again."""
    places = [i for i, value in enumerate(curve.y) if value is not None]
    y = [float(curve.y[i] or 0.0) for i in places]
    below = [_distance(value, curve.low[i]) for value, i in zip(y, places, strict=True)]
    above = [_distance(curve.high[i], value) for value, i in zip(y, places, strict=True)]
    colour = COLOURS[curve.style % len(COLOURS)]
    dash = "dot" if curve.predicted else LINES[curve.style // len(COLOURS) % len(LINES)]
    name = predicted.format(name=curve.name) if curve.predicted else curve.name
    trace: dict[str, Any] = {
        "type": "scatter",
        "mode": "lines+markers" if figure.kind == "lines" else "markers",
        "name": text(name),
        "meta": curve.name,
        "legendgroup": str(curve.style),
        "showlegend": named,
        "x": [curve.x[i] for i in places],
        "y": y,
        "hovertext": [_hover(curve, figure, name, i) for i in places],
        "hoverinfo": "text",
        "line": {"color": colour, "dash": dash, "width": 2},
        "marker": {
            "color": colour,
            "symbol": SYMBOLS[curve.style % len(SYMBOLS)] + ("-open" if curve.predicted else ""),
            "size": 8,
        },
    }
    if any(below) or any(above):
        trace["error_y"] = {
            "type": "data",
            "symmetric": False,
            "array": above,
            "arrayminus": below,
            "color": colour,
            "thickness": 1.2,
            "width": 3,
        }
    return trace


def _distance(upper: float | None, lower: float | None) -> float:
    return 0.0 if upper is None or lower is None else max(upper - lower, 0.0)


def _hover(curve: Curve, figure: Figure, name: str, place: int) -> str:
    """Name, label, and both values with their units, a line each."""
    x, value, low, high = curve.x[place], curve.y[place], curve.low[place], curve.high[place]
    what = short_number(value) if value is not None else ""
    if low is not None and high is not None and low != high:
        what += f" [{short_number(low)}, {short_number(high)}]"
    label = f": {curve.labels[place]}" if curve.labels else ""
    across = short_number(x, figure.x_bytes) if isinstance(x, float) else x
    lines = [f"{name}{label}", f"{figure.x_label}: {across}" if figure.x_label else across, f"{figure.y_label}: {what}"]
    return "<br>".join(map(text, lines))


def _bar(curve: Curve, figure: Figure) -> dict[str, Any]:
    return {
        "type": "bar",
        "name": text(curve.name),
        "x": [text(str(x)) for x in curve.x],
        "y": [value or 0.0 for value in curve.y],
        "hovertext": [_hover(curve, figure, curve.name, i) for i in range(len(curve.x))],
        "hoverinfo": "text",
        "marker": {
            "color": COLOURS[(curve.style + 5) % len(COLOURS)],
            "line": {"color": "white", "width": 1},
            "pattern": {
                "shape": PATTERNS[curve.style % len(PATTERNS)],
                "size": 6,
                "fillmode": "overlay",
                "fgcolor": "white",
            },
        },
    }


def _line(guide: Guide) -> dict[str, Any]:
    return {
        "type": "scatter",
        "mode": "lines",
        "name": text(guide.name),
        "x": list(guide.x),
        "y": list(guide.y),
        "hoverinfo": "skip",
        "line": {"color": GREY, "width": 1.4, "dash": "solid" if guide.firm else "dash"},
    }


def _across(guide: Guide) -> dict[str, Any]:
    """A guide from edge to edge, named in the legend as a curve is."""
    return {
        "type": "line",
        "xref": "paper",
        "x0": 0,
        "x1": 1,
        "y0": guide.y[0],
        "y1": guide.y[0],
        "layer": "below",
        "name": text(guide.name),
        "showlegend": True,
        "line": {"color": GREY, "width": 1.6 if guide.firm else 1.4, "dash": "solid" if guide.firm else "dash"},
    }


def _layout(figure: Figure) -> dict[str, Any]:
    axis = {"showline": True, "linecolor": "#999", "gridcolor": "#e3e3e3", "zeroline": False, "automargin": True}
    layout: dict[str, Any] = {
        "xaxis": {**axis, **_x_axis(figure), "title": {"text": text(figure.x_label), "standoff": 8}},
        "yaxis": {**axis, **_y_axis(figure), "title": {"text": text(figure.y_label), "standoff": 8}},
        "shapes": [_across(guide) for guide in figure.guides if not guide.x],
    }
    if figure.kind == "stack":
        layout["barmode"] = "stack"
    return layout


def _x_axis(figure: Figure) -> dict[str, Any]:
    if figure.kind == "stack":
        return {"type": "category", "tickangle": -60, "showgrid": False}
    values = sorted({float(x) for curve in figure.curves for x in curve.x})
    if figure.x_log == 2:
        shown = spread(values)
        return {"type": "log", "tickvals": shown, "ticktext": [short_number(value, figure.x_bytes) for value in shown]}
    if figure.x_log:
        return {"type": "log", **_powers(values[0], values[-1])} if values else {"type": "log"}
    return {}


def _y_axis(figure: Figure) -> dict[str, Any]:
    limits = (0.0, 100.0) if figure.kind == "stack" else y_limits(figure)
    if not figure.y_log:
        return {"range": list(limits)} if limits else {}
    if limits is None:
        return {"type": "log"}
    return {"type": "log", "range": [math.log10(end) for end in limits], **_powers(*limits)}


def _powers(low: float, high: float) -> dict[str, Any]:
    """Ticks at powers of ten, and at their doubles and fives where there is room; in plain decimals."""
    return {"dtick": "D2" if math.log10(high / low) < FEW_DECADES else 1, "tickformat": ",.4~r"}
