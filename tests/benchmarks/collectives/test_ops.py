"""What must come out of a collective, against results worked out from the operation's definition."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from benchmarks.collectives.ops import DTYPES, Buffers, addends, buffers, count_wrong, fill, origin, sums
from results.bandwidth import DTYPE_BYTES, OPS, Sizes, call_sizes

RANKS = 4


def defined_result(op: str, sent: list[Tensor], rank: int, count: int) -> Tensor:
    """The receive buffer of `rank`, from all send buffers, as the operation is defined."""
    total = torch.stack([t.double() for t in sent]).sum(0).to(sent[0].dtype)
    part = slice(rank * count, (rank + 1) * count)
    return {
        "all_reduce": lambda: total,
        "reduce": lambda: total,
        "reduce_scatter": lambda: total[part],
        "all_gather": lambda: torch.cat(sent),
        "all_to_all": lambda: torch.cat([t[part] for t in sent]),
        "broadcast": lambda: sent[0],
        "send_recv": lambda: sent[rank - 1],
    }[op]()


def world(op: str, dtype: str = "fp32") -> tuple[Sizes, list[Buffers]]:
    """Every rank's buffers, filled; 6000 elements so that several periods of the values fit."""
    sizes = call_sizes(op, 6000 * DTYPE_BYTES[dtype], DTYPE_BYTES[dtype], RANKS)
    everyone = []
    for rank in range(RANKS):
        b = buffers([torch.empty(6000, dtype=DTYPES[dtype]) for _ in range(2)], op, sizes, rank)
        fill(op, b, rank, RANKS)
        everyone.append(b)
    return sizes, everyone


@pytest.mark.parametrize("dtype", ["fp32", "bf16", "fp16"])
@pytest.mark.parametrize("op", OPS)
def test_the_defined_result_has_no_wrong_element(op: str, dtype: str) -> None:
    sizes, everyone = world(op, dtype)
    for rank, b in enumerate(everyone):
        b.receive.copy_(defined_result(op, [x.send for x in everyone], rank, sizes.count))
        assert count_wrong(op, b, sizes, rank, RANKS) == 0


@pytest.mark.parametrize("op", OPS)
def test_three_changed_elements_are_three_wrong_elements(op: str) -> None:
    sizes, everyone = world(op)
    b = everyone[0]
    b.receive.copy_(defined_result(op, [x.send for x in everyone], 0, sizes.count))
    for place in (0, 777, -1):
        b.receive[place] += 1
    assert count_wrong(op, b, sizes, 0, RANKS) == 3


@pytest.mark.parametrize("op", OPS)
def test_a_call_that_did_nothing_leaves_every_element_wrong(op: str) -> None:
    sizes, everyone = world(op)
    assert count_wrong(op, everyone[0], sizes, 0, RANKS) == everyone[0].receive.numel()


@pytest.mark.parametrize("op", ["all_reduce", "reduce_scatter", "reduce"])
def test_one_rank_added_twice_in_place_of_another_is_seen(op: str) -> None:
    sizes, everyone = world(op)
    sent = [x.send for x in everyone]
    everyone[0].receive.copy_(defined_result(op, [sent[0], sent[1], sent[1], sent[3]], 0, sizes.count))
    assert count_wrong(op, everyone[0], sizes, 0, RANKS) > sizes.count / 2


@pytest.mark.parametrize("op", ["all_gather", "all_to_all"])
def test_parts_in_the_wrong_order_are_seen(op: str) -> None:
    sizes, everyone = world(op)
    sent = [x.send for x in everyone]
    everyone[0].receive.copy_(defined_result(op, [sent[1], sent[0], sent[2], sent[3]], 0, sizes.count))
    assert count_wrong(op, everyone[0], sizes, 0, RANKS) > sizes.count


@pytest.mark.parametrize("ranks", [2, 8, 72, 512])
def test_sums_stay_exact_in_half_precision_on_any_number_of_ranks(ranks: int) -> None:
    assert sums(ranks).max() <= 256  # bf16 holds whole numbers up to 2^8


def test_every_rank_adds_something() -> None:
    assert all(addends(rank, 72).any() for rank in range(72))


def test_origins_of_the_ranks_of_a_node_differ_at_every_place() -> None:
    values = torch.stack([origin(rank) for rank in range(8)])
    assert all(len(set(column.tolist())) == 8 for column in values.T)


def test_in_place_parts_of_gather_and_scatter_lie_in_the_whole_buffer() -> None:
    memory = [torch.empty(64)]
    gather = buffers(memory, "all_gather", call_sizes("all_gather", 256, 4, RANKS), 1)
    scatter = buffers(memory, "reduce_scatter", call_sizes("reduce_scatter", 256, 4, RANKS), 1)
    assert gather.send.data_ptr() == gather.receive.data_ptr() + 16 * 4
    assert scatter.receive.data_ptr() == scatter.send.data_ptr() + 16 * 4
