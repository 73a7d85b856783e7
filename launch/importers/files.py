"""What every importer does with files: read one whole, and write all of its records or none."""

from __future__ import annotations

import contextlib
import re
import shutil
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path

from configs.errors import ConfigError
from results.record import Record
from results.store import cell_folder, write_record

LARGEST_FILE_BYTES = 256 * 2**20


@dataclass(frozen=True)
class Imported:
    """One file's records as written, and everything that was said about it."""

    file: str
    records: list[Record]
    rows: int
    notes: list[str]
    warnings: list[str]


def read_file(path: Path, allowed: str) -> bytes:
    """The content of `path`. Raises ConfigError, with what is `allowed` there, where it cannot be read."""
    try:
        if path.stat().st_size > LARGEST_FILE_BYTES:
            raise ConfigError(str(path), f"is larger than {LARGEST_FILE_BYTES // 2**20} MiB", allowed)
        return path.read_bytes()
    except FileNotFoundError:
        raise ConfigError(str(path), "does not exist", allowed) from None
    except OSError as error:
        raise ConfigError(str(path), f"cannot be read: {error.strerror}", allowed) from None


def write_all(study: Path, records: list[Record]) -> None:
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


def slug(file: str) -> str:
    """The readable part of a cell's name that comes from a file's."""
    return re.sub(r"[^A-Za-z0-9._-]+", "_", Path(file).stem)[:40]


def now() -> str:
    """When an import took place, UTC; when its measurement did is not known."""
    return datetime.now(timezone.utc).isoformat(timespec="milliseconds")
