"""DeepSpeed's configuration from a cell, and its quiet start: one source for the batch, the precision and the clip."""

from __future__ import annotations

import logging
import os
import warnings
from typing import Any

import torch
import torch.distributed as dist

from benchmarks.training.build import full_parameters
from configs.cell import Cell
from configs.schema import Recipe

# Elements of the buffers of stages 1 and 2, as in the configurations that transformers gives as examples (DeepSpeed's
# own default of 5e8 costs 2 GB a buffer, whatever the model): docs "DeepSpeed", section ZeRO-2.
BUCKET_ELEMENTS = 200_000_000
DTYPES = {"bf16": torch.bfloat16, "bf16_pure": torch.bfloat16, "fp16": torch.float16}


def import_deepspeed(device: torch.device) -> Any:
    """The package, with its messages kept off standard output. Its import takes seconds: only its own cells pay.

    On a CPU its collectives are the process group's own: it would compile a shared-memory all-reduce in every rank.
    """
    os.environ.setdefault("DS_ACCELERATOR", device.type)
    logging.getLogger("DeepSpeed").setLevel(logging.ERROR)
    # it calls collectives by names that newer versions of torch warn of, at every single call
    warnings.filterwarnings("ignore", category=FutureWarning, message=r"`torch\.distributed\.")
    import deepspeed

    deepspeed.utils.logger.setLevel(logging.ERROR)
    if device.type == "cpu":
        deepspeed.ops.__compatible_ops__ = {}
    deepspeed.init_distributed(dist_backend=dist.get_backend(), verbose=False)  # takes the group that is there
    return deepspeed


def settings(cell: Cell, device: torch.device) -> dict[str, Any]:
    """What `deepspeed.initialize` takes as its config. Nothing is asked of the user twice: the cell says it all."""
    return {
        "train_batch_size": cell.global_batch,
        "train_micro_batch_size_per_gpu": cell.micro_batch,
        "gradient_accumulation_steps": cell.grad_accum,
        "gradient_clipping": cell.recipe.clip_norm or 0.0,
        "steps_per_print": None,
        "wall_clock_breakdown": False,
        "zero_allow_untested_optimizer": True,  # the same torch optimizer as every other mode
        "zero_force_ds_cpu_optimizer": False,
        "zero_optimization": _zero(cell, device),
        **precision(cell.recipe),
    }


def precision(recipe: Recipe) -> dict[str, Any]:
    """bf16 and fp16: weights of that width with fp32 masters in the optimizer; bf16_pure: no masters."""
    if recipe.precision == "fp32":
        return {}
    if recipe.precision == "fp16":  # the scale's constants are those of the other modes
        scale = {"loss_scale": 0, "initial_scale_power": 16, "loss_scale_window": 2000, "hysteresis": 1}
        return {"fp16": {"enabled": True, **scale}}
    pure = recipe.precision == "bf16_pure"
    return {
        "bf16": {
            "enabled": True,
            "bf16_master_weights_and_grads": pure,
            "bf16_optimizer_states": pure and recipe.state_dtype == "bf16",
        }
    }


def _zero(cell: Cell, device: torch.device) -> dict[str, Any]:
    """Stage, buffers and offload. Stage 3's sizes are those that transformers derives from the hidden size."""
    stage, hidden = cell.mode.zero_stage, cell.shape.hidden
    found: dict[str, Any] = {"stage": stage, "overlap_comm": device.type != "cpu", "contiguous_gradients": True}
    if stage == 3:
        found |= {
            "reduce_bucket_size": hidden * hidden,
            "stage3_prefetch_bucket_size": int(0.9 * hidden * hidden),
            "stage3_param_persistence_threshold": 10 * hidden,
        }
    elif stage:
        bucket = min(BUCKET_ELEMENTS, full_parameters(cell)[1])
        found |= {"reduce_bucket_size": bucket, "allgather_bucket_size": bucket}
    pinned = device.type != "cpu"
    if cell.mode.offload in ("optimizer", "all"):
        found["offload_optimizer"] = {"device": "cpu", "pin_memory": pinned}
    if cell.mode.offload == "all":
        found["offload_param"] = {"device": "cpu", "pin_memory": pinned}
    return found
