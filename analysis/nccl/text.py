"""The text that NCCL tests print, as people paste it: find the tables in it and bind their columns by name.

Lines may carry launcher prefixes, debug lines may stand between and inside rows, rows may be wrapped or cut off,
several runs may follow each other. What a row *means* is decided in analysis.nccl.tests; nothing is guessed here but
where columns are.
"""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass

from analysis.nccl.columns import (
    IN_PLACE,
    OUT_OF_PLACE,
    Columns,
    bind_header,
    consistent,
    continue_header,
    guess_columns,
    is_header,
    number,
    split_row,
)
from analysis.nccl.sections import Device, RawLog, RawRow, Section

# What launchers put before a line: Open MPI's --tag-output, srun --label, dates, docker compose, pdsh.
_PREFIXES = [
    re.compile(pattern)
    for pattern in (
        r"\x1b\[[0-9;]*m",
        r"\s*\[\d+,\d+\]\s*<(?:stdout|stderr)>\s*:?",
        r"\s*\[\d+,\d+\]:?(?=\s*[#\d])",
        r"\s*\[?\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d[^\s\]]*\]?",
        r"\s*\d+:(?=\s)",
        r"\s*[\w.-]+\s+\|(?=\s)",
        r"\s*[A-Za-z][\w.-]*:(?=\s*(?:#|\d+\s+\d+\s+[a-z]))",
    )
]
_DEBUG = re.compile(r"\S+:\d+:\d+ \[\d+\] (?:\S+ )?NCCL (?:INFO|WARN|TRACE|ABORT).*")
_DEVICE = re.compile(
    r"#\s*Rank\s+(?P<rank>\d+)\s+(?:Group\s+\d+\s+)?Pid\s+(?P<pid>\d+)\s+on\s+(?P<host>\S+)\s+"
    r"device\s+(?P<device>\d+)\s+\[(?P<bus>[^\]]*)\]\s*(?P<name>.*?)\s*$"
)
_PROGRAM = re.compile(
    r"\b(all_reduce|all_gather|reduce_scatter|alltoallv|alltoall|broadcast|reduce|sendrecv|gather|scatter|hypercube)"
    r"_perf(?:_mpi)?\b"
)
_VERSION = re.compile(r"NCCL version (\S+)")
_ROW = re.compile(r"\s*\d+\s+\d+\s+[a-z]\w*(?:\s|$)")
_VALUE = re.compile(r"[-+.\deE]+|N/?A?|/?A|nan|inf", re.IGNORECASE)  # a number, or a part of one
_AVERAGE = re.compile(r"#\s*Avg bus bandwidth\s*:\s*(\S+)")

_DECORATION = {"(B)", "(elements)", "(us)", "(GB/s)", "(%)", "in-place", "out-of-place"}  # rest of a wrapped heading


@dataclass
class _Pending:
    """A row that has begun and is not whole yet. `joints` are the token counts at which a line ended."""

    line: int
    text: str
    tokens: list[str]
    joints: list[int]


def read_text(text: str) -> RawLog:
    """Every table in `text`. Never raises: what is no table row is kept as skipped or broken."""
    return _Reader().read(text)


