"""What follows a cell of pairs: the matrix and what is wrong in it, said when it was measured."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
from rich.console import Console

from analysis.links.pairs import Promise, judge_pairs, pair_matrix, pair_remarks
from configs.cell import from_dict
from configs.schema import Machine
from results.record import MEASURED, Record
from results.store import find_record


def promise_of(record: Record) -> Promise:
    """What the record's machine promises, on the links that its environment tells of."""
    machine = from_dict(Machine, record.config["machine"])
    topology = record.environment.get("topology") or {}
    return Promise(
        intra_gbps=machine.intra_node_gbps,
        inter_gbps=machine.inter_node_gbps,
        interconnect=machine.interconnect,
        links=topology.get("links", ()),
        links_up=topology.get("links_up", ()),
    )


def say_pairs(study: Path, cell_ids: list[str], console: Console) -> None:
    """Print the matrix of each of these cells that was measured, and the sentences on it."""
    for cell_id in cell_ids:
        record = find_record(study, cell_id)
        if record is None or record.benchmark != "pairs" or record.status not in MEASURED:
            continue
        rows = pd.DataFrame(record.collectives)
        for line in (*matrix_lines(pair_matrix(rows)), *pair_remarks(judge_pairs(rows, promise_of(record)))):
            console.print(line, markup=False, highlight=False)


def matrix_lines(matrix: pd.DataFrame) -> list[str]:
    """The matrix as text, GB/s from the rank of the row to that of the column."""
    if matrix.empty:
        return []
    cells = matrix.map(lambda rate: "-" if pd.isna(rate) else f"{rate:.3g}")
    return ["GB/s of one direction, from the rank of the row to that of the column:", *cells.to_string().splitlines()]
