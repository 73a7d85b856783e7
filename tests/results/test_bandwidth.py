"""The bandwidth formulas and size conventions of NCCL tests."""

from __future__ import annotations

import pytest

from configs.errors import ConfigError
from results import bandwidth
from results.bandwidth import BUS_FACTORS, OPS, Sizes, algbw_gbps, busbw_gbps, call_sizes, size_list

# busbw in GB/s of 10^9 bytes in one second over 2, 4 and 8 ranks, from the summary of doc/PERFORMANCE.md of NCCL tests:
# 2(n-1)/n is 1, 1.5, 1.75; (n-1)/n is 0.5, 0.75, 0.875.
ONE_GB_IN_ONE_SECOND = {
    "all_reduce": (1.0, 1.5, 1.75),
    "all_gather": (0.5, 0.75, 0.875),
    "reduce_scatter": (0.5, 0.75, 0.875),
    "all_to_all": (0.5, 0.75, 0.875),
    "broadcast": (1.0, 1.0, 1.0),
    "reduce": (1.0, 1.0, 1.0),
    "send_recv": (1.0, 1.0, 1.0),
}
FORMULAS = {"2(n-1)/n": lambda n: 2 * (n - 1) / n, "(n-1)/n": lambda n: (n - 1) / n, "1": lambda n: 1.0}


def measured(op: str) -> tuple[float, ...]:
    return tuple(busbw_gbps(op, 1e9, 1e6, ranks) for ranks in (2, 4, 8))


@pytest.mark.parametrize("op", OPS)
def test_bus_bandwidth_follows_the_published_formula(op: str) -> None:
    assert measured(op) == pytest.approx(ONE_GB_IN_ONE_SECOND[op])


@pytest.mark.parametrize("op", OPS)
def test_a_wrong_bus_bandwidth_formula_does_not_pass(op: str, monkeypatch: pytest.MonkeyPatch) -> None:
    right = [BUS_FACTORS[op](n) for n in (2, 4, 8)]
    wrong = [formula for formula in FORMULAS.values() if [formula(n) for n in (2, 4, 8)] != right]
    assert len(wrong) == 2
    for formula in wrong:
        monkeypatch.setitem(bandwidth.BUS_FACTORS, op, formula)
        assert measured(op) != pytest.approx(ONE_GB_IN_ONE_SECOND[op])


def test_rates_are_powers_of_ten_so_one_gib_in_a_second_is_more_than_a_gb() -> None:
    assert algbw_gbps(2**30, 1e6) == pytest.approx(1.073741824)


def test_a_published_row_is_reproduced() -> None:
    """8 x H800, 33554432 bytes in 195.40 us: algbw 171.72, busbw 300.51 (kvcache-ai/Mooncake pull request 3484)."""
    assert algbw_gbps(33554432, 195.40) == pytest.approx(171.72, abs=0.005)
    assert busbw_gbps("all_reduce", 33554432, 195.40, 8) == pytest.approx(300.51, abs=0.01)


def test_one_rank_moves_no_data() -> None:
    assert busbw_gbps("all_reduce", 1e9, 1e6, 1) == 0.0


def test_a_call_of_nothing_has_no_bandwidth() -> None:
    assert algbw_gbps(0, 0.0) == 0.0


def test_an_unknown_op_is_refused_with_the_list() -> None:
    with pytest.raises(ConfigError, match="did you mean all_reduce"):
        bandwidth.bus_factor("allreduce", 8)


def test_the_size_of_a_gather_is_the_whole_buffer_and_its_count_one_part() -> None:
    """1024 bytes of fp32 over 8 ranks: 256 elements in all, 32 from each rank."""
    assert call_sizes("all_gather", 1024, 4, 8) == Sizes(bytes=1024, count=32, send_elements=32, receive_elements=256)


def test_the_size_of_a_scatter_is_the_whole_buffer_and_its_count_one_part() -> None:
    assert call_sizes("reduce_scatter", 1024, 4, 8) == Sizes(1024, 32, send_elements=256, receive_elements=32)


def test_the_size_of_an_all_to_all_is_what_one_rank_sends_to_all() -> None:
    assert call_sizes("all_to_all", 1024, 4, 8) == Sizes(1024, 32, send_elements=256, receive_elements=256)


def test_the_size_of_an_all_reduce_is_the_buffer_that_every_rank_holds() -> None:
    assert call_sizes("all_reduce", 1024, 2, 8) == Sizes(1024, 512, 512, 512)


def test_parts_are_rounded_down_to_sixteen_bytes_as_the_published_zero_sizes_show() -> None:
    """reduce_scatter on 8 ranks: 32 and 64 bytes are printed as 0, 128 bytes as count 4 (NVIDIA/nccl-tests 128)."""
    found = [call_sizes("reduce_scatter", size, 4, 8) for size in (32, 64, 128)]
    assert [(s.bytes, s.count) for s in found] == [(0, 0), (0, 0), (128, 4)]


def test_sizes_grow_by_factor_up_to_the_largest_that_fits() -> None:
    assert size_list(1024, 70000, 4) == [1024, 4096, 16384, 65536]


def test_sizes_grow_by_a_step_where_one_is_given() -> None:
    assert size_list(1000, 3000, 4, step_bytes=1000) == [1000, 2000, 3000]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [((2048, 1024, 2), "min_bytes"), ((0, 1024, 2), "min_bytes"), ((1, 8, 1), "factor"), ((1, 8, 2, 0), "step_bytes")],
)
def test_a_size_list_that_cannot_be_is_refused(arguments: tuple[int, ...], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        size_list(*arguments)
