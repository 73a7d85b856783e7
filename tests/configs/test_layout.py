"""The grammar of `cards`."""

from __future__ import annotations

import pytest

from configs.errors import ConfigError
from configs.layout import Layout, check_layout, model_shape, resolve_layout, split_layers
from configs.schema import Mode

LLAMA = {
    "hidden_size": 64,
    "num_attention_heads": 8,
    "num_hidden_layers": 8,
    "intermediate_size": 128,
    "vocab_size": 256,
}


def test_the_open_axis_takes_what_is_left_of_the_world() -> None:
    assert resolve_layout(Mode("dp_tp", dp=None, tp=4), 8) == Layout(dp=2, tp=4, pp=1)


@pytest.mark.parametrize(("cards", "nearest"), [(6, "cards=4 or 8"), (3, "cards=4")])
def test_a_count_that_is_no_multiple_names_the_nearest_ones(cards: int, nearest: str) -> None:
    with pytest.raises(ConfigError, match=f"not a multiple of tp=4 x pp=1; nearest: {nearest}"):
        resolve_layout(Mode("dp_tp", dp=None, tp=4), cards)


@pytest.mark.parametrize(("dp", "tp"), [(4, 4), (1, 2), (1, 3)])
def test_a_product_that_is_not_the_world_is_refused(dp: int, tp: int) -> None:
    """Four cards: tp4 x dp4 asks for 16, tp2 x dp1 leaves two idle, tp3 leaves one idle."""
    with pytest.raises(ConfigError, match=f"is {dp * tp} cards, not cards=4; use cards={dp * tp}"):
        resolve_layout(Mode("mine", dp=dp, tp=tp), 4)


def test_two_open_axes_are_refused() -> None:
    with pytest.raises(ConfigError, match="leaves dp and tp open"):
        resolve_layout(Mode("mine", dp=None, tp=None), 8)


@pytest.mark.parametrize("cards", [0, -1])
def test_a_world_has_at_least_one_rank(cards: int) -> None:
    with pytest.raises(ConfigError, match="cards: "):
        resolve_layout(Mode("ddp"), cards)


def test_heads_that_do_not_divide_name_the_legal_sizes() -> None:
    shape = model_shape("smollm2", LLAMA | {"num_attention_heads": 9, "num_key_value_heads": 3, "vocab_size": 49152})
    with pytest.raises(ConfigError, match="9 attention heads do not divide by tp=2 .*; tp can be 1 or 3"):
        check_layout(Mode("tp"), Layout(1, 2, 1), "smollm2", shape)


@pytest.mark.parametrize("tp", [4, 8])
def test_a_vocabulary_that_does_not_divide_is_refused(tp: int) -> None:
    """GPT-2's 50257 entries divide by none of 2, 4, 8: 50257 = 29 x 1733."""
    with pytest.raises(ConfigError, match=f"50257 vocabulary entries do not divide by tp={tp}"):
        check_layout(Mode("tp"), Layout(1, tp, 1), "gpt2", model_shape("gpt2", LLAMA | {"vocab_size": 50257}))


def test_key_value_heads_bound_tensor_parallelism() -> None:
    """28 query heads alone would allow 14 and 28; 4 key/value heads leave 1, 2, 4."""
    shape = model_shape("qwen", LLAMA | {"num_attention_heads": 28, "num_key_value_heads": 4, "vocab_size": 152064})
    with pytest.raises(ConfigError, match="4 key/value heads do not divide by tp=7 .*; tp can be 1, 2 or 4"):
        check_layout(Mode("tp"), Layout(1, 7, 1), "qwen", shape)


def test_a_pipeline_is_no_deeper_than_the_layers() -> None:
    with pytest.raises(ConfigError, match="pp=16 stages for 8 layers .*; pp can be 1 to 8"):
        check_layout(Mode("pp"), Layout(1, 1, 16), "tiny", model_shape("tiny", LLAMA))


@pytest.mark.parametrize(
    ("layers", "stages", "sizes"),
    [(30, 4, [8, 8, 7, 7]), (30, 8, [4] * 6 + [3] * 2), (10, 3, [4, 3, 3]), (7, 2, [4, 3]), (8, 8, [1] * 8)],
)
def test_every_layer_has_one_stage(layers: int, stages: int, sizes: list[int]) -> None:
    parts = split_layers(layers, stages)
    assert [len(part) for part in parts] == sizes
    assert [layer for part in parts for layer in part] == list(range(layers))


@pytest.mark.parametrize(
    ("hidden", "heads", "head_dim", "expected"), [(5120, 32, 128, 128), (2880, 64, 64, 64), (4096, 32, None, 128)]
)
def test_the_head_size_is_read_where_it_is_declared(
    hidden: int, heads: int, head_dim: int | None, expected: int
) -> None:
    config = LLAMA | {"hidden_size": hidden, "num_attention_heads": heads, "head_dim": head_dim}
    assert model_shape("m", config).head_dim == expected
