"""Collective rows in the form of NCCL tests, text and JSON, for the tools that read those.

Source of the form: NVIDIA/nccl-tests, src/util.cu (header, row and footer of the text; version 2 of its JSON).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

Row = Mapping[str, Any]

TYPE_NAMES = {"fp32": "float", "bf16": "bfloat16", "fp16": "half"}
PROGRAMS = {
    "all_reduce": "all_reduce_perf",
    "all_gather": "all_gather_perf",
    "reduce_scatter": "reduce_scatter_perf",
    "all_to_all": "alltoall_perf",
    "broadcast": "broadcast_perf",
    "reduce": "reduce_perf",
    "send_recv": "sendrecv_perf",
}
REDUCING = ("all_reduce", "reduce_scatter", "reduce")
ROOTED = ("broadcast", "reduce")
JSON_VERSION = 2
_COLUMNS = ("time", "algbw", "busbw", "#wrong")
_UNITS = ("(us)", "(GB/s)", "(GB/s)", "")


def as_nccl_tests_text(rows: Iterable[Row], devices: Sequence[str] = ()) -> str:
    """The measured rows as NCCL tests print them: one table for each op, out of place left, in place right.

    devices: one name a rank, in rank order; ranks are spread evenly over the rows' nodes. A placement that was not
    measured reads N/A. Rows that measured nothing (unsupported, skipped) are comments. "Avg bus bandwidth" is, as
    there, the plain mean over all sizes of a table, so it says more about the size list than about the link.
    """
    lines: list[str] = []
    for op, table in _tables(rows).items():
        lines += [f"# Collective test starting: {PROGRAMS[op]}"]
        measured = [row for row in table if row.get("time_us") is not None]
        if measured:
            lines += _header(measured, devices)
            lines += [_line(op, both) for both in _pairs(measured)]
        for row in table:
            reason = row.get("unsupported") or row.get("skipped")
            lines += [f"# not measured ({row['dtype']}): {reason}"] if reason else []
        if measured:
            wrong = sum(row["wrong"] for row in measured)
            lines += [f"# {'Out of bounds values':<20} : {wrong} {'FAILED' if wrong else 'OK'}"]
            lines += [f"# {'Avg bus bandwidth':<20} : {_mean_busbw(measured):g} "]
        lines += ["#", f"# Collective test concluded: {PROGRAMS[op]}", "#"]
    return "\n".join(lines) + "\n" if lines else ""


def as_nccl_tests_json(rows: Iterable[Row], devices: Sequence[str] = ()) -> list[dict[str, Any]]:
    """One document for each op, as NCCL tests write one file a run. No environment: it may hold secrets."""
    documents = []
    for op, table in _tables(rows).items():
        measured = [row for row in table if row.get("time_us") is not None]
        wrong = sum(row["wrong"] for row in measured)
        documents.append(
            {
                "version": JSON_VERSION,
                "args": [PROGRAMS[op]],
                "env": [],
                "config": {
                    "nthreads": 1,
                    "ngpus": 1,
                    "minimum_bytes": min((row["bytes"] for row in measured), default=0),
                    "maximum_bytes": max((row["bytes"] for row in measured), default=0),
                    "iterations": max((row.get("iters", 0) for row in measured), default=0),
                    "validation": 1,
                    "devices": _devices(measured, devices),
                },
                "results": [_result(op, both) for both in _pairs(measured)],
                "out_of_bounds": {"count": wrong, "okay": "false" if wrong else "true"},
                "average_bus_bandwidth": {"bandwidth": _mean_busbw(measured), "okay": "unchecked"},
                "errors": [],
            }
        )
    return documents


def _tables(rows: Iterable[Row]) -> dict[str, list[Row]]:
    tables: dict[str, list[Row]] = {}
    for row in rows:
        if row["op"] in PROGRAMS and not row.get("pattern"):  # a training pattern is not one call of one size
            tables.setdefault(row["op"], []).append(row)
    return tables


def _pairs(table: Iterable[Row]) -> list[dict[bool, Row]]:
    """Rows of one type and size side by side, by placement: {False: out of place, True: in place}."""
    pairs: dict[tuple[str, int], dict[bool, Row]] = {}
    for row in table:
        pairs.setdefault((row["dtype"], row["bytes"]), {})[bool(row["in_place"])] = row
    return list(pairs.values())


def _header(table: Sequence[Row], devices: Sequence[str]) -> list[str]:
    sizes = [row["bytes"] for row in table]
    lines = [
        f"# nThread 1 nGpus 1 minBytes {min(sizes)} maxBytes {max(sizes)} "
        f"iters: {max(row.get('iters', 0) for row in table)} validation: 1",
        "#",
        "# Using devices",
    ]
    lines += [
        f"#  Rank {d['rank']:2d} Group  0 Pid {d['pid']:6d} on {d['hostname']:>10} device {d['device']:2d} "
        f"[{d['device_hex']}] {d['device_info']}"
        for d in _devices(table, devices)
    ]
    left = "# {:>10}  {:>12}  {:>8}  {:>6}  {:>6}"
    right = "  {:>7}  {:>6}  {:>6}  {:>6}" * 2
    lines += ["#", f"{left.format('', '', '', '', '')}           out-of-place                       in-place"]
    lines += [left.format("size", "count", "type", "redop", "root") + right.format(*_COLUMNS * 2)]
    lines += [left.format("(B)", "(elements)", "", "", "") + right.format(*_UNITS * 2)]
    return lines


def _devices(table: Sequence[Row], names: Sequence[str]) -> list[dict[str, Any]]:
    if not table:
        return []
    ranks = table[0]["ranks"]
    per_node = max(ranks // (table[0].get("nodes") or 1), 1)
    return [
        {
            "rank": rank,
            "group": 0,
            "pid": 0,
            "hostname": f"node{rank // per_node + 1}",
            "device": rank % per_node,
            "device_hex": f"0x{rank % per_node:02x}",
            "device_info": names[rank] if rank < len(names) else str(table[0].get("backend", "unknown")),
        }
        for rank in range(ranks)
    ]


def _line(op: str, both: Mapping[bool, Row]) -> str:
    row = next(iter(both.values()))
    redop, root = _operation(op)
    line = f"{row['bytes']:12d}  {row['count']:12d}  {TYPE_NAMES[row['dtype']]:>8}  {redop:>6}  {root:6d}"
    for placement in (False, True):
        part = both.get(placement)
        if part is None:
            line += "  {:>7}  {:>6}  {:>6}  {:>6}".format(*["N/A"] * 4)
        else:
            line += f"  {_number(part['time_us'], 7)}  {_number(part['algbw_gbps'], 6)}"
            line += f"  {_number(part['busbw_gbps'], 6)}  {part['wrong']:6g}"
    return line


def _result(op: str, both: Mapping[bool, Row]) -> dict[str, Any]:
    row = next(iter(both.values()))
    redop, root = _operation(op)
    result: dict[str, Any] = {
        "size": row["bytes"],
        "count": row["count"],
        "type": TYPE_NAMES[row["dtype"]],
        "redop": redop,
        "root": f"{root:6d}",
    }
    for placement, name in ((False, "out_of_place"), (True, "in_place")):
        part = both.get(placement)
        result[name] = part and {
            "time": part["time_us"],
            "alg_bw": part["algbw_gbps"],
            "bus_bw": part["busbw_gbps"],
            "nwrong": float(part["wrong"]),
        }
    return result


def _operation(op: str) -> tuple[str, int]:
    return "sum" if op in REDUCING else "none", 0 if op in ROOTED else -1


def _mean_busbw(table: Sequence[Row]) -> float:
    return sum(row["busbw_gbps"] for row in table) / len(table) if table else 0.0


def _number(value: float, width: int) -> str:
    """As many decimals as fit, two at most; the widths of NCCL tests' columns."""
    digits = len(str(int(value)))
    decimals = max(0, min(2, width - 1 - digits))
    return f"{value:{width}.{decimals}f}"
