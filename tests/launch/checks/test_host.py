"""Shared memory, limits, disk, cores, variables: each fault planted on a healthy host."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from launch.checks import host as checks
from launch.checks.facts import Facts
from tests.launch.healthy import on_cards, on_processor, only


def host(facts: Facts, **fault: Any) -> Facts:
    return replace(facts, host=replace(facts.host, **fault))


def given(facts: Facts, **variables: str) -> Facts:
    return replace(facts, variables=variables)


def test_dockers_default_shared_memory_breaks_workers() -> None:
    # 2 ranks x 4 workers x 2 batches of 0.01 GiB are 0.16 GiB; docker gives 64 MiB
    facts = host(on_processor(loader_workers=4, loader_batch_gib=0.01), shm_gib=64 / 1024)
    finding = only(checks.shared_memory, facts)
    assert finding.level == "fail"
    assert "0.06 GiB free; 2 ranks x 4 workers x 2 batches of 0.01 GiB need 0.16" in finding.what
    assert "--shm-size" in finding.do


def test_dockers_default_shared_memory_breaks_nccl() -> None:
    finding = only(checks.shared_memory, host(on_cards(2), shm_gib=64 / 1024))
    assert finding.level == "fail"
    assert "NCCL" in finding.why


def test_shared_memory_below_what_nccl_asks_for_is_a_warning() -> None:
    assert only(checks.shared_memory, host(on_cards(2), shm_gib=0.5)).level == "warn"


def test_one_card_needs_no_shared_memory() -> None:
    assert only(checks.shared_memory, host(on_cards(1), shm_gib=64 / 1024)).level == "ok"


def test_too_few_open_files_are_found() -> None:
    # 128 + 8 for each of 256 ranks
    finding = only(checks.open_files, host(on_processor(cards=256, nodes=32), open_files=1024))
    assert finding.level == "fail"
    assert "256 ranks need about 2176" in finding.what


def test_linuxs_default_of_open_files_will_do_for_a_node() -> None:
    assert only(checks.open_files, host(on_cards(8), open_files=1024)).level == "ok"


@pytest.mark.parametrize(("nodes", "level"), [(2, "fail"), (1, "warn")])
def test_a_limit_on_locked_memory_breaks_infiniband(nodes: int, level: str) -> None:
    facts = host(on_cards(2, nodes=nodes), memlock_bytes=8 * 2**20)
    facts = replace(facts, network=replace(facts.network, infiniband=("mlx5_0",)))
    finding = only(checks.locked_memory, facts)
    assert finding.level == level
    assert "8 MiB may be locked, and this node has mlx5_0" in finding.what


def test_a_limit_on_locked_memory_without_infiniband_does_not_matter() -> None:
    assert only(checks.locked_memory, host(on_cards(2), memlock_bytes=8 * 2**20)).level == "ok"


@pytest.mark.parametrize(
    ("fault", "level", "words"),
    [
        ({"results_error": "Read-only file system"}, "fail", "cannot be written: Read-only file system"),
        ({"results_free_gib": 0.01}, "fail", "0.0 GiB free"),
        ({"results_free_gib": 2.0}, "warn", "2.0 GiB free in results/runs"),
        ({"results_filesystem": "tmpfs"}, "warn", "on tmpfs"),
    ],
)
def test_a_disk_that_will_not_hold_the_records_is_found(fault: dict[str, Any], level: str, words: str) -> None:
    finding = only(checks.disk, host(on_processor(), **fault))
    assert finding.level == level
    assert words in finding.what


def test_fewer_cores_than_ranks_are_a_warning() -> None:
    finding = only(checks.cores, host(on_processor(cards=8), cores=2))
    assert finding.level == "warn"
    assert finding.what == "2 cores for 8 ranks x 1 threads"


def test_a_card_wants_two_cores() -> None:
    finding = only(checks.cores, host(on_cards(8), cores=12))
    assert finding.level == "warn"
    assert finding.do == "a machine of 16 cores or more"


def test_a_thread_variable_that_oversubscribes_is_a_warning() -> None:
    facts = given(host(on_processor(cards=8), cores=16), OMP_NUM_THREADS="16")
    finding = only(checks.threads, facts)
    assert finding.level == "warn"
    assert finding.do == "export OMP_NUM_THREADS=1"


def test_a_thread_variable_that_is_no_number_is_a_warning() -> None:
    assert only(checks.threads, given(on_processor(), OMP_NUM_THREADS="all")).level == "warn"


def test_several_launchers_under_srun_break_the_run() -> None:
    finding = only(checks.slurm, given(on_cards(2), SLURM_STEP_NUM_TASKS="8", SLURM_PROCID="0", SLURM_JOB_ID="1"))
    assert finding.level == "fail"
    assert "srun --ntasks=1" in finding.do


def test_slurms_tasks_in_an_allocation_are_a_warning() -> None:
    finding = only(checks.slurm, given(on_processor(), SLURM_PROCID="0", SLURM_NTASKS="8", SLURM_JOB_ID="1"))
    assert finding.level == "warn"
    assert "8 tasks, the run has 1 launchers and 2 ranks" in finding.what


def test_one_task_a_node_is_well() -> None:
    facts = given(on_cards(2, nodes=2), SLURM_NTASKS="2", SLURM_STEP_NUM_TASKS="2", SLURM_JOB_ID="1")
    assert only(checks.slurm, facts).level == "ok"


def test_variables_of_another_torchrun_are_a_warning() -> None:
    finding = only(checks.slurm, given(on_processor(), RANK="3", WORLD_SIZE="8"))
    assert finding.level == "warn"
    assert finding.do == "unset RANK WORLD_SIZE"


def test_a_forgotten_switch_of_a_fast_path_is_a_warning() -> None:
    assert only(checks.settings, given(on_cards(2), NCCL_P2P_DISABLE="1")).what == "NCCL_P2P_DISABLE=1"


def test_a_switch_that_the_cell_names_is_meant() -> None:
    facts = given(on_cards(2, env={"NCCL_P2P_DISABLE": "1"}), NCCL_P2P_DISABLE="1")
    assert only(checks.settings, facts).level == "ok"


def test_a_model_folder_that_is_incomplete_breaks_the_run() -> None:
    finding = only(
        checks.offline, host(on_cards(2, model_path="/models/x"), model_error="/models/x has no *.safetensors")
    )
    assert finding.level == "fail"


def test_a_model_folder_without_offline_mode_is_a_warning() -> None:
    assert only(checks.offline, on_cards(2, model_path="/models/x")).do == "export HF_HUB_OFFLINE=1"


def test_a_model_folder_in_offline_mode_is_well() -> None:
    assert only(checks.offline, given(on_cards(2, model_path="/models/x"), HF_HUB_OFFLINE="1")).level == "ok"
