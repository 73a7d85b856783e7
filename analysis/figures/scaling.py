"""Scaling as figures: speedup with the ideal line, efficiency, memory against the card, where a step's time goes."""

from __future__ import annotations

import numpy as np
import pandas as pd

from analysis.figures import Curve, Figure, Guide, at_most
from analysis.scaling.series import numbers, texts
from analysis.tables import number, plain
from analysis.tables.scaling import cards_phrase, peak_memory
from analysis.text import Say

TIGHT = 0.90  # of a card's memory: https://idctop.com/article/573547.html
MOST_BARS = 24
SHARES = ("data_wait", "exposed_comm", "bubble")  # throughput.<name>_fraction of a step's time


def scaling_figures(scaling: pd.DataFrame, predicted: pd.DataFrame, cells: pd.DataFrame, say: Say) -> list[Figure]:
    """The figures of `scaling_table`'s frame that have something to show.

    predicted: rows of status `predicted` in a study's columns; may be empty. cells: what the table was computed from.
    """
    measured = scaling[scaling["tokens_per_s"].notna()]
    if measured.empty:
        return []
    figures = [_speedup(measured, predicted, say), _efficiency(measured, predicted, say), _memory(measured, cells, say)]
    figures.append(breakdown(cells, say))
    return [figure for figure in figures if figure is not None]


def series_names(scaling: pd.DataFrame) -> dict[int, str]:
    """series -> what a legend calls it: the mode, and before and after it only what tells the series apart."""
    firsts = scaling.drop_duplicates("series").set_index("series")
    parts = {
        "model": firsts["model"],
        "mode": firsts["mode"],
        "device": firsts["device"],
        "scaling": firsts["scaling"],
        "seq_len": firsts["seq_len"].map(lambda length: "" if pd.isna(length) else f"{length:g} tokens"),
        "batch": firsts["global_batch_tokens"].map(lambda batch: "" if pd.isna(batch) else f"batch {batch:g}"),
    }
    told = {name: values.map(plain) for name, values in parts.items() if name == "mode" or values.nunique() > 1}
    rows = zip(*told.values(), strict=True)
    names = pd.Series([" · ".join(text for text in row if text) for row in rows], index=firsts.index)
    doubled = names.duplicated(keep=False)
    return {
        int(series): f"{name} ({series})" if doubled[series] else str(name)
        for series, name in zip(names.index, names, strict=True)
    }


def _speedup(measured: pd.DataFrame, predicted: pd.DataFrame, say: Say) -> Figure:
    curves = _curves(measured, "speedup") + _predictions(measured, predicted, "speedup")
    most = max(float(x) for curve in curves for x in curve.x)
    bases = sorted(float(base) for base in measured["base_cards"].dropna().unique())
    guides = []
    for base in bases:
        counts = (base, max(most, 2 * base))
        name = say("figure.ideal") if len(bases) == 1 else say("figure.ideal_of", base=f"{base:g}")
        guides.append(Guide(name, counts, tuple(count / base for count in counts)))
    relative = " / ".join(cards_phrase(base, say) for base in bases)
    figure = Figure(
        name="speedup",
        title=say("figure.speedup"),
        x_label=say("figure.cards"),
        y_label=say("figure.speedup_axis", base=relative),
        curves=tuple(curves),
        guides=tuple(guides),
        x_log=2,
        y_log=True,
        note=_interval_note(curves, say),
    )
    return at_most(figure, say, _best(measured))


def _efficiency(measured: pd.DataFrame, predicted: pd.DataFrame, say: Say) -> Figure:
    curves = _curves(measured, "efficiency", 100.0) + _predictions(measured, predicted, "efficiency", 100.0)
    figure = Figure(
        name="efficiency",
        title=say("figure.efficiency"),
        x_label=say("figure.cards"),
        y_label=say("figure.efficiency_axis"),
        curves=tuple(curves),
        guides=(Guide(say("figure.ideal"), (), (100.0,)),),
        x_log=2,
        note=_interval_note(curves, say),
    )
    return at_most(figure, say, _best(measured))


def _memory(measured: pd.DataFrame, cells: pd.DataFrame, say: Say) -> Figure | None:
    """Peak memory of the largest rank against the card's size, and the line above which a card counts as full."""
    memory, kinds = peak_memory(cells)
    peak = measured["cell_id"].map(memory).where(measured["peak_gib"].isna(), measured["peak_gib"])
    rows = measured.assign(peak=peak.astype(float), peak_low=np.nan, peak_high=np.nan).dropna(subset=["peak"])
    if rows.empty:
        return None
    sizes = numbers(cells, "memory.card_gib")
    guides = []
    for size in sorted(set(sizes[~np.isnan(sizes)])):
        guides.append(Guide(say("figure.card", size=f"{size:.4g}"), (), (float(size),), firm=True))
        guides.append(Guide(say("figure.tight", share=f"{TIGHT:.0%}", size=f"{size:.4g}"), (), (TIGHT * float(size),)))
    kind = say("scaling.memory_kind", kinds=say("and").join(say(f"memory.{kind}") for kind in kinds))
    figure = Figure(
        name="memory",
        title=say("figure.memory"),
        x_label=say("figure.cards"),
        y_label=say("figure.memory_axis"),
        curves=tuple(_curves(rows, "peak")),
        guides=tuple(guides),
        x_log=2,
        note=kind if guides else f"{kind} {say('figure.no_card')}",
    )
    return at_most(figure, say, _best(rows))


