"""The fine-tune benchmark: real optimizer steps on real text, timed, with the loss to show that they trained.

Also an entry of its own for clusters that script torchrun: `torchrun ... -m benchmarks.finetune mode=tp cards=4`.
"""

from __future__ import annotations

import math
import time
from typing import Any

import torch
import torch.distributed as dist

from benchmarks.meters.measure import Steps, run_steps
from benchmarks.meters.memory import memory_by_rank, reset_peak
from benchmarks.meters.profiled import profiled_tail
from benchmarks.ranks import Heartbeat
from benchmarks.training import data
from benchmarks.training.train import Job, build_job
from configs.cell import Cell
from configs.layout import Layout
from results.flops import model_flops_per_token, recomputed_flops_per_token, utilisation
from results.statistics import summarise


class NonFiniteLoss(RuntimeError):
    """The training diverged: its speed is not the speed of a fine-tune."""


def finetune(cell: Cell, device: torch.device, heartbeat: Heartbeat) -> dict[str, Any] | None:
    """Measure one cell on this rank; rank 0 returns the measurement's sections, as the record names them."""
    reset_peak(device)
    sequences = data.load(cell.data, cell.seq_len, cell.model.path)
    job = build_job(cell, device)
    heartbeat.beat("built")
    losses: list[torch.Tensor] = []
    targets: list[int] = []

    def step(number: int) -> float:
        before = time.perf_counter()
        rows = data.batch(sequences, number, cell.global_batch, job.dp_rank, cell.layout.dp)
        targets.append(data.targets_of_step(sequences, number, cell.global_batch))
        waited = time.perf_counter() - before
        losses.append(job.step(rows, targets[-1]))
        return waited

    def on_chunk(phase: str, steps: int, step_s: float) -> None:
        if cell.measure.meters:
            heartbeat.beat(phase, steps, step_s=step_s, tokens_per_s=cell.global_batch_tokens / step_s)

    steps = run_steps(step, cell.measure, device, on_chunk)
    mean_losses = total_losses(losses, cell.layout)
    memory = memory_by_rank(device)
    useful = sum(targets[len(steps.warmup_times_s) :]) / (len(steps.times_s) * cell.global_batch_tokens)
    shares = profiled_tail(step, len(losses), cell, device)
    if dist.get_rank() != 0:
        return None
    if not all(math.isfinite(loss) for loss in mean_losses):
        raise NonFiniteLoss(f"loss went from {mean_losses[0]:.4g} to {mean_losses[-1]:.4g}")
    return {
        "workload": {
            "parameters": job.parameters,
            "trainable_parameters": job.trainable,
            "data_set_tokens": sequences.target_tokens,
        },
        "throughput": throughput(cell, steps, job, useful) | shares,
        "memory": memory,
        "loss": {
            "first": mean_losses[0],
            "last": mean_losses[-1],
            "steps": mean_losses,
            "gradient_norms": [float(norm) for norm in job.norms[: len(mean_losses)]],
            "skipped_steps": job.scale.skipped_steps,
        },
    }


def total_losses(losses: list[torch.Tensor], layout: Layout) -> list[float]:
    """Mean loss over the global batch of every step, on every rank; tensor-parallel ranks hold the same value."""
    total = torch.stack([loss.float() for loss in losses])
    dist.all_reduce(total)
    return (total / layout.tp).tolist()


def throughput(cell: Cell, steps: Steps, job: Job, useful: float) -> dict[str, Any]:
    """The record's throughput section. Tokens are those that carry loss, a share `useful` of the positions processed.

    positions_per_s x the median step is the global batch, exactly; so is tokens_per_s x it where nothing is padding.
    """
    summary = summarise(steps.times_s)
    positions = cell.global_batch_tokens / summary.median
    rate = positions * useful
    return {
        "steps": len(steps.times_s),
        "step_time_s": {
            "median": summary.median,
            "ci95_low": summary.ci95_low,
            "ci95_high": summary.ci95_high,
            "cv": summary.cv,
        },
        "step_times_s": steps.times_s,
        "warmup_times_s": steps.warmup_times_s,
        "stopped_by": steps.stopped_by,
        "by_rank_median_s": steps.by_rank_median_s,
        "tokens_per_s": rate,
        "tokens_per_s_per_card": rate / cell.cards,
        "positions_per_s": positions,
        "useful_token_fraction": useful,
        "data_wait_fraction": steps.data_wait_fraction,
        **_utilisations(cell, job, rate / cell.cards),
    }


def _utilisations(cell: Cell, job: Job, tokens_per_s_per_card: float) -> dict[str, Any]:
    """FLOPs per token, MFU by PaLM's and by the causal count, and HFU, which counts recomputed activations too."""
    shape = cell.shape
    look_up = 0 if shape.tied_embeddings else shape.vocab * shape.hidden
    adapters = job.trainable if cell.recipe.method == "lora" else 0
    full, causal = (
        model_flops_per_token(
            job.parameters + adapters,
            look_up,
            shape.layers,
            shape.heads * shape.head_dim,
            cell.seq_len,
            causal=causal,
            frozen_parameters=job.parameters - look_up if adapters else 0,
        )
        for causal in (False, True)
    )
    recomputed = recomputed_flops_per_token(
        job.parameters - look_up, shape.layers, shape.heads * shape.head_dim, cell.seq_len
    )
    hardware = full + (recomputed if cell.recipe.checkpointing == "full" else 0)
    peak = cell.machine.peak_tflops.get(cell.recipe.precision.split("_")[0])
    return {
        "model_flops_per_token": full,
        "mfu": utilisation(full, tokens_per_s_per_card, peak),
        "mfu_causal": utilisation(causal, tokens_per_s_per_card, peak),
        "hfu": utilisation(hardware, tokens_per_s_per_card, peak),
    }


if __name__ == "__main__":
    from benchmarks.entry import main

    main()
