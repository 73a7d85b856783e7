"""A study on disk: one folder a cell, one record.json in it; read back as one pandas frame, one row a cell.

Columns are the record's fields flattened with dots (`throughput.tokens_per_s`). A measurement CSV from elsewhere reads
into the same columns, so the analysis does not know where a row was measured.
"""

from __future__ import annotations

import json
import os
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd

from configs.errors import ConfigError, choose
from results.record import MEASURED, STATUSES, Record, RecordError, finite, from_json, to_json

RECORD_FILE = "record.json"

# measurement CSV column -> frame column. Only the first three are required.
MEASUREMENT_COLUMNS = {
    "mode": "parallel.mode",
    "cards": "parallel.cards",
    "tokens_per_s": "throughput.tokens_per_s",
    "model": "workload.model",
    "nodes": "parallel.nodes",
    "gpu": "device.name",
    "interconnect": "device.interconnect",
    "seq_len": "workload.seq_len",
    "micro_batch": "workload.micro_batch",
    "global_batch_tokens": "workload.global_batch_tokens",
    "peak_vram_gib": "memory.device_used_gib",
    "utilisation_pct": "device.utilisation_pct",
    "status": "status",
}
REQUIRED = ("mode", "cards", "tokens_per_s")
_TEXT = ("mode", "model", "gpu", "interconnect", "status")
_NOT_IN_FRAME = ("config", "collectives", "storage", "matmul")


def write_json_atomically(path: Path, data: Any) -> None:
    """Write strict JSON (NaN becomes null) so that `path` holds either the old content or all of the new.

    Temporary file in the same folder, fsync, rename, fsync of the folder. Leaves nothing behind when it fails.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            json.dump(finite(data), file, allow_nan=False, indent=1, ensure_ascii=False)
            file.write("\n")
            file.flush()
            os.fsync(file.fileno())
        Path(name).chmod(0o644)  # mkstemp's 0600 would hide a study from the colleague who reports on it
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def cell_folder(study: Path, cell_id: str) -> Path:
    return study / "cells" / cell_id


def write_record(study: Path, record: Record) -> Path:
    """Write `record` into its cell's folder, atomically; returns the file."""
    path = cell_folder(study, record.cell_id) / RECORD_FILE
    write_json_atomically(path, to_json(record))
    return path


def read_record(path: Path) -> Record:
    """Read one record. Raises RecordError, with the file's name, if it is damaged."""
    try:
        return from_json(json.loads(path.read_text(encoding="utf-8")))
    except (ValueError, OSError) as error:
        raise RecordError(f"{path}: {error}") from None


def find_record(study: Path, cell_id: str) -> Record | None:
    """The cell's record, or None where there is none; a damaged one is warned of and counts as none."""
    path = cell_folder(study, cell_id) / RECORD_FILE
    if not path.exists():
        return None
    try:
        return read_record(path)
    except RecordError as error:
        warnings.warn(f"damaged record skipped: {error}", stacklevel=2)
        return None


def records(study: Path) -> Iterator[Record]:
    """Every sound record of a study, in the order of cell ids; damaged ones are warned of and skipped."""
    for path in sorted((study / "cells").glob(f"*/{RECORD_FILE}")):
        try:
            yield read_record(path)
        except RecordError as error:
            warnings.warn(f"damaged record skipped: {error}", stacklevel=2)


def read_study(study: Path) -> pd.DataFrame:
    """One row a cell, columns flattened with dots, lists (step times) as they are. Empty where nothing was measured.

    Raises ConfigError if the folder does not exist.
    """
    if not study.is_dir():
        raise ConfigError("study", f"{study} does not exist", "a folder that `cardscale run` wrote")
    rows = [_flatten({k: v for k, v in to_json(r).items() if k not in _NOT_IN_FRAME}) for r in records(study)]
    return pd.DataFrame(rows)


def collectives_frame(study: Path) -> pd.DataFrame:
    """One row a collective call size of a study, with the cell's id, cards, nodes and device beside it."""
    return _rows_frame(study, "collectives")


def storage_frame(study: Path) -> pd.DataFrame:
    """One row a storage test of a study, with the cell's id, cards, nodes and device beside it."""
    return _rows_frame(study, "storage")


def matmul_frame(study: Path) -> pd.DataFrame:
    """One row a matrix product of a study, with the cell's id, cards, nodes and device beside it."""
    return _rows_frame(study, "matmul")


