"""Logs of NCCL tests, text or JSON, as records: one for each run in them."""

from __future__ import annotations

import hashlib
from pathlib import Path

import yaml

import configs
from analysis.nccl.tests import Log, Run, in_switch_notes, read_log
from launch.importers.files import Imported, now, read_file, slug, write_all
from results.record import Record

MACHINES = Path(configs.__file__).parent / "machine"
FORM = "the output of an NCCL test, text or JSON"


def import_nccl_tests(path: Path, study: Path) -> Imported:
    """Read a log of NCCL tests, text or JSON, and write one record for each run in it into `study`.

    The same file imported again replaces its records. Raises ConfigError where the file cannot be read or holds no
    result, or where the study cannot be written.
    """
    content = read_file(path, FORM)
    log = read_log(content.decode("utf-8", errors="replace"), path.name)
    digest = hashlib.sha256(content).hexdigest()
    records = [_record(run, index, log, path.name, digest, study.name) for index, run in enumerate(log.runs)]
    write_all(study, records)
    notes = [note for record in records for note in record.environment["import"]["notes"]]
    warnings = log.warnings + [text for record in records for text in record.environment["import"]["warnings"]]
    if len(log.runs) > 1:
        notes += in_switch_notes(log.rows)
    return Imported(path.name, records, len(log.rows), list(dict.fromkeys(notes)), warnings)


def _record(run: Run, index: int, log: Log, file: str, digest: str, study: str) -> Record:
    ranks = run.ranks or "unknown"
    rated = rated_link_gbps(run.device) if run.nodes == 1 else None
    notes = run.notes + (in_switch_notes(run.rows, rated) if rated else [])
    source = {"file": file, "sha256": digest, "kind": "nccl-tests", "skipped_lines": len(log.skipped)}
    return Record(
        study=study,
        cell_id=f"import-{slug(file)}-{run.op}-{ranks}-{digest[:8]}-{index}",
        benchmark="collectives",
        status="imported",
        started_at=now(),
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
