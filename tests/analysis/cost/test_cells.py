from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pandas as pd
import pytest

from analysis.cost.cells import costed_cells, machine_matches, same_card
from configs.errors import ConfigError

Cells = Callable[..., pd.DataFrame]


@pytest.mark.parametrize(
    ("device", "machine", "same"),
    [
        ("NVIDIA A100-SXM4-80GB", "a100_80g", True),
        ("A100 80G", "a100_80g", True),
        ("NVIDIA A100-SXM4-40GB", "a100_80g", False),
        ("NVIDIA A800-SXM4-80GB", "a100_80g", False),
        ("NVIDIA H100 80GB HBM3", "h100_80g", True),
        ("NVIDIA H200", "h20", False),
        ("NVIDIA H800", "h800", True),
        ("NVIDIA GeForce RTX 4090", "4090", True),
        ("NVIDIA L40S", "l40s", True),
        ("cpu", "a100_80g", False),
        ("", "a100_80g", None),
    ],
)
def test_a_drivers_card_name_is_matched_with_a_machine(device: str, machine: str, same: bool | None) -> None:
    assert same_card(device, machine) is same


def test_the_name_in_the_machines_own_config_settles_the_match() -> None:
    assert same_card("Tesla PG509", "a100_80g", ["PG509"])


def test_cells_of_the_collectives_benchmark_cost_nothing(cells_of: Cells) -> None:
    cells = cells_of((1, 1000), (2, 2000), benchmark=["finetune", "collectives"])
    assert len(costed_cells(cells)) == 1


def test_the_step_times_interval_becomes_the_throughputs(cells_of: Cells) -> None:
    interval = {"median": 1.0, "ci95_low": 0.8, "ci95_high": 1.25}
    row = costed_cells(cells_of((1, 1000), **{f"throughput.step_time_s.{k}": v for k, v in interval.items()})).iloc[0]
    assert (row["tokens_per_s_low"], row["tokens_per_s_high"]) == (800, 1250)


def test_without_an_interval_both_ends_are_the_value(cells_of: Cells) -> None:
    row = costed_cells(cells_of((1, 1000))).iloc[0]
    assert (row["tokens_per_s_low"], row["tokens_per_s_high"]) == (1000, 1000)


def test_a_missing_column_is_named() -> None:
    with pytest.raises(ConfigError, match=r"cells: column parallel.mode is missing"):
        costed_cells(pd.DataFrame({"parallel.cards": [1]}))


def test_a_study_in_which_nothing_ran_has_blank_throughputs() -> None:
    cells = pd.DataFrame({"parallel.mode": ["ddp"], "parallel.cards": [1], "status": ["oom"]})
    assert costed_cells(cells)["tokens_per_s"].isna().all()


def test_a_variant_with_a_machine_of_its_own_is_not_its_sibling() -> None:
    names = {"h200": ["NVIDIA H200"], "h200_nvl": ["NVIDIA H200 NVL"]}
    devices = np.array(["NVIDIA H200 NVL", "NVIDIA H200"], dtype=object)
    assert machine_matches(devices, ["h200", "h200_nvl"], names).tolist() == [[0, 1], [1, 0]]
