"""A benchmark under somebody else's torchrun: compose the config, run this rank, and leave the same record."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

from benchmarks.device.sampler import DeviceSampler
from benchmarks.outcome import first_cause, make_record, now, rank_errors, status_of
from benchmarks.ranks import run_rank
from benchmarks.registry import BENCHMARKS, load
from configs.cell import resolve
from configs.compose import compose_config
from configs.engines import check_installed
from configs.errors import ConfigError
from results.store import cell_folder, write_record


def main(benchmark: str = "finetune") -> None:
    """Run one rank of the cell that the command line's overrides name; `cards` is the world size torchrun started."""
    world = os.environ.get("WORLD_SIZE", "1")
    for name, alone in (("RANK", "0"), ("WORLD_SIZE", "1"), ("LOCAL_RANK", "0"), ("MASTER_ADDR", "127.0.0.1")):
        os.environ.setdefault(name, alone)
    os.environ.setdefault("MASTER_PORT", "0")
    try:
        config = compose_config([f"benchmark={benchmark}", f"cards={world}", *sys.argv[1:]])
        cell = resolve(config)
        if benchmark == "finetune":
            check_installed(cell.mode, cell.recipe)
    except ConfigError as error:
        print(error, file=sys.stderr)
        raise SystemExit(2) from None
    study = Path(config.results_dir) / config.study_name
    ranks_folder = cell_folder(study, cell.cell_id) / "ranks"
    started_at, started = now(), time.monotonic()
    try:
        nodes = cell.cluster.nodes
        with DeviceSampler(cell.machine.device, cell.cards // nodes, os.environ, nodes) as sampler:
            sampler.observe([{"rank": int(os.environ["RANK"]), "pid": os.getpid(), "phase": "start"}])
            measurement = run_rank(cell, ranks_folder, load(BENCHMARKS[benchmark]))
    except BaseException:
        error = first_cause(rank_errors(ranks_folder))
        assert error is not None  # this rank has just written its own
        wall_s = time.monotonic() - started
        write_record(study, make_record(config.study_name, cell, status_of(error), started_at, wall_s, error=error))
        raise
    if measurement is not None:
        wall_s = time.monotonic() - started
        record = make_record(config.study_name, cell, "ok", started_at, wall_s, measurement, device=sampler.summary())
        path = write_record(study, record)
        print(f"{cell.label}: {record.throughput.get('tokens_per_s', float('nan')):,.0f} tokens/s -> {path}")
