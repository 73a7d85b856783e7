from __future__ import annotations

import re

import pandas as pd
import pytest

from analysis.cost import cost_table
from analysis.prices import Quote
from analysis.scaling import scaling_table
from analysis.text import CATALOGUE, remark, sayer
from analysis.text.remarks import REMARKS
from configs.errors import ConfigError


def _names(text: str) -> list[str]:
    return sorted(re.findall(r"\{(\w+)\}", text))


@pytest.mark.parametrize("key", CATALOGUE)
def test_both_languages_say_the_same_values(key: str) -> None:
    english, chinese = CATALOGUE[key]
    assert _names(english) == _names(chinese)
    assert english and chinese


@pytest.mark.parametrize("pair", REMARKS, ids=lambda pair: pair[0])
def test_a_translated_remark_uses_only_values_of_the_english_one(pair: tuple[str, str]) -> None:
    assert set(_names(pair[1])) <= set(_names(pair[0]))


def test_an_unknown_language_is_refused_with_the_known_ones() -> None:
    with pytest.raises(ConfigError, match="lang: 'fr' is unknown; known: en, zh"):
        sayer("fr")


def test_a_remark_with_values_is_translated_with_them() -> None:
    assert remark("7 idle cards are billed", "zh") == "7 张闲置卡也计费"
    assert remark("7 idle cards are billed", "en") == "7 idle cards are billed"


def test_a_remark_that_nobody_foresaw_is_left_as_it_is() -> None:
    assert remark("quoted by phone", "zh") == "quoted by phone"


def test_every_remark_on_a_difficult_study_is_translated(article: Quote) -> None:
    rows = [(2, 100.0), (2, 100.0), (4, 90.0), (8, 900.0)]
    cells = pd.DataFrame(rows, columns=["parallel.cards", "throughput.tokens_per_s"]).assign(
        **{
            "parallel.mode": "ddp",
            "status": "ok",
            "parallel.nodes": [1, 1, 1, 2],
            "device.name": "NVIDIA GeForce RTX 4090",
            "device.throttled": True,
            "device.oversubscribed": True,
            "throughput.step_time_s.cv": 0.5,
            "memory.device_used_gib": 23.0,
            "memory.card_gib": 24.0,
        }
    )
    said = {*scaling_table(cells)["flags"], *cost_table(cells, [article], 1e9)["notes"]}
    remarks = {part for text in said for part in text.split("; ") if part}
    assert len(remarks) >= 9
    assert [text for text in remarks if remark(text, "zh") == text] == []
