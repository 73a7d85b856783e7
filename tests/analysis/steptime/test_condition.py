from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from analysis.links import LinkModel, fit_links
from analysis.links.collective_time import Group, Link, Network
from analysis.steptime import Job, Rates, step_times
from analysis.steptime.call_times import Links
from analysis.steptime.communication import BACKWARD, NOTHING, Collective
from analysis.steptime.condition import Case, Knowledge, Observed, Step, condition
from analysis.steptime.plan import Calibration

SHEET = Network(Link(2.0, 0.0), Link(0.5, 0.0), cards_per_node=8)
ALPHA_US, ALGBW_GBPS = 1000.0, 1.0
# 1 TFLOP/s at the 0.6 of the peak that is taken where nothing is measured; half of a window hides communication.
RATES = Rates(peak_tflops=1 / 0.6, memory_gbps=float("inf"), straggler_cv=0.0)
PLAIN = Calibration(overlap=0.5, overhead_s=0.0)
ONE_CARD = Job(1e11, 0.0, 8, (), 0.0, 28.0, tokens=4096.0, cards=1)  # 8 micro-batches of 0.1 s in 0.8 s
MEASURED = Observed(Case("ddp", ONE_CARD), 0.8, 0.0)


def fitted(ranks: tuple[int, ...] = (2, 4, 8), nodes: int = 1) -> LinkModel:
    """All-reduces that take 1 ms and a nanosecond a byte on any number of ranks."""
    sizes = [2**k for k in range(10, 28, 2)]
    times = [(s, ALPHA_US + s / ALGBW_GBPS / 1e3) for s in sizes]
    return fit_links(
        [{"op": "all_reduce", "bytes": s, "ranks": n, "nodes": nodes, "time_us": t} for n in ranks for s, t in times]
    )


