"""The host: shared memory, limits, disk, cores, threads, and variables that would misdirect the ranks."""

from __future__ import annotations

import math

from launch.checks.facts import Facts
from launch.checks.findings import FAIL, WARN, Finding, Results, listed, ok, unknown

MIB = 2**20
NCCL_SHM_GIB = 1.0  # what NCCL's user guide (Troubleshooting, Docker) asks to give a container
DISK_FAIL_GIB, DISK_WARN_GIB = 0.1, 5.0
SLOW_FILESYSTEMS = ("nfs", "nfs4", "fuse.sshfs", "cifs", "9p")
# What torchrun gives its ranks; found in the launcher's own environment they are somebody else's.
TORCHRUN = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
# Settings that switch NCCL's fast paths off.
SLOWING = {
    "NCCL_P2P_DISABLE": ("1",),
    "NCCL_P2P_LEVEL": ("LOC",),
    "NCCL_SHM_DISABLE": ("1",),
    "NCCL_IB_DISABLE": ("1",),
    "CUDA_LAUNCH_BLOCKING": ("1",),
    "NCCL_DEBUG": ("TRACE",),
}


def shared_memory(facts: Facts) -> Results:
    """/dev/shm against what loader workers hand over through it and what NCCL keeps in it."""
    plan, free = facts.plan, facts.host.shm_gib
    if free is None:
        return unknown("shared memory", "this system has no /dev/shm")
    loaders = plan.ranks * plan.loader_workers * plan.loader_prefetch * plan.loader_batch_gib
    do = "start the container with --shm-size=8g or --ipc=host; in Kubernetes mount an emptyDir of medium Memory"
    if free < loaders:
        what = (
            f"/dev/shm has {free:.2f} GiB free; {plan.ranks} ranks x {plan.loader_workers} workers x "
            f"{plan.loader_prefetch} batches of {plan.loader_batch_gib:.2f} GiB need {loaders:.2f}"
        )
        return [
            Finding("shared memory", FAIL, what, "a worker is ended by a bus error, at the latest in mid-epoch", do)
        ]
    if plan.on_cards and plan.ranks > 1 and free < NCCL_SHM_GIB + loaders:
        what = f"/dev/shm has {free:.2f} GiB free"
        why = "NCCL keeps its buffers there: too small, and it fails at the start with an unhandled system error"
        return [Finding("shared memory", FAIL if free < NCCL_SHM_GIB / 8 else WARN, what, why, do)]
    return ok("shared memory", f"{free:.1f} GiB free in /dev/shm")


def open_files(facts: Facts) -> Results:
    limit = facts.host.open_files
    if limit is None:
        return unknown("open files", "this system does not tell its limits")
    need = 128 + 8 * facts.plan.cards  # sockets to every peer, several a link, beside libraries and data
    if limit < need:
        hard = facts.host.open_files_hard
        do = f"ulimit -n {need if hard is None or math.isinf(hard) else int(min(max(need, 65536), hard))}"
        what = f"{limit:.0f} open files a process; {facts.plan.cards} ranks need about {need}"
        return [Finding("open files", FAIL if limit < need / 2 else WARN, what, "too many open files, in mid-run", do)]
    return ok("open files", "no limit" if math.isinf(limit) else f"{limit:.0f} a process")


def locked_memory(facts: Facts) -> Results:
    """InfiniBand pins its buffers; a limit on locked memory makes it fail, and NCCL falls back or stops."""
    limit, verbs = facts.host.memlock_bytes, facts.network.infiniband
    if limit is None:
        return unknown("locked memory", "this system does not tell its limits")
    if facts.plan.on_cards and verbs and not math.isinf(limit):
        what = f"{limit / MIB:.0f} MiB may be locked, and this node has {listed(verbs)}"
        why = "registering buffers for InfiniBand fails: cannot allocate memory"
        level = FAIL if facts.plan.nodes > 1 else WARN
        return [Finding("locked memory", level, what, why, "ulimit -l unlimited; in a container --ulimit memlock=-1")]
    return ok(
        "locked memory", "no limit" if math.isinf(limit) else f"{limit / MIB:.0f} MiB, and nothing here needs more"
    )


def disk(facts: Facts) -> Results:
    host = facts.host
    do = "another results_dir=..."
    if host.results_error:
        what = f"{host.results_dir} cannot be written: {host.results_error}"
        return [Finding("disk", FAIL, what, "no record could be kept", do)]
    free = host.results_free_gib
    if free is None:
        return unknown("disk", "its size is not told")
    what = f"{free:.1f} GiB free in {host.results_dir}"
    if free < DISK_WARN_GIB:
        level = FAIL if free < DISK_FAIL_GIB else WARN
        return [Finding("disk", level, what, "records, logs and checkpoints go there", f"free space, or {do}")]
    if host.results_filesystem == "tmpfs":
        why = "it is memory: the records are gone with the machine, and take from the ranks' memory"
        return [Finding("disk", WARN, f"{what}, on tmpfs", why, do)]
    if host.results_filesystem in SLOW_FILESYSTEMS:
        return ok("disk", f"{what}, on {host.results_filesystem}: a network drive, so storage figures are its own")
    return ok("disk", what)


