"""What a log of NCCL tests says: rows as the record's `collectives` section has them, with notes and warnings.

Pure: text in, rows out. The log's own numbers are kept; where they are of an older convention they are restated and a
warning says so. Formulas and conventions: results.bandwidth.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from analysis.nccl.columns import IN_PLACE
from analysis.nccl.json import looks_like_json, read_json
from analysis.nccl.sections import Device, RawLog, RawRow, Section
from analysis.nccl.text import read_text
from configs.errors import ConfigError
from results.bandwidth import BUS_FACTORS, SHARED_OUT, algbw_gbps

Row = dict[str, Any]

OPS_BY_PROGRAM = {"alltoall": "all_to_all", "sendrecv": "send_recv"}
DTYPES = {"float": "fp32", "half": "fp16", "bfloat16": "bf16", "double": "fp64", "f8e4m3": "fp8", "f8e5m2": "fp8_e5m2"}
ELEMENT_BYTES = {"double": 8, "int64": 8, "uint64": 8, "float": 4, "int32": 4, "int": 4, "uint32": 4}
ELEMENT_BYTES |= {"half": 2, "bfloat16": 2, "int8": 1, "uint8": 1, "char": 1, "f8e4m3": 1, "f8e5m2": 1}
REDUCTIONS = ("sum", "prod", "min", "max", "avg", "mulsum")
PRINTED_HALF = 0.005  # bandwidths are printed with two decimals


@dataclass(frozen=True)
class Run:
    """One run of one program: what it measured, on how many ranks, and what to know before using it."""

    op: str
    ranks: int | None
    nodes: int | None
    device: str | None
    rows: list[Row]
    notes: list[str]
    warnings: list[str]
    environment: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Log:
    """Everything in one file. `skipped` and `broken` are (line, text) that gave no row."""

    runs: list[Run]
    warnings: list[str]
    skipped: list[tuple[int, str]]
    broken: list[tuple[int, str]]
    nccl_version: str | None

    @property
    def rows(self) -> list[Row]:
        return [row for run in self.runs for row in run.rows]


def read_log(text: str, name: str = "log") -> Log:
    """Read the output of NCCL tests, text or JSON, of any version. `name` is the file's, for messages and as a hint.

    A row is one size and placement: op, bytes, count, dtype, redop, root, in_place, time_us, algbw_gbps, busbw_gbps,
    wrong (None where it was not checked), ranks, nodes, backend, line. Raises ConfigError where there is no result.
    """
    if not text.strip():
        raise ConfigError(name, "is empty", "the output of an NCCL test, text or JSON")
    raw = read_json(text) if looks_like_json(text) else read_text(text)
    if not any(section.rows for section in raw.sections):
        raise ConfigError(name, _why_empty(raw), "the output of an NCCL test, text or JSON, to its last line")
    warnings = [
        f"line {line} is not whole and was left out: {' '.join(text.split())[:60]}" for line, text in raw.broken
    ]
    if raw.skipped:
        warnings.append(f"{len(raw.skipped)} lines that are not results were skipped, the first is {raw.skipped[0][0]}")
    runs = [_run(section, name) for section in raw.sections if section.rows]
    return Log(runs, warnings, raw.skipped, raw.broken, raw.nccl_version)


def in_switch_notes(rows: Iterable[Mapping[str, Any]], link_gbps: float | None = None) -> list[str]:
    """Say where bus bandwidth is above what the links carry. Values are not changed: the formula stays the standard.

    link_gbps: what the machine's links are rated at, per card and direction, GB/s. Switches that reduce (NVLink SHARP)
    move less data than the formula counts, so all_reduce can show more than all_gather reaches on the same links.
    """
    peaks: dict[tuple[Any, Any, str], float] = {}
    for row in rows:
        key = (row.get("ranks"), row.get("nodes"), row["op"])
        peaks[key] = max(peaks.get(key, 0.0), row.get("busbw_gbps") or 0.0)
    notes = []
    for (ranks, nodes, op), peak in peaks.items():
        gathered = peaks.get((ranks, nodes, "all_gather"))
        if op == "all_reduce" and gathered and peak > 1.05 * gathered:
            notes.append(
                f"all_reduce busbw {peak:.4g} GB/s on {ranks} ranks is above the {gathered:.4g} of all_gather: "
                "the switch reduces, so less data moves than the formula counts; all_gather shows the links"
            )
        if link_gbps and peak > link_gbps:
            notes.append(
                f"{op} busbw {peak:.4g} GB/s is above the links' {link_gbps:.4g}: the formula counts data that "
                "in-switch reduction, or a tree over two nodes, does not move; it is no link speed"
            )
    return notes


def _run(section: Section, name: str) -> Run:
    communicated = not _lone_ranks(section.devices)
    op, op_notes, op_warnings = _operation(section, name)
    listed = len({device.rank for device in section.devices}) or None
    ranks = listed if communicated else 1
    if ranks is None:
        ranks = _ranks_from_figures(op, section.rows)
        note = "not stated" if ranks is None else f"{ranks} ranks"
        op_notes.append(f"no list of devices: {note}, from " + _evidence(op))
    nodes = (len({device.host for device in section.devices}) or None) if communicated else 1
    names = {device.name for device in section.devices if device.name}
    rows, warnings = _rows(section, op, ranks, nodes)
    warnings = [*_silence(section, ranks, rows, communicated), *op_warnings, *warnings]
    notes = [*op_notes, *_figures(section, rows), *_scope(op, nodes), *in_switch_notes(rows)]
    return Run(op, ranks, nodes, " / ".join(sorted(names)) or None, rows, notes, warnings, section.environment)


def _rows(section: Section, op: str, ranks: int | None, nodes: int | None) -> tuple[list[Row], list[str]]:
    """Rows of a run, one for each size and placement, and what had to be restated in them."""
    milliseconds = _prints_milliseconds(section.rows)
    old = _old_convention(section.rows, op, ranks)
    rows = []
    for raw in section.rows:
        for placement, group in raw.groups.items():
            time_us, algbw = group["time"], group["algbw"]
            if milliseconds and time_us is not None:
                time_us *= 1e3
            if old and time_us:
                algbw = algbw_gbps(raw.size, time_us)
            wrong = group.get("wrong")
            if "error" in group and group["error"] == 0:
                wrong = 0.0
            row: Row = {
                "op": op,
                "bytes": raw.size,
                "count": raw.count,
                "dtype": DTYPES.get(raw.type, raw.type),
                "redop": raw.redop or None,
                "root": raw.root,
                "in_place": placement == IN_PLACE,
                "time_us": time_us,
                "algbw_gbps": algbw,
                "busbw_gbps": group["busbw"],
                "wrong": None if wrong is None else int(wrong),
                "ranks": ranks,
                "nodes": nodes,
                "backend": "nccl",
                "line": raw.line,
            }
            spread = {"min": "time_min_us", "max": "time_max_us", "p99": "time_p99_us", "error": "largest_error"}
            row |= {ours: group[theirs] for theirs, ours in spread.items() if theirs in group}
            rows.append(row)
    warnings = []
    if old:
        warnings.append(
            "algbw equals busbw: an old version with the factor (n-1)/n inside algbw; algbw is restated as size / time"
        )
    if milliseconds:
        warnings.append("times are in milliseconds, as NCCL 1 printed them; restated in microseconds")
    wrong_rows = [row for row in rows if row["wrong"]]
    if wrong_rows:
        total = sum(row["wrong"] for row in wrong_rows)
        warnings.append(f"{total} wrong elements in {len(wrong_rows)} rows: these speeds are not of correct results")
    return rows, warnings


def _operation(section: Section, name: str) -> tuple[str, list[str], list[str]]:
    """(op, notes, warnings): the op that the log names, else the one that its columns and figures leave."""
    fits = _fitting_ops(section.rows)
    if section.program:
        op = OPS_BY_PROGRAM.get(section.program, section.program)
        if op in BUS_FACTORS and op not in fits:
            return op, [], [f"the log names {op}, but its columns look like {' or '.join(fits)}"]
        return op, [], []
    hinted = [op for op in fits if op in name or op.replace("_", "") in name.replace("_", "")]
    hinted.sort(key=len, reverse=True)  # "reduce" is in "all_reduce"
    op = (hinted or fits)[0]
    others = [other for other in fits if other != op]
    also = f"; {' or '.join(others)} would look the same" if others and not hinted else ""
    source = "the file's name and its columns" if hinted else "its columns"
    return op, [f"the log does not name the operation: {op}, from {source}{also}"], []


def _fitting_ops(rows: Sequence[RawRow]) -> list[str]:
    """The ops whose conventions for count, redop and root these rows keep, the likeliest first."""
    parts = [_parts(row) for row in rows if row.size and row.count]
    shared_out = bool(parts) and statistics.median(parts) > 1.5
    reduces = rows[0].redop in REDUCTIONS
    rooted = rows[0].root is not None and rows[0].root >= 0
    if shared_out:
        unchecked = all(IN_PLACE not in row.groups or row.groups[IN_PLACE].get("wrong") is None for row in rows)
        if reduces:
            return ["reduce_scatter"]
        return ["all_to_all", "all_gather"] if unchecked else ["all_gather", "all_to_all"]
    if reduces:
        return ["reduce", "all_reduce"] if rooted else ["all_reduce", "reduce_scatter", "reduce"]
    return ["broadcast"] if rooted else ["send_recv", "broadcast", "all_gather", "all_to_all"]


def _parts(row: RawRow) -> float:
    """Size over what one rank passes: the number of ranks where the buffer is shared out, else 1."""
    return row.size / (row.count * ELEMENT_BYTES.get(row.type, 4))


def _ranks_from_figures(op: str, rows: Sequence[RawRow]) -> int | None:
    """The ranks that the figures tell: by a shared-out buffer's parts, or by busbw / algbw; None if they do not."""
    if op in SHARED_OUT:
        parts = [_parts(row) for row in rows if row.size and row.count]
        return round(statistics.median(parts)) if parts else None
    if op != "all_reduce":
        return None
    groups = [group for row in rows for group in row.groups.values()]
    algbw, busbw = max(((group["algbw"] or 0.0, group["busbw"] or 0.0) for group in groups), default=(0.0, 0.0))
    if algbw < 1:
        return None  # two decimals of it say too little
    low, high = ((busbw + sign * PRINTED_HALF) / (algbw - sign * PRINTED_HALF) for sign in (-1, 1))
    if low >= 2:
        return None
    ranks = round(2 / (2 - busbw / algbw)) if busbw < 2 * algbw else None
    return ranks if ranks and (high >= 2 or 2 / (2 - high) - 2 / (2 - low) < 1) else None


