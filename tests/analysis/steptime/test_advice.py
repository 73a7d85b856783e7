from __future__ import annotations

import pytest

from analysis.links.collective_time import Link, Network
from analysis.steptime import Rates
from analysis.steptime.advice import Cell, advise, where_time_goes
from analysis.steptime.communication import Batch
from configs.layout import Layout, ModelShape
from configs.schema import Mode, Recipe

SHAPE = ModelShape(32, 4096, 32, 32, 128, 11008, 32000, tied_embeddings=False)
SLOW = Network(Link(12.0, 5.0), Link(1.25, 20.0), cards_per_node=8)
FAST = Network(Link(450.0, 1.0), Link(50.0, 5.0), cards_per_node=8)
RATES = Rates(peak_tflops=312.0, memory_gbps=2039.0)
BF16 = Recipe(precision="bf16")


def cell(mode: Mode, layout: Layout, micro_batches: int = 4, recipe: Recipe = BF16) -> Cell:
    return Cell(SHAPE, mode, layout, recipe, Batch(1, micro_batches, 2048))


def test_the_shares_of_a_step_add_up_to_one() -> None:
    shares = where_time_goes(cell(Mode("ddp"), Layout(8, 1, 1)), RATES, FAST)
    assert shares.sum() == pytest.approx(1.0)
    assert shares.index[0] == "compute"


def test_tensor_parallel_on_slow_links_waits_for_them_most() -> None:
    assert where_time_goes(cell(Mode("tp"), Layout(1, 8, 1)), RATES, SLOW).index[0] == "exposed_comm"


def test_data_parallel_is_advised_over_tensor_parallel_on_slow_links() -> None:
    table = advise(cell(Mode("tp"), Layout(1, 8, 1), micro_batches=512), RATES, SLOW)
    assert table["change"][0] in ("mode=ddp", "mode=fsdp")
    assert table["gain_low"].min() > 1


def test_more_accumulation_is_advised_where_gradients_wait_for_the_network() -> None:
    table = advise(cell(Mode("ddp"), Layout(16, 1, 1), micro_batches=1), RATES, SLOW)
    gain = table.set_index("change")["gain"]
    # Compute doubles with the batch while the exchange stays: at most twice the throughput.
    assert 1.2 < gain["accumulation x 2"] < 2.0


def test_a_better_link_is_named_where_the_job_waits_for_it() -> None:
    across = advise(cell(Mode("ddp"), Layout(16, 1, 1), micro_batches=1), RATES, SLOW)
    inside = advise(cell(Mode("tp"), Layout(1, 8, 1)), RATES, SLOW)
    assert "links between nodes twice as fast" in across["change"].tolist()
    assert "links in the node twice as fast" in inside["change"].tolist()


def test_a_full_pipeline_bubble_is_worth_more_accumulation() -> None:
    # 8 stages, 8 micro-batches: 15/8 of the busy time; with 16 it is 23/16, so 30 % faster at most.
    gain = advise(cell(Mode("pp"), Layout(1, 1, 8), micro_batches=8), RATES, FAST).set_index("change")["gain"]
    assert gain["accumulation x 2"] == pytest.approx(30 / 23, abs=0.03)


def test_checkpointing_costs_a_third_and_says_what_its_lack_takes() -> None:
    recomputing = Recipe(precision="bf16", checkpointing="full")
    table = advise(cell(Mode("ddp"), Layout(1, 1, 1), recipe=recomputing), RATES, FAST)
    row = table.set_index("change").loc["checkpointing none"]
    assert row["gain"] == pytest.approx(4 / 3, abs=0.05)
    assert row["needs"] == "memory for all activations"


def test_a_mode_that_the_model_does_not_allow_is_not_advised() -> None:
    nine_heads = ModelShape(30, 576, 9, 3, 64, 1536, 49152, tied_embeddings=True)
    start = Cell(nine_heads, Mode("ddp"), Layout(8, 1, 1), BF16, Batch(1, 1, 512))
    assert "mode=tp" not in advise(start, RATES, SLOW)["change"].tolist()
