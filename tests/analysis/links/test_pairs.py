"""A matrix of pairs against a promise and against itself. Rates by hand."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

import pandas as pd
import pytest

from analysis.links.pairs import Promise, judge_pairs, pair_matrix, pair_remarks


def measured(ranks: int, rate: Callable[[int, int], float], per_node: int = 8, wrong: int = 0) -> pd.DataFrame:
    """All ordered pairs of `ranks`."""
    return pd.DataFrame(
        [
            {
                "source": a,
                "target": b,
                "direction": "one",
                "nodes": 1 if a // per_node == b // per_node else 2,
                "busbw_gbps": rate(a, b),
                "wrong": wrong,
            }
            for a, b in itertools.permutations(range(ranks), 2)
        ]
    )


def mesh(count: int, cell: str) -> Sequence[Sequence[str]]:
    return [["X" if i == j else cell for j in range(count)] for i in range(count)]


def verdicts(judged: pd.DataFrame) -> dict[tuple[int, int], str]:
    return {(int(r.source), int(r.target)): str(r.verdict) for r in judged.itertuples()}


def test_the_matrix_goes_from_row_to_column() -> None:
    matrix = pair_matrix(measured(3, lambda a, b: 10 * a + b))
    assert matrix.loc[2, 1] == 21
    assert matrix.loc[1, 2] == 12
    assert pd.isna(matrix.loc[0, 0])


def test_both_directions_at_once_stand_in_both_places() -> None:
    rows = pd.DataFrame([{"source": 0, "target": 1, "direction": "both", "nodes": 1, "busbw_gbps": 7.0, "wrong": 0}])
    matrix = pair_matrix(rows, "both")
    assert matrix.loc[0, 1] == matrix.loc[1, 0] == 7


def test_behind_a_switch_every_pair_is_promised_all_of_a_cards_links() -> None:
    promise = Promise(300, links=mesh(4, "NV12"), links_up=[12] * 4)
    judged = judge_pairs(measured(4, lambda a, b: 240), promise)
    assert judged["promised_gbps"].unique().tolist() == [300]
    assert judged["share"].iloc[0] == pytest.approx(0.8)
    assert set(judged["verdict"]) == {"ok"}


def test_cards_linked_one_by_one_share_their_links_out() -> None:
    # NVIDIA/nccl-tests issue 331: four A100, four of twelve links a pair: 100 GB/s promised, 72 reached
    promise = Promise(300, links=mesh(4, "NV4"), links_up=[12] * 4)
    judged = judge_pairs(measured(4, lambda a, b: 72), promise)
    assert judged["promised_gbps"].iloc[0] == 100
    assert judged["share"].iloc[0] == pytest.approx(0.72)
    assert judged["verdict"].iloc[0] == "ok"


def test_a_pair_far_below_the_promise_is_named() -> None:
    judged = judge_pairs(measured(2, lambda a, b: 11), Promise(32))
    assert set(judged["verdict"]) == {"below the promise"}
    assert "0>1: below the promise, 11 GB/s of 32 promised." in pair_remarks(judged)


def test_one_broken_link_shows_among_its_peers_where_nothing_is_promised() -> None:
    judged = judge_pairs(measured(4, lambda a, b: 5 if (a, b) == (1, 3) else 20), Promise())
    found = verdicts(judged)
    assert found.pop((1, 3)) == "weaker than its peers"
    assert set(found.values()) == {"ok"}
    assert "1>3: weaker than its peers, 5 GB/s where its peers reach 20." in pair_remarks(judged)


def test_pairs_are_compared_with_pairs_on_like_links_only() -> None:
    # two bridged pairs at 50 GB/s, the other ways over PCIe at 12: none of them is weak
    links = (
        ("X", "NV4", "SYS", "SYS"),
        ("NV4", "X", "SYS", "SYS"),
        ("SYS", "SYS", "X", "NV4"),
        ("SYS", "SYS", "NV4", "X"),
    )
    rows = measured(4, lambda a, b: 50 if {a, b} in ({0, 1}, {2, 3}) else 12)
    judged = judge_pairs(rows, Promise(56.25, interconnect="NVLink pairs", links=links, links_up=[4] * 4))
    assert set(judged["verdict"]) == {"ok"}
    assert judged.loc[judged["path"] == "SYS", "promised_gbps"].isna().all()


def test_pairs_across_nodes_are_held_to_the_network() -> None:
    judged = judge_pairs(measured(4, lambda a, b: 40 if a // 2 == b // 2 else 20, per_node=2), Promise(50, 25))
    across = judged[judged["path"] == "network"]
    assert len(across) == 8
    assert across["share"].unique().tolist() == [0.8]


def test_wrong_data_outweighs_speed() -> None:
    assert set(judge_pairs(measured(2, lambda a, b: 400, wrong=1), Promise(300))["verdict"]) == {"wrong data"}


def test_what_was_reached_is_said_in_one_sentence_for_each_kind_of_link() -> None:
    promise = Promise(300, links=mesh(4, "NV12"), links_up=[12] * 4)
    said = pair_remarks(judge_pairs(measured(4, lambda a, b: 240 + a), promise))
    assert said == ("12 pairs over NV12: 240 to 243 GB/s, 80% to 81% of what is promised.",)


def test_no_pairs_are_no_finding() -> None:
    assert pair_remarks(judge_pairs(pd.DataFrame(), Promise(300))) == ("No pair was measured.",)
