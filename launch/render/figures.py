"""Draws figures with matplotlib as SVG, PDF and PNG: curves differ in marker and dash before colour, for grey print."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from analysis.figures import Curve, Figure, Guide, y_limits

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Drawing

FORMATS = ("svg", "pdf", "png")
# Okabe and Ito's palette for the colour-blind, without yellow (too light on white), ordered so that neighbours differ
# in lightness too: https://jfly.uni-koeln.de/color/
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#000000", "#56B4E9", "#E69F00")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">", "p", "h", "*")
DASHES: tuple[Any, ...] = ("-", (0, (5, 1.5)), (0, (3, 1, 1, 1)), (0, (1, 1)))
HATCHES = ("", "///", "...", "xxx", "\\\\\\")
# matplotlib's own font first; for Chinese the first of those that usual systems have.
CHINESE_FONTS = ("Noto Sans CJK SC", "Noto Sans SC", "WenQuanYi Zen Hei", "Microsoft YaHei", "SimHei", "PingFang SC")
STYLE: dict[Any, Any] = {
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#dddddd",
    "grid.linewidth": 0.6,
    "axes.axisbelow": True,
    "axes.titlelocation": "left",
    "axes.titlesize": 10,
    "axes.titleweight": "bold",
    "legend.frameon": False,
    "legend.fontsize": 8,
    "svg.fonttype": "none",  # text stays text: it can be searched, and edited for a paper
    "svg.hashsalt": "cardscale",  # the same study draws the same file
    "pdf.fonttype": 42,
}


def is_available() -> bool:
    """Whether matplotlib is installed: it is an extra."""
    return find_spec("matplotlib") is not None


def draw_all(figures: Iterable[Figure], folder: Path, predicted: str) -> list[Path]:
    """Draw every figure into `folder` in each of `FORMATS`; returns the files. predicted: how a legend says it."""
    from matplotlib import rc_context
    from matplotlib.font_manager import fontManager

    written = []
    folder.mkdir(parents=True, exist_ok=True)
    installed = {font.name for font in fontManager.ttflist}
    families = ["DejaVu Sans", *[name for name in CHINESE_FONTS if name in installed][:1]]
    with rc_context({**STYLE, "font.family": families}), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*[Gg]lyph.*")  # no Chinese font here: boxes, but the numbers stand
        for figure in figures:
            drawing = draw(figure, predicted)
            for kind in FORMATS:
                path = folder / f"{figure.name}.{kind}"
                # No dates in the files: drawn again, they are the same.
                metadata = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}.get(kind, {})
                drawing.savefig(path, metadata=metadata, dpi=150)
                written.append(path)
    return written


def draw(figure: Figure, predicted: str = "{name}, predicted") -> Drawing:
    """`figure` as a matplotlib figure of its own, outside of pyplot, so that nothing is left open."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure as Drawing

    drawing = Drawing(figsize=(6.4, 3.8), layout="constrained")
    FigureCanvasAgg(drawing)
    axes = drawing.subplots()
    if figure.kind == "stack":
        _stack(axes, figure)
    else:
        measured = {curve.style for curve in figure.curves if not curve.predicted}
        for curve in figure.curves:
            named = None if curve.predicted and curve.style in measured else _name(curve, predicted)
            _curve(axes, curve, figure.kind == "lines", named)
        for guide in figure.guides:
            _guide(axes, guide)
        _scales(axes, figure)
    axes.set_title(_plain(figure.title))
    axes.set_xlabel(_plain(figure.x_label))
    axes.set_ylabel(_plain(figure.y_label))
    axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))
    if figure.note:
        drawing.supxlabel(_plain(figure.note), fontsize=7, color="#555555", x=0.01, ha="left", wrap=True)
    return drawing


def _name(curve: Curve, predicted: str) -> str:
    return _plain(predicted.format(name=curve.name) if curve.predicted else curve.name)


