"""What follows a study's collectives: the link model beside it, and the rows in the form of NCCL tests."""

from __future__ import annotations

import json
from pathlib import Path

from analysis.links import LinkModel, fit_links
from configs.errors import ConfigError
from results.nccl_format import as_nccl_tests_json, as_nccl_tests_text
from results.record import MEASURED
from results.store import cell_folder, collectives_frame, records, write_json_atomically

LINKS_FILE = "links.json"


def store_link_model(study: Path) -> Path | None:
    """Fit the links that `study` has measured or imported and keep the model beside it; None where none can be fitted.

    An old model is removed then: it would describe rows that are no longer there.
    """
    path = study / LINKS_FILE
    try:
        model = fit_links(collectives_frame(study))
    except ConfigError:
        path.unlink(missing_ok=True)
        return None
    write_json_atomically(path, model.to_json())
    return path


def load_link_model(study: Path) -> LinkModel | None:
    """The study's link model, or None where it has none. Raises ConfigError for a damaged file."""
    path = study / LINKS_FILE
    try:
        return LinkModel.from_json(json.loads(path.read_text(encoding="utf-8")))
    except FileNotFoundError:
        return None
    except (ValueError, OSError) as error:
        raise ConfigError(
            str(path), f"cannot be read: {error}", "remove it; a run or an import writes it again"
        ) from None


def write_nccl_tests_files(study: Path) -> list[Path]:
    """Beside each measured collectives record, its rows as NCCL tests print them: one text, one JSON file an op."""
    written = []
    for record in records(study):
        if record.benchmark != "collectives" or record.status not in MEASURED or record.status == "imported":
            continue
        folder = cell_folder(study, record.cell_id)
        devices = (
            [str(record.device["name"])] * (record.parallel.get("cards") or 0) if record.device.get("name") else []
        )
        text = folder / "nccl_tests.txt"
        text.write_text(as_nccl_tests_text(record.collectives, devices), encoding="utf-8")
        written.append(text)
        for document in as_nccl_tests_json(record.collectives, devices):
            file = folder / f"nccl_tests_{document['args'][0]}.json"
            write_json_atomically(file, document)
            written.append(file)
    return written
