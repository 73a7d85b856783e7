"""What serving needs, held to figures worked out by hand for Llama-2-7B and Llama-3-8B."""

from __future__ import annotations

import pytest

from analysis.vram import GIB
from analysis.vram.inference import ServingPlan, page_rounded, plan_serving, serving
from configs.compose import compose_config, compose_grid

GB = 10**9
# Llama-2-7B: the seven matrices of 32 layers; embedding and head; two norms a layer and the last.
MATRICES = 32 * (4 * 4096**2 + 3 * 4096 * 11008)
ENDS = 2 * 32000 * 4096
NORMS = (2 * 32 + 1) * 4096
SERVE = ("plan.task=inference", "model=llama2_7b", "machine=4090", "mode=tp")


def one(*words: str) -> ServingPlan:
    (planned,) = plan_serving(compose_grid([*SERVE, *words], sweep=True))
    return planned


def test_sixteen_bit_weights_are_the_rule_of_thumb_of_two_bytes_a_parameter() -> None:
    need = serving(compose_config(list(SERVE)))
    assert need.weights == need.rule_of_thumb == 2 * (MATRICES + ENDS + NORMS)
    assert need.weights == pytest.approx(13.48 * GB, rel=1e-3)  # "about 14 GB"


@pytest.mark.parametrize(
    ("weights", "group", "bits"),
    [("int4", 128, 4 + 20 / 128), ("int4", 32, 4 + 20 / 32), ("int8", 128, 8 + 24 / 128)],
)
def test_a_group_of_quantised_weights_carries_a_scale_and_a_zero_point(weights: str, group: int, bits: float) -> None:
    need = serving(compose_config([*SERVE, f"plan.weights={weights}", f"plan.group_size={group}"]))
    assert need.bits_per_weight == pytest.approx(bits)
    assert need.weights == pytest.approx(MATRICES * bits / 8 + 2 * (ENDS + NORMS))


def test_one_group_a_row_costs_next_to_nothing() -> None:
    need = serving(compose_config([*SERVE, "plan.weights=int4", "plan.group_size=0"]))
    assert 4 < need.bits_per_weight < 4.01


def test_seven_billion_in_int4_with_one_full_context_is_about_six_gb() -> None:
    """3.36 GB of matrices at 4.156 bits, 0.52 GB of ends in 16 bit, 2.15 GB of cache: 2 x 32 x 4096 x 2 B x 4096."""
    need = serving(compose_config([*SERVE, "plan.weights=int4", "plan.context=4096"]))
    assert need.kv_cache == 2 * 32 * 4096 * 2 * 4096
    assert need.weights + need.kv_cache == pytest.approx(6.04 * GB, rel=2e-3)


def test_grouped_queries_keep_a_quarter_of_the_cache() -> None:
    """Llama-3-8B has 8 key/value heads of 128 for 32 heads: 2 x 32 layers x 1024 x 2 bytes = 131,072 a token."""
    need = serving(compose_config([*SERVE, "model=llama3_8b", "plan.context=1024"]))
    assert need.kv_cache == 131_072 * 1024


def test_the_cache_comes_in_whole_pages() -> None:
    assert page_rounded(17, 16) == 32
    need = serving(compose_config([*SERVE, "plan.context=17"]))
    assert need.kv_cache == 2 * 32 * 4096 * 2 * 32


def test_tensor_parallel_shares_out_the_cache_and_pipeline_the_layers() -> None:
    whole, halves, stages = (
        serving(compose_config([*SERVE, *words]))
        for words in (("cards=1",), ("mode=tp", "cards=2"), ("mode=pp", "cards=2"))
    )
    assert halves.kv_cache == whole.kv_cache / 2
    assert stages.kv_cache == whole.kv_cache / 2
    assert stages.weights == 2 * (MATRICES / 2 + ENDS / 2 + NORMS - 32 * 4096)  # 16 layers, one end, the last norm


def test_as_many_requests_fit_as_said_and_not_one_more() -> None:
    planned = one("plan.weights=int4")
    most = planned.most_requests
    assert most is not None
    # 21.6 GiB less 3.6 of weights and about 0.8 of the rest, at 2.0 GiB of cache each
    assert most == 8
    assert one("plan.weights=int4", f"plan.concurrency={most}").verdict == "fits"
    assert one("plan.weights=int4", f"plan.concurrency={most + 1}").verdict != "fits"


def test_every_change_that_is_offered_makes_it_fit() -> None:
    planned = one("plan.concurrency=16")
    assert planned.verdict == "does not fit"
    assert planned.remedies
    for remedy in planned.remedies:
        again = one(*(["plan.concurrency=16"] if "concurrency" not in remedy.words else []), *remedy.words.split())
        assert again.verdict == "fits"
        assert again.need is not None
        assert again.need.device == remedy.device <= 0.9 * 24 * GIB


def test_sixteen_bit_weights_larger_than_a_card_need_two() -> None:
    """13B in fp16 are 26 GB: two cards of 24 GiB hold them, one does not."""
    planned = one("model=llama2_13b")
    assert planned.verdict == "does not fit"
    assert planned.smallest_cards == 2


def test_a_request_rate_needs_replicas() -> None:
    """10 requests/s x 256 tokens are 2,560 tokens/s: three replicas of 1,000."""
    assert one("plan.requests_per_s=10", "plan.answer_tokens=256", "plan.tokens_per_s=1000").replicas_needed == 3
    assert one("plan.requests_per_s=10").replicas_needed is None


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("mode=fsdp",), "shards for training"),
        (("plan.weights=int3",), "'int3' is unknown"),
        (("plan.context=5000",), "1 to 4096"),
        (("plan.concurrency=0",), "positive whole number"),
        (("cards=3",), "do not divide by tp=3"),
    ],
)
def test_what_cannot_be_served_is_said(words: tuple[str, ...], said: str) -> None:
    planned = one(*words)
    assert planned.verdict == "invalid"
    assert said in planned.reason
