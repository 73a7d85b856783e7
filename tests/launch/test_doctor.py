"""The doctor on this machine, on machines made of fake cards, and as a person calls it."""

from __future__ import annotations

import io
import json
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest
from rich.console import Console

from benchmarks.meters.environment import cores
from configs.compose import compose_config
from configs.errors import ConfigError
from launch.checks import run_checks
from launch.checks.facts import Facts, GpuFacts
from launch.checks.probe_cards import ask_cards
from launch.doctor import doctor_command, examine, plan_of, render, report_of
from tests.launch.healthy import MACHINES, on_cards

GIB = 2**30
FakeCards = Callable[..., None]


def found(report: dict[str, Any]) -> dict[str, str]:
    return {finding["check"]: finding["level"] for finding in report["findings"]}


def test_this_machine_can_run_two_ranks_on_its_processor(tmp_path: Path) -> None:
    code, report = examine(compose_config(["cards=2", f"results_dir={tmp_path}"]))
    assert code == 0
    assert report["summary"]["fail"] == 0
    assert report["machine"]["host"] == socket.gethostname()
    assert report["machine"]["cores"] == cores()
    shared = next(finding for finding in report["findings"] if finding["check"] == "disk")
    assert str(tmp_path) in shared["what"]


def test_eight_cards_on_a_machine_without_a_driver_break_and_say_why(tmp_path: Path) -> None:
    if ask_cards({}).missing == "":
        pytest.skip("this machine has cards")
    code, report = examine(compose_config(["machine=h100_80g", "cards=8", f"results_dir={tmp_path}"]))
    assert code == 1
    assert found(report)["driver"] == "fail"
    assert {each["check"] for each in report["not_checked"]} >= {"cards", "nccl"}


def test_nothing_is_left_behind(tmp_path: Path) -> None:
    examine(compose_config([f"results_dir={tmp_path / 'results' / 'runs'}"]))
    assert list(tmp_path.iterdir()) == []


def test_a_results_folder_that_is_a_file_breaks_the_run(tmp_path: Path) -> None:
    (tmp_path / "results").write_text("")
    code, report = examine(compose_config([f"results_dir={tmp_path / 'results'}"]))
    assert (code, found(report)["disk"]) == (1, "fail")


def test_a_rendezvous_port_that_is_taken_breaks_the_run(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        words = ["cards=2", "cluster.nodes=2", f"cluster.rendezvous='127.0.0.1:{port}'", f"results_dir={tmp_path}"]
        _, report = examine(compose_config(words))
    assert found(report)["ports"] == "fail"


def test_a_leader_that_does_not_resolve_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("launch.checks.probe_host.CLOCK_S", 0.0)
    words = ["cards=2", "cluster.nodes=2", "cluster.rendezvous='127.0.0.1:1'", f"results_dir={tmp_path}"]
    _, report = examine(compose_config([*words, "cluster.node_rank=1"]), hosts=["leader.invalid"])
    said = [finding["what"] for finding in report["findings"] if finding["check"] == "peers"]
    assert any(what.startswith("leader.invalid: does not resolve") for what in said)


def test_two_nodes_that_are_asked_at_once_compare_their_clocks(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    words = ["cards=2", "cluster.nodes=2", f"cluster.rendezvous='127.0.0.1:{port}'", f"results_dir={tmp_path}"]
    reports: dict[int, dict[str, Any]] = {}

    def node(rank: int) -> None:
        reports[rank] = examine(compose_config([*words, f"cluster.node_rank={rank}"]))[1]

    configs = threading.Thread(target=node, args=(0,))
    configs.start()
    try:
        other = subprocess.run(
            [sys.executable, "-c", ASK, *words, "cluster.node_rank=1"], capture_output=True, text=True, check=True
        )
    finally:
        configs.join()
    reports[1] = json.loads(other.stdout)
    assert [found(reports[rank])["clocks"] for rank in (0, 1)] == ["ok", "ok"]


ASK = """
import json, sys
from configs.compose import compose_config
from launch.doctor import examine
print(json.dumps(examine(compose_config(sys.argv[1:]))[1]))
"""


def test_cards_that_do_not_share_out_over_the_nodes_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"cluster\.nodes: 3 cards do not share out over 2 nodes"):
        plan_of(compose_config(["cards=3", "cluster.nodes=2"]))


def test_a_rendezvous_that_is_none_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"cluster\.rendezvous: 'a:b:c' is no host and port"):
        examine(compose_config(["cards=2", "cluster.nodes=2", "cluster.rendezvous='a:b:c'"]))