def data_parallel(cards: int, nodes: int = 1, size: float = 1e8) -> Job:
    """The one-card job's batch shared out, and one all-reduce behind the last backward."""
    gradients = Collective("gradients", "all_reduce", size, Group(cards, nodes), 1, BACKWARD)
    return replace(ONE_CARD, micro_batches=8 // min(cards, 8), collectives=(gradients,), cards=cards)


def predicted(job: Job, links: Links, *, mode: str = "ddp", measured: tuple[Observed, ...] = (MEASURED,)) -> Step:
    return condition(Knowledge(RATES, links, PLAIN), measured).steps([Case(mode, job)])[0]


def width(step: Step) -> float:
    return step.high_s / step.low_s


def test_four_data_parallel_cards_follow_from_one_card_and_the_measured_links() -> None:
    # 2 micro-batches of 0.1 s; 1 ms + 1e8 B at 1 GB/s = 0.101 s; half of 2/3 of the last 0.1 s hides 1/30 s of it.
    step = predicted(data_parallel(4), Links(fitted(), SHEET))
    assert step.step_s == pytest.approx(0.2 + 0.101 - 0.1 / 3, rel=1e-6)


def test_without_measured_links_the_sheet_speaks_at_three_quarters_of_its_bandwidth() -> None:
    # Ring of 4: 2 x 3/4 x 1e8 B at 0.75 x 2 GB/s = 0.1 s.
    assert predicted(data_parallel(4), Links(None, SHEET)).step_s == pytest.approx(0.2 + 0.1 - 0.1 / 3, rel=1e-6)


def test_a_pipeline_pays_its_bubble() -> None:
    # A quarter of the model a stage: 8 x 0.025 s, and 3/8 of it idle.
    staged = replace(ONE_CARD, flops=2.5e10, stages=4, cards=4)
    assert predicted(staged, Links(None, SHEET), mode="pp").step_s == pytest.approx(0.2 * (1 + 3 / 8), rel=1e-6)


def test_beyond_the_node_the_link_between_nodes_carries_it() -> None:
    # Two nodes of 8: each member has its own 0.5 GB/s, 8 of them more than the 2 GB/s inside. 2 x 15/16 x 1e8 / 1.5e9.
    across = predicted(data_parallel(16, nodes=2), Links(None, SHEET))
    assert across.step_s == pytest.approx(0.1 + 0.125 - 0.1 / 3, rel=1e-6)
    slow = replace(SHEET, inter=Link(0.05, 0.0))  # 0.4 GB/s a ring: 2 x 15/16 x 1e8 / 0.3e9 = 0.625 s
    assert predicted(data_parallel(16, nodes=2), Links(None, slow)).step_s == pytest.approx(
        0.1 + 0.625 - 0.1 / 3, rel=1e-6
    )


def test_no_border_is_faster_than_the_measured_links_inside_the_node() -> None:
    fast = replace(SHEET, inter=Link(1000.0, 0.0), intra=Link(1000.0, 0.0))
    step = predicted(data_parallel(8, nodes=2), Links(fitted(), fast))
    assert step.step_s == pytest.approx(0.1 + 0.101 - 0.1 / 3, rel=1e-6)


def test_a_gather_takes_half_of_a_measured_all_reduce() -> None:
    gather = Collective("parameters", "all_gather", 1e8, Group(4, 1), 2, NOTHING)
    job = replace(data_parallel(4), collectives=(gather,))
    assert predicted(job, Links(fitted(), SHEET)).step_s == pytest.approx(0.2 + 2 * 0.0505, rel=1e-6)


def test_the_interval_narrows_with_what_was_measured() -> None:
    job, case = data_parallel(8), Case("ddp", data_parallel(2))
    two_cards = Observed(case, predicted(case.job, Links(fitted(), SHEET)).step_s, 0.0)
    nothing = predicted(job, Links(None, SHEET, intra_stated=False), measured=())
    assumed = predicted(job, Links(None, SHEET, intra_stated=False))
    stated = predicted(job, Links(None, SHEET))
    measured = predicted(job, Links(fitted(), SHEET))
    both = predicted(job, Links(fitted(), SHEET), measured=(MEASURED, two_cards))
    widths = [width(step) for step in (nothing, assumed, stated, measured, both)]
    assert widths == sorted(widths, reverse=True)
    assert widths[0] > 2 * widths[-1]


def test_one_rank_count_of_measured_links_is_less_sure_of_others() -> None:
    small = Collective("activations", "all_reduce", 1e4, Group(8, 1), 100, NOTHING)
    job = replace(data_parallel(8), collectives=(small,))
    assert width(predicted(job, Links(fitted((2,)), SHEET))) > width(predicted(job, Links(fitted(), SHEET)))


def test_a_measured_cell_is_met() -> None:
    case = Case("ddp", data_parallel(2))
    seen = Observed(case, 0.62, 0.005)  # the model alone says 0.4677
    step = predicted(case.job, Links(fitted(), SHEET), measured=(MEASURED, seen))
    assert step.step_s == pytest.approx(0.62, rel=0.03)
    assert step.low_s < 0.62 < step.high_s


def test_another_modes_measurement_calibrates_compute_with_a_wider_interval() -> None:
    alone = replace(ONE_CARD, micro_batches=4)
    same, other = (predicted(alone, Links(None, SHEET), mode=mode) for mode in ("ddp", "fsdp"))
    assert same.step_s == pytest.approx(other.step_s) == pytest.approx(0.4)
    assert width(other) > width(same)


def test_two_cards_predict_four_and_eight_of_a_machine_that_the_defaults_do_not_describe() -> None:
    """40 machines drawn at random: the held-out steps are near, and in the interval as often as it says."""
    draw = np.random.default_rng(7)
    counts, errors, covered = (1, 2, 4, 8), [], []
    for _ in range(40):
        size = float(draw.uniform(3e7, 3e8))
        jobs = [ONE_CARD, *(data_parallel(n, size=size) for n in counts[1:])]
        odds, link = np.exp(draw.normal(0, 1)), float(np.exp(draw.normal(0, 0.15)))
        rates = replace(RATES, compute_efficiency=draw.uniform(0.3, 0.9), overlap=odds / (1 + odds))
        links = Links(fitted(), SHEET)

        def parts(op: str, size: float, of: Group, links: Links = links, link: float = link) -> tuple[float, float]:
            call = links.call_time(op, size, of)
            return call.latency_s, call.transfer_s / link

        rates = replace(rates, step_overhead_s=0.0)
        truth = step_times(jobs, rates, parts).total_s[:, 0] * np.exp(draw.normal(0, 0.01, 4))
        seen = [Observed(Case("ddp", job), step, 0.01) for job, step in zip(jobs[:2], truth[:2], strict=True)]
        found = condition(Knowledge(RATES, links, PLAIN), seen).steps([Case("ddp", job) for job in jobs[2:]])
        errors += [abs(step.step_s / true - 1) for step, true in zip(found, truth[2:], strict=True)]
        covered += [step.low_s <= true <= step.high_s for step, true in zip(found, truth[2:], strict=True)]
    assert np.median(errors) < 0.05
    assert np.mean(covered) >= 0.92
