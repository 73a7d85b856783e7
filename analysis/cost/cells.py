"""The cells of a study, an import or a prediction, brought to what costing needs: one row a cell, plain columns."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analysis.predict.interconnect import link_kind
from configs.errors import ConfigError
from results.record import MEASURED

Floats = NDArray[np.float64]
REQUIRED = ("parallel.mode", "parallel.cards")  # a study in which everything failed has no throughput column


def costed_cells(cells: pd.DataFrame) -> pd.DataFrame:
    """One row a fine-tuning cell of `cells` (a study's dotted columns), in the order given.

    Columns: cell_id, model, mode, cards, nodes, status, measured, tokens_per_s and its low and high end (95 % interval
    of the step time, or the prediction's interval; the value itself where none is known), exposed_comm, link, device,
    memory_gib, card_gib, notes. Cells without a throughput (oom, failed) stay, with NaN: blank, not zero.
    Raises ConfigError if a required column is missing.
    """
    for column in REQUIRED:
        if column not in cells.columns:
            raise ConfigError("cells", f"column {column} is missing", f"required: {', '.join(REQUIRED)}")
    if "benchmark" in cells.columns:
        cells = cells[cells["benchmark"].fillna("finetune") == "finetune"]
    rate = numbers(cells, "throughput.tokens_per_s")
    rate[~(rate > 0)] = np.nan
    median = numbers(cells, "throughput.step_time_s.median")
    low = numbers(cells, "throughput.tokens_per_s_low")
    high = numbers(cells, "throughput.tokens_per_s_high")
    low = np.where(np.isnan(low), rate * median / numbers(cells, "throughput.step_time_s.ci95_high"), low)
    high = np.where(np.isnan(high), rate * median / numbers(cells, "throughput.step_time_s.ci95_low"), high)
    status = texts(cells, "status", "imported")
    links = texts(cells, "device.interconnect", "")
    return pd.DataFrame(
        {
            "cell_id": texts(cells, "cell_id", ""),
            "model": texts(cells, "workload.model", ""),
            "mode": texts(cells, "parallel.mode", ""),
            "cards": numbers(cells, "parallel.cards"),
            "nodes": numbers(cells, "parallel.nodes"),
            "status": status,
            "measured": np.isin(status.astype(str), MEASURED),
            "tokens_per_s": rate,
            "tokens_per_s_low": np.fmin(low, rate),
            "tokens_per_s_high": np.fmax(high, rate),
            "exposed_comm": numbers(cells, "throughput.exposed_comm_fraction"),
            "link": _each(links, link_kind),
            "device": texts(cells, "device.name", ""),
            "notes": texts(cells, "prediction.notes", ""),
            "memory_gib": numbers(cells, "memory.device_used_gib"),
            "card_gib": numbers(cells, "memory.card_gib"),
        }
    )


def numbers(frame: pd.DataFrame, column: str) -> Floats:
    """A column as floats; NaN where it is blank or the frame lacks it."""
    if column not in frame.columns:
        return np.full(len(frame), np.nan)
    return np.array(pd.to_numeric(frame[column], errors="coerce"), dtype=float)


def texts(frame: pd.DataFrame, column: str, default: str) -> NDArray[np.object_]:
    """A column as text; `default` where it is blank or the frame lacks it."""
    if column not in frame.columns:
        return np.full(len(frame), default, dtype=object)
    values = frame[column].astype(object)
    return np.array(values.where(values.notna() & (values != ""), default), dtype=object)


def _each(values: NDArray[np.object_], function: object) -> NDArray[np.object_]:
    """`function` of each text, called once for each distinct one."""
    assert callable(function)
    known = {value: function(value) for value in set(values)}
    return np.array([known[value] for value in values], dtype=object)


def same_card(device: str, machine: str, card_names: Iterable[str] = ()) -> bool | None:
    """Whether a driver's card name ("NVIDIA A100-SXM4-80GB") is the machine ("a100_80g"); None where unknown.

    Compares the model (a100, h800, 4090, l40s) and, where both state it, the memory. card_names: what the machine's own
    config says its card is called, which settles it where it matches.
    """
    if not device or not machine:
        return None
    if any(name.lower() in device.lower() for name in card_names) or device.lower() == machine.lower():
        return True
    offered, found = _model_and_memory(machine), _model_and_memory(device)
    if offered[0] is None:
        return None
    return offered[0] == found[0] and (None in (offered[1], found[1]) or offered[1] == found[1])


def _model_and_memory(name: str) -> tuple[str | None, str | None]:
    words = re.sub(r"[^a-z0-9]+", " ", name.lower())
    memory = re.search(r"\b(\d+) ?g(?:i?b)?\b", words)
    models = re.findall(r"\b(?!\d+g(?:i?b)?\b)[a-z]{0,4}\d{2,4}[a-z]?\b", words)
    return (models[0] if models else None), (memory[1] if memory else None)


def machine_matches(
    devices: NDArray[np.object_], machines: list[str], card_names: Mapping[str, Iterable[str]]
) -> NDArray[np.float64]:
    """1, 0 or NaN (unknown) for each device x machine, shape (devices, machines).

    A device that one machine of `card_names` calls its own by its whole name is no other of them: "NVIDIA H200 NVL" is
    not the h200, and "NVIDIA A100 80GB PCIe" not the a100_80g.
    """
    owners = {name.lower(): machine for machine, names in card_names.items() for name in names}

    def verdict(device: str, machine: str) -> bool | None:
        owner = owners.get(device.lower())
        if owner is not None and machine in card_names:
            return owner == machine
        return same_card(device, machine, card_names.get(machine, ()))

    distinct, inverse = np.unique(devices.astype(str), return_inverse=True)
    verdicts = [[verdict(str(device), machine) for machine in machines] for device in distinct]
    table = np.array(verdicts, dtype=float).reshape(len(distinct), len(machines))  # None becomes NaN
    return table[inverse]


def memory_shares(rows: pd.DataFrame, machines: list[str], matches: Floats, card_memory: Mapping[str, float]) -> Floats:
    """The peak memory of each cell as a share of each machine's card, shape (cells, machines); NaN where unknown.

    rows: of `costed_cells`. matches: of `machine_matches`; the same card has the memory that was measured on it, any
    other that of `card_memory` (machine -> GiB), for what is rented is the quote's card.
    """
    measured_on = rows["card_gib"].to_numpy(dtype=float)[:, None]
    offered = np.array([card_memory.get(machine, np.nan) for machine in machines])[None, :]
    card = np.where((matches == 1) & ~np.isnan(measured_on), measured_on, offered)
    card = np.where(np.isnan(card) & (matches != 0), measured_on, card)
    shares: Floats = rows["memory_gib"].to_numpy(dtype=float)[:, None] / card
    return shares
