"""The JSON that NCCL tests (-J) and RCCL tests (-Z json) write, as the same sections that the text gives.

Sources of the forms: NVIDIA/nccl-tests, src/util.cu (one object a run, "results" with "out_of_place" and "in_place");
ROCm/rccl-tests, pull request 93 (one object a line and placement). A file that ends in the middle, as an aborted run
leaves it, gives the results that are whole.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from analysis.nccl.columns import IN_PLACE, OUT_OF_PLACE
from analysis.nccl.sections import Device, RawLog, RawRow, Section

_PROGRAMS = {  # RCCL's names of the collectives -> the programs'
    "allreduce": "all_reduce",
    "allgather": "all_gather",
    "reducescatter": "reduce_scatter",
    "alltoall": "alltoall",
    "broadcast": "broadcast",
    "reduce": "reduce",
    "sendrecv": "sendrecv",
}


def looks_like_json(text: str) -> bool:
    return re.match(r"[\ufeff\s]*(?:\[\s*)?\{", text) is not None  # a bare [ may begin an MPI prefix


def read_json(text: str) -> RawLog:
    """Every run in `text`. What cannot be read is in `broken`; never raises."""
    log = RawLog()
    decoder = json.JSONDecoder()
    position, lone = 0, Section()
    text = text.lstrip("\ufeff")
    while (position := _next_object(text, position)) >= 0:
        try:
            item, position = decoder.raw_decode(text, position)
        except ValueError:
            line = text.count("\n", 0, position) + 1
            log.broken.append((line, text[position : position + 80]))
            _salvage(text[position:], line, log)
            break
        for run in item if isinstance(item, list) else [item]:
            if isinstance(run, Mapping) and isinstance(run.get("results"), list):
                log.sections.append(_run(run, log))
            elif isinstance(run, Mapping) and "algBw" in run:
                _rccl_row(run, lone, log)
            else:
                log.skipped.append((text.count("\n", 0, position) + 1, str(run)[:80]))
    log.sections += [lone] if lone.rows else []
    return log


def _next_object(text: str, position: int) -> int:
    found = [at for at in (text.find("{", position), text.find("[", position)) if at >= 0]
    return min(found, default=-1)


def _run(data: Mapping[str, Any], log: RawLog) -> Section:
    section = Section(program=_program(data.get("args")))
    config = data.get("config")
    for device in (config.get("devices") or []) if isinstance(config, Mapping) else []:
        found = Device(device["rank"], device["pid"], device["hostname"], device["device_info"])
        section.devices.append(found)
    for index, result in enumerate(data["results"]):
        _add(result, index, section, log)
    average = data.get("average_bus_bandwidth")
    section.average_busbw = _number(average.get("bandwidth")) if isinstance(average, Mapping) else None
    for variable in data.get("env") or []:
        name, _, value = str(variable).partition("=")
        if name.startswith(("NCCL_", "CUDA_")):
            section.environment[name] = value
    version = data.get("nccl_version")
    if isinstance(version, int) and version >= 10000:
        log.nccl_version = f"{version // 10000}.{version // 100 % 100}.{version % 100}"
    return section


def _add(result: Any, index: int, section: Section, log: RawLog) -> None:
    try:
        groups = {}
        for placement in (OUT_OF_PLACE, IN_PLACE):
            body = result.get(placement)
            if body is None:
                continue
            timing = result.get(f"{placement}_per_iter") or {}
            per_iteration = {name: _number(timing[f"{name}_us"]) for name in ("min", "max", "p99") if timing}
            groups[placement] = {
                "time": _number(body.get("time", body.get("cpu_time"))),
                "algbw": _number(body["alg_bw"]),
                "busbw": _number(body["bus_bw"]),
                "wrong": _number(body.get("nwrong")),
                **per_iteration,
            }
        root = result.get("root")
        row = RawRow(
            index + 1,
            int(result["size"]),
            int(result["count"]),
            str(result["type"]),
            str(result["redop"]),
            None if root is None else int(root),
            groups,
        )
    except (KeyError, TypeError, ValueError, AttributeError):
        log.broken.append((index + 1, str(result)[:80]))
    else:
        section.rows.append(row)


def _rccl_row(data: Mapping[str, Any], section: Section, log: RawLog) -> None:
    """A line of RCCL tests: two lines of the same size make one row."""
    try:
        placement = IN_PLACE if int(data["inPlace"]) else OUT_OF_PLACE
        wrong = data.get("#wrong", data.get("wrong"))
        group = {
            "time": _number(data["time"]),
            "algbw": _number(data["algBw"]),
            "busbw": _number(data["busBw"]),
            "wrong": _number(wrong),
        }
        size, kind, redop = int(data["size"]), str(data["type"]), str(data["redop"])
        ranks = int(data.get("ranks") or data.get("gpus") or 0)
        program = _PROGRAMS.get(str(data["name"]).lower().replace("_", ""))
    except (KeyError, TypeError, ValueError):
        log.broken.append((len(section.rows) + 1, str(data)[:80]))
        return
    section.program = program
    nodes = max(int(data.get("nodes") or 1), 1)
    section.devices = [Device(r, r, f"node{r * nodes // ranks + 1}", "") for r in range(ranks)]
    last = section.rows[-1] if section.rows else None
    if last and (last.size, last.type, last.redop) == (size, kind, redop) and placement not in last.groups:
        last.groups[placement] = group
    else:
        section.rows.append(RawRow(len(section.rows) + 1, size, 0, kind, redop, None, {placement: group}))


def _salvage(text: str, line: int, log: RawLog) -> None:
    """The whole results of a run whose end is missing."""
    start = text.find('"results"')
    section = Section()
    decoder = json.JSONDecoder()
    args = text.find('"args"')
    if args >= 0:
        section.program = _program(_decode(decoder, text, text.find("[", args)))
    devices = text.find('"devices"')
    for device in (_decode(decoder, text, text.find("[", devices)) or []) if devices >= 0 else []:
        section.devices.append(Device(device["rank"], device["pid"], device["hostname"], device["device_info"]))
    position = text.find("{", start) if start >= 0 else -1
    while position >= 0:
        try:
            item, position = decoder.raw_decode(text, position)
        except ValueError:
            break
        if isinstance(item, Mapping) and "size" in item:
            _add(item, line - 1, section, log)
        position = text.find("{", position)
    if section.rows:
        log.sections.append(section)


def _decode(decoder: json.JSONDecoder, text: str, position: int) -> Any:
    try:
        return decoder.raw_decode(text, position)[0]
    except ValueError:
        return None


def _program(args: Any) -> str | None:
    name = str(args[0]).replace("\\", "/").rsplit("/", 1)[-1] if isinstance(args, list) and args else ""
    return name.split("_perf")[0] if "_perf" in name else None


def _number(value: Any) -> float | None:
    """A JSON value; "nan" (NCCL tests write it as a word), "N/A" and null measured nothing."""
    try:
        number = float(value)
    except (TypeError, ValueError):
        return None
    return number if number == number else None
