from __future__ import annotations

import pandas as pd
import pytest

from analysis.scaling.bands import band_table, place


def cells(mode: str, cards: list[int], rates: list[float], **columns: object) -> pd.DataFrame:
    data = {"parallel.mode": mode, "parallel.cards": cards, "throughput.tokens_per_s": rates, "status": "ok"}
    return pd.DataFrame({**data, **{name.replace("__", "."): value for name, value in columns.items()}})


@pytest.mark.parametrize(("rate", "verdict"), [(690.0, "below"), (700.0, "inside the band")])
def test_eight_data_parallel_cards_should_reach_seven_times_one(rate: float, verdict: str) -> None:
    row = band_table(cells("ddp", [1, 8], [100.0, rate])).iloc[0]
    assert (row["band"], row["verdict"]) == ("7 or better", verdict)


@pytest.mark.parametrize(("rate", "verdict"), [(190.0, "below"), (360.0, "inside the band"), (380.0, "above")])
def test_four_data_parallel_cards_are_two_to_three_point_six_times_one(rate: float, verdict: str) -> None:
    assert band_table(cells("fsdp", [1, 4], [100.0, rate]))["verdict"].tolist() == [verdict]


@pytest.mark.parametrize("mode", ["tp", "pp"])
@pytest.mark.parametrize(("rate", "verdict"), [(470.0, "below"), (540.0, "inside the band"), (640.0, "above")])
def test_model_parallel_uses_sixty_to_seventy_five_percent_of_eight_cards(mode: str, rate: float, verdict: str) -> None:
    # 4.7 / 8 = 59 %, 5.4 / 8 = 67.5 %, 6.4 / 8 = 80 %.
    assert band_table(cells(mode, [1, 8], [100.0, rate]))["verdict"].tolist() == [verdict]


def test_a_speedup_over_two_cards_is_not_held_against_rules_that_mean_one() -> None:
    assert band_table(cells("ddp", [2, 8], [200.0, 700.0])).empty


def test_nvlink_over_pcie_on_the_same_eight_cards() -> None:
    frame = cells(
        "ddp",
        [8, 8],
        [130.0, 100.0],
        device__name=["A100-SXM4-80GB", "A100-PCIE-80GB"],
        device__interconnect=["NVLink full mesh", "PCIe 4.0"],
    )
    row = band_table(frame).iloc[0]
    assert row["measured"] == pytest.approx(1.3)
    assert (row["band"], row["verdict"]) == ("1.2 to 1.4", "inside the band")


def test_an_unknown_value_has_no_place() -> None:
    assert place(float("nan"), 1, 2) == ""
