"""The doctor from the command line."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

Cardscale = Callable[..., "subprocess.CompletedProcess[str]"]


def test_a_machine_that_can_run_two_ranks_is_told_so(cardscale: Cardscale, tmp_path: Path) -> None:
    done = cardscale("doctor", "cards=2")
    assert done.returncode == 0
    assert "0 will break the run" in done.stdout
    assert list(tmp_path.iterdir()) == []


def test_a_missing_driver_is_exit_code_one_and_json_says_what_to_do(
    cardscale: Cardscale, nvml_stub: Path, tmp_path: Path
) -> None:
    machine = tmp_path / "none.tsv"  # the stub answers that no driver is loaded
    done = cardscale(
        "doctor", "machine=h100_80g", "cards=8", "format=json", LD_LIBRARY_PATH=str(nvml_stub), FAKE_NVML=str(machine)
    )
    report = json.loads(done.stdout)
    driver = next(finding for finding in report["findings"] if finding["check"] == "driver")
    assert done.returncode == 1
    assert driver["level"] == "fail"
    assert "Driver Not Loaded" in driver["what"]
    assert driver["do"]


def test_two_fake_cards_are_found_under_their_mask(cardscale: Cardscale, nvml_stub: Path, tmp_path: Path) -> None:
    machine = tmp_path / "machine.tsv"
    cards = [f"card\tuuid=GPU-{i}\tname=NVIDIA H100 80GB HBM3\tbus=00000000:0{i}:00.0\tlinks=switch" for i in range(4)]
    machine.write_text("\n".join(["system\tdriver=550.54.15\tcuda=12040", *cards]) + "\n")
    variables = {"LD_LIBRARY_PATH": str(nvml_stub), "FAKE_NVML": str(machine), "CUDA_VISIBLE_DEVICES": "2,GPU-0"}
    report = json.loads(cardscale("doctor", "machine=h100_80g", "cards=2", "format=json", **variables).stdout)
    assert [card["index"] for card in report["machine"]["cards"]] == [2, 0]
    assert report["machine"]["topology"]["verdict"] == "NVLink full mesh"


def test_a_wrong_word_is_exit_code_two(cardscale: Cardscale) -> None:
    done = cardscale("doctor", "cards=2", "cluster.nodes=2", "cluster.rendezvous='a:b:c'")
    assert done.returncode == 2
    assert done.stderr.strip().startswith("cluster.rendezvous: 'a:b:c' is no host and port")