def _rows_frame(study: Path, section: str) -> pd.DataFrame:
    rows = [
        {
            "cell_id": record.cell_id,
            "cards": record.parallel.get("cards"),
            "nodes": record.parallel.get("nodes"),
            "device": record.device.get("name"),
            **row,
        }
        for record in records(study)
        if record.status in MEASURED
        for row in getattr(record, section)
    ]
    return pd.DataFrame(rows)


def read_measurements(path: Path) -> pd.DataFrame:
    """A measurement CSV as a frame with a study's columns; rows without a status count as `imported`.

    Raises ConfigError naming file, row (as a spreadsheet counts, header = 1), column, value and what is allowed.
    """
    try:
        table = pd.read_csv(path, dtype=str, keep_default_na=False, encoding="utf-8-sig", skipinitialspace=True)
    except FileNotFoundError:
        raise ConfigError("source", f"{path} does not exist", "a measurement CSV") from None
    except (OSError, ValueError) as error:
        raise ConfigError(str(path), f"cannot be read as CSV: {error}") from None
    table.columns = [str(c).strip() for c in table.columns]
    for column in REQUIRED:
        if column not in table.columns:
            raise ConfigError(str(path), f"column {column} is missing", f"required: {', '.join(REQUIRED)}")
    known = [c for c in table.columns if c in MEASUREMENT_COLUMNS]
    unknown = [c for c in table.columns if c not in MEASUREMENT_COLUMNS]
    if unknown:
        warnings.warn(f"{path}: columns not used: {', '.join(unknown)}", stacklevel=2)
    frame = pd.DataFrame(index=table.index)
    for column in known:
        cells = table[column].str.strip()
        frame[MEASUREMENT_COLUMNS[column]] = cells if column in _TEXT else _numbers(path, column, cells)
    status = frame["status"] if "status" in frame else pd.Series("", index=frame.index)
    frame["status"] = status.where(status != "", "imported").replace("ok", "imported")
    for row, value in frame["status"].items():
        choose(f"{path}: row {int(str(row)) + 2}: status", str(value), STATUSES)
    good = frame["status"].isin(MEASURED)
    for column, name in (("cards", "parallel.cards"), ("tokens_per_s", "throughput.tokens_per_s")):
        for row in frame.index[good & ~(frame[name] > 0)]:
            raise ConfigError(f"{path}: row {row + 2}: {column}", f"{table.at[row, column]!r} is not a positive number")
    broken = frame["parallel.cards"].dropna() % 1 != 0
    for row in broken.index[broken]:
        raise ConfigError(f"{path}: row {row + 2}: cards", f"{table.at[row, 'cards']!r} is not a whole number")
    frame["throughput.tokens_per_s_per_card"] = frame["throughput.tokens_per_s"] / frame["parallel.cards"]
    frame["benchmark"] = "finetune"
    frame["cell_id"] = [f"{Path(path).stem}-row{row + 2}" for row in range(len(frame))]
    frame["study"] = Path(path).stem
    return frame


def write_tables(study: Path, frame: pd.DataFrame) -> list[Path]:
    """Write the study's frame as study.csv and study.parquet beside its cells; lists go into Parquet only."""
    flat = frame[[c for c in frame.columns if not frame[c].map(lambda v: isinstance(v, (list, dict))).any()]]
    csv, parquet = study / "study.csv", study / "study.parquet"
    flat.to_csv(csv, index=False)
    write_parquet(frame, parquet)
    return [csv, parquet]


def write_parquet(frame: pd.DataFrame, path: Path) -> None:
    """Write `frame` as Parquet; a column of both text and numbers, which has no Parquet type, as JSON texts."""
    plain = frame.copy()
    for column in plain.columns:
        kinds = {type(v) for v in plain[column] if v is not None and not (isinstance(v, float) and v != v)}
        if len(kinds) > 1 and not kinds <= {int, float}:
            plain[column] = plain[column].map(lambda v: v if v is None else json.dumps(v))
    plain.to_parquet(path, index=False)


def _numbers(path: Path, column: str, cells: pd.Series[str]) -> pd.Series[float]:
    """Blank is not measured (NaN); anything else must be a finite number."""
    numbers = pd.to_numeric(cells.where(cells != ""), errors="coerce").astype(float)
    wrong = (cells != "") & (numbers.isna() | numbers.isin([float("inf"), float("-inf")]))
    for row in cells.index[wrong]:
        raise ConfigError(f"{path}: row {row + 2}: {column}", f"{cells[row]!r} is not a number")
    return numbers


def _flatten(data: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in data.items():
        if isinstance(value, dict):
            flat.update(_flatten(value, f"{prefix}{key}."))
        else:
            flat[f"{prefix}{key}"] = value
    return flat