def _evidence(op: str) -> str:
    return "size over count" if op in SHARED_OUT else "busbw over algbw"


def _lone_ranks(devices: Sequence[Device]) -> bool:
    """Whether several processes each called themselves rank 0: nothing connected them."""
    return len(devices) > 1 and {device.rank for device in devices} == {0}


def _silence(section: Section, ranks: int | None, rows: Sequence[Row], communicated: bool) -> list[str]:
    if not communicated:
        return [
            f"this measured no communication: {len(section.devices)} processes ran alone, each as rank 0 "
            "(NCCL tests built without MPI); busbw 0 says nothing about the network"
        ]
    if ranks == 1:
        return ["this measured no communication: one rank moves no data, so busbw is 0 whatever the links can do"]
    if all(row["busbw_gbps"] == 0 for row in rows) and any((row["algbw_gbps"] or 0) >= 1 for row in rows):
        return ["busbw is 0 beside an algbw that is not: this measured no communication"]
    return []


def _prints_milliseconds(rows: Sequence[RawRow]) -> bool:
    ratios = [
        algbw_gbps(row.size, group["time"]) / group["algbw"]
        for row in rows
        for group in row.groups.values()
        if group["time"] and group["algbw"]
    ]
    return bool(ratios) and all(700 < ratio < 1400 for ratio in ratios)


