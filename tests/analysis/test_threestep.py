from __future__ import annotations

import pytest

from analysis.threestep import (
    BETWEEN,
    ENOUGH,
    FIX_FIRST,
    SEVERAL,
    TIGHT,
    UNKNOWN,
    SingleCardTest,
    single_card_verdict,
)
from configs.errors import ConfigError

FITS = {"memory_used_gib": 60.0, "card_gib": 80.0}


def test_memory_that_fits_and_utilisation_above_80_per_cent_is_one_card() -> None:
    assert single_card_verdict(SingleCardTest(**FITS, utilisation_pct=85)).verdict == ENOUGH


def test_exactly_80_per_cent_is_not_above_80_per_cent() -> None:
    assert single_card_verdict(SingleCardTest(**FITS, utilisation_pct=80)).verdict == BETWEEN


def test_out_of_memory_means_several_cards() -> None:
    assert single_card_verdict(SingleCardTest(out_of_memory=True)).verdict == SEVERAL


def test_memory_above_90_per_cent_is_tight() -> None:
    verdict = single_card_verdict(SingleCardTest(memory_used_gib=73, card_gib=80, utilisation_pct=95))
    assert verdict.verdict == TIGHT
    assert "91% of the card's 80.0 GiB" in verdict.reasons[0]


def test_memory_of_exactly_90_per_cent_is_not_tight() -> None:
    assert single_card_verdict(SingleCardTest(memory_used_gib=72, card_gib=80, utilisation_pct=95)).verdict == ENOUGH


def test_a_starved_card_has_its_cause_named_before_more_cards() -> None:
    verdict = single_card_verdict(SingleCardTest(**FITS, utilisation_pct=20, data_wait_fraction=0.6, mfu=0.1))
    assert verdict.verdict == FIX_FIRST
    assert verdict.causes[0].startswith("Slow input: 60% of each step waits for data")


def test_a_small_batch_is_named_with_the_room_it_leaves() -> None:
    test = SingleCardTest(memory_used_gib=8, card_gib=80, utilisation_pct=20, micro_batch=1)
    assert "micro_batch 1 fills 10% of the memory" in single_card_verdict(test).causes[0]


def test_small_kernels_are_named_where_nothing_else_explains_an_idle_card() -> None:
    test = SingleCardTest(**FITS, utilisation_pct=20, data_wait_fraction=0.0, mfu=0.04)
    assert "Launch overhead: 4% of the peak FLOP/s" in single_card_verdict(test).causes[0]


def test_low_utilisation_with_every_cause_excluded_leads_to_several_cards() -> None:
    test = SingleCardTest(**FITS, utilisation_pct=20, data_wait_fraction=0.0, mfu=0.3)
    assert single_card_verdict(test).more_cards


def test_low_utilisation_without_measured_causes_asks_for_them_first() -> None:
    verdict = single_card_verdict(SingleCardTest(**FITS, utilisation_pct=20))
    assert verdict.verdict == FIX_FIRST
    assert "Not measured yet" in verdict.causes[0]


def test_nothing_measured_is_no_verdict() -> None:
    assert single_card_verdict(SingleCardTest()).verdict == UNKNOWN


def test_utilisation_alone_does_not_say_that_memory_fits() -> None:
    assert single_card_verdict(SingleCardTest(utilisation_pct=95)).verdict == BETWEEN


def test_a_utilisation_above_100_per_cent_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"device.utilisation_pct: 850 is not a percentage"):
        single_card_verdict(SingleCardTest(**FITS, utilisation_pct=850))
