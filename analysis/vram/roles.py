"""From cells to arrays: one entry for each rank role of each cell, with everything the memory formulas read.

Ranks of one pipeline stage hold alike; the first rank of a group holds the most where a size does not divide. So a role
is a stage, and only the stages that can be the fullest are kept unless all are asked for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analysis.vram.parameters import ARCHITECTURES, TIED_BY_DEFAULT, Dimensions, Sizes, not_covered, says
from configs.cell import Cell
from configs.errors import ConfigError, choose
from configs.layout import SCHEDULES, model_shape

PRECISIONS = ("fp32", "bf16", "fp16", "bf16_pure")
CHECKPOINTING = ("none", "selective", "full")
METHODS = ("full", "lora")
_LORA_TARGETS = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")
_SCHEDULES = tuple(SCHEDULES)

# Columns of the frame that `estimate_frame` takes; those of the model come from its config.
MODEL_COLUMNS = tuple(field.name for field in fields(Dimensions))


@dataclass(frozen=True)
class Roles:
    """Arrays with one entry a role. Flags are 0 or 1; sizes in elements, tokens or bytes as they say."""

    cell: NDArray[np.int64]  # which row of the input this role belongs to
    stage: Sizes
    size: Dimensions
    dp: Sizes
    tp: Sizes
    pp: Sizes
    shards: Sizes  # ranks over which fully_shard cuts; 1 without it
    fully_sharded: Sizes
    replicated: Sizes  # DistributedDataParallel
    zero_stage: Sizes
    offload_optimizer: Sizes
    offload_parameters: Sizes
    reshard: Sizes
    sequence_parallel: Sizes
    loss_parallel: Sizes
    gpipe: Sizes
    chunks: Sizes  # stages that a pipeline rank holds
    zero_bubble: Sizes
    first: Sizes
    last: Sizes
    layers: Sizes  # on this role
    micro_batch: Sizes
    seq_len: Sizes
    micro_batches: Sizes  # gradient accumulation, or the pipeline's micro-batches
    fp32: Sizes
    autocast: Sizes
    half: Sizes  # parameters and states themselves are 16 bit
    fp16: Sizes
    eager: Sizes
    flash: Sizes
    checkpoint_full: Sizes
    checkpoint_selective: Sizes
    lora: Sizes
    lora_rank: Sizes
    lora_inputs: Sizes  # sum over a layer's targets of the width that an adapter reads
    lora_outputs: Sizes  # and writes
    adamw: Sizes
    adamw8bit: Sizes
    adafactor: Sizes
    bf16_states: Sizes
    foreach: Sizes  # the optimizer updates all parameters at once, as torch does on an accelerator

    @property
    def tokens(self) -> Sizes:
        """Of one micro-batch on one data-parallel rank."""
        return np.asarray(self.micro_batch * self.seq_len, dtype=np.float64)

    def take(self, places: NDArray[Any]) -> Roles:
        """The roles at `places`."""
        size = Dimensions(*(getattr(self.size, d.name)[places] for d in fields(Dimensions)))
        taken: dict[str, Any] = {f.name: getattr(self, f.name)[places] for f in fields(self) if f.name != "size"}
        return Roles(**taken, size=size)


def dimensions(name: str, config: Mapping[str, Any]) -> dict[str, float]:
    """A transformers config as the columns of `Dimensions`. Raises ConfigError for what has no closed form."""
    why = not_covered(config)
    if why:
        raise ConfigError(f"model {name}", f"{why}: not covered by the closed form", "a dense decoder: " + _known())
    shape = model_shape(name, config)
    kind = ARCHITECTURES[config["model_type"]]
    tied = config.get("tie_word_embeddings", config["model_type"] in TIED_BY_DEFAULT)
    return {
        "layers": shape.layers,
        "hidden": shape.hidden,
        "query": shape.heads * shape.head_dim,
        "key_value": shape.kv_heads * shape.head_dim,
        "head_dim": shape.head_dim,
        "heads": shape.heads,
        "intermediate": shape.intermediate,
        "vocab": shape.vocab,
        "tied": float(tied),
        "norms": kind.norms,
        "qkv_bias": float(says(kind.qkv_bias, config)),
        "output_bias": float(says(kind.output_bias, config)),
        "mlp_bias": float(says(kind.mlp_bias, config)),
        "qk_norm_head": float(kind.qk_norm == "head"),
        "qk_norm_full": float(kind.qk_norm == "full"),
        "norm_scale_in_fp32": float(kind.norm_scale_in_fp32),
    }


def _known() -> str:
    return ", ".join(ARCHITECTURES)


def cell_frame(cells: Sequence[Cell]) -> pd.DataFrame:
    """One row a cell with the columns that the closed form reads: the model's dimensions, layout, recipe, batch.

    Raises ConfigError for a model without a closed form and for choices that no formula knows.
    """
    sizes: dict[int, dict[str, float]] = {}
    rows = []
    for cell in cells:
        key = id(cell.model)
        if key not in sizes:
            sizes[key] = dimensions(cell.model.name, cell.model.config)
        mode, recipe = cell.mode, cell.recipe
        rows.append(
            {
                **sizes[key],
                "dp": mode.dp or 1,
                "tp": mode.tp or 1,
                "pp": mode.pp or 1,
                "shard": mode.shard,
                "zero_stage": mode.zero_stage,
                "replicate": mode.replicate,
                "schedule": mode.schedule,
                "offload": mode.offload,
                "reshard_after_forward": mode.reshard_after_forward,
                "sequence_parallel": mode.sequence_parallel,
                "loss_parallel": mode.loss_parallel,
                "method": recipe.method,
                "optimizer": recipe.optimizer,
                "state_dtype": recipe.state_dtype,
                "precision": recipe.precision,
                "checkpointing": recipe.checkpointing,
                "attention": recipe.attention,
                "lora_rank": recipe.lora_rank,
                "lora_targets": ",".join(recipe.lora_targets),
                "micro_batch": cell.micro_batch,
                "grad_accum": cell.grad_accum,
                "seq_len": cell.seq_len,
                "device": cell.machine.device,
            }
        )
    return pd.DataFrame(rows)


def roles_of(frame: pd.DataFrame, every_stage: bool = False) -> Roles:
    """The roles of each row of `frame` (columns of `cell_frame`): stages 0, 1 and the last, or every one."""
    count = len(frame)

    def number(name: str) -> Sizes:
        return frame[name].to_numpy(dtype=np.float64)

    def among(name: str, legal: Sequence[str]) -> Any:
        values = frame[name].astype(str)
        for value in values.unique():
            choose(name, value, legal)
        return lambda *wanted: values.isin(wanted).to_numpy(dtype=np.float64)

    dp, tp, pp = number("dp"), number("tp"), number("pp")
    shard = among("shard", ("none", "full"))
    precision = among("precision", PRECISIONS)
    method = among("method", METHODS)
    optimizer = among("optimizer", ("adamw", "adamw8bit", "sgd", "adafactor"))
    schedule = among("schedule", _SCHEDULES)
    checkpointing = among("checkpointing", CHECKPOINTING)
    attention = among("attention", ("eager", "sdpa", "flash_attention_2"))
    offload = among("offload", ("none", "optimizer", "all"))
    size = Dimensions(*(number(name) for name in MODEL_COLUMNS))
    # a whole copy cannot hold parameters that tensor parallelism has sharded: the training step then shards them
    fully_sharded = np.maximum(shard("full"), (dp > 1) & (tp > 1)).astype(np.float64)
    fully_sharded = np.where(number("zero_stage") >= 2, 1.0, fully_sharded)
    copies = np.where(shard("full") > 0, number("replicate"), np.where(fully_sharded > 0, dp, 1.0))
    copies = np.where((shard("full") == 0) & (number("zero_stage") >= 2), 1.0, copies)
    half = precision("bf16_pure")
    mixed = precision("bf16", "fp16")
    inputs, outputs = _adapter_widths(frame, size)
    zeros = np.zeros(count)
    cell = Roles(
        cell=np.arange(count),
        stage=zeros,
        size=size,
        dp=dp,
        tp=tp,
        pp=pp,
        shards=np.where(fully_sharded > 0, dp / copies, 1.0),
        fully_sharded=fully_sharded,
        replicated=((dp > 1) & (fully_sharded == 0) & (number("zero_stage") == 0)).astype(np.float64),
        zero_stage=number("zero_stage"),
        offload_optimizer=offload("optimizer", "all"),
        offload_parameters=offload("all"),
        reshard=np.where(number("zero_stage") == 2, 0.0, number("reshard_after_forward")),
        sequence_parallel=np.where(tp > 1, number("sequence_parallel"), 0.0),
        loss_parallel=np.where(tp > 1, number("loss_parallel"), 0.0),
        gpipe=schedule("gpipe"),
        chunks=np.where(pp > 1, frame["schedule"].map(SCHEDULES).to_numpy(dtype=np.float64), 1.0),
        zero_bubble=schedule("zero_bubble"),
        first=zeros,
        last=zeros,
        layers=zeros,
        micro_batch=number("micro_batch"),
        seq_len=number("seq_len"),
        micro_batches=number("grad_accum"),
        fp32=precision("fp32"),
        # not where the model itself is 16 bit: DeepSpeed's engine casts it, and LoRA's frozen weights need no fp32
        autocast=mixed * (1 - fully_sharded) * (number("zero_stage") == 0) * (1 - method("lora")),
        half=half,
        fp16=precision("fp16"),
        eager=attention("eager"),
        flash=attention("flash_attention_2"),
        checkpoint_full=checkpointing("full"),
        checkpoint_selective=checkpointing("selective"),
        lora=method("lora"),
        lora_rank=number("lora_rank"),
        lora_inputs=inputs,
        lora_outputs=outputs,
        adamw=optimizer("adamw"),
        adamw8bit=optimizer("adamw8bit"),
        adafactor=optimizer("adafactor"),
        bf16_states=np.where(frame["state_dtype"] == "bf16", 1.0, 0.0),
        foreach=np.where(frame["device"] == "cpu", 0.0, 1.0),
    )
    return _at_stages(cell, every_stage)


def _adapter_widths(frame: pd.DataFrame, size: Dimensions) -> tuple[Sizes, Sizes]:
    """Sums over the LoRA targets of a layer of what an adapter reads and writes, in elements."""
    read = dict.fromkeys(_LORA_TARGETS, size.hidden)
    read |= {"o_proj": size.query, "down_proj": size.intermediate}
    written = {"q_proj": size.query, "k_proj": size.key_value, "v_proj": size.key_value}
    written |= {"gate_proj": size.intermediate, "up_proj": size.intermediate}
    inputs, outputs = np.zeros(len(frame)), np.zeros(len(frame))
    lora = frame["method"] == "lora"
    for targets in frame.loc[lora, "lora_targets"].unique():
        here = (lora & (frame["lora_targets"] == targets)).to_numpy(dtype=np.float64)
        for target in filter(None, str(targets).split(",")):
            choose("recipe.lora_targets", target, _LORA_TARGETS)
            inputs = inputs + here * read[target]
            outputs = outputs + here * written.get(target, size.hidden)
    return inputs, outputs


def _at_stages(cell: Roles, every_stage: bool) -> Roles:
    """`cell`, one entry a cell, as one entry a pipeline rank."""
    if every_stage:
        counts = cell.pp.astype(int)
        places = np.repeat(cell.cell, counts)
        rank = np.concatenate([np.arange(n) for n in counts]) if len(counts) else np.zeros(0)
    else:
        second, last = cell.cell[cell.pp > 2], cell.cell[cell.pp > 1]
        places = np.concatenate([cell.cell, second, last])
        rank = np.concatenate([np.zeros(len(cell.cell)), np.ones(len(second)), cell.pp[last] - 1])
    roles = cell.take(places)
    stages = roles.pp * roles.chunks
    base, extra = np.divmod(roles.size.layers, stages)
    layers = sum(
        np.where(turn < roles.chunks, base + (rank + turn * roles.pp < extra), 0.0) for turn in range(2)
    )  # stages of a looped schedule: one from every round, the earlier take the remainder (configs.layout.split_layers)
    return replace(
        roles,
        stage=np.asarray(rank, dtype=np.float64),
        layers=np.asarray(layers, dtype=np.float64),
        first=(rank == 0).astype(np.float64),
        last=(rank == roles.pp - 1).astype(np.float64),
    )
