"""What a paper says about a study: the methods paragraph and the fields of its citation, from the records alone."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import pandas as pd

from analysis.scaling import HIGH, LOW, MEDIAN
from analysis.scaling.repeats import repeat_table
from analysis.scaling.series import column, is_measured, numbers, texts
from analysis.tables import plain
from analysis.tables.study import is_cpu
from analysis.text import Say
from results.statistics import RESAMPLES

STEPS = "throughput.step_times_s"
PACKAGES = ("cardscale", "torch", "transformers", "deepspeed", "peft")


@dataclass(frozen=True)
class Citation:
    """A study as an entry of a bibliography; texts are plain, not escaped. year is of the last measurement, or None.

    digest: SHA-256 over every cell's id, status, start and throughput: it names these records wherever they lie.
    """

    key: str
    title: str
    year: int | None
    version: str
    note: str
    digest: str


def methods_paragraph(cells: pd.DataFrame, say: Say) -> str:
    """What was measured, on what, with what, how, how often and how surely, in sentences for a paper's methods.

    cells: the study's fine-tuning cells. Only what the records hold is said. Empty where nothing was measured.
    """
    good = cells[is_measured(cells)] if len(cells) else cells
    if good.empty:
        return ""
    first, last = _days(good)
    sentences = [
        say(
            "methods.measured",
            models=_listed(texts(good, "workload.model")) or "?",
            modes=_listed(texts(good, "parallel.mode")),
            cards=_counts(numbers(good, "parallel.cards")),
            good=len(good),
            total=len(cells),
        ),
        *([say("methods.days", first=first, last=last)] if first else []),
        *_hardware(good, say),
        *_software(good, say),
        *_workload(good, say),
        *_timing(good, say),
        *_imports(good, say),
    ]
    failed = texts(cells[~is_measured(cells)], "status")
    if len(failed):
        how = ", ".join(f"{count} {say(f'status.{status}')}" for status, count in failed.value_counts().items())
        sentences.append(say("methods.failed", count=len(failed), how=how))
    return " ".join(sentences)


def citation(name: str, cells: pd.DataFrame, say: Say) -> Citation:
    """The study `name` as an entry of a bibliography. The same records give the same entry, in whatever order."""
    good = cells[is_measured(cells)] if len(cells) else cells
    fields = [texts(cells, part) for part in ("cell_id", "status", "started_at")]
    rates = [f"{rate:.9g}" for rate in numbers(cells, "throughput.tokens_per_s")]
    lines = sorted("\t".join(line) for line in zip(*fields, rates, strict=True))
    digest = hashlib.sha256("\n".join(lines).encode()).hexdigest()
    year = _days(good)[1][:4]
    version = _listed(texts(good, "environment.packages.cardscale"))
    device = _listed(texts(good, "device.name")) or "?"
    slug = re.sub(r"[^A-Za-z0-9]+", "-", name).strip("-").lower() or "study"
    return Citation(
        key=f"cardscale-{slug}-{digest[:8]}",
        title=say("methods.bib_title", study=name),
        year=int(year) if year.isdigit() else None,
        version=version,
        note=say("methods.bib_note", good=len(good), device=device, digest=digest),
        digest=digest,
    )


def _hardware(good: pd.DataFrame, say: Say) -> list[str]:
    parts = [_listed(texts(good, name)) for name in ("device.name", "device.interconnect")]
    for name, label in (("environment.driver", "driver"), ("environment.cuda", "CUDA"), ("environment.nccl", "NCCL")):
        if versions := _listed(texts(good, name)):
            parts.append(f"{label} {versions}")
    what = ", ".join(part for part in parts if part)
    said = [say("methods.hardware", what=what)] if what else []
    return [*said, say("methods.cpu")] if is_cpu(good).all() else said


def _software(good: pd.DataFrame, say: Say) -> list[str]:
    named = [(name, f"environment.packages.{name}") for name in PACKAGES]
    named += [("Python", "environment.python"), ("commit", "environment.git")]
    found = [f"{name} {versions}" for name, where in named if (versions := _listed(texts(good, where)))]
    return [say("methods.software", what=", ".join(found))] if found else []


def _workload(good: pd.DataFrame, say: Say) -> list[str]:
    parts = []
    for name, key in (("workload.seq_len", "methods.sequence"), ("workload.global_batch_tokens", "methods.batch")):
        if counts := _counts(numbers(good, name)):
            parts.append(say(key, what=counts))
    parts += [_listed(texts(good, name)) for name in ("workload.recipe", "workload.precision")]
    parts += [say(f"methods.{rule}") for rule in ("strong", "weak") if (texts(good, "workload.scaling") == rule).any()]
    what = ", ".join(part for part in parts if part)
    return [say("methods.workload", what=what)] if what else []


def _timing(good: pd.DataFrame, say: Say) -> list[str]:
    """How steps were timed, how wide the intervals are, how often cells ran; nothing of that for imported figures."""
    own = good[texts(good, "status") == "ok"]
    steps = column(own, STEPS).map(lambda steps: len(steps) if isinstance(steps, list) else np.nan)
    said = []
    if steps.notna().any():
        fewest, most = int(steps.min()), int(steps.max())
        said.append(say("methods.steps", steps=fewest if fewest == most else f"{fewest}–{most}"))
        widths = (numbers(own, HIGH) - numbers(own, LOW)) / 2 / numbers(own, MEDIAN) * 100
        if np.isfinite(widths).any():
            said.append(say("methods.intervals", resamples=f"{RESAMPLES:,}", width=f"{np.nanmedian(widths):.2g}"))
    runs = repeat_table(good)["runs"]
    repeated = runs[runs > 1]
    if repeated.empty:
        return [*said, say("methods.once")]
    counts = _counts(repeated.to_numpy(dtype=float))
    return [*said, say("methods.repeats", repeated=len(repeated), points=len(runs), runs=counts)]


def _imports(good: pd.DataFrame, say: Say) -> list[str]:
    imported = good[texts(good, "status") == "imported"]
    if imported.empty:
        return []
    files = _listed(texts(imported, "environment.import.file")) or say("methods.elsewhere")
    return [say("methods.imported", count=len(imported), files=files)]


def _days(cells: pd.DataFrame) -> tuple[str, str]:
    """The first and the last day on which a cell started, blank where none says."""
    days = sorted(day for day in texts(cells, "started_at").str[:10] if re.fullmatch(r"\d{4}-\d{2}-\d{2}", day))
    return (days[0], days[-1]) if days else ("", "")


def _listed(values: Iterable[str]) -> str:
    """Each value once, in order of appearance: `ddp, fsdp`."""
    return ", ".join(dict.fromkeys(text for value in values if (text := plain(value))))


def _counts(values: np.ndarray[tuple[int, ...], np.dtype[np.float64]]) -> str:
    """Each number once, ascending: `1, 2, 4`."""
    return ", ".join(f"{value:,.0f}" for value in sorted(set(values[np.isfinite(values)].tolist())))