def _curve(axes: Axes, curve: Curve, joined: bool, name: str | None) -> None:
    """name: in the legend; None where the curve continues one that is there already."""
    colour = COLOURS[curve.style % len(COLOURS)]
    dash = (0, (2, 2)) if curve.predicted else DASHES[curve.style // len(COLOURS) % len(DASHES)]
    points = [point for point in zip(curve.x, curve.y, curve.low, curve.high, strict=True) if point[1] is not None]
    if not points:
        return
    x, y, low, high = zip(*points, strict=True)
    below = [0.0 if end is None else max(value - end, 0.0) for value, end in zip(y, low, strict=True)]
    above = [0.0 if end is None else max(end - value, 0.0) for value, end in zip(y, high, strict=True)]
    axes.errorbar(
        x,
        y,
        yerr=[below, above] if any(below) or any(above) else None,
        color=colour,
        marker=MARKERS[curve.style % len(MARKERS)],
        markerfacecolor="white" if curve.predicted else colour,
        markersize=5,
        linestyle=dash if joined else "none",
        linewidth=1.4,
        elinewidth=0.9,
        capsize=2,
        label=name,
    )


def _guide(axes: Axes, guide: Guide) -> None:
    look: dict[str, Any] = {"color": "#666666", "linewidth": 1.2 if guide.firm else 1.0, "zorder": 1}
    look["linestyle"] = "-" if guide.firm else "--"
    if guide.x:
        axes.plot(guide.x, guide.y, label=_plain(guide.name), **look)
    else:
        axes.axhline(guide.y[0], label=_plain(guide.name), **look)


def _stack(axes: Axes, figure: Figure) -> None:
    bottom = [0.0] * len(figure.curves[0].x)
    for curve in figure.curves:
        height = [value or 0.0 for value in curve.y]
        colour, hatch = COLOURS[(curve.style + 5) % len(COLOURS)], HATCHES[curve.style % len(HATCHES)]
        bars = axes.bar(range(len(height)), height, bottom=bottom, label=_plain(curve.name), edgecolor="white")
        for bar in bars:
            bar.set(facecolor=colour, hatch=hatch)
        bottom = [a + b for a, b in zip(bottom, height, strict=True)]
    axes.set_xticks(range(len(bottom)), [_plain(str(name)) for name in figure.curves[0].x], rotation=60, ha="right")
    axes.set_ylim(0, 100)
    axes.grid(axis="x", visible=False)


def _scales(axes: Axes, figure: Figure) -> None:
    from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, NullLocator

    if figure.x_log == 10:
        axes.set_xscale("log")
        axes.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        axes.xaxis.set_minor_locator(NullLocator())
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: short_number(value)))
    elif figure.x_log:
        counts = sorted({float(x) for curve in figure.curves for x in curve.x})
        axes.set_xscale("log", base=2)
        axes.xaxis.set_major_locator(FixedLocator(spread(counts)))
        axes.xaxis.set_minor_locator(NullLocator())
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: short_number(value, figure.x_bytes)))
    limits = y_limits(figure)
    if figure.y_log:
        axes.set_yscale("log")
        axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0) if _decades(limits) < 2.5 else (1.0,)))
        axes.yaxis.set_minor_locator(NullLocator())
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: short_number(value)))
    if limits:
        axes.set_ylim(limits)


def _decades(limits: tuple[float, float] | None) -> float:
    return math.log10(limits[1] / limits[0]) if limits else 0.0


def spread(values: Sequence[float], most: int = 9) -> list[float]:
    """At most `most` of `values`, evenly, with both ends."""
    if len(values) <= most:
        return list(values)
    step = (len(values) - 1) / (most - 1)
    return [values[round(i * step)] for i in range(most)]


def short_number(value: float, is_bytes: bool = False) -> str:
    """Up to four digits below 1,000, and whole numbers from there on: `0.05`, `12,000`. Bytes as `64Ki` where exact."""
    for power, letter in ((30, "Gi"), (20, "Mi"), (10, "Ki")) if is_bytes else ():
        if value >= 2**power and value % 2**power == 0:
            return f"{value / 2**power:g}{letter}"
    return f"{value:,.0f}" if value >= 1000 else f"{value:.4g}"


def _plain(text: str) -> str:
    """Text without matplotlib's mathematics: a dollar sign in a name is a dollar sign."""
    return text.replace("$", r"\$")
