"""The record of one cell: what it measured, or why it could not. Units are in the names; None is "not measured".

One JSON file a cell, schema-versioned. Fields may be added, never renamed: other people's scripts read them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

SCHEMA_VERSION = 1
STATUSES = ("ok", "oom", "infeasible", "failed", "timeout", "interrupted", "predicted", "imported")
MEASURED = ("ok", "imported")


class RecordError(ValueError):
    """A record that cannot be trusted: damaged JSON, an unknown status, a section of the wrong form."""


@dataclass(frozen=True)
class Error:
    """The first cause of a cell's end. kind: an exception's type, a signal's name, or a class such as `timeout`."""

    kind: str
    message: str
    rank: int | None = None
    hint: str = ""
    log_tail: str = ""
    host: str = ""


@dataclass(frozen=True)
class Record:
    """One cell's outcome; the sections are plain mappings with the fields that docs/record.md lists."""

    study: str
    cell_id: str
    benchmark: str
    status: str
    started_at: str  # UTC, ISO 8601
    wall_s: float
    card_hours: float
    error: Error | None = None
    workload: dict[str, Any] = field(default_factory=dict)
    parallel: dict[str, Any] = field(default_factory=dict)
    throughput: dict[str, Any] = field(default_factory=dict)
    memory: dict[str, Any] = field(default_factory=dict)
    device: dict[str, Any] = field(default_factory=dict)
    collectives: list[dict[str, Any]] = field(default_factory=list)
    storage: list[dict[str, Any]] = field(default_factory=list)
    matmul: list[dict[str, Any]] = field(default_factory=list)
    loss: dict[str, Any] = field(default_factory=dict)
    environment: dict[str, Any] = field(default_factory=dict)
    spending: dict[str, Any] = field(default_factory=dict)  # attempts, idle cards, earlier attempts' card-hours
    config: dict[str, Any] = field(default_factory=dict)  # the whole cell, to run it again
    schema_version: int = SCHEMA_VERSION

    def __post_init__(self) -> None:
        if self.status not in STATUSES:
            raise RecordError(f"status {self.status!r} is unknown; known: {', '.join(STATUSES)}")


def to_json(record: Record) -> dict[str, Any]:
    """`record` as strict JSON data: NaN and infinities become None, so that every reader accepts the file."""
    cleaned: dict[str, Any] = finite(asdict(record))
    return cleaned


def from_json(data: Any) -> Record:
    """Rebuild a record. Raises RecordError where a field is missing, unknown to us (a newer schema) or ill-formed."""
    if not isinstance(data, Mapping):
        raise RecordError("is not a JSON object")
    version = data.get("schema_version")
    if version != SCHEMA_VERSION:
        raise RecordError(f"schema_version {version!r} is not {SCHEMA_VERSION}")
    content = dict(data)
    for name in ("workload", "parallel", "throughput", "memory", "device", "loss", "environment", "spending", "config"):
        if not isinstance(content.get(name, {}), Mapping):
            raise RecordError(f"{name} is not an object")
    try:
        error = content.pop("error", None)
        return Record(error=None if error is None else Error(**error), **content)
    except TypeError as wrong:
        raise RecordError(str(wrong).replace("Record.__init__() ", "")) from None


def finite(value: Any) -> Any:
    """`value` with NaN and infinities replaced by None at every depth: strict JSON has no word for them."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(key): finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [finite(item) for item in value]
    return value
