"""A study that measured no training step, only matrix products: compute at the rate that these reached."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pandas as pd

from analysis.links import LinkModel
from analysis.predict import COLUMNS
from analysis.scaling.series import texts
from analysis.steptime import Rates
from analysis.steptime.call_times import study_links
from analysis.steptime.cells import Measured, job_of, why_not_modelled
from analysis.steptime.condition import Case, Knowledge, condition
from analysis.steptime.matmul import MatmulFit, fit_matmul
from analysis.steptime.plan import Calibration
from analysis.steptime.study import Series, in_mode, series_rows
from analysis.steptime.whatif import check_what_if
from configs.cell import Cell
from configs.errors import ConfigError
from configs.schema import Machine, Mode, WhatIf

# (share, sigma of its logarithm) of a product's rate alone that one reaches inside a training step: less where the
# memory's bandwidth is not known, and the kernels that wait for it count as products too.
CARD_SHARE, CARD_SHARE_OPEN, PROCESSOR_SHARE = (0.9, 0.12), (0.7, 0.3), (0.4, 0.5)
BASE_TOO = "nor is the single card measured that efficiency is relative to: its interval holds both"


def predict_from_matmul(
    matmul: pd.DataFrame,
    cell: Cell,
    modes: Sequence[Mode],
    counts: Sequence[int],
    links: LinkModel | None,
    machine: Machine,
    what_if: WhatIf,
    cores: float = float("nan"),
) -> tuple[pd.DataFrame, list[str]]:
    """(predictions, sentences on counts left out) of `cell`'s workload, a one-card cell, in each of `modes`.

    matmul: the study's products, all of one card. machine: its data sheet. cores: of a processor. Columns as
    `analysis.predict.predict`; efficiency is relative to the predicted single card. Raises ConfigError where fewer than
    three products of the recipe's type were measured, and for what the model has no terms for.
    """
    check_what_if(what_if)
    unknown = why_not_modelled(cell)
    if unknown:
        raise ConfigError("study", f"no step was measured, and the step-time model has no terms for {unknown}")
    dtype = cell.recipe.precision.split("_")[0]
    fit = fit_matmul(matmul, dtype)
    if fit is None:
        found = ", ".join(sorted(set(texts(matmul, "dtype")))) or "none"
        raise ConfigError("study", f"no step was measured, and not three products of {dtype}", f"measured: {found}")
    share, sigma = (
        PROCESSOR_SHARE if machine.device == "cpu" else CARD_SHARE if machine.memory_gbps else CARD_SHARE_OPEN
    )
    rates = Rates(peak_tflops=_tflops(fit), memory_gbps=machine.memory_gbps or float("inf"))
    calibration = Calibration(compute_efficiency=share, compute_sigma=sigma)
    per_node = machine.cards_per_node
    known = condition(Knowledge(rates, study_links(links, machine, per_node), calibration), [])
    device = texts(matmul, "device").iloc[0]
    one = Measured(cell, 0, cell.model.name, "", cell.scaling, device, cores, 1, 1.0, 0.0, 1.0)
    step = known.steps([Case("", job_of(one, per_node))])[0].step_s
    base = replace(one, step_s=step, tokens_per_s=cell.global_batch_tokens / step)
    basis = f"no step measured, compute from {fit.shapes} matrix products in {dtype}"
    rows: list[dict[str, object]] = []
    skipped: list[str] = []
    for mode in modes:
        like = in_mode(base, mode)
        rows += series_rows(Series([replace(base, mode=like.mode)], like, known, what_if, basis), counts, skipped)
    table = pd.DataFrame(rows, columns=list(COLUMNS))
    notes = [f"{said}; {BASE_TOO}" if said else BASE_TOO for said in table["notes"]]
    return table.assign(relative_to="relative to 1 card, predicted", notes=notes), skipped


def _tflops(fit: MatmulFit) -> float:
    """Of the measured model's own products where it has them, else of large ones."""
    return fit.own_tflops or fit.tflops
