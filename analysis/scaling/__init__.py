"""Speedup and efficiency of every cell against its own series' base, with intervals carried through the ratios.

speedup(N) = throughput(N) / throughput(base), efficiency(N) = speedup x base / N. The base is the smallest count of
the series that was measured, 1 card where it fits; `base_cards` stands beside every ratio.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analysis.scaling.series import column, is_measured, label_series, numbers, texts
from configs.errors import ConfigError
from results.statistics import block_bootstrap

BOOTSTRAP_CELLS = 2000  # above this many cells their recorded 95 % intervals are carried through instead, for speed
STEPS = "throughput.step_times_s"
MEDIAN = "throughput.step_time_s.median"
LOW, HIGH = "throughput.step_time_s.ci95_low", "throughput.step_time_s.ci95_high"
UNSTEADY_CV = 0.10


def speedup(throughput: pd.Series[float], cards: pd.Series[int], base: int) -> pd.Series[float]:
    """Throughput of each row over that of the row with `base` cards.

    throughput: tokens/s of the whole job. cards: world size, same index. Raises ConfigError if `base` is missing or
    twice there: a ratio must have one denominator.
    """
    at_base = throughput[cards == base].dropna()
    if len(at_base) != 1:
        found = "is not measured" if at_base.empty else f"is there {len(at_base)} times"
        raise ConfigError("base", f"{base} cards {found}", f"measured: {', '.join(map(str, sorted(set(cards))))}")
    return throughput / at_base.iloc[0]


def efficiency(throughput: pd.Series[float], cards: pd.Series[int], base: int) -> pd.Series[float]:
    """Scaling efficiency of each row relative to the row with `base` cards; 1.0 is ideal.

    Arguments and errors as `speedup`. Values above 1 are possible (cache effects, a slow base) and are returned as
    they are: the table flags them.
    """
    return speedup(throughput, cards, base) * base / cards


def scaling_table(frame: pd.DataFrame) -> pd.DataFrame:
    """One row a training cell of a study or measurement frame, ordered by series and cards.

    Columns: cell_id, series (number), model, mode (family), parallel_mode (as run), scaling, device, seq_len, cards,
    nodes, micro_batch, grad_accum, global_batch_tokens, status, tokens_per_s, peak_gib, step_time_s,
    step_time_low_s, step_time_high_s, base_cards, relative_to, speedup, speedup_low, speedup_high, interval_source,
    efficiency, efficiency_low, efficiency_high, flags (text, "; " between them).
    Cells that were not measured stay, blank. Ratios are NaN where the series has no base. Intervals are 95 %:
    "block bootstrap" of both cells' step times where the frame lists them, "recorded intervals" combined in
    quadrature of their logarithms otherwise, blank where there are neither. Raises ConfigError without the columns
    parallel.mode, parallel.cards and throughput.tokens_per_s.
    """
    for name in ("parallel.mode", "parallel.cards", "throughput.tokens_per_s"):
        if name not in frame.columns and len(frame):
            raise ConfigError("frame", f"has no column {name}", "a study's or a measurement CSV's frame")
    training = texts(frame, "benchmark").isin(["", "finetune"]).to_numpy()
    frame = frame[training].reset_index(drop=True)
    series, measured = label_series(frame), is_measured(frame)
    rate = np.where(measured, numbers(frame, "throughput.tokens_per_s"), np.nan)
    table = pd.DataFrame(
        {
            "cell_id": texts(frame, "cell_id"),
            **{name: series[name] for name in ("series", "model", "mode")},
            "parallel_mode": texts(frame, "parallel.mode"),
            **{name: series[name] for name in ("scaling", "device", "seq_len")},
            "cards": numbers(frame, "parallel.cards"),
            "nodes": numbers(frame, "parallel.nodes"),
            "micro_batch": numbers(frame, "workload.micro_batch"),
            "grad_accum": numbers(frame, "workload.grad_accum"),
            "global_batch_tokens": numbers(frame, "workload.global_batch_tokens"),
            "status": texts(frame, "status"),
            "tokens_per_s": rate,
            "peak_gib": numbers(frame, "memory.device_used_gib"),
        }
    )
    for name, source in (("step_time_s", MEDIAN), ("step_time_low_s", LOW), ("step_time_high_s", HIGH)):
        table[name] = np.where(measured, numbers(frame, source), np.nan)
    _add_base(table)
    table["speedup"] = table["tokens_per_s"] / table["base_rate"]
    _add_intervals(table, column(frame, STEPS))
    per_card = table["base_cards"] / table["cards"]
    for name in ("", "_low", "_high"):
        table[f"efficiency{name}"] = table[f"speedup{name}"] * per_card
    table["flags"] = _flags(frame, series, table, measured)
    working = ["base_rate", "is_base", "base_rows", "repeats", "duplicate"]
    table = table.drop(columns=working)
    return table.sort_values(["series", "cards"], kind="stable", ignore_index=True)


def _add_base(table: pd.DataFrame) -> None:
    """base_cards, base_rate (median over the base's repeats), base_rows, relative_to and `repeats` of every row."""
    measured = table["tokens_per_s"].notna()
    table["base_cards"] = table["cards"].where(measured).groupby(table["series"]).transform("min")
    at_base = measured & (table["cards"] == table["base_cards"])
    # The same row written twice must not weigh twice in the base.
    duplicate = table.duplicated(["series", "cards", "tokens_per_s", "step_time_s", "micro_batch"]) & measured
    table["duplicate"] = duplicate
    base_rate = table["tokens_per_s"].where(at_base & ~duplicate)
    table["base_rate"] = base_rate.groupby(table["series"]).transform("median")
    table["is_base"] = at_base
    table["base_rows"] = at_base.groupby(table["series"]).transform("sum")
    table["repeats"] = measured.groupby([table["series"], table["cards"]]).transform("sum")
    named = table["base_cards"].map(
        {n: f"relative to {n:.0f} card{'s' if n != 1 else ''}" for n in table["base_cards"].dropna().unique()}
    )
    table["relative_to"] = named.astype(object).where(named.notna(), "")


def _add_intervals(table: pd.DataFrame, steps: pd.Series[Any]) -> None:
    """speedup_low, speedup_high, interval_source: by bootstrap where steps are listed, else from recorded intervals."""
    step, low, high = (table[name].to_numpy() for name in ("step_time_s", "step_time_low_s", "step_time_high_s"))
    with np.errstate(divide="ignore", invalid="ignore"):
        up, down = np.log(step / low), np.log(high / step)  # how far the throughput may be above, below
    base = table["is_base"].to_numpy()
    of_base = pd.DataFrame({"up": np.where(base, up, np.nan), "down": np.where(base, down, np.nan)})
    widest = of_base.groupby(table["series"]).transform("max")  # of the base's repeats: never narrower than each
    sole = base & (table["base_rows"] == 1).to_numpy()  # divided by itself: exactly 1
    ratio = table["speedup"].to_numpy()
    table["speedup_low"] = np.where(sole, 1.0, ratio * np.exp(-np.hypot(down, widest["up"])))
    table["speedup_high"] = np.where(sole, 1.0, ratio * np.exp(np.hypot(up, widest["down"])))
    recorded = np.isfinite(table["speedup_low"]) & ~sole
    table["interval_source"] = np.where(recorded, "recorded intervals", "")
    listed = [i for i, value in enumerate(steps) if _is_series(value) and np.isfinite(ratio[i])]
    if not listed or len(listed) > BOOTSTRAP_CELLS:
        return
    # One seed a cell: with a shared one, equally long series would draw the same blocks and their noise would cancel.
    medians = {i: block_bootstrap(steps.iloc[i], seed=i) for i in listed}
    bases = {s: [medians[i] for i in rows if i in medians] for s, rows in _rows_of(table[table["is_base"]]).items()}
    for i in listed:
        base_medians = bases.get(table["series"].iloc[i], [])
        if sole[i] or not base_medians:
            continue
        own = medians[i] / np.median(np.asarray(steps.iloc[i], dtype=np.float64))
        pooled = np.concatenate([m / np.median(m) for m in base_medians])
        relative = pooled / np.tile(own, len(base_medians))
        low_i, high_i = ratio[i] * np.percentile(relative, [2.5, 97.5])
        table.loc[i, ["speedup_low", "speedup_high"]] = [low_i, high_i]
        table.loc[i, "interval_source"] = "block bootstrap"


def _rows_of(table: pd.DataFrame) -> dict[int, list[int]]:
    rows: dict[int, list[int]] = {}
    for row, series in zip(table.index, table["series"], strict=True):
        rows.setdefault(int(series), []).append(int(row))
    return rows


def _is_series(value: Any) -> bool:
    return isinstance(value, (list, tuple, np.ndarray)) and len(value) >= 3


def _true(frame: pd.DataFrame, name: str) -> NDArray[np.bool_]:
    return texts(frame, name).str.lower().isin(["true", "1", "1.0"]).to_numpy()


def _ranks_a_core(frame: pd.DataFrame) -> NDArray[np.float64]:
    """Ranks and their threads on one node over its processor cores; NaN where the cards are not cores."""
    nodes = np.fmax(numbers(frame, "parallel.nodes"), 1.0)
    threads = np.fmax(numbers(frame, "parallel.threads_per_rank"), 1.0)
    return numbers(frame, "parallel.cards") / nodes * threads / numbers(frame, "device.cores")


def _flags(frame: pd.DataFrame, series: pd.DataFrame, table: pd.DataFrame, measured: NDArray[np.bool_]) -> list[str]:
    """What a reader must know before believing the row's ratios."""
    above = (table["efficiency"] > 1 + 1e-9).to_numpy()
    surely = above & ~(table["efficiency_low"] <= 1).to_numpy()
    best_below = _best_of_fewer_cards(table)
    status = texts(frame, "status")
    claims = status.isin(["", "ok", "imported"]).to_numpy() & ~measured
    base_nodes = table["nodes"].where(table["is_base"]).groupby(table["series"]).transform("min")
    masks: list[tuple[NDArray[np.bool_], str]] = [
        (surely, "superlinear"),
        (above & ~surely, "above 1 within its interval"),
        ((table["tokens_per_s"] < best_below).to_numpy(), "slower than with fewer cards"),
        (claims, "no positive throughput: not used"),
        (table["duplicate"].to_numpy(), "the same row again"),
        ((table["repeats"] > 1).to_numpy() & measured, "several rows at this count"),
        (series["mixed_scaling"].to_numpy(), "strong and weak rows split into series"),
        (series["mixed_batch"].to_numpy(), "batch per card differs along the series"),
        (series["mixed_devices"].to_numpy(), "different GPUs split into series"),
        (_true(frame, "device.heterogeneous"), "heterogeneous cards in the job"),
        (_ranks_a_core(frame) > 1, "oversubscribed: more ranks than cores"),
        (_true(frame, "device.throttled"), "clocks throttled"),
        ((numbers(frame, "throughput.step_time_s.cv") > UNSTEADY_CV), "unsteady steps"),
        ((table["nodes"] > base_nodes).to_numpy(), "more nodes than the base"),
        ((table["base_cards"] > 1).to_numpy() & measured, "no one-card measurement"),
    ]
    flags: list[list[str]] = [[] for _ in range(len(table))]
    for mask, text in masks:
        for i in np.flatnonzero(mask):
            flags[i].append(text)
    return ["; ".join(row) for row in flags]


def _best_of_fewer_cards(table: pd.DataFrame) -> pd.Series[float]:
    """The best throughput of the row's series at fewer cards, NaN at its base."""
    counts = table.groupby(["series", "cards"])["tokens_per_s"].max().reset_index()  # in order of both
    counts["best"] = counts.groupby("series")["tokens_per_s"].cummax()
    counts["best"] = counts.groupby("series")["best"].shift().groupby(counts["series"]).ffill()
    return table[["series", "cards"]].merge(counts, on=["series", "cards"], how="left")["best"].set_axis(table.index)
