"""From words on the command line to configs, and from Hydra's complaints to one line."""

from __future__ import annotations

import pytest

from configs.compose import compose_config, compose_grid, rewrite
from configs.errors import ConfigError


@pytest.mark.parametrize(
    ("override", "line"),
    [
        ("mod=tp", "mod: no such field; did you mean mode?"),
        ("mode=tpp", "mode: 'tpp' is unknown; did you mean tp? known: "),
        ("model=lama2_7b", "model: 'lama2_7b' is unknown; did you mean llama2_7b? known: "),
        ("measure.max_step=3", "measure.max_step: no such field; did you mean measure.max_steps?"),
        ("+recipe.foo=1", "recipe: 'foo' is unknown; known: name, method"),
        ("cards=abc", "cards: 'abc' of type 'str' could not be converted to Integer; expected int"),
        ("measure.rel_ci=zz", "measure.rel_ci: 'zz' of type 'str' could not be converted to Float; expected float"),
        ("+study=dmo", "study: 'dmo' is unknown; did you mean demo?"),
        ("mode=ddp,tp", "mode=ddp,tp: is a sweep; -m runs it as one"),
        ("a b", "override: "),
    ],
)
def test_a_wrong_word_is_explained_in_one_line(override: str, line: str) -> None:
    with pytest.raises(ConfigError) as error:
        compose_config([override])
    assert str(error.value).startswith(line)
    assert "\n" not in str(error.value)


def test_short_names_are_rewritten_for_hydra() -> None:
    assert rewrite(["study=my-run", "prices=jiangsu,mine.csv", "cards=2"]) == [
        "study_name='my-run'",
        "price_sheets=['jiangsu','mine.csv']",
        "cards=2",
    ]


def test_a_path_with_commas_and_spaces_is_one_value() -> None:
    assert compose_config(["source=a, b's/x=y.csv"]).source == "a, b's/x=y.csv"


def test_a_grid_is_a_product() -> None:
    grid = compose_grid(["mode=ddp,tp", "cards=1,2"], sweep=True)
    assert [(c.mode.name, c.cards) for c in grid] == [("ddp", 1), ("ddp", 2), ("tp", 1), ("tp", 2)]


def test_the_demo_is_four_modes_on_four_counts_and_collectives() -> None:
    grid = compose_grid(["+study=demo"])
    training = {(c.mode.name, c.cards) for c in grid if c.benchmark.name == "finetune"}
    assert training == {(mode, cards) for mode in ("ddp", "fsdp", "tp", "pp") for cards in (1, 2, 4, 8)}
    assert [c.cards for c in grid if c.benchmark.name == "collectives"] == [2, 4, 8]
    assert {c.study_name for c in grid} == {"demo"}


def test_the_command_line_narrows_a_presets_grid() -> None:
    grid = compose_grid(["+study=demo", "cards=2", "study=mine"])
    assert {c.cards for c in grid} == {2}
    assert {c.study_name for c in grid} == {"mine"}


def test_a_number_in_scientific_notation_is_a_number() -> None:
    config = compose_config(["workload.epoch_tokens=2e9", "recipe.learning_rate=1e-4"])
    assert (config.workload.epoch_tokens, config.recipe.learning_rate) == (2e9, 1e-4)


def test_keys_of_ones_own_are_set_and_swept_without_a_sign() -> None:
    config = compose_config(["machine.peak_tflops={fp32:1}", "cluster.env.NCCL_P2P_DISABLE=1"])
    assert (config.machine.peak_tflops, config.cluster.env) == ({"fp32": 1.0}, {"NCCL_P2P_DISABLE": "1"})
    grid = compose_grid(["cluster.env={},{NCCL_P2P_DISABLE:1}"], sweep=True)
    assert [point.cluster.env for point in grid] == [{}, {"NCCL_P2P_DISABLE": "1"}]