def breakdown(cells: pd.DataFrame, say: Say) -> Figure | None:
    """Where a step's time goes in each cell, as stacked shares; None where no cell recorded any of them."""
    shares = {name: 100 * numbers(cells, f"throughput.{name}_fraction") for name in SHARES}
    shares = {name: values for name, values in shares.items() if not np.isnan(values).all()}
    if not shares:
        return None
    known = np.flatnonzero(~np.all([np.isnan(values) for values in shares.values()], axis=0))
    places = known[:MOST_BARS]
    model, mode = texts(cells, "workload.model"), texts(cells, "parallel.mode")
    several = model.iloc[known].nunique() > 1
    cards = numbers(cells, "parallel.cards")
    labels = tuple(plain(f"{model.iloc[i] if several else ''} {mode.iloc[i]} {cards[i]:g}") for i in places)
    rest = 100 - np.nansum([values[places] for values in shares.values()], axis=0)
    parts = {"rest": rest, **{name: values[places] for name, values in shares.items()}}
    blank = (None,) * len(labels)
    curves = tuple(
        Curve(say(f"figure.share_{name}"), labels, tuple(map(number, values)), blank, blank, style)
        for style, (name, values) in enumerate(parts.items())
    )
    note = say("figure.breakdown_note")
    if len(known) > MOST_BARS:
        note += f" {say('figure.left_out_cells', shown=MOST_BARS, total=len(known))}"
    title, axis = say("figure.breakdown"), say("figure.breakdown_axis")
    return Figure("breakdown", title, "", axis, curves, kind="stack", note=note)


def _curves(rows: pd.DataFrame, what: str, factor: float = 1.0) -> list[Curve]:
    """One curve a series; repeats of a count as their median, inside the widest of their intervals."""
    names = series_names(rows)
    curves = []
    for style, (series, part) in enumerate(rows.groupby("series", sort=False)):
        by = part.groupby("cards")
        value, low, high = by[what].median(), by[f"{what}_low"].min(), by[f"{what}_high"].max()
        curves.append(_curve(names[int(str(series))], value * factor, low * factor, high * factor, style))
    return curves


def _predictions(rows: pd.DataFrame, predicted: pd.DataFrame, what: str, factor: float = 1.0) -> list[Curve]:
    """Predicted rows as curves in the look of their series; those that could belong to several series are left out."""
    curves = []
    for style, (_, part) in enumerate(rows.groupby("series", sort=False)):
        first = part.iloc[0]
        same = (rows["model"] == first["model"]) & (rows["mode"] == first["mode"])
        if rows.loc[same, "series"].nunique() > 1 or predicted.empty:
            continue
        base = part[part["cards"] == part["base_cards"]]["tokens_per_s"].median()
        mine = (texts(predicted, "workload.model") == first["model"]) & (
            texts(predicted, "parallel.mode") == first["parallel_mode"]
        )
        chosen = predicted[mine].sort_values("parallel.cards")
        if chosen.empty:
            continue
        cards = numbers(chosen, "parallel.cards")
        scale = factor / base * (first["base_cards"] / cards if what == "efficiency" else 1.0)
        value, low, high = (
            pd.Series(numbers(chosen, f"throughput.tokens_per_s{end}") * scale, index=cards)
            for end in ("", "_low", "_high")
        )
        curves.append(_curve(series_names(rows)[int(first["series"])], value, low, high, style, predicted=True))
    return curves


def _curve(
    name: str,
    value: pd.Series[float],
    low: pd.Series[float],
    high: pd.Series[float],
    style: int,
    predicted: bool = False,
) -> Curve:
    """A curve from series indexed by the count of cards."""
    x = tuple(float(str(cards)) for cards in value.index)
    y, below, above = (tuple(map(number, values)) for values in (value, low, high))
    return Curve(name, x, y, below, above, style, predicted)


def _interval_note(curves: list[Curve], say: Say) -> str:
    note = say("figure.interval")
    return f"{note} {say('figure.predicted_note')}" if any(curve.predicted for curve in curves) else note


def _best(rows: pd.DataFrame) -> list[float]:
    """The highest throughput of each series, in the order of `_curves`."""
    return [float(part["tokens_per_s"].max()) for _, part in rows.groupby("series", sort=False)]
