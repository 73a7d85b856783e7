"""What a study says besides scaling and cost: what must be known first, what failed and why, the environment."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pandas as pd

from analysis.scaling.series import is_measured, numbers, texts
from analysis.tables import Column, Group, Row, Table, number, plain
from analysis.text import Say
from results.record import MEASURED

# A host's name says nothing about speed; imports describe themselves in their own records.
_NOT_SHOWN = ("environment.host", "environment.import")
_ENVIRONMENT = re.compile(r"^environment\.(packages\.|variables\.)?")
DEVICE_KIND = "machine.device"  # of the cell's own configuration: cpu or cuda


def notices(frame: pd.DataFrame, study: str, say: Say) -> list[str]:
    """Sentences that belong above every table: nothing measured, ranks for cards, oversubscribed cores."""
    if frame.empty:
        return [say("notice.empty", study=study)]
    said = []
    on_cpu = is_cpu(frame)
    if on_cpu.any():
        said.append(say("notice.cpu"))
        ranks = numbers(frame, "parallel.cards")[on_cpu]
        threads = np.nan_to_num(numbers(frame, "parallel.threads_per_rank")[on_cpu], nan=1.0)
        cores = numbers(frame, "device.cores")[on_cpu]
        over = ranks * threads > cores
        if over.any():
            most = int(np.nanargmax(np.where(over, ranks, np.nan)))
            said.append(say("notice.oversubscribed", ranks=f"{ranks[most]:g}", cores=f"{cores[most]:g}"))
        elif np.isnan(cores).all():
            said.append(say("notice.cores_unknown"))
    if not (texts(frame, "status").isin(MEASURED)).any():
        said.append(say("notice.nothing"))
    elif count := len(not_measured(frame)):
        said.append(say("notice.failed", count=count))
    return said


def is_cpu(frame: pd.DataFrame) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """True where ranks stand in for cards."""
    named = texts(frame, "device.name").str.lower().str.startswith("cpu")
    return (texts(frame, DEVICE_KIND).eq("cpu") | named).to_numpy(dtype=bool)


def not_measured(frame: pd.DataFrame) -> pd.DataFrame:
    """The cells that ended without a measurement; a predicted one never tried."""
    status = texts(frame, "status")
    training = texts(frame, "benchmark").isin(["", "finetune"])
    claims = training & status.isin(["", *MEASURED]) & ~is_measured(frame)
    return frame[~status.isin(["", *MEASURED, "predicted"]) | claims]


def failures_view(frame: pd.DataFrame, say: Say) -> Table:
    """One row a cell without a measurement: which, how it ended, the first cause and what may help."""
    columns = (
        Column("cell", say("failures.cell")),
        Column("cards", say("scaling.cards"), form="count"),
        Column("status", say("scaling.status")),
        Column("reason", say("failures.reason")),
    )
    rows = []
    failed = not_measured(frame)
    fields = ("workload.model", "parallel.mode", "benchmark", "status", "cell_id")
    text = {name: texts(failed, name).tolist() for name in fields}
    for i, cards in enumerate(numbers(failed, "parallel.cards")):
        if text["benchmark"][i] in ("", "finetune"):
            cell = " ".join(part for part in (text["workload.model"][i], text["parallel.mode"][i]) if part)
        else:
            cell = text["benchmark"][i]
        reason = failure_reason(failed.iloc[i], say)
        status = text["status"][i] or "imported"
        rows.append(
            Row(
                (plain(cell or text["cell_id"][i]), number(cards), say(f"status.{status}"), reason), ("",) * 4, "failed"
            )
        )
    return Table("failures", say("failures.title"), columns, (Group("", tuple(rows)),), stub=3)


def failure_reason(cell: pd.Series[Any], say: Say) -> str:
    """`rank 3: OutOfMemoryError: what it said (what may help)`."""
    kind, message, tip = (plain(cell.get(f"error.{part}")) for part in ("kind", "message", "hint"))
    rank = number(cell.get("error.rank"))
    if not kind and not message:
        return say("failures.none_given")
    who = "" if rank is None else say("failures.rank", rank=f"{rank:g}")
    return who + ": ".join(part for part in (kind, message) if part) + (f" ({tip})" if tip else "")


def environment_view(frame: pd.DataFrame, say: Say) -> Table:
    """What the cells were measured with: devices, versions, variables; one row a value, with how many cells had it."""
    named = {
        "device.name": say("environment.device"),
        "device.cores": say("environment.cores"),
        "device.interconnect": say("environment.interconnect"),
        "environment.driver": say("environment.driver"),
        "environment.python": say("environment.python"),
        "environment.platform": say("environment.platform"),
        "environment.git": say("environment.git"),
        "parallel.threads_per_rank": say("environment.threads"),
    }
    other = [
        str(name)
        for name in sorted(frame.columns)
        if str(name).startswith("environment.") and name not in named and not str(name).startswith(_NOT_SHOWN)
    ]
    rows = []
    for name in (*named, *other):
        label = named.get(name) or name.removeprefix("environment.").removeprefix("packages.").removeprefix(
            "variables."
        )
        values = frame[name].dropna() if name in frame.columns else pd.Series([], dtype=object)
        for value, count in values[values != ""].value_counts(sort=False).items():
            text = f"{value:g}" if isinstance(value, float) else plain(value)
            rows.append(Row((plain(label), text, float(count)), ("",) * 3))
    columns = (
        Column("field", say("environment.field")),
        Column("value", say("environment.value")),
        Column("cells", say("environment.cells"), form="count"),
    )
    notes = (say("environment.note"),)
    return Table("environment", say("environment.title"), columns, (Group("", tuple(rows)),), notes)
