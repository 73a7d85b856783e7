"""A point-to-point matrix against what the machine promises, and its pairs against each other.

A pair is judged twice: by the share of the promised bandwidth that it reached, and by its peers on like links, since a
broken or throttled link shows there even where nothing is promised.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from analysis.scaling.series import numbers, texts

# Good links reach 72 of 100 GB/s of NVLink (NVIDIA/nccl-tests issue 331) and 24 of 32 of PCIe 4.0 x16 (issue 307: what
# NCCL counts on). Below this share something is wrong. Judgement.
REACHED_SHARE = 0.6
PEER_SHARE = 0.7  # of the median of the pairs on like links
FEWEST_PEERS = 3

WELL = "ok"
BELOW = "below the promise"
WEAK = "weaker than its peers"
WRONG = "wrong data"


@dataclass(frozen=True)
class Promise:
    """What links a quote promises, GB/s of one direction. intra_gbps: of a card to all its peers in the node together.

    links: the cell of each pair as nvidia-smi writes it ("NV4", "PHB"), links_up: NVLinks of each card, both of one
    node's cards in the order of its ranks; empty where they are not known.
    """

    intra_gbps: float | None = None
    inter_gbps: float | None = None
    interconnect: str = ""
    links: Sequence[Sequence[str]] = ()
    links_up: Sequence[int] = ()


def pair_matrix(rows: pd.DataFrame, direction: str = "one") -> pd.DataFrame:
    """GB/s from each rank (index) to each (columns), of one direction; blank where not measured, and to itself.

    rows: columns source, target, direction, busbw_gbps. With direction "both" each pair is there in both places.
    """
    taken = _measured(rows)
    taken = taken[taken["direction"] == direction]
    if direction == "both":
        taken = pd.concat([taken, taken.rename(columns={"source": "target", "target": "source"})])
    ranks = sorted({*taken["source"], *taken["target"]})
    return taken.pivot(index="source", columns="target", values="gbps").reindex(index=ranks, columns=ranks)


def judge_pairs(rows: pd.DataFrame, promise: Promise) -> pd.DataFrame:
    """One row a measured pair and direction: source, target, direction, path, gbps, promised_gbps, share, verdict.

    rows: of the record's collectives, columns source, target, direction, nodes, busbw_gbps, wrong. path: the pair's
    cell of `promise.links`, "network" across nodes, blank where it is not known. share: gbps over promised_gbps.
    """
    judged = _measured(rows)
    per_node = len(promise.links)
    judged["path"] = [
        _path(source, target, nodes, promise, per_node)
        for source, target, nodes in zip(judged["source"], judged["target"], judged["nodes"], strict=True)
    ]
    judged["promised_gbps"] = [
        _promised(source, path, promise, per_node)
        for source, path in zip(judged["source"], judged["path"], strict=True)
    ]
    judged["share"] = judged["gbps"] / judged["promised_gbps"]
    groups = judged.groupby(["direction", "path"])["gbps"]
    judged["peers_gbps"], peers = groups.transform("median"), groups.transform("size")
    weak = (peers >= FEWEST_PEERS) & (judged["gbps"] < PEER_SHARE * judged["peers_gbps"])
    below = judged["share"] < REACHED_SHARE
    judged["verdict"] = np.select(
        [judged["wrong"] > 0, weak.to_numpy(), below.to_numpy()], [WRONG, WEAK, BELOW], default=WELL
    )
    return judged.drop(columns="wrong").reset_index(drop=True)


def pair_remarks(judged: pd.DataFrame) -> tuple[str, ...]:
    """Sentences: what was reached, and each pair that is not well."""
    if judged.empty:
        return ("No pair was measured.",)
    one = judged[judged["direction"] == "one"]
    one = one if len(one) else judged
    said = []
    for path in one["path"].unique().tolist():
        group = one[one["path"] == path]
        over = f" over {path}" if path else ""
        share = group["share"].dropna()
        of = f", {share.min():.0%} to {share.max():.0%} of what is promised" if len(share) else ""
        said.append(f"{len(group)} pairs{over}: {group['gbps'].min():.3g} to {group['gbps'].max():.3g} GB/s{of}.")
    for row in judged[judged["verdict"] != WELL].to_dict("records"):
        arrow = "<>" if row["direction"] == "both" else ">"
        against = f"{row['gbps']:.3g} GB/s"
        if row["verdict"] == WEAK:
            against += f" where its peers reach {row['peers_gbps']:.3g}"
        elif row["verdict"] == BELOW:
            against += f" of {row['promised_gbps']:.3g} promised"
        said.append(f"{row['source']}{arrow}{row['target']}: {row['verdict']}, {against}.")
    return tuple(said)


def _measured(rows: pd.DataFrame) -> pd.DataFrame:
    """The rows of pairs that have a rate, with plain columns."""
    frame = pd.DataFrame(
        {
            "source": numbers(rows, "source"),
            "target": numbers(rows, "target"),
            "direction": texts(rows, "direction"),
            "nodes": numbers(rows, "nodes"),
            "gbps": numbers(rows, "busbw_gbps"),
            "wrong": numbers(rows, "wrong"),
        }
    )
    frame = frame.dropna(subset=["source", "target", "gbps"])
    return frame.astype({"source": int, "target": int}).copy()


def _path(source: int, target: int, nodes: float, promise: Promise, per_node: int) -> str:
    if nodes > 1:
        return "network"
    if not per_node:
        return ""
    return promise.links[source % per_node][target % per_node]


def _promised(source: int, path: str, promise: Promise, per_node: int) -> float:
    """GB/s that the pair is promised; NaN where nothing is.

    A card's links are shared out over its peers where they lead to them one by one, and are all a pair's own behind a
    switch, whose pairs show as many links as the card has.
    """
    if path == "network":
        return np.nan if promise.inter_gbps is None else promise.inter_gbps
    if promise.intra_gbps is None:
        return np.nan
    linked = re.fullmatch(r"NV(\d+)", path)
    if linked and per_node and promise.links_up and promise.links_up[source % per_node]:
        return promise.intra_gbps * int(linked[1]) / promise.links_up[source % per_node]
    if path and not linked and "NVLink" in promise.interconnect:
        return np.nan  # over PCIe, of which an NVLink machine promises nothing
    return promise.intra_gbps
