"""What looks at the cards add up to. Figures by hand."""

from __future__ import annotations

import pytest

from benchmarks.device.samples import (
    Account,
    Sample,
    Watched,
    device_section,
    energy_j,
    power_w,
    throttle_shares,
    with_energy_per_token,
)
from benchmarks.device.visibility import Card


def card(number: int, name: str = "NVIDIA H200", memory_gib: float = 140.0) -> Card:
    return Card(number, f"GPU-{number}", name, memory_gib=memory_gib)


def at_100_watts(seconds: int = 10, phase: str = "measure") -> list[Sample]:
    return [Sample(float(s), phase, utilisation_pct=50.0, power_w=100.0) for s in range(seconds + 1)]


def test_the_counter_gives_the_energy_where_there_is_one() -> None:
    assert energy_j([Sample(0, energy_j=500.0, power_w=1.0), Sample(10, energy_j=4500.0, power_w=1.0)]) == 4000


def test_power_over_time_gives_the_energy_where_there_is_no_counter() -> None:
    # 10 s from 100 W to 300 W, then 10 s at 300 W: 2000 J + 3000 J
    assert energy_j([Sample(0, power_w=100), Sample(10, power_w=300), Sample(20, power_w=300)]) == 5000


def test_a_counter_that_starts_again_is_not_believed() -> None:
    assert energy_j([Sample(0, energy_j=900.0, power_w=100), Sample(10, energy_j=5.0, power_w=100)]) == 1000


def test_one_look_has_no_energy() -> None:
    assert energy_j([Sample(0, energy_j=900.0, power_w=100)]) is None


def test_power_is_energy_over_time() -> None:
    assert power_w([Sample(0, energy_j=0.0), Sample(10, energy_j=3500.0)]) == 350


def test_only_the_jobs_cards_are_charged() -> None:
    # eight cards at 100 W for 10 s, the job on one of them
    account = Account([Watched(card(0), at_100_watts())], [Watched(card(i), at_100_watts()) for i in range(1, 8)])
    section = device_section(account)
    assert (section["energy_j"], section["power_w"]) == (1000, 100)
    assert (section["idle_cards"], section["idle_energy_j"]) == (7, 7000)


def test_power_is_that_of_all_the_jobs_cards() -> None:
    assert device_section(Account([Watched(card(i), at_100_watts()) for i in range(4)]))["power_w"] == 400


def test_a_sum_with_a_part_missing_is_blank() -> None:
    account = Account([Watched(card(0), at_100_watts()), Watched(card(1), [Sample(0.0), Sample(10.0)])])
    assert device_section(account)["energy_j"] is None


def test_figures_are_of_the_time_when_steps_were_timed() -> None:
    looks = [Sample(0, "start", 0, sm_clock_mhz=300)] + [Sample(t, "measure", 90, sm_clock_mhz=1900) for t in (1, 2)]
    section = device_section(Account([Watched(card(0), looks)]))
    assert (section["utilisation_pct"], section["sm_clock_mhz"], section["window"]) == (90, 1900, "steps")


def test_a_cell_that_timed_no_step_is_shown_whole_and_says_so() -> None:
    looks = [Sample(0, "start", 0), Sample(1, "warmup", 50)]
    section = device_section(Account([Watched(card(0), looks)]))
    assert (section["utilisation_pct"], section["window"]) == (25, "cell")


def test_peak_memory_is_that_of_the_whole_cell_with_its_phase() -> None:
    looks = [Sample(0, "start", used_gib=60.0), Sample(1, "measure", used_gib=40.0)]
    section = device_section(Account([Watched(card(0), looks)]))
    assert (section["device_used_gib"], section["device_used_phase"]) == (60, "start")


def test_the_fullest_card_decides_and_the_smallest_one_bounds() -> None:
    small = Watched(card(0, memory_gib=8.0), [Sample(0, used_gib=3.0)])
    large = Watched(card(1, memory_gib=16.0), [Sample(0, used_gib=5.0)])
    section = device_section(Account([small, large]))
    assert (section["device_used_gib"], section["card_gib"]) == (5, 8)


def test_unlike_cards_do_not_pass_for_like_ones() -> None:
    mixed = [Watched(card(0, "NVIDIA L40S"), []), Watched(card(1), []), Watched(card(2), [])]
    assert device_section(Account(mixed))["name"] == "2 x NVIDIA H200 + 1 x NVIDIA L40S"


def test_the_slowest_cards_clock_is_told() -> None:
    account = Account([Watched(card(i), [Sample(0, sm_clock_mhz=mhz)]) for i, mhz in enumerate((1980.0, 1200.0))])
    assert device_section(account)["sm_clock_mhz"] == 1200


def test_a_hot_card_is_throttled() -> None:
    account = Account([Watched(card(0), [Sample(0, reasons=()), Sample(1, reasons=("hardware thermal slowdown",))])])
    section = device_section(account)
    assert section["throttled"] is True
    assert section["throttle_reasons"] == {"hardware thermal slowdown": 0.5}


def test_a_card_at_its_power_limit_is_at_work() -> None:
    assert (
        device_section(Account([Watched(card(0), [Sample(0, reasons=("software power cap",))])]))["throttled"] is False
    )


def test_a_card_that_does_not_tell_is_neither() -> None:
    assert device_section(Account([Watched(card(0), [Sample(0)])]))["throttled"] is None


def test_idling_holds_no_clock_down() -> None:
    assert throttle_shares([Sample(0, reasons=("idle",))]) == {}


def test_a_shared_card_is_said_to_be() -> None:
    assert device_section(Account([Watched(card(0), [], shared=False), Watched(card(1), [], shared=True)]))["shared"]


def test_one_card_that_emulates_bf16_makes_the_job_emulate_it() -> None:
    account = Account([Watched(card(0), [], capability=(8, 0)), Watched(card(1), [], capability=(7, 5))])
    assert device_section(account)["bf16_in_hardware"] is False


def test_energy_of_a_token_is_power_over_the_rate() -> None:
    section = device_section(Account([Watched(card(0), at_100_watts())]))
    assert with_energy_per_token(section, 50.0)["energy_j_per_token"] == 2  # 100 W at 50 tokens/s


def test_energy_of_a_token_is_blank_where_no_step_was_watched() -> None:
    section = device_section(Account([Watched(card(0), at_100_watts(phase="start"))]))
    assert with_energy_per_token(section, 50.0)["energy_j_per_token"] is None


def test_energy_of_a_token_is_blank_where_only_one_of_several_nodes_was_watched() -> None:
    section = device_section(Account([Watched(card(0), at_100_watts())], interconnect="cross-node"))
    assert with_energy_per_token(section, 50.0)["energy_j_per_token"] is None


@pytest.mark.parametrize("rate", [None, 0.0])
def test_energy_of_a_token_is_blank_without_a_rate(rate: float | None) -> None:
    section = device_section(Account([Watched(card(0), at_100_watts())]))
    assert with_energy_per_token(section, rate)["energy_j_per_token"] is None
