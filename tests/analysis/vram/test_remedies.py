"""What would make a cell fit: every offer really fits, its effects add up, and its words are the command line's."""

from __future__ import annotations

import pytest

from analysis.vram import GIB, estimate_frame
from analysis.vram.plan import plan
from analysis.vram.roles import cell_frame
from configs.cell import resolve
from configs.compose import compose_config
from configs.groups import load_group
from configs.schema import Mode

BATCH = ("recipe=full_bf16", "seq_len=2048", "micro_batch=1", "global_batch=64", "machine=a100_80g")
CELLS = [
    ("model=llama2_7b", "mode=ddp", "cards=1"),
    ("model=llama2_7b", "mode=ddp", "cards=8"),
    ("model=llama2_7b", "mode=fsdp", "cards=2"),
    ("model=llama2_13b", "mode=tp", "cards=4"),
    ("model=llama2_13b", "mode=pp", "cards=4"),
    ("model=llama2_13b", "mode=zero3", "cards=1"),
]


@pytest.mark.parametrize("cell", CELLS)
def test_every_offer_fits_as_the_command_line_would_run_it(cell: tuple[str, ...]) -> None:
    (planned,) = plan([compose_config([*BATCH, *cell])], load_group(Mode))
    assert planned.remedies
    assert planned.need is not None
    for remedy in planned.remedies:
        words = remedy.words.split()
        named = {word.partition("=")[0] for word in words}
        kept = [word for word in (*BATCH, *cell) if word.partition("=")[0] not in named]
        there = resolve(compose_config([*kept, *words]))
        needed = float(estimate_frame(cell_frame([there]))["device"].iloc[0])
        assert needed == pytest.approx(remedy.device)
        assert needed <= 0.9 * 80 * GIB
        assert sum(step.lowers for step in remedy.steps) == pytest.approx(planned.need.device - needed)


def test_sharding_comes_before_more_cards_and_those_before_offloading() -> None:
    (planned,) = plan([compose_config([*BATCH, "model=llama2_13b", "mode=ddp", "cards=2"])], load_group(Mode))
    kinds = [remedy.words for remedy in planned.remedies]
    sharded = next(i for i, words in enumerate(kinds) if words.startswith("mode=zero3 cards="))
    offloaded = next(i for i, words in enumerate(kinds) if "offload" in words)
    assert sharded < offloaded


def test_what_fits_is_offered_nothing() -> None:
    (planned,) = plan([compose_config([*BATCH, "model=llama2_7b", "mode=tp", "cards=8"])], load_group(Mode))
    assert planned.verdict == "fits"
    assert planned.remedies == ()


def test_eight_bit_states_save_six_bytes_a_parameter_less_their_scales() -> None:
    """Two moments of 4 bytes become 1 byte and an fp32 scale in 256: 8 - 2 x (1 + 4 / 256) bytes a parameter."""
    cards = [
        resolve(compose_config([*BATCH, "model=llama2_7b", "mode=zero3", "cards=8", f"recipe.optimizer={name}"]))
        for name in ("adamw", "adamw8bit")
    ]
    table = estimate_frame(cell_frame(cards))
    saved = table["optimizer_states"].iloc[0] - table["optimizer_states"].iloc[1]
    assert saved == pytest.approx((8 - 2 * (1 + 4 / 256)) * 6_738_415_616 / 8, rel=1e-3)