def cores(facts: Facts) -> Results:
    have, plan = facts.host.cores, facts.plan
    if have is None:
        return unknown("cores", "this system does not tell")
    need = plan.ranks * plan.threads_per_rank
    what = f"{have:g} cores for {plan.ranks} ranks x {plan.threads_per_rank} threads"
    if have < need:
        why = (
            "the host cannot launch kernels and feed the cards in time"
            if plan.on_cards
            else "ranks on one core take turns: their scaling is that of the processor, not of cards"
        )
        return [Finding("cores", WARN, what, why, f"fewer cards, or a machine of {need} cores")]
    if plan.on_cards and have < 2 * plan.ranks:
        why = "a rank needs a core to launch kernels and another for data and its collectives' threads"
        return [Finding("cores", WARN, what, why, f"a machine of {2 * plan.ranks} cores or more")]
    return ok("cores", what)


def threads(facts: Facts) -> Results:
    """Thread variables that would give one rank other threads than several, or more than there are cores."""
    plan, variables = facts.plan, facts.rank_variables
    set_ = {name: variables[name] for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS") if variables.get(name)}
    wrong = {name: value for name, value in set_.items() if not value.split(",")[0].strip().isdigit()}
    if wrong:
        what = listed([f"{name}={value}" for name, value in wrong.items()])
        return [Finding("threads", WARN, what, "it is no number and is ignored", f"unset {listed(list(wrong))}")]
    most = max((int(value.split(",")[0]) for value in set_.values()), default=plan.threads_per_rank)
    have = facts.host.cores
    what = f"{plan.threads_per_rank} a rank at every card count" + "".join(f"; {n}={v}" for n, v in set_.items())
    if have is not None and most > plan.threads_per_rank and most * plan.ranks > have:
        why = f"libraries beside torch would start {most} x {plan.ranks} threads on {have:g} cores"
        return [Finding("threads", WARN, what, why, f"export OMP_NUM_THREADS={plan.threads_per_rank}")]
    return ok("threads", what)


def slurm(facts: Facts) -> Results:
    """Variables of a Slurm step or of somebody's torchrun against the ranks that the launcher itself starts."""
    variables, plan = facts.variables, facts.plan
    tasks = variables.get("SLURM_STEP_NUM_TASKS", "")
    inside = variables.get("TORCHELASTIC_RUN_ID")
    found = [name for name in TORCHRUN if name in variables]
    if tasks.isdigit() and int(tasks) > plan.nodes:
        what = f"srun has started {tasks} of these on {plan.nodes} nodes (SLURM_STEP_NUM_TASKS)"
        why = "each would start a world of its own, on the same cards"
        return [
            Finding(
                "slurm", FAIL, what, why, f"srun --ntasks={plan.nodes} --ntasks-per-node=1: the launcher starts ranks"
            )
        ]
    if found:
        what = f"{listed(found)} {'are' if len(found) > 1 else 'is'} set{' by torchrun' if inside else ''}"
        why = "the launcher starts its own ranks and gives them their own; libraries here may take these for the job's"
        return [Finding("slurm", WARN, what, why, f"unset {' '.join(found)}")]
    wide = variables.get("SLURM_NTASKS", "")
    if variables.get("SLURM_JOB_ID") and wide.isdigit() and int(wide) != plan.nodes:
        what = f"Slurm counts {wide} tasks, the run has {plan.nodes} launchers and {plan.cards} ranks"
        why = "libraries that read SLURM_PROCID take every rank for rank 0; the ranks here follow torchrun's variables"
        return [Finding("slurm", WARN, what, why, f"sbatch --ntasks={plan.nodes}, one task a node")]
    return ok("slurm", "no other launcher's variables" if not wide else f"{wide} tasks on {plan.nodes} nodes")


def settings(facts: Facts) -> Results:
    """Variables that switch fast paths off; right for a what-if, wrong when forgotten."""
    chosen = set(facts.plan.env)
    found = [
        f"{name}={value}"
        for name, values in SLOWING.items()
        if (value := facts.variables.get(name)) in values and name not in chosen
    ]
    if found:
        why = "it switches a fast path off, for this and every later run of this shell"
        names = " ".join(text.split("=")[0] for text in found)
        do = f"unset {names}, or name it as the cell's own: +cluster.env.{names.split()[0]}=1"
        return [Finding("settings", WARN, listed(found), why, do)]
    return ok("settings", "nothing that switches a fast path off")


def offline(facts: Facts) -> Results:
    """Whether anything would go to the network in the middle of a run."""
    if facts.host.model_error:
        return [
            Finding(
                "offline",
                FAIL,
                f"model.path: {facts.host.model_error}",
                "nothing is downloaded",
                "a folder with config.json and, for init=pretrained, *.safetensors",
            )
        ]
    on = [
        name for name in ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE") if facts.rank_variables.get(name) in ("1", "true")
    ]
    if facts.plan.model_path is None or on:
        return ok("offline", "models and text come from this machine" + (f"; {listed(on)} set" if on else ""))
    why = "a file that is missing is then looked for on the network, and a node without one hangs for minutes"
    return [Finding("offline", WARN, "HF_HUB_OFFLINE is not set", why, "export HF_HUB_OFFLINE=1")]


CHECKS = (shared_memory, open_files, locked_memory, disk, cores, threads, slurm, settings, offline)
