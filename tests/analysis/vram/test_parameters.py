"""Parameter counts of the closed form against transformers' own models on the meta device, whole and per rank."""

from __future__ import annotations

import pytest
import torch
from transformers import AutoConfig, AutoModelForCausalLM

from analysis.vram import estimate
from analysis.vram.parameters import ARCHITECTURES, total_parameters
from analysis.vram.peak import peak
from analysis.vram.roles import cell_frame, dimensions, roles_of
from configs.cell import Cell, resolve
from configs.errors import ConfigError
from configs.layout import split_layers
from configs.schema import Config, Machine, Mode, Model, Recipe

ODD = {
    "hidden_size": 48,
    "intermediate_size": 100,
    "num_hidden_layers": 5,
    "num_attention_heads": 6,
    "num_key_value_heads": 2,
    "head_dim": 12,  # not hidden / heads
    "vocab_size": 94,
}


def meta_parameters(config: dict) -> int:
    fields = {key: value for key, value in config.items() if key != "model_type"}
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(AutoConfig.for_model(config["model_type"], **fields))
    return sum(p.numel() for p in model.parameters())


def count(config: dict) -> int:
    cell = make(config)
    return int(total_parameters(roles_of(cell_frame([cell])).size)[0])


def make(config: dict, precision: str = "fp32", **mode: object) -> Cell:
    sizes = {axis: int(mode.get(axis, 1)) for axis in ("dp", "tp", "pp")}  # type: ignore[call-overload]
    cards = sizes["dp"] * sizes["tp"] * sizes["pp"]
    given = Mode(**{"name": "test", **sizes, **mode})  # type: ignore[arg-type]
    return resolve(
        Config(
            model=Model(name="odd", config=config),
            mode=given,
            recipe=Recipe(precision=precision),
            machine=Machine(),
            cards=cards,
            seq_len=16,
            micro_batch=1,
            global_batch=8 * sizes["dp"],
        )
    )


@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("kind", sorted(ARCHITECTURES))
def test_the_count_is_that_of_transformers(kind: str, tied: bool) -> None:
    config = {"model_type": kind, **ODD, "tie_word_embeddings": tied, "pad_token_id": 0}
    if kind == "phi3":
        config["head_dim"] = 8  # it always derives it: 48 / 6
    assert count(config) == meta_parameters(config)


@pytest.mark.parametrize("kind", ["llama", "qwen3", "granite"])
def test_biases_that_the_config_asks_for_are_counted(kind: str) -> None:
    config = {"model_type": kind, **ODD, "attention_bias": True, "mlp_bias": True}
    assert count(config) == meta_parameters(config)


def test_llama_2_7b_has_6_738_415_616_parameters() -> None:
    config = {
        "model_type": "llama",
        "hidden_size": 4096,
        "intermediate_size": 11008,
        "num_hidden_layers": 32,
        "num_attention_heads": 32,
        "vocab_size": 32000,
    }
    assert count(config) == 6_738_415_616  # meta-llama/Llama-2-7b-hf


@pytest.mark.parametrize(("hidden", "heads", "head_dim", "ratio"), [(5120, 32, 128, 1.25), (2880, 64, 64, 0.703)])
def test_the_head_size_is_read_and_not_derived(hidden: int, heads: int, head_dim: int, ratio: float) -> None:
    """Reports of planners that derive it: too high by hidden / (heads x head_dim), here 5120/4096 and 2880/4096."""
    config = {"model_type": "llama", **ODD, "hidden_size": hidden, "num_attention_heads": heads, "head_dim": head_dim}
    query = dimensions("model", config)["query"]
    assert query == heads * head_dim
    assert hidden / query == pytest.approx(ratio, rel=1e-3)


@pytest.mark.parametrize("tied", [False, True])
def test_pipeline_stages_hold_every_layer_once_and_both_ends_a_tied_table(tied: bool) -> None:
    config = {"model_type": "llama", **ODD, "tie_word_embeddings": tied}
    stages = estimate(make(config, pp=2)).roles
    assert [role.layers for role in stages] == [len(part) for part in split_layers(5, 2)]
    held = sum(role.parameters for role in stages) / 4
    copies = 94 * 48 if tied else 0  # each end holds the table
    assert held == meta_parameters(config) + copies


def test_tensor_parallel_ranks_split_matrices_and_copy_norms_and_an_untied_table() -> None:
    config = {"model_type": "llama", **ODD, "tie_word_embeddings": False}
    role = estimate(make(config, tp=2)).roles[0]
    layer_matrices = 48 * 72 * 2 + 48 * 24 * 2 + 3 * 48 * 100
    split = 5 * layer_matrices + 94 * 48
    copied = 5 * 2 * 48 + 48 + 94 * 48
    assert role.parameters == 4 * (split / 2 + copied)


def test_the_fullest_shard_holds_the_rounded_up_rows_of_every_matrix() -> None:
    config = {"model_type": "llama", **ODD, "tie_word_embeddings": False}
    role = estimate(make(config, dp=4, shard="full")).roles[0]
    rows = {"q": 72, "k": 24, "v": 24, "gate": 100, "up": 100}
    layer = sum(-(-n // 4) * 48 for n in rows.values()) + 12 * 72 + 12 * 100 + 2 * 12  # o, down, norms: 48 rows
    ends = 2 * (-(-94 // 4)) * 48 + 12
    assert role.parameters == 4 * (5 * layer + ends)


@pytest.mark.parametrize(
    ("fields", "what"),
    [
        ({"model_type": "mixtral", "num_local_experts": 8}, "mixture of experts"),
        ({"model_type": "deepseek_v3", "n_routed_experts": 64}, "mixture of experts"),
        ({"model_type": "minicpm3", "kv_lora_rank": 256}, "multi-head latent attention"),
        ({"model_type": "mamba", "state_size": 16}, "state-space"),
        ({"model_type": "gpt_neox"}, "gpt_neox"),
    ],
)
def test_an_architecture_without_terms_gets_no_number(fields: dict, what: str) -> None:
    with pytest.raises(ConfigError, match=what) as error:
        estimate(make({**ODD, **fields}))
    assert "not covered" in str(error.value)


def test_the_peak_has_one_entry_a_rank_of_the_pipeline() -> None:
    config = {"model_type": "llama", **ODD}
    components, phases = peak(roles_of(cell_frame([make(config, pp=4)]), every_stage=True))
    assert components.parameters.shape == phases.shape == (4,)
