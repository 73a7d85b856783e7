from __future__ import annotations

from collections.abc import Callable

import pandas as pd
import pytest

from analysis.cost import cost_table
from analysis.predict.interconnect import link_kind
from analysis.prices import Quote

HOUR_TOKENS = 3_600_000.0
Cells = Callable[..., pd.DataFrame]
Quotes = Callable[..., Quote]


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("NVLink full mesh", "nvlink"),
        ("NVSwitch + InfiniBand", "nvlink"),
        ("PCIe 4.0 x16", "pcie"),
        ("PCIe, no NVLink", "pcie"),
        ("无NVLink，PCIe", "pcie"),
        ("400G RoCE", "network"),
        ("", ""),
        ("shared memory", ""),
        (None, ""),
    ],
)
def test_the_kind_of_a_link_is_read_from_what_people_write(text: str | None, kind: str) -> None:
    assert link_kind(text) == kind


def speed(cells: pd.DataFrame, quote: Quote) -> tuple[float, float]:
    row = cost_table(cells, [quote], HOUR_TOKENS).iloc[0]
    return float(row["tokens_per_s_low"]), float(row["tokens_per_s_high"])


def test_pcie_trains_20_to_40_per_cent_slower_than_the_measured_nvlink(quote_of: Quotes, cells_of: Cells) -> None:
    cells = cells_of((8, 1000), **{"device.interconnect": "NVLink"})
    quote = quote_of({"unit": "card_hour", "price": 20, "interconnect": "PCIe"})
    assert speed(cells, quote) == pytest.approx((600, 800))


def test_a_throughput_carried_over_to_other_links_is_not_measured(quote_of: Quotes, cells_of: Cells) -> None:
    cells = cells_of((8, 1000), **{"device.interconnect": "NVLink"})
    table = cost_table(cells, [quote_of({"unit": "card_hour", "price": 20, "interconnect": "PCIe"})], HOUR_TOKENS)
    assert not table["measured"].any()
    assert "carried over from other links" in table["notes"][0]


def test_one_card_does_not_feel_the_links(quote_of: Quotes, cells_of: Cells) -> None:
    cells = cells_of((1, 1000), **{"device.interconnect": "NVLink"})
    assert speed(cells, quote_of({"unit": "card_hour", "price": 20, "interconnect": "PCIe"})) == (1000, 1000)


def test_links_that_are_not_stated_change_nothing(quote_of: Quotes, cells_of: Cells) -> None:
    cells = cells_of((8, 1000), **{"device.interconnect": "NVLink"})
    assert speed(cells, quote_of({"unit": "card_hour", "price": 20})) == (1000, 1000)


def test_a_job_spread_over_servers_waits_longer_by_its_measured_share(quote_of: Quotes, cells_of: Cells) -> None:
    cells = cells_of((8, 1000), **{"parallel.nodes": 1, "throughput.exposed_comm_fraction": 0.2})
    quote = quote_of({"unit": "node_hour", "price": 20, "cards_per_node": 4})
    # 600 against 400 and 200 GB/s: the waiting fifth takes 1.5 to 3 times as long
    assert speed(cells, quote) == pytest.approx((1000 / (0.8 + 0.2 * 3), 1000 / (0.8 + 0.2 * 1.5)))


def test_without_a_measured_share_tensor_parallel_takes_the_articles_band(quote_of: Quotes, cells_of: Cells) -> None:
    cells = cells_of((8, 1000), mode="tp", **{"parallel.nodes": 1})
    quote = quote_of({"unit": "node_hour", "price": 20, "cards_per_node": 4})
    # 60 to 75 % of the compute used: 25 to 40 % waits
    assert speed(cells, quote) == pytest.approx((1000 / (0.6 + 0.4 * 3), 1000 / (0.75 + 0.25 * 1.5)))


def test_a_cell_that_does_not_say_its_servers_is_noted_and_not_changed(quote_of: Quotes, cells_of: Cells) -> None:
    quote = quote_of({"unit": "node_hour", "price": 20, "cards_per_node": 4})
    table = cost_table(cells_of((8, 1000)), [quote], HOUR_TOKENS)
    assert table["tokens_per_s"][0] == 1000
    assert "does not say how many it was measured on" in table["notes"][0]


def test_an_nvlink_quote_at_a_higher_price_can_cost_less_for_the_job(quote_of: Quotes, cells_of: Cells) -> None:
    cells = cells_of((8, 1000), **{"device.interconnect": "NVLink"})
    tiers = [
        {"name": "nvlink", "unit": "card_hour", "price": 22, "interconnect": "NVLink"},
        {"name": "pcie", "unit": "card_hour", "price": 20, "interconnect": "PCIe"},
    ]
    table = cost_table(cells, [quote_of(*tiers)], 100 * HOUR_TOKENS).set_index("tier")
    # 100 h x 8 x 22 = 17,600; PCIe at best 125 h x 8 x 20 = 20,000
    assert table.loc["nvlink", "total_cost_high"] == pytest.approx(17_600)
    assert table.loc["pcie", "total_cost_low"] == pytest.approx(20_000)
