"""Run collectives cells in real Gloo ranks: `python gloo_ranks.py SPEC.json`, whose forks are the ranks.

SPEC: {"ranks": [of this process], "world": n, "store": init_method, "cells": [Config fields], "out": rows of rank 0}.
torch is imported once and the ranks are forks of it, before any of its threads exist.
"""

from __future__ import annotations

import json
import os
import sys
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist

from benchmarks.collectives import measure
from configs.cell import from_dict, resolve
from configs.errors import ConfigError
from configs.schema import Config


def run(rank: int, spec: dict) -> None:
    torch.set_num_threads(1)
    timeout = timedelta(seconds=60)
    dist.init_process_group("gloo", spec["store"], timeout, world_size=spec["world"], rank=rank)
    outcomes = []
    for fields in spec["cells"]:
        live: list[dict] = []
        try:
            rows = measure(resolve(from_dict(Config, fields)), torch.device("cpu"), live.append)
        except ConfigError as error:
            outcomes.append({"error": str(error)})
        else:
            outcomes.append({"rows": rows, "live": live})
    Path(f"{spec['out']}.{rank}").write_text(json.dumps(outcomes))
    dist.destroy_process_group()


def main(spec: dict) -> int:
    children = []
    for rank in spec["ranks"]:
        child = os.fork()
        if child == 0:
            try:
                run(rank, spec)
            finally:
                sys.stdout.flush()
                sys.stderr.flush()
                os._exit(1 if sys.exc_info()[0] else 0)
        children.append(child)
    return max(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) != 0 for child in children)


if __name__ == "__main__":
    sys.exit(main(json.loads(Path(sys.argv[1]).read_text())))
