"""What a log of NCCL tests holds, text or JSON, before its meaning is worked out: runs, devices, rows as printed."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Device:
    """One rank as the header lists it."""

    rank: int
    pid: int
    host: str
    name: str


@dataclass(frozen=True)
class RawRow:
    """One size: its fixed columns as printed, and one mapping of column to value for each placement."""

    line: int
    size: int
    count: int
    type: str
    redop: str
    root: int | None
    groups: dict[str, dict[str, float | None]]


@dataclass
class Section:
    """One run: its devices, its table, its summary."""

    program: str | None = None
    devices: list[Device] = field(default_factory=list)
    rows: list[RawRow] = field(default_factory=list)
    average_busbw: float | None = None
    environment: dict[str, str] = field(default_factory=dict)


@dataclass
class RawLog:
    """Everything a text held. `skipped` and `broken` are (line number from 1, text)."""

    sections: list[Section] = field(default_factory=list)
    skipped: list[tuple[int, str]] = field(default_factory=list)
    broken: list[tuple[int, str]] = field(default_factory=list)
    nccl_version: str | None = None
    headers: int = 0
