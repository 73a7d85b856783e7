"""Pairs of real Gloo ranks."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from configs.cell import resolve
from configs.compose import compose_config
from configs.errors import ConfigError
from configs.pairs import check_pairs
from configs.schema import Pairs
from tests.benchmarks.ranks_pool import Ended, RanksPool

SMALL = ("benchmark=pairs", "benchmark.pairs.bytes=65536", "benchmark.pairs.iters=3")


def run(pool: RanksPool, *overrides: str) -> Ended:
    return pool.run(resolve(compose_config([*SMALL, *overrides])), "benchmarks.collectives.pairs:pairs")


@pytest.fixture
def four(ranks_pool: RanksPool) -> list[dict[str, Any]]:
    return run(ranks_pool, "cards=4", "cluster.nodes=2").measurement["collectives"]


def test_every_pair_is_measured_in_each_direction_and_in_both_at_once(four: list[dict[str, Any]]) -> None:
    ways = [(row["source"], row["target"]) for row in four if row["direction"] == "one"]
    assert ways == list(itertools.permutations(range(4), 2))
    both = [(row["source"], row["target"]) for row in four if row["direction"] == "both"]
    assert both == list(itertools.combinations(range(4), 2))


def test_what_arrives_is_what_was_sent(four: list[dict[str, Any]]) -> None:
    assert [row["wrong"] for row in four] == [0] * len(four)


def test_the_rate_is_the_bytes_of_one_direction_over_the_median_time(four: list[dict[str, Any]]) -> None:
    for row in four:
        assert row["bytes"] == 65536
        assert row["algbw_gbps"] == row["busbw_gbps"] == pytest.approx(65536 / row["time_us"] / 1e3)
        assert row["time_min_us"] <= row["time_us"] <= row["time_max_us"]


def test_pairs_across_nodes_are_marked(four: list[dict[str, Any]]) -> None:
    nodes = {(row["source"], row["target"]): row["nodes"] for row in four}  # ranks 0, 1 on one node, 2, 3 on the other
    assert (nodes[0, 1], nodes[1, 2], nodes[3, 2]) == (1, 2, 1)


def test_a_slow_pair_is_called_less_often_but_never_less_than_three_times(ranks_pool: RanksPool) -> None:
    ended = run(ranks_pool, "cards=2", "benchmark.pairs.iters=1000", "benchmark.pairs.max_seconds_per_pair=1e-9")
    assert {row["iters"] for row in ended.measurement["collectives"]} == {3}


def test_one_direction_alone_can_be_asked_for(ranks_pool: RanksPool) -> None:
    ended = run(ranks_pool, "cards=2", "benchmark.pairs.both_directions=false")
    assert [row["pattern"] for row in ended.measurement["collectives"]] == ["pair 0>1", "pair 1>0"]


@pytest.mark.parametrize(
    ("settings", "ranks", "message"),
    [
        (Pairs(), 1, "cards: 1 rank has nobody to send to"),
        (Pairs(bytes=3), 2, "benchmark.pairs.bytes: 3 is no message"),
        (Pairs(iters=0), 2, "benchmark.pairs.iters: 0 is no number of calls"),
        (Pairs(warmup_iters=0), 2, "benchmark.pairs.warmup_iters: 0 is no number of calls"),
        (Pairs(max_seconds_per_pair=0), 2, "benchmark.pairs.max_seconds_per_pair: 0 is no time"),
    ],
)
def test_what_cannot_be_measured_is_refused(settings: Pairs, ranks: int, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        check_pairs(settings, ranks)
