"""The `import` command: measurements from elsewhere into a study, as records of status `imported`."""

from __future__ import annotations

import contextlib
import hashlib
import json
import re
import shutil
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path

import yaml
from rich.console import Console

import configs
from analysis.nccl.tests import Log, Run, in_switch_notes, read_log
from configs.errors import ConfigError, choose
from configs.schema import Config
from launch.run import study_folder
from launch.study.collectives import store_link_model
from results.record import Record
from results.store import cell_folder, write_record

KINDS = ("nccl-tests",)
LARGEST_LOG_BYTES = 256 * 2**20
MACHINES = Path(configs.__file__).parent / "machine"


@dataclass(frozen=True)
class Imported:
    """One file's records as written, and everything that was said about it."""

    file: str
    records: list[Record]
    rows: int
    notes: list[str]
    warnings: list[str]


def import_command(words: list[str], config: Config, console: Console) -> int:
    """`import KIND FILE...` into the study that `config` names; returns the exit code.

    Raises ConfigError for a kind or file that is none. A file is imported wholly or not at all.
    """
    if len(words) < 2:
        raise ConfigError("import", "needs a kind and a file", f"cardscale import {KINDS[0]} FILE [study=NAME]")
    kind = choose("import", words[0], KINDS)
    study = study_folder(config)
    found = [import_nccl_tests(Path(word), study) for word in words[1:]]
    model = store_link_model(study)
    for item in found:
        line = f"{item.file}: {kind}, {item.rows} rows in {len(item.records)} records -> {study}"
        console.print(line, highlight=False, soft_wrap=True)
        for text in item.warnings:
            console.print(f"  warning: {text}", markup=False, highlight=False, soft_wrap=True, style="yellow")
        for text in item.notes:
            console.print(f"  {text}", markup=False, highlight=False, soft_wrap=True)
    if config.format == "json":
        print(
            json.dumps(
                {
                    "study": str(study),
                    "links": None if model is None else str(model),
                    "files": [
                        {
                            "file": item.file,
                            "rows": item.rows,
                            "cells": [record.cell_id for record in item.records],
                            "notes": item.notes,
                            "warnings": item.warnings,
                        }
                        for item in found
                    ],
                },
                ensure_ascii=False,
            )
        )
    return 0


def import_nccl_tests(path: Path, study: Path) -> Imported:
    """Read a log of NCCL tests, text or JSON, and write one record for each run in it into `study`.

    The same file imported again replaces its records. Raises ConfigError where the file cannot be read or holds no
    result, or where the study cannot be written.
    """
    content = _read(path)
    log = read_log(content.decode("utf-8", errors="replace"), path.name)
    digest = hashlib.sha256(content).hexdigest()
    records = [_record(run, index, log, path.name, digest, study.name) for index, run in enumerate(log.runs)]
    _write_all(study, records)
    notes = [note for record in records for note in record.environment["import"]["notes"]]
    warnings = log.warnings + [text for record in records for text in record.environment["import"]["warnings"]]
    if len(log.runs) > 1:
        notes += in_switch_notes(log.rows)
    return Imported(path.name, records, len(log.rows), list(dict.fromkeys(notes)), warnings)


def _write_all(study: Path, records: list[Record]) -> None:
    """Write every record, or leave none of them behind and raise ConfigError."""
    new = [record for record in records if not cell_folder(study, record.cell_id).exists()]
    try:
        for record in records:
            write_record(study, record)
    except OSError as error:
        for record in new:
            shutil.rmtree(cell_folder(study, record.cell_id), ignore_errors=True)
        for folder in (study / "cells", study):
            with contextlib.suppress(OSError):
                folder.rmdir()  # only where it is empty: it was made for this import
        raise ConfigError("study", f"{study} cannot be written: {error.strerror}", "a writable folder") from None


def _read(path: Path) -> bytes:
    allowed = "the output of an NCCL test, text or JSON"
    try:
        if path.stat().st_size > LARGEST_LOG_BYTES:
            raise ConfigError(str(path), f"is larger than {LARGEST_LOG_BYTES // 2**20} MiB", allowed)
        return path.read_bytes()
    except FileNotFoundError:
        raise ConfigError(str(path), "does not exist", allowed) from None
    except OSError as error:
        raise ConfigError(str(path), f"cannot be read: {error.strerror}", allowed) from None


def _record(run: Run, index: int, log: Log, file: str, digest: str, study: str) -> Record:
    ranks = run.ranks or "unknown"
    slug = re.sub(r"[^A-Za-z0-9._-]+", "_", Path(file).stem)[:40]
    rated = rated_link_gbps(run.device) if run.nodes == 1 else None
    notes = run.notes + (in_switch_notes(run.rows, rated) if rated else [])
    source = {"file": file, "sha256": digest, "kind": "nccl-tests", "skipped_lines": len(log.skipped)}
    return Record(
        study=study,
        cell_id=f"import-{slug}-{run.op}-{ranks}-{digest[:8]}-{index}",
        benchmark="collectives",
        status="imported",
        started_at=datetime.now(timezone.utc).isoformat(timespec="milliseconds"),
        wall_s=0.0,
        card_hours=0.0,  # nothing was spent here
        parallel={"cards": run.ranks, "nodes": run.nodes},
        device={"name": run.device, "count": run.ranks},
        collectives=run.rows,
        environment={
            "nccl": log.nccl_version,
            "variables": run.environment,
            "import": {**source, "notes": list(dict.fromkeys(notes)), "warnings": run.warnings},
        },
    )


def rated_link_gbps(device: str | None) -> float | None:
    """What the links inside a node of this card are rated at, from the machine whose card the driver calls so."""
    if not device:
        return None
    for file in sorted(MACHINES.glob("*.yaml")):
        machine = yaml.safe_load(file.read_text(encoding="utf-8"))
        if device in (machine.get("card_names") or []):
            rate = machine.get("intra_node_gbps")
            return None if rate is None else float(rate)
    return None
