"""Which records are good enough to be kept, and which cells are measured again."""

from __future__ import annotations

from configs.errors import choose
from results.record import Record

RETRY = ("none", "failed", "oom", "all")
_TRANSIENT = ("failed", "timeout", "interrupted")


def must_run(record: Record | None, retry: str) -> bool:
    """Whether a cell with this record is measured (again) under `retry`.

    none: only what has no record. failed: also failures that another try may mend. oom: also what ran out of memory,
    a deterministic end. all: everything.
    """
    choose("retry", retry, RETRY)
    if record is None or retry == "all":
        return True
    if record.status in _TRANSIENT:
        return retry in ("failed", "oom")
    return record.status in ("oom", "infeasible") and retry == "oom"
