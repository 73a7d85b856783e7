"""Which cells belong to one scaling series, and what that series keeps fixed: the global batch or the batch per card.

A series is the set of cells that differ in the number of cards only. Two baselines, two GPUs, two batch rules never
share one, because a ratio across them says nothing about scaling.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from results.record import MEASURED

# What has to agree within a series, where the frame has the column. `nodes`, micro-batch and accumulation may move
# with the cards. Threads a rank: the launcher's default differs between one rank and several, which would inflate the
# one-card baseline.
KEY_COLUMNS = (
    "study",
    "workload.model",
    "workload.recipe",
    "workload.precision",
    "workload.seq_len",
    "parallel.engine",
    "parallel.zero_stage",
    "parallel.threads_per_rank",
)
# These have to agree too, but a record may leave them blank: a cell that failed has no device, one stage no schedule.
# A blank joins the series of its other keys where there is only one.
OPTIONAL_KEY_COLUMNS = ("device.name", "device.interconnect", "parallel.schedule")
STRONG, WEAK, VARIED, UNKNOWN = "strong", "weak", "varied", ""


def column(frame: pd.DataFrame, name: str) -> pd.Series[Any]:
    """`frame[name]`, or a blank column where the frame has none."""
    return frame[name] if name in frame.columns else pd.Series(np.nan, index=frame.index, dtype=object)


def numbers(frame: pd.DataFrame, name: str) -> NDArray[np.float64]:
    """The column as floats, shape (rows,); blank, text and infinite values are NaN."""
    values = pd.to_numeric(column(frame, name), errors="coerce").to_numpy(dtype=np.float64, na_value=np.nan)
    return np.where(np.isfinite(values), values, np.nan)


def texts(frame: pd.DataFrame, name: str) -> pd.Series[str]:
    """The column as text; blank is the empty string."""
    cells = column(frame, name)
    return cells.astype(object).where(cells.notna(), "").astype(str)


def mode_family(mode: str) -> str:
    """The mode without the size of what grows with the cards.

    In a product (`dp2_tp4`) data parallelism grows: `dp_tp4`. A bare name (`tp`, `ddp`, `zero3`) is its own family.
    """
    parts = mode.split("_")
    if len(parts) == 1 or not any(re.fullmatch(r"[a-z]+\d+", part) for part in parts):
        return mode
    return "_".join(re.sub(r"\d+$", "", part) if re.match(r"(dp|ddp|fsdp)\d*$", part) else part for part in parts)


def is_measured(frame: pd.DataFrame) -> NDArray[np.bool_]:
    """True where the cell was measured, on a card or more, with a throughput above 0; without a status all count."""
    good: NDArray[np.bool_] = numbers(frame, "throughput.tokens_per_s") > 0
    if "parallel.cards" in frame.columns:
        good &= numbers(frame, "parallel.cards") >= 1
    if "status" in frame.columns:
        good &= frame["status"].isin(MEASURED).to_numpy()
    return good


def label_series(frame: pd.DataFrame) -> pd.DataFrame:
    """One row a cell of `frame`, same index: what identifies its series.

    Columns: series (number, in order of appearance), group (the same, before strong and weak are told apart), model,
    mode (family), scaling, device, seq_len, and the flags `mixed_scaling`, `mixed_devices`, `mixed_batch` (bool): the
    rows look like one series to a reader but are not.
    `scaling` is the recorded one; where it is absent it follows from global_batch_tokens: `strong` where every count
    has the same global batch, `weak` where the batch per card is the same, `varied` where neither holds, blank where
    nothing says. Rows that mix the two rules are split: each goes with the rule it shares with more counts, the global
    batch where that is a draw.
    """
    family = texts(frame, "parallel.mode").map({m: mode_family(m) for m in texts(frame, "parallel.mode").unique()})
    keys = {name: texts(frame, name) for name in KEY_COLUMNS if name in frame.columns}
    keys["mode"] = family
    where = _group_number(pd.DataFrame(keys, index=frame.index))
    for name in OPTIONAL_KEY_COLUMNS:
        if name in frame.columns:
            keys[name] = _joined(texts(frame, name), where)
    group = _group_number(pd.DataFrame(keys, index=frame.index))
    cards, batch = numbers(frame, "parallel.cards"), numbers(frame, "workload.global_batch_tokens")
    scaling, fixed, mixed = _scaling(group, cards, batch, texts(frame, "workload.scaling"), is_measured(frame))
    series = _group_number(pd.DataFrame({"group": group, "scaling": scaling, "fixed": fixed}))
    device = keys.get("device.name", pd.Series("", index=frame.index))
    devices = pd.DataFrame({"where": where, "what": device.to_numpy()})
    return pd.DataFrame(
        {
            "series": series,
            "group": group,
            "model": texts(frame, "workload.model"),
            "mode": family,
            "scaling": scaling,
            "device": device,
            "seq_len": numbers(frame, "workload.seq_len"),
            "mixed_scaling": mixed,
            "mixed_devices": devices.groupby("where")["what"].transform("nunique").to_numpy() > 1,
            "mixed_batch": scaling == VARIED,
        },
        index=frame.index,
    )


def _joined(cells: pd.Series[str], where: NDArray[np.int64]) -> pd.Series[str]:
    """`cells` with a blank replaced by the one value that its group `where` has, if it has only one."""
    named = cells.where(cells != "").groupby(where)
    return cells.where((cells != "") | (named.transform("nunique") != 1), named.transform("first"))


def _group_number(keys: pd.DataFrame) -> NDArray[np.int64]:
    number = keys.groupby(list(keys.columns), sort=False, dropna=False).ngroup()
    return np.asarray(number, dtype=np.int64)


def _scaling(
    group: NDArray[np.int64],
    cards: NDArray[np.float64],
    batch: NDArray[np.float64],
    stated: pd.Series[str],
    measured: NDArray[np.bool_],
) -> tuple[NDArray[Any], NDArray[np.float64], NDArray[np.bool_]]:
    """(scaling, what is fixed in tokens or NaN, mixed) of every row; see `label_series`."""
    rows = pd.DataFrame({"group": group, "cards": cards, "total": batch, "share": np.round(batch / cards, 6)})
    known = rows.where(pd.Series(measured) & rows["total"].notna())  # a failed cell does not decide what a series fixes
    counts = known.groupby(group)["cards"].transform("nunique").to_numpy()
    totals = known.groupby(group)["total"].transform("nunique").to_numpy()
    shares = known.groupby(group)["share"].transform("nunique").to_numpy()

    def counts_sharing(what: str) -> NDArray[np.float64]:
        sharing = known.groupby([pd.Series(group), rows[what]])["cards"].transform("nunique")
        return np.asarray(sharing.fillna(0), dtype=np.float64)

    with_total, with_share = counts_sharing("total"), counts_sharing("share")
    any_total = pd.Series(with_total > 1).groupby(group).transform("any").to_numpy()
    any_share = pd.Series(with_share > 1).groupby(group).transform("any").to_numpy()
    several = counts > 1
    strong, weak = several & (totals == 1), several & (shares == 1)
    mixed = several & ~strong & ~weak & any_total & any_share
    detected = np.select(
        [strong, weak, mixed & (with_total >= with_share) & (with_total > 1), mixed, several],
        [STRONG, WEAK, STRONG, WEAK, VARIED],
        default=UNKNOWN,
    )
    scaling = np.where(stated.isin([STRONG, WEAK]).to_numpy(), stated.to_numpy(dtype=object), detected)
    fixed = np.select([scaling == STRONG, scaling == WEAK], [rows["total"], rows["share"]], default=np.nan)
    by_rule = pd.DataFrame({"group": group, "rule": stated.to_numpy(dtype=object)})
    stated_both = by_rule.groupby("group")["rule"].transform("nunique").to_numpy() > 1
    return scaling, fixed, (mixed & ~stated.isin([STRONG, WEAK]).to_numpy()) | stated_both
