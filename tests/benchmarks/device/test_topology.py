"""Matrices as nvidia-smi printed them around the world (topologies/SOURCES.md), and links as NVML tells them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from benchmarks.device import nvml
from benchmarks.device.nvlink import CardLinks
from benchmarks.device.topology import Topology, from_nvml, groups, parse_topo, remarks, to_dict, verdict
from configs.errors import ConfigError

FILES = Path(__file__).parent / "topologies"
GIB = 2**30
FakeCards = Callable[..., None]


def published(name: str) -> Topology:
    return parse_topo((FILES / f"{name}.txt").read_text())


@pytest.mark.parametrize(
    ("name", "cards", "expected"),
    [
        ("a100_8_nvswitch", 8, "NVLink full mesh"),
        ("h100_8_nvswitch_nics", 8, "NVLink full mesh"),
        ("h100_8_columns_run_together", 8, "NVLink full mesh"),
        ("h100_4_nv6", 4, "NVLink full mesh"),
        ("v100_8_cube_mesh", 8, "NVLink partial mesh"),
        ("3090_4_bridged_pairs", 4, "NVLink pairs"),
        ("one_bridge_of_three", 3, "NVLink pairs"),
        ("4090_8_pcie", 8, "PCIe only"),
        ("l40s_4_pcie", 4, "PCIe only"),
    ],
)
def test_published_matrices_get_their_verdict(name: str, cards: int, expected: str) -> None:
    topology = published(name)
    assert len(topology.cards) == cards
    assert verdict(topology) == expected


def test_every_published_matrix_is_symmetric() -> None:
    for file in FILES.glob("*.txt"):
        if file.stem != "a100_8_cut_off":
            links = parse_topo(file.read_text()).links
            assert all(links[i][j] == links[j][i] for i in range(len(links)) for j in range(len(links))), file.stem


def test_several_nodes_are_cross_node_whatever_links_each_has() -> None:
    assert verdict(published("h100_8_nvswitch_nics"), nodes=2) == "cross-node"


def test_bridged_pairs_are_named() -> None:
    assert groups(published("3090_4_bridged_pairs")) == [("GPU0", "GPU2"), ("GPU1", "GPU3")]


def test_a_card_without_a_bridge_is_named() -> None:
    assert remarks(published("one_bridge_of_three")) == ["no NVLink: GPU2"]


def test_pairs_with_fewer_links_are_named() -> None:
    said = remarks(published("v100_8_cube_mesh"))[0]
    assert said.startswith("1 of 2 links: GPU0-GPU1, GPU0-GPU2, GPU1-GPU3")


def test_the_number_of_links_is_in_the_cell() -> None:
    assert published("a100_8_nvswitch").links[0][7] == "NV12"


def test_network_cards_are_read_beside_the_cards() -> None:
    topology = published("h100_8_nvswitch_nics")
    assert len(topology.nics) == 10
    assert topology.nic_links[3].index("PIX") == 5  # GPU3 sits beside NIC5 on that machine


def test_network_cards_under_their_own_names_are_read() -> None:
    assert published("v100_8_cube_mesh").nics == ("mlx5_2", "mlx5_0", "mlx5_3", "mlx5_1")


def test_the_socket_of_each_card_is_read() -> None:
    assert published("4090_8_pcie").numa == (0, 0, 0, 0, 1, 1, 1, 1)
    assert published("h100_4_nv6").numa == (3, 1, 7, 5)


def test_a_driver_that_prints_no_socket_leaves_it_open() -> None:
    assert published("v100_8_cube_mesh").numa == (None,) * 8


def test_a_matrix_that_was_cut_off_is_refused_by_its_missing_row() -> None:
    with pytest.raises(ConfigError, match="row GPU3 is missing"):
        published("a100_8_cut_off")


def test_a_row_that_was_cut_off_is_refused_by_its_length() -> None:
    with pytest.raises(ConfigError, match="row GPU1 has 1 of 2 cards"):
        parse_topo("\tGPU0\tGPU1\nGPU0\t X \tPHB\nGPU1\tPHB\n")


@pytest.mark.parametrize("text", ["", "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver."])
def test_what_is_no_matrix_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="has no row of GPU0"):
        parse_topo(text)


def test_the_word_of_older_drivers_for_crossing_sockets_is_understood() -> None:
    assert parse_topo("\tGPU0\tGPU1\tCPU Affinity\nGPU0\t X \tSOC\t0-7\nGPU1\tSOC\t X \t8-15\n").links[0][1] == "SYS"


def test_one_card_is_one_card() -> None:
    assert verdict(parse_topo("\tGPU0\tCPU Affinity\nGPU0\t X \t0-7\n")) == "one card"


def a100(number: int, links: str = "", **more: object) -> dict[str, object]:
    card = {"uuid": f"GPU-{number}", "name": "NVIDIA A100", "bus": f"00000000:{number:02X}:00.0", "total": 80 * GIB}
    return {**card, **({"links": links} if links else {}), **more}


def asked(system: Path = Path("/")) -> tuple[Topology, dict[str, CardLinks]]:
    with nvml.session() as bindings:
        return from_nvml(bindings, nvml.cards(bindings), system)


def test_links_through_a_switch_reach_every_card(fake_cards: FakeCards) -> None:
    fake_cards(*(a100(i, "switch,switch,switch") for i in range(4)))
    topology, _ = asked()
    assert (verdict(topology), topology.links[1][2]) == ("NVLink full mesh", "NV3")


def test_switches_that_a_virtual_machine_hides_are_still_switches(fake_cards: FakeCards) -> None:
    fake_cards(*(a100(i, "hidden,hidden") for i in range(2)))
    assert asked()[0].links[0][1] == "NV2"


def test_bridges_join_the_cards_they_lead_to(fake_cards: FakeCards) -> None:
    near = {"near-GPU-0": 40, "near-GPU-1": 40, "near-GPU-2": 40, "near-GPU-3": 40}
    partners = {0: 1, 1: 0, 2: 3, 3: 2}
    fake_cards(*(a100(i, f"GPU-{j},GPU-{j}", **near) for i, j in partners.items()))
    topology, _ = asked()
    assert topology.links[0] == ("X", "NV2", "NODE", "NODE")
    assert verdict(topology) == "NVLink pairs"


def test_cards_without_links_are_told_apart_by_their_path(fake_cards: FakeCards) -> None:
    near = {"near-GPU-0": 50, "near-GPU-1": 30, "near-GPU-2": 50}
    fake_cards(*(a100(i, **near) for i in range(3)))
    topology, _ = asked()
    assert topology.links[0] == ("X", "PHB", "SYS")
    assert verdict(topology) == "PCIe only"


def test_a_link_that_is_down_weakens_its_card_and_is_named(fake_cards: FakeCards) -> None:
    fake_cards(a100(0, "switch,switch,switch"), a100(1, "switch,down,switch"), a100(2, "switch,switch,switch"))
    topology, links = asked()
    assert links["GPU-1"].down == (1,)
    assert remarks(topology) == ["2 of 3 links: GPU0-GPU1, GPU1-GPU2"]


def test_errors_of_all_links_are_added_up_by_kind(fake_cards: FakeCards) -> None:
    fake_cards(a100(0, "switch,switch", errors0="0,0", errors1="1,4", errors2="0,0", errors3="0,0"))
    assert asked()[1]["GPU-0"].errors == {"replay": 0, "recovery": 5, "CRC (flit)": 0, "CRC (data)": 0}


def test_errors_are_asked_of_the_whole_card_where_links_do_not_tell(fake_cards: FakeCards) -> None:
    fake_cards(a100(0, "switch", field52=7, field59=0))
    assert asked()[1]["GPU-0"].errors == {"replay": 7, "recovery": 0}


def test_slices_have_no_nvlink(fake_cards: FakeCards) -> None:
    parts = [
        {"kind": "slice", "card": "GPU-0", "uuid": f"MIG-{i}", "name": "MIG 3g.40gb", "total": 40 * GIB} for i in (1, 2)
    ]
    fake_cards(a100(0, "switch,switch", mig=1), *parts)
    with nvml.session() as bindings:
        (card,) = nvml.cards(bindings)
        topology, _ = from_nvml(bindings, card.slices)
    assert verdict(topology) == "PCIe only"


def test_the_socket_is_read_from_the_kernel(fake_cards: FakeCards, tmp_path: Path) -> None:
    fake_cards(a100(0), a100(1))
    for number, node in ((0, "1\n"), (1, "-1\n")):  # -1: the firmware does not say
        folder = tmp_path / f"sys/bus/pci/devices/0000:{number:02x}:00.0"
        folder.mkdir(parents=True)
        (folder / "numa_node").write_text(node)
    assert asked(tmp_path)[0].numa == (1, None)


def test_the_record_keeps_verdict_and_matrix() -> None:
    kept: dict[str, Any] = to_dict(published("3090_4_bridged_pairs"))
    assert kept["verdict"] == "NVLink pairs"
    assert kept["links"][0] == ["X", "PHB", "NV4", "NODE"]
