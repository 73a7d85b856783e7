"""From a measurement frame to the scaling series that the step-time model predicts from."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pandas as pd

from analysis.predict.model import Floats, Points, Series
from analysis.predict.prior import DDP, fabric, mode_class, parameters_in_name
from analysis.scaling import HIGH, LOW
from analysis.scaling.series import VARIED, is_measured, label_series, numbers, texts

ASSUMED_CARDS_PER_NODE = 8


@dataclass(frozen=True)
class Border:
    """Where one node ends. stated: by the frame or the caller, not assumed."""

    cards_per_node: int
    stated: bool


@dataclass(frozen=True)
class Unit:
    """One series of a frame. counts: a row a measured count, ascending, of `counts_of`; plans: rows that state a plan.

    kind: the mode's communication pattern, None where its name is unknown. cores: that the ranks of a node compute on,
    NaN on cards. rule_stated: the record says strong or weak, it was not inferred. dropped: rows that claim to be
    measured without a positive throughput.
    """

    model: str
    mode: str
    kind: str | None
    scaling: str
    device: str
    interconnect: str
    seq_len: float
    parameters: float | None
    counts: pd.DataFrame
    plans: pd.DataFrame
    border: Border
    cores: float
    rule_stated: bool
    mixed_devices: bool
    dropped: int

    @property
    def shrinks_micro_batch_from(self) -> float:
        """The card count past which a fixed global batch needs a smaller micro-batch than was ever measured."""
        most_sequences = self.counts["batch"].iloc[-1] / self.seq_len
        return float(most_sequences / self.counts["micro_batch"].min())

    def series(self, cards: Floats, fixed_global_batch: bool, border_slowdown: float | None) -> Series:
        """What the model is given to predict `cards`."""
        counts = self.counts
        return Series(
            kind=self.kind or DDP,
            fabric=fabric(self.device, self.interconnect),
            measured=self._points(counts),
            log_time=np.log(counts["cards"].to_numpy(dtype=np.float64) / counts["rate"].to_numpy(dtype=np.float64)),
            noise=counts["noise"].to_numpy(),
            targets=self._points(self._targets(cards, fixed_global_batch)),
            seq_len=self.seq_len if np.isfinite(self.seq_len) else None,
            parameters=self.parameters,
            border_slowdown=border_slowdown,
        )

    def _targets(self, cards: Floats, fixed_global_batch: bool) -> pd.DataFrame:
        """cards, nodes, micro_batch and batch at each of `cards`, as planned or as the series' own rule continues.

        With a fixed global batch the micro-batch shrinks where a card's share is smaller than it. Otherwise the batch
        per card stays that of the largest measured count.
        """
        largest = self.counts.iloc[-1]
        micro_batch = np.full(len(cards), largest["micro_batch"])
        batch = largest["batch"] / largest["cards"] * cards
        if fixed_global_batch:
            batch = np.full(len(cards), largest["batch"])
            micro_batch = np.fmin(micro_batch, np.maximum(batch / cards / self.seq_len, 1))
            micro_batch = np.where(np.isfinite(self.seq_len), micro_batch, np.nan)
        table = pd.DataFrame({"cards": cards, "nodes": np.nan, "micro_batch": micro_batch, "batch": batch})
        planned = table[["cards"]].merge(self.plans, on="cards", how="left")
        for name in ("micro_batch", "batch"):
            table[name] = planned[name].fillna(table[name]).astype(float)
        return table

    def _points(self, counts: pd.DataFrame) -> Points:
        columns = ("cards", "nodes", "micro_batch", "batch")
        cards, nodes, micro_batch, batch = (counts[c].to_numpy(dtype=np.float64) for c in columns)
        nodes = np.where(np.isfinite(nodes), nodes, np.ceil(cards / self.border.cards_per_node))
        return Points(
            cards=cards,
            nodes=nodes,
            micro_batch=micro_batch,
            step_tokens=batch / cards,
            micro_batches=batch / self.seq_len / micro_batch,
            sharing=np.fmax(cards / nodes / self.cores, 1.0),
        )


def units(frame: pd.DataFrame, cards_per_node: int | None) -> Iterator[Unit]:
    """The series of a frame that were measured at one count at least.

    Rows that only look like a mix of strong and weak scaling (nothing states a rule) stay together: the model reads
    each row's own batch. They are kept apart where one count has two batches, or where the record states the rule.
    """
    frame = frame[texts(frame, "benchmark").isin(["", "finetune"]).to_numpy()].reset_index(drop=True)
    if frame.empty:
        return
    labels = label_series(frame).rename(columns={"series": "part"})
    rows = pd.concat([frame, labels.add_prefix("label.")], axis=1)
    measured = is_measured(frame)
    rows["measured"] = measured
    rows["batch"] = numbers(frame, "workload.global_batch_tokens")
    rows["stated"] = texts(frame, "workload.scaling") != ""
    rows["dropped"] = texts(frame, "status").isin(["", "ok", "imported"]).to_numpy() & ~measured
    for _, group in rows.groupby("label.group", sort=False):
        two_batches = group[group["measured"]].groupby("parallel.cards")["batch"].nunique().gt(1).any()
        apart = bool(group["stated"].any()) or bool(two_batches)
        parts = [part for _, part in group.groupby("label.part", sort=False)] if apart else [group]
        yield from (_unit(part, cards_per_node) for part in parts if part["measured"].any())


def _unit(rows: pd.DataFrame, cards_per_node: int | None) -> Unit:
    counts = counts_of(rows[rows["measured"]])
    scalings = set(rows.loc[rows["measured"], "label.scaling"])
    first = rows.iloc[0]
    parameters = numbers(rows, "workload.parameters")[0]
    return Unit(
        model=first["label.model"],
        mode=first["label.mode"],
        kind=mode_class(first["label.mode"]),
        scaling=scalings.pop() if len(scalings) == 1 else VARIED,
        device=first["label.device"],
        interconnect=texts(rows, "device.interconnect").iloc[0],
        seq_len=float(first["label.seq_len"]),
        parameters=float(parameters) if parameters > 0 else parameters_in_name(first["label.model"]),
        counts=counts,
        plans=_plans(rows),
        border=_border(rows, counts, cards_per_node),
        cores=float(numbers(rows, "device.cores").min()),
        rule_stated=bool(rows["stated"].any()),
        mixed_devices=bool(rows["label.mixed_devices"].any()),
        dropped=int(rows["dropped"].sum()),
    )


def counts_of(measured: pd.DataFrame) -> pd.DataFrame:
    """One row a measured count, ascending: cards, rate (median), noise (of ln rate), rows, and what the rows state."""
    low, high = numbers(measured, LOW), numbers(measured, HIGH)
    with np.errstate(divide="ignore", invalid="ignore"):
        within = np.log(high / low) / (2 * 1.96)
    table = pd.DataFrame(
        {
            "cards": numbers(measured, "parallel.cards"),
            "rate": numbers(measured, "throughput.tokens_per_s"),
            "within": np.where(np.isfinite(within), within, 0.0),
            "nodes": numbers(measured, "parallel.nodes"),
            "micro_batch": numbers(measured, "workload.micro_batch"),
            "batch": numbers(measured, "workload.global_batch_tokens"),
        }
    )
    table["log_rate"] = np.log(table["rate"])
    by_cards = table.groupby("cards")
    merged = by_cards.median()
    merged["rows"] = by_cards.size()
    between = by_cards["log_rate"].std().fillna(0.0) / np.sqrt(merged["rows"])
    merged["noise"] = np.hypot(merged["within"], between)
    return merged.reset_index()


def _plans(rows: pd.DataFrame) -> pd.DataFrame:
    """cards, micro_batch and batch of the rows that state what is planned at a count, one row a count."""
    planned = rows[(texts(rows, "status") == "predicted").to_numpy()]
    table = pd.DataFrame(
        {
            "cards": numbers(planned, "parallel.cards"),
            "micro_batch": numbers(planned, "workload.micro_batch"),
            "batch": numbers(planned, "workload.global_batch_tokens"),
        }
    )
    return table.drop_duplicates("cards")


def _border(rows: pd.DataFrame, counts: pd.DataFrame, cards_per_node: int | None) -> Border:
    if cards_per_node is not None:
        return Border(cards_per_node, True)
    cards, nodes = numbers(rows, "parallel.cards"), numbers(rows, "parallel.nodes")
    several = nodes > 1
    if several.any():
        return Border(int(np.ceil(np.max(cards[several] / nodes[several]))), True)
    in_one_node = counts.loc[counts["nodes"] == 1, "cards"].max()
    return Border(max(ASSUMED_CARDS_PER_NODE, int(in_one_node) if in_one_node > 0 else 0), False)
