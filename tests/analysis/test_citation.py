"""A study's methods paragraph and citation, from records with chosen values."""

from __future__ import annotations

from typing import Any

import pandas as pd

from analysis.citation import citation, methods_paragraph
from analysis.text import sayer


def _cell(cards: int, **fields: Any) -> dict[str, Any]:
    return {
        "cell_id": f"c{cards}",
        "study": "s",
        "status": "ok",
        "benchmark": "finetune",
        "started_at": f"2026-01-0{cards}T10:00:00.000+00:00",
        "workload.model": "llama2_7b",
        "workload.seq_len": 2048,
        "workload.global_batch_tokens": 131072,
        "workload.scaling": "strong",
        "workload.precision": "bf16",
        "parallel.mode": "fsdp",
        "parallel.cards": cards,
        "device.name": "NVIDIA A100-SXM4-80GB",
        "device.interconnect": "NVLink full mesh",
        "environment.driver": "550.54.15",
        "environment.packages.cardscale": "0.1.0",
        "environment.packages.torch": "2.6.0",
        "throughput.tokens_per_s": 1000.0 * cards,
        "throughput.step_times_s": [1.0] * (20 + cards),
        "throughput.step_time_s.median": 1.0,
        "throughput.step_time_s.ci95_low": 0.98,
        "throughput.step_time_s.ci95_high": 1.02,
        **fields,
    }


def _paragraph(*cells: dict[str, Any], lang: str = "en") -> str:
    return methods_paragraph(pd.DataFrame(cells), sayer(lang))


def test_the_paragraph_says_what_where_with_what_how_and_how_surely() -> None:
    text = _paragraph(_cell(1), _cell(2), _cell(4, status="oom", **{"throughput.tokens_per_s": None}))
    assert (
        "llama2_7b was measured in fsdp on 1, 2 cards: 2 of 3 cells. Cells started from 2026-01-01 to 2026-01-02 (UTC)."
        in text
    )
    assert "Hardware: NVIDIA A100-SXM4-80GB, NVLink full mesh, driver 550.54.15." in text
    assert "Software: cardscale 0.1.0, torch 2.6.0." in text
    assert "sequences of 2,048 tokens, 131,072 tokens in a global batch, bf16, strong scaling" in text
    assert "21–22 whole optimizer steps" in text
    assert "1,000 resamples; their half-width was 2 % of the median" in text
    assert "Each cell was measured once" in text
    assert text.endswith("1 cells gave no measurement (1 oom) and are reported as such.")


def test_repeats_are_counted_by_point() -> None:
    text = _paragraph(_cell(1), _cell(2), _cell(2, cell_id="c2-r1"), _cell(2, cell_id="c2-r2"))
    assert "1 of 2 points were measured more than once (3 runs)." in text


def test_imported_figures_claim_no_method_of_ours() -> None:
    row = {"environment.import.file": "trainer_state.json", "throughput.step_times_s": None}
    text = _paragraph(_cell(1, status="imported", **row))
    assert "1 cells were imported from trainer_state.json and not measured here." in text
    assert "bootstrap" not in text
    assert "optimizer steps" not in text


def test_nothing_measured_gives_no_paragraph() -> None:
    assert _paragraph(_cell(1, status="failed")) == ""
    assert methods_paragraph(pd.DataFrame(), sayer("en")) == ""


def test_processes_are_not_passed_off_as_cards() -> None:
    assert "stood in for cards" in _paragraph(_cell(1, **{"machine.device": "cpu"}))
    assert "stood in for cards" not in _paragraph(_cell(1, **{"machine.device": "cuda"}))


def test_the_paragraph_is_there_in_chinese() -> None:
    text = _paragraph(_cell(1), lang="zh")
    assert "NVIDIA A100-SXM4-80GB" in text
    assert "每个单元只测量一次" in text


def test_the_citation_names_the_records_in_whatever_order() -> None:
    cells = [_cell(1), _cell(2)]
    one, other = (citation("my_study", pd.DataFrame(rows), sayer("en")) for rows in (cells, cells[::-1]))
    assert one == other
    assert (one.year, one.version) == (2026, "0.1.0")
    assert one.key == f"cardscale-my-study-{one.digest[:8]}"
    assert one.digest in one.note


def test_another_throughput_is_another_citation() -> None:
    changed = _cell(1, **{"throughput.tokens_per_s": 1000.001})
    keys = {citation("s", pd.DataFrame([cell]), sayer("en")).key for cell in (_cell(1), changed)}
    assert len(keys) == 2
