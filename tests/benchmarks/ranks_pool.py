"""Ranks that stay: one set of processes a world size, in which many cells run one after another, as tests want them.

The product starts fresh ranks for every cell. A test of what a cell computes needs no fresh process, and the start of
eight of them costs far more than five steps of a tiny model.
"""

from __future__ import annotations

import multiprocessing
import os
import shutil
import tempfile
import traceback
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

from benchmarks.registry import BENCHMARKS, load
from configs.cell import Cell, from_dict, to_dict

# Process groups are made for every cell and stay; each keeps a thread that wakes a hundred times a second, so that the
# groups of forty cells on eight ranks fill two cores. A new set of processes drops them.
CELLS_A_LIFE = 8
ANSWER_S = 300.0


@dataclass(frozen=True)
class Ended:
    """How a cell ended in the pool: rank 0's measurement, or what the first rank to fail said."""

    measurement: Any
    error: str | None


def _serve(rank: int, world: int, folder: str, work: Connection) -> None:
    import torch
    import torch.distributed as dist

    from benchmarks.ranks import Heartbeat, die_with_parent

    die_with_parent()
    os.environ |= {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(world)}
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=world)
    while True:
        path, cell_data = work.recv()
        heartbeat = Heartbeat(Path(folder) / f"rank{rank}.heartbeat", rank)
        try:
            found = load(path)(from_dict(Cell, cell_data), torch.device("cpu"), heartbeat)
            dist.barrier()
            work.send((found, None))
        except BaseException as error:
            traceback.print_exc()
            work.send((None, f"{type(error).__name__}: {error}"))
        heartbeat.close()


class RanksPool:
    """`run(cell)` on as many warm ranks as the cell has cards. A rank that fails ends its set; the next is new."""

    def __init__(self) -> None:
        self._context = multiprocessing.get_context("forkserver")
        self._sets: dict[int, list[tuple[Any, Connection]]] = {}
        self._folders: dict[int, str] = {}
        self._lived: dict[int, int] = {}

    def run(self, cell: Cell, function: str = BENCHMARKS["finetune"]) -> Ended:
        """Call "module:function" with `cell`, its device and a heartbeat on every rank."""
        world = cell.cards
        if self._lived.get(world, 0) >= CELLS_A_LIFE:
            self._end(world)
        if world not in self._sets:
            self._start(world)
        self._lived[world] += 1
        ranks = self._sets[world]
        for _, line in ranks:
            line.send((function, to_dict(cell)))
        answers: dict[int, Any] = {}
        while len(answers) < world:
            ready = wait([line for rank, (_, line) in enumerate(ranks) if rank not in answers], timeout=ANSWER_S)
            if not ready:
                self._end(world)
                return Ended(None, f"ranks {sorted(set(range(world)) - set(answers))} did not answer")
            for rank, (_, line) in enumerate(ranks):
                if line in ready:
                    try:
                        answers[rank] = line.recv()
                    except EOFError:
                        answers[rank] = (None, f"rank {rank} is gone")
                    if answers[rank][1] is not None:
                        self._end(world)
                        return Ended(None, answers[rank][1])
        return Ended(answers[0][0], None)

    def close(self) -> None:
        for world in list(self._sets):
            self._end(world)

    def _start(self, world: int) -> None:
        self._folders[world] = tempfile.mkdtemp(prefix="ranks")
        self._lived[world] = 0
        self._sets[world] = []
        for rank in range(world):
            ours, theirs = multiprocessing.Pipe()
            process = self._context.Process(
                target=_serve, args=(rank, world, self._folders[world], theirs), daemon=True
            )
            process.start()
            theirs.close()
            self._sets[world].append((process, ours))

    def _end(self, world: int) -> None:
        for process, line in self._sets.pop(world):
            process.kill()
            process.join()
            line.close()
        shutil.rmtree(self._folders.pop(world), ignore_errors=True)