class _Reader:
    """The state of one pass over the lines."""

    def __init__(self) -> None:
        self.log = RawLog(sections=[Section()])
        self.columns: Columns | None = None
        self.labels: tuple[str, ...] = ()
        self.header: list[str] = []
        self.pending: _Pending | None = None

    def read(self, text: str) -> RawLog:
        for at, raw in enumerate(text.splitlines(), start=1):
            line = _DEBUG.sub("", without_prefix(raw))
            if self._continues_header(line):
                continue
            if line.lstrip().startswith("#"):
                self._comment(line)
            elif line.strip():
                self._content(at, line, raw)
            elif line != without_prefix(raw):
                self.log.skipped.append((at, raw))
        self._finish()
        self.log.sections = [section for section in self.log.sections if section.rows or section.devices]
        return self.log

    @property
    def section(self) -> Section:
        return self.log.sections[-1]

    def _new_run(self) -> None:
        self._finish()
        if self.section.rows:
            self.log.sections.append(Section())
            self.columns = None

    def _continues_header(self, line: str) -> bool:
        """Take `line` for the rest of a wrapped head where it can be that: a line of column names, even "#wrong"."""
        if not self.header or self.section.rows or self.pending is not None or not line.strip():
            return False
        whole = continue_header(self.header, line)
        if whole is not None:
            self.header = whole
            self.columns = bind_header(whole, self.labels, "")
        return whole is not None

    def _comment(self, line: str) -> None:
        device = _DEVICE.match(line.lstrip())
        average = _AVERAGE.match(line.lstrip())
        words = line.lstrip(" #").split()
        if device:
            if self.section.rows:
                self._new_run()
            found = Device(int(device["rank"]), int(device["pid"]), device["host"], device["name"])
            self.section.devices.append(found)
        elif average:
            self._finish()
            self.section.average_busbw = number(average[1])
        elif is_header(words):
            self._finish()
            if self.section.rows:
                self.log.sections.append(Section(self.section.program, list(self.section.devices)))
            self.header = words
            self.log.headers += 1
            self.columns = bind_header(words, self.labels, line)
        elif "out-of-place" in line or "in-place" in line:
            found_labels = re.findall(r"out-of-place|in-place", line)
            self.labels = tuple(OUT_OF_PLACE if label == "out-of-place" else IN_PLACE for label in found_labels)
        elif words[:1] == ["nThread"] or words[:3] == ["Collective", "test", "starting:"]:
            self._new_run()
        program = _PROGRAM.search(line)
        if program:
            if "concluded" not in line:
                self._new_run()
            self.section.program = self.section.program or program[1]

    def _content(self, at: int, line: str, raw: str) -> None:
        tokens = line.split()
        if _ROW.match(line):
            self._finish()
            self._take(_Pending(at, line, tokens, []))
        elif self.pending is not None and all(_VALUE.fullmatch(token) for token in tokens):
            before = self.pending
            joints = [*before.joints, len(before.tokens)]
            self._take(_Pending(before.line, before.text, before.tokens + tokens, joints))
        else:
            version, program = _VERSION.search(line), _PROGRAM.search(line)
            if version:
                self.log.nccl_version = version[1]
            if program:
                self._new_run()
                self.section.program = program[1]
            if not version and not _DECORATION.issuperset(tokens):
                self.log.skipped.append((at, raw))

    def _take(self, row: _Pending) -> None:
        """Keep a row that is whole, along with others that were printed on the same line; wait for the rest of one."""
        columns = self.columns or (None if row.joints else guess_columns(row.tokens))
        if columns is None:
            self.pending = row
            return
        fixed, values = split_row(row.tokens, columns)
        needed = sum(len(group) for group in columns.groups)
        if len(values) < needed:
            self.pending = row
            return
        self.pending = None
        rest = values[needed:]
        if row.joints:
            whole = _joined(row, columns, needed)
            if whole is None:
                self.pending = row  # its end may still come; never guess where a wrapped number belongs
                return
            fixed, values = whole
            rest = []
        self._keep(row.line, fixed, values[:needed], columns)
        if len(rest) > 3 and _ROW.match(" ".join(rest)):
            self._take(_Pending(row.line, " ".join(rest), rest, []))

    def _finish(self) -> None:
        """The end of a row that was not whole: keep the placements that are."""
        row, self.pending = self.pending, None
        if row is None:
            return
        columns = self.columns or (None if row.joints else guess_columns(row.tokens))
        if columns is not None:
            fixed, values = split_row(row.tokens, columns)
            group = len(columns.groups[0])
            first = _placement_by_position(row, columns, values)
            part = Columns(columns.fixed, columns.groups[first : first + 1], columns.placements[first : first + 1], ())
            if len(values) >= group and (not row.joints or consistent(int(fixed["size"]), values, part)):
                self._keep(row.line, fixed, values[:group], part)
                if len(values) == group and first == 1:
                    return  # the other placement was not run
        self.log.broken.append((row.line, row.text))

    def _keep(self, line: int, fixed: dict[str, str], values: list[str], columns: Columns) -> None:
        groups: dict[str, dict[str, float | None]] = {}
        for placement, names in zip(columns.placements, columns.groups, strict=True):
            numbers = [number(value) for value in values[: len(names)]]
            values = values[len(names) :]
            if numbers[0] is not None:
                groups[placement] = dict(zip(names, numbers, strict=True))
        if not groups:
            self.log.broken.append((line, " ".join([*fixed.values(), "N/A"])))
            return
        root = fixed.get("root")
        self.section.rows.append(
            RawRow(
                line,
                int(fixed["size"]),
                int(fixed["count"]),
                fixed["type"],
                fixed.get("redop", ""),
                None if root is None else int(root),
                groups,
            )
        )


def without_prefix(line: str) -> str:
    """`line` without what launchers put before it; prefixes may stand behind each other."""
    changed = True
    while changed:
        changed = False
        for prefix in _PREFIXES:
            match = prefix.match(line)
            if match and match.end():
                line, changed = line[match.end() :], True
    return line


def _joined(row: _Pending, columns: Columns, needed: int) -> tuple[dict[str, str], list[str]] | None:
    """A wrapped row with the numbers put together again that a line's end had cut in two, or None if none fits."""
    for count in range(len(row.joints) + 1):
        for cuts in itertools.combinations(row.joints, count):
            tokens: list[str] = []
            for index, token in enumerate(row.tokens):
                if index in cuts:
                    tokens[-1] += token
                else:
                    tokens.append(token)
            fixed, values = split_row(tokens, columns)
            if len(values) == needed and consistent(int(fixed["size"]), values, columns):
                return fixed, values
    return None


def _placement_by_position(row: _Pending, columns: Columns, values: list[str]) -> int:
    """Which group a row with one group's values has: by where its first value ends below the header."""
    if row.joints or len(columns.time_ends) != 2 or len(columns.groups) != 2 or len(values) != len(columns.groups[0]):
        return 0
    ends = [match.end() for match in re.finditer(r"\S+", row.text)]
    end = ends[len(row.tokens) - len(values)]
    return min((0, 1), key=lambda group: abs(columns.time_ends[group] - end))