def test_json_is_the_report_and_nothing_else(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    doctor_command([compose_config(["format=json", f"results_dir={tmp_path}"])], Console(stderr=True))
    assert set(json.loads(capsys.readouterr().out)) == {"machine", "plan", "findings", "not_checked", "summary"}


def test_the_run_with_the_most_ranks_on_a_node_is_examined(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    words = ["format=json", f"results_dir={tmp_path}"]
    doctor_command([compose_config([*words, f"cards={n}"]) for n in (1, 4, 2)], Console(stderr=True))
    assert json.loads(capsys.readouterr().out)["plan"]["cards"] == 4


def test_what_breaks_comes_first_and_the_text_says_what_to_do() -> None:
    facts = replace(on_cards(8), gpu=GpuFacts(missing="NVML does not start: Driver Not Loaded"))
    written = io.StringIO()
    render(report_of(facts, *run_checks(facts)), Console(width=100, file=written))
    lines = written.getvalue().splitlines()
    assert lines[2].startswith("FAIL  driver: no card can be asked: NVML does not start: Driver Not Loaded")
    assert any("do  in a container start it with --gpus all" in line for line in lines)


def test_torch_is_not_imported() -> None:
    code = "import sys, launch.doctor as d; from configs.compose import compose_config as c; d.examine(c([]))"
    done = subprocess.run(
        [sys.executable, "-c", f"{code}; print('torch' in sys.modules)"], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "False"


def h100(number: int, **more: object) -> dict[str, object]:
    """A card in the words of the stub: healthy, eighteen links to a switch."""
    return {
        "uuid": f"GPU-{number}",
        "name": "NVIDIA H100 80GB HBM3",
        "bus": f"00000000:{number:02X}:00.0",
        "total": 80 * GIB,
        "used": 0,
        "reserved": 0,
        "pids": "",
        "capability": 90,
        "persistence": 1,
        "ecc": 1,
        "ecc_uncorrected": 0,
        "remap_pending": 0,
        "remap_failed": 0,
        "reasons": 1,
        "celsius": 33,
        "power_limit": 700_000,
        "power_default": 700_000,
        "pcie_width": 16,
        "pcie_max_width": 16,
        "compute_mode": 0,
        "links": ",".join(["switch"] * 18),
        "errors0": ",".join(["0"] * 18),
        "errors1": ",".join(["0"] * 18),
        **more,
    }


def card_levels(cards: int, mask: str | None = None, **env: str) -> dict[str, str]:
    """The levels of the checks of cards, over the real NVML bindings, for `cards` ranks."""
    variables = {} if mask is None else {"CUDA_VISIBLE_DEVICES": mask}
    gpu = ask_cards({**variables, **env})
    healthy = on_cards(cards, machine=MACHINES["h100_80g"])
    uuids = tuple(card.uuid for card in gpu.visible)
    torch = replace(healthy.torch, uuids=uuids)
    facts = Facts(healthy.plan, gpu, torch, healthy.host, healthy.network, variables)
    return {finding.check: finding.level for finding in run_checks(facts)[0]}


def test_healthy_cards_are_healthy_by_nvml(fake_cards: FakeCards) -> None:
    fake_cards(*(h100(i) for i in range(8)))
    levels = card_levels(8)
    assert set(levels.values()) == {"ok"}
    assert {"driver", "mask", "memory errors", "nvlink", "links", "power limit"} <= set(levels)


@pytest.mark.parametrize(
    ("fault", "check", "level"),
    [
        ({"pids": "4242", "used": 5 * GIB}, "other processes", "warn"),
        ({"persistence": 0}, "persistence", "warn"),
        ({"ecc_uncorrected": 2}, "memory errors", "fail"),
        ({"remap_pending": 1}, "memory errors", "warn"),
        ({"reasons": 0x40}, "throttling", "warn"),
        ({"power_limit": 450_000}, "power limit", "warn"),
        ({"compute_mode": 2}, "compute mode", "fail"),
        ({"pcie_width": 8}, "pcie", "warn"),
        ({"links": ",".join(["switch"] * 17 + ["down"])}, "nvlink", "warn"),
        ({"errors1": ",".join(["0"] * 17 + ["9"])}, "nvlink", "warn"),
        ({"links": ""}, "links", "warn"),
        ({"name": "NVIDIA H100 PCIe"}, "promised card", "warn"),
        ({"name": "NVIDIA H100 PCIe"}, "like cards", "warn"),
    ],
)
def test_a_fault_of_a_card_is_found_by_nvml(
    fake_cards: FakeCards, fault: dict[str, object], check: str, level: str
) -> None:
    fake_cards(h100(0), h100(1, **fault))
    assert card_levels(2, CUDA_DEVICE_ORDER="PCI_BUS_ID")[check] == level


def test_a_fault_of_a_card_outside_the_mask_is_not_ours(fake_cards: FakeCards) -> None:
    fake_cards(h100(0), h100(1), h100(2, ecc_uncorrected=2))
    assert card_levels(2, "1,0")["memory errors"] == "ok"


def test_a_mask_that_names_no_card_breaks_the_run(fake_cards: FakeCards) -> None:
    fake_cards(h100(0), h100(1))
    levels = card_levels(2, "0,GPU-77")
    assert (levels["mask"], levels["cards"]) == ("fail", "fail")


def test_slices_break_a_run_of_several_ranks(fake_cards: FakeCards) -> None:
    part = {"kind": "slice", "card": "GPU-0", "name": "NVIDIA H100 80GB HBM3 MIG 3g.40gb", "total": 40 * GIB}
    fake_cards(h100(0, mig=1), {**part, "uuid": "MIG-1"}, {**part, "uuid": "MIG-2"})
    assert card_levels(2)["cards"] == "fail"


def test_the_machine_is_measured_by_what_it_gives_this_process() -> None:
    assert examine(compose_config([]))[1]["machine"]["cores"] <= (psutil.cpu_count() or 1)
