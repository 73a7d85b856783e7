"""Builders of price sheets and cells for the costing tests, and the article's sheet."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pandas as pd
import pytest

from analysis.prices import Quote, parse_quote

# Jiangsu, A100 80G, CNY: https://idctop.com/article/573547.html
ARTICLE_TIERS: list[dict[str, Any]] = [
    {"name": "hourly", "unit": "card_hour", "price": [20, 35]},
    {
        "name": "hourly_node",
        "unit": "card_hour",
        "price": [20, 35],
        "discount": [0.70, 0.85],
        "min_cards": 8,
        "cards_per_node": 8,
    },
    {"name": "monthly", "unit": "card_month", "price": [8000, 12000]},
    {"name": "monthly_node", "unit": "node_month", "price": [60000, 80000], "cards_per_node": 8},
]


def _quote(*tiers: dict[str, Any], **sheet: Any) -> Quote:
    content = {"provider": "P", "currency": "CNY", "machine": "a100_80g", "date": "2026-01-31", **sheet}
    return parse_quote({**content, "tiers": list(tiers)}, "sheet.yaml", "sheet")


def _cells(*rows: tuple[float, float], mode: str = "ddp", **columns: Any) -> pd.DataFrame:
    frame = pd.DataFrame(rows, columns=["parallel.cards", "throughput.tokens_per_s"])
    frame.insert(0, "parallel.mode", mode)
    frame["status"] = "imported"
    return frame.assign(**columns)


@pytest.fixture(scope="session")
def quote_of() -> Callable[..., Quote]:
    """quote_of(tier, tier, ..., currency=...) is a checked quote."""
    return _quote


@pytest.fixture(scope="session")
def cells_of() -> Callable[..., pd.DataFrame]:
    """cells_of((cards, tokens/s), ..., mode="ddp") is a frame of imported cells."""
    return _cells


@pytest.fixture(scope="session")
def article() -> Quote:
    return _quote(*ARTICLE_TIERS)