def _old_convention(rows: Sequence[RawRow], op: str, ranks: int | None) -> bool:
    """Whether algbw already has (n-1)/n in it, as in NCCL tests before June 2020 (NVIDIA/nccl-tests issue 45)."""
    if op not in SHARED_OUT:
        return False
    groups = [(row.size, group) for row in rows for group in row.groups.values()]
    told = [(size, g["time"], g["algbw"], g["busbw"]) for size, g in groups if g["time"] and (g["algbw"] or 0) >= 0.1]
    if not told or any(algbw != busbw for _, _, algbw, busbw in told):
        return False
    share = statistics.median((algbw or 0) / algbw_gbps(size, time or 0) for size, time, algbw, _ in told)
    return abs(share - (1 - 1 / ranks)) < 0.02 if ranks else share < 0.99


def _figures(section: Section, rows: Sequence[Row]) -> list[str]:
    """The peak, where it is, and what the printed average is an average of."""
    notes = []
    best = max(rows, key=lambda row: row["busbw_gbps"] or 0.0)
    if best["busbw_gbps"]:
        place = "in place" if best["in_place"] else "out of place"
        notes.append(f"peak busbw {best['busbw_gbps']:.4g} GB/s at {size_label(best['bytes'])}, {place}")
    if section.average_busbw is not None:
        small, large = min(row["bytes"] for row in rows), max(row["bytes"] for row in rows)
        notes.append(
            f"average busbw {section.average_busbw:.4g} GB/s is the mean over the size list "
            f"({size_label(small)} to {size_label(large)}), not a speed of the links"
        )
    else:
        notes.append("the log has no average line: it was cut off, or only its table was kept")
    nothing = sum(row["bytes"] == 0 for row in rows)
    if nothing:
        notes.append(f"{nothing} rows have size 0: less than 16 bytes a rank is rounded down to nothing")
    return notes


def _scope(op: str, nodes: int | None) -> list[str]:
    """How far a figure reaches."""
    notes = []
    if nodes == 2 and op == "all_reduce":
        notes.append(
            "two nodes: NCCL's tree has an advantage there that three and more nodes do not have; "
            "do not plan a larger cluster on this figure"
        )
    if op == "all_to_all" and (nodes or 1) > 1:
        notes.append("busbw of all_to_all over several nodes is a mean over unlike links: it is not the speed of one")
    return notes


def size_label(size_bytes: int) -> str:
    """A payload size for people: binary units, as sizes are powers of two."""
    value = float(size_bytes)
    for unit in ("B", "KiB", "MiB"):
        if value < 1024:
            return f"{value:g} {unit}"
        value /= 1024
    return f"{value:g} GiB"


def _why_empty(raw: RawLog) -> str:
    if raw.broken:
        return f"has no whole result: line {raw.broken[0][0]} is cut off"
    if raw.headers:
        return "has a table's head and no result below it"
    return "has no result table"
