"""The sizes of what training sends."""

from __future__ import annotations

from dataclasses import replace

import torch.distributed as dist

from benchmarks.collectives.patterns import buckets, traffic
from configs.cell import resolve
from configs.schema import Benchmark, Collectives, Config, Model, Recipe

MIB = 2**20
LLAMA_7B = Model(
    name="llama2_7b",
    config={
        "model_type": "llama",
        "hidden_size": 4096,
        "intermediate_size": 11008,
        "num_hidden_layers": 32,
        "num_attention_heads": 32,
        "vocab_size": 32000,
        "tie_word_embeddings": False,
    },
)


def cell_of(pattern: str, precision: str = "bf16"):
    benchmark = Benchmark("collectives", Collectives(patterns=[pattern]))
    config = Config(cards=8, benchmark=benchmark, model=LLAMA_7B, recipe=Recipe(precision=precision), seq_len=2048)
    return resolve(replace(config, micro_batch=1, global_batch=8))


def test_buckets_are_filled_from_the_last_parameter_and_closed_at_their_cap() -> None:
    """fp32, cap 2 MiB, first bucket 1 MiB: 1 MiB | 0.5 + 1.5 MiB | 3 MiB | 0.25 MiB left over."""
    parameters = [MIB // 16, 3 * MIB // 4, 3 * MIB // 8, MIB // 8, MIB // 4]
    assert buckets(parameters, 4, 2 * MIB) == (MIB // 4, MIB // 2, 3 * MIB // 4, MIB // 16)


def test_buckets_are_those_of_torch() -> None:
    import torch

    counts = [(i * 7919) % 2_000_000 + 1 for i in range(40)]
    ready = [torch.empty(n, device="meta") for n in reversed(counts)]
    groups, _ = dist._compute_bucket_assignment_by_size(ready, [MIB, 25 * MIB])
    assert buckets(counts, 4, 25 * MIB) == tuple(sum(ready[i].numel() for i in group) for group in groups)


def test_all_gradients_of_a_7b_are_sent_in_fp32_under_autocast() -> None:
    """Llama-2-7B has 6,738,415,616 parameters (its model card); mixed precision keeps fp32 gradients."""
    [kind] = traffic(cell_of("ddp_buckets"))
    assert (sum(kind.elements), kind.dtype) == (6_738_415_616, "fp32")


def test_a_sharded_layer_is_gathered_in_bf16_and_its_gradients_scattered_in_fp32() -> None:
    """One layer: 4 x 4096^2 + 3 x 4096 x 11008 + 2 x 4096 = 202,383,360 parameters."""
    gather, scatter = traffic(cell_of("fsdp_layer"))
    assert (gather.op, gather.dtype, gather.bytes) == ("all_gather", "bf16", 2 * 202_383_360)
    assert (scatter.op, scatter.dtype, scatter.bytes) == ("reduce_scatter", "fp32", 4 * 202_383_360)


def test_a_split_activation_is_batch_times_sequence_times_hidden() -> None:
    [kind] = traffic(cell_of("tp_activation", "bf16_pure"))
    assert (kind.op, kind.dtype, kind.bytes) == ("all_reduce", "bf16", 2 * 1 * 2048 * 4096)
