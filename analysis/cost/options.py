"""The options a decision is made among: repeats of a cell count once, and counts not measured come as predictions."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pandas as pd

from analysis.cost.cells import costed_cells, numbers, texts
from analysis.decision.counts import counts_for_deadline
from analysis.predict import predict
from analysis.predict.prior import DDP, FSDP, mode_class
from results.record import MEASURED

# Columns in which repeats of one cell agree; `workload.repeat` tells them apart.
SAME = ("study", "benchmark", "status", "device.name", "device.interconnect")
FARTHEST = 8  # times the largest measured count: beyond it a prediction is no basis for renting
SAME_SECTIONS = ("workload.", "parallel.")


def merge_repeats(cells: pd.DataFrame) -> pd.DataFrame:
    """Repeats of a measured cell as one row: the median throughput, and the widest interval they span.

    Choosing among repeats would choose the luckiest. `cell_id` is the first one's; other columns are the first row's.
    Throughput intervals go to throughput.tokens_per_s_low and _high. Rows that were not repeated stay as they are.
    """
    if cells.empty or "status" not in cells.columns:
        return cells
    names = [
        name
        for name in cells.columns
        if name in SAME or (str(name).startswith(SAME_SECTIONS) and name != "workload.repeat")
    ]
    # As text: a blank equals a blank, and a list can be compared.
    keys = pd.Series([repr(row) for row in cells[names].itertuples(index=False, name=None)], index=cells.index)
    measured = cells["status"].isin(MEASURED) & (numbers(cells, "throughput.tokens_per_s") > 0)
    repeated = measured & keys.where(measured).duplicated(keep=False)
    if not repeated.any():
        return cells
    rate = numbers(cells, "throughput.tokens_per_s")
    median = numbers(cells, "throughput.step_time_s.median")
    spread = pd.DataFrame(
        {
            "rate": rate,
            "low": np.fmin(rate, rate * median / numbers(cells, "throughput.step_time_s.ci95_high")),
            "high": np.fmax(rate, rate * median / numbers(cells, "throughput.step_time_s.ci95_low")),
        },
        index=cells.index,
    )[repeated]
    by_cell = spread.groupby(keys[repeated])
    kept = cells[~(repeated & keys.duplicated(keep="first"))].copy()
    merged = kept.index[repeated[kept.index]]
    key = keys[merged]
    kept.loc[merged, "throughput.tokens_per_s"] = key.map(by_cell["rate"].median())
    kept.loc[merged, "throughput.tokens_per_s_low"] = key.map(by_cell["low"].min())
    kept.loc[merged, "throughput.tokens_per_s_high"] = key.map(by_cell["high"].max())
    return kept


def with_predictions(
    cells: pd.DataFrame,
    epoch_tokens: float,
    epochs: float,
    deadline_hours: float | None,
    on_offer: Sequence[int] = (),
    cards_per_node: int = 8,
) -> pd.DataFrame:
    """`cells` and, after them, predictions at counts worth a look; `cells` alone where nothing was measured.

    Worth a look: the counts on offer; else every count up to eight and powers of two up to twice what was measured, and
    what the deadline asks for at the efficiencies seen. epoch_tokens: target tokens of one epoch.
    """
    rows = costed_cells(cells)
    rows = rows[rows["measured"] & (rows["tokens_per_s"] > 0)]
    if rows.empty:
        return cells
    wanted = set(on_offer) or _counts_near(int(rows["cards"].max()))
    if deadline_hours is not None and not on_offer:
        hours = rows.assign(epoch_hours=epoch_tokens / rows["tokens_per_s"] / 3600)
        found = counts_for_deadline(hours, epochs, deadline_hours)
        most = FARTHEST * rows["cards"].max()
        wanted |= {e.plan.cards for e in found.estimates if e.plan.cards <= most} if found else set()
    predictions = predict(cells, sorted(wanted), cards_per_node=cards_per_node)
    predicted = predicted_cells(cells, predictions, cards_per_node)
    return pd.concat([cells, predicted], ignore_index=True) if len(predicted) else cells


def _counts_near(most: int) -> set[int]:
    return {count for count in range(1, 2 * most + 1) if count <= 8 or count & (count - 1) == 0}


def predicted_cells(cells: pd.DataFrame, predictions: pd.DataFrame, cards_per_node: int) -> pd.DataFrame:
    """Predictions (`predict`'s table) as rows in a study's columns, of status `predicted`.

    Left out: counts that were tried in the same mode, whatever came of it; counts below the fewest that ran, which may
    not fit; and for modes that cut the model, counts that are no power of two, which heads and layers seldom divide by.
    cards_per_node: what the predictions took for the size of a server.
    """
    tried = pd.DataFrame(
        {
            "model": texts(cells, "workload.model", ""),
            "mode": texts(cells, "parallel.mode", ""),
            "cards": numbers(cells, "parallel.cards"),
            "ran": numbers(cells, "throughput.tokens_per_s") > 0,
            "interconnect": texts(cells, "device.interconnect", ""),
        }
    )
    known = set(zip(tried["model"], tried["mode"], tried["cards"], strict=True))
    ran = tried[tried["ran"]].groupby(["model", "mode"])
    fewest, link = ran["cards"].min().to_dict(), ran["interconnect"].first().to_dict()
    kept = []
    for i, row in enumerate(predictions.to_dict("records")):
        model, mode, cards = (row["model"] if isinstance(row["model"], str) else ""), row["mode"], int(row["cards"])
        any_count = mode_class(mode) in (DDP, FSDP, None) or cards & (cards - 1) == 0
        if not any_count or (model, mode, cards) in known or cards < fewest.get((model, mode), math.inf):
            continue
        kept.append(
            {
                "cell_id": f"predicted-{mode}-{cards}-{i}",
                "benchmark": "finetune",
                "status": "predicted",
                "workload.model": model,
                "parallel.mode": mode,
                "parallel.cards": cards,
                "parallel.nodes": math.ceil(cards / cards_per_node),
                "throughput.tokens_per_s": row["tokens_per_s"],
                "throughput.tokens_per_s_low": row["low"],
                "throughput.tokens_per_s_high": row["high"],
                "device.name": row["device"] if isinstance(row["device"], str) else "",
                "device.interconnect": link[model, mode],
                "prediction.notes": row["notes"],
            }
        )
    return pd.DataFrame(kept)
