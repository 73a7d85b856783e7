"""Training measurements from elsewhere as records: a Hugging Face Trainer's log, a measurement CSV."""

from __future__ import annotations

import hashlib
import math
import warnings
from dataclasses import asdict
from pathlib import Path
from typing import Any

from analysis.interop.hf_trainer import FORM, read_trainer_state
from configs.errors import ConfigError
from configs.schema import Config
from launch.importers.files import Imported, now, read_file, slug, write_all
from results.record import Record
from results.statistics import summarise
from results.store import read_measurements

_SECTIONS = ("workload", "parallel", "throughput", "memory", "device")


def import_hf_trainer(path: Path, study: Path, config: Config, stated: set[str]) -> Imported:
    """Read a Trainer's log and write it as one record into `study`.

    What the log does not say is taken from `config`, as far as it is `stated` on the command line: cards and mode,
    without which nothing can be compared, and model, machine, seq_len, scaling, cluster.nodes, repeat. The same file
    imported again replaces its record. Raises ConfigError where the file or what is stated is wrong.
    """
    content = read_file(path, FORM)
    for field, example in (("cards", "cards=8, the number of processes"), ("mode", "mode=ddp, mode=fsdp, mode=zero3")):
        if field not in stated:
            raise ConfigError(field, f"is not stated, and {path.name} does not say", example)
    if config.cards < 1:
        raise ConfigError("cards", f"{config.cards} is not a world size", "1 or more")
    seq_len = config.seq_len if "seq_len" in stated else None
    text = content.decode("utf-8", errors="replace")
    run = read_trainer_state(text, path.name, config.cards, seq_len)
    said = []
    if (config.mode.tp or 1) > 1 or (config.mode.pp or 1) > 1:
        said.append("tokens are added up over all processes: ranks of one tensor or pipeline group count the same ones")
    digest = hashlib.sha256(content).hexdigest()
    source = {"file": path.name, "sha256": digest, "kind": "hf-trainer"}
    record = Record(
        study=study.name,
        cell_id=f"import-{slug(path.name)}-{config.mode.name}-{config.cards}-{digest[:8]}",
        benchmark="finetune",
        status="imported",
        started_at=now(),
        wall_s=0.0,
        card_hours=0.0,  # nothing was spent here
        workload={
            "model": config.model.name if stated & {"model", "model.name"} else None,
            "seq_len": seq_len,
            "global_batch_tokens": run.global_batch_tokens,
            "scaling": config.scaling if "scaling" in stated else None,
            "repeat": config.repeat,
        },
        parallel={
            "mode": config.mode.name,
            "cards": config.cards,
            "nodes": config.cluster.nodes if "cluster.nodes" in stated else None,
        },
        throughput={
            "steps": len(run.step_times_s) or None,
            "step_times_s": list(run.step_times_s) or None,
            "step_time_s": asdict(summarise(run.step_times_s)),
            "tokens_per_s": run.tokens_per_s,
            "tokens_per_s_per_card": run.tokens_per_s / config.cards,
        },
        device={"name": _card_name(config) if "machine" in stated else None},
        loss={"first": run.losses[0], "last": run.losses[-1], "steps": run.steps} if run.losses else {},
        environment={"import": {**source, "notes": list(run.notes), "warnings": said}},
    )
    write_all(study, [record])
    return Imported(path.name, [record], len(run.step_times_s), list(run.notes), said)


def import_measurements(path: Path, study: Path) -> Imported:
    """Write every row of a measurement CSV as a record into `study`; the same file again replaces its records.

    Raises ConfigError as `read_measurements` does.
    """
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        frame = read_measurements(path)
    said = list(dict.fromkeys(str(w.message) for w in caught if issubclass(w.category, UserWarning)))
    if frame.empty:
        raise ConfigError(str(path), "has no row below its header", "a measurement CSV")
    digest = hashlib.sha256(read_file(path, "a measurement CSV")).hexdigest()
    records = []
    for number, row in enumerate(frame.to_dict("records"), start=2):  # as a spreadsheet counts
        sections: dict[str, dict[str, Any]] = {section: {} for section in _SECTIONS}
        for column, value in row.items():
            section, _, name = str(column).partition(".")
            if name:
                sections[section][name] = _plain(value)
        mode, cards = row["parallel.mode"], _plain(row["parallel.cards"])
        source = {"file": path.name, "sha256": digest, "kind": "measurements", "row": number}
        records.append(
            Record(
                study=study.name,
                cell_id=f"import-{slug(path.name)}-{slug(str(mode))}-{cards or 'unknown'}-{digest[:8]}-{number}",
                benchmark="finetune",
                status=row["status"],
                started_at=now(),
                wall_s=0.0,
                card_hours=0.0,
                environment={"import": {**source, "notes": [], "warnings": []}},
                workload=sections["workload"],
                parallel=sections["parallel"],
                throughput=sections["throughput"],
                memory=sections["memory"],
                device=sections["device"],
            )
        )
    write_all(study, records)
    return Imported(path.name, records, len(records), [], said)


def _card_name(config: Config) -> str:
    """What the driver calls the card of the stated machine, as measured records have it."""
    return config.machine.card_names[0] if config.machine.card_names else config.machine.name


def _plain(value: Any) -> Any:
    """A frame's cell as a record has it: blank is None, a whole number an integer."""
    if isinstance(value, float):
        return None if math.isnan(value) else int(value) if value.is_integer() else value
    return value if value != "" else None
