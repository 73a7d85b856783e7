"""The machines' own figures against what the vendor prints, and cards told apart by their whole names."""

from __future__ import annotations

from pathlib import Path

import pytest

from configs.errors import ConfigError
from configs.machines import FOLDER, load_machines, machine_for
from configs.schema import Machine

MACHINES = load_machines()


@pytest.mark.parametrize(
    ("card", "machine"),
    [
        ("NVIDIA H100 PCIe", "h100_pcie"),
        ("NVIDIA H100 80GB HBM3", "h100_80g"),
        ("NVIDIA H100 NVL", "h100_nvl"),
        ("NVIDIA H200", "h200"),
        ("NVIDIA H200 NVL", "h200_nvl"),
        ("NVIDIA A100-SXM4-80GB", "a100_80g"),
        ("NVIDIA A100 80GB PCIe", "a100_pcie_80g"),
        ("NVIDIA A100-SXM4-40GB", "a100_40g"),
        ("NVIDIA A800-SXM4-80GB", "a800"),
        ("NVIDIA L40S", "l40s"),
        ("NVIDIA L40", "l40"),
        ("NVIDIA GeForce RTX 3090", "3090"),
        ("Tesla V100-SXM2-32GB", "v100_32g"),
        ("Tesla T4", "t4"),
    ],
)
def test_variants_of_a_card_are_kept_apart(card: str, machine: str) -> None:
    found, message = machine_for(card, MACHINES)
    assert found is not None
    assert (found.name, message) == (machine, "")


@pytest.mark.parametrize("card", ["AMD Instinct MI350X", "NVIDIA Z999 Ultra", "AMD EPYC 7763 64-Core Processor"])
def test_an_unknown_card_has_no_machine_and_a_reason(card: str) -> None:
    found, message = machine_for(card, MACHINES)
    assert found is None
    assert f"{card} is no card of configs/machine" in message
    assert "MFU and link shares stay blank" in message


def test_a_near_name_is_named_as_another_card() -> None:
    found, message = machine_for("NVIDIA H100 64GB HBM2", MACHINES)
    assert found is None
    assert "NVIDIA H100 80GB HBM3" in message


def test_a_slice_has_not_the_peak_of_its_card() -> None:
    found, message = machine_for("NVIDIA A100-SXM4-80GB MIG 1g.10gb", MACHINES)
    assert found is None
    assert "slice" in message


def test_the_name_that_older_drivers_give_is_the_same_card() -> None:
    found, _ = machine_for("A100-SXM4-40GB", MACHINES)
    assert found is MACHINES["a100_40g"]


def test_no_name_is_no_machine() -> None:
    assert machine_for(None, MACHINES)[0] is None


def test_two_machines_of_one_card_are_not_chosen_between() -> None:
    pair = {name: Machine(name, card_names=["NVIDIA X1"]) for name in ("x1_cheap", "x1_dear")}
    found, message = machine_for("NVIDIA X1", pair)
    assert found is None
    assert "x1_cheap and x1_dear" in message


def test_no_card_is_in_two_files() -> None:
    names = [name for machine in MACHINES.values() for name in machine.card_names]
    assert len(names) == len(set(names))


def test_every_file_is_named_as_its_machine() -> None:
    assert sorted(MACHINES) == sorted(path.stem for path in FOLDER.glob("*.yaml"))


def test_every_card_has_its_peaks_and_their_source() -> None:
    for machine in MACHINES.values():
        if machine.device == "cuda":
            assert machine.peak_tflops, machine.name
            assert machine.source, machine.name
            assert machine.card_names, machine.name


@pytest.mark.parametrize(
    ("machine", "sparse_bf16"),  # as the data sheets print it, with sparsity; a dense product does half of it
    [
        ("h100_80g", 1979),
        ("h100_pcie", 1513),
        ("h100_nvl", 1671),
        ("h200_nvl", 1671),
        ("a100_80g", 624),
        ("b200", 4500),
    ],
)
def test_peaks_are_dense(machine: str, sparse_bf16: float) -> None:
    assert MACHINES[machine].peak_tflops["bf16"] == pytest.approx(sparse_bf16 / 2, rel=0.001)


@pytest.mark.parametrize("machine", ["v100_16g", "v100_32g", "t4"])
def test_cards_before_ampere_have_no_bf16_peak(machine: str) -> None:
    assert "bf16" not in MACHINES[machine].peak_tflops


@pytest.mark.parametrize(
    ("machine", "both_directions"), [("h100_80g", 900), ("a100_80g", 600), ("h800", 400), ("a800", 400), ("b200", 1800)]
)
def test_links_are_stated_for_one_direction(machine: str, both_directions: float) -> None:
    assert MACHINES[machine].intra_node_gbps == both_directions / 2


def test_a_file_that_is_no_machine_is_named(tmp_path: Path) -> None:
    (tmp_path / "x.yaml").write_text("name: x\npeak: 3\n")
    with pytest.raises(ConfigError, match=r"machine/x\.yaml: 'peak' is unknown"):
        load_machines(tmp_path)
