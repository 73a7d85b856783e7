"""Low-rank adapters (Hu et al. 2022) through PEFT: put into a model on the meta device, and split with its matrices."""

from __future__ import annotations

import torch
from torch import nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import Shard, distribute_module
from torch.distributed.tensor.parallel import ColwiseParallel, ParallelStyle, RowwiseParallel, SequenceParallel
from transformers import PreTrainedModel

from configs.errors import ConfigError
from configs.schema import Recipe

BASE = ".base_layer"
INTO, OUT_OF = ".lora_A.", ".lora_B."


def add_adapters(model: PreTrainedModel, recipe: Recipe, dtype: torch.dtype) -> None:
    """Freeze `model` and give every linear layer named in recipe.lora_targets an adapter with weights of `dtype`.

    Raises ConfigError with the names that exist if one of the targets matches none.
    """
    from peft import LoraConfig, inject_adapter_in_model

    check_targets(model, recipe.lora_targets)
    config = LoraConfig(
        r=recipe.lora_rank, lora_alpha=recipe.lora_alpha, target_modules=list(recipe.lora_targets), bias="none"
    )
    inject_adapter_in_model(config, model, low_cpu_mem_usage=True)
    for parameter in model.parameters():
        if parameter.requires_grad:
            parameter.data = parameter.data.to(dtype)


def check_targets(model: nn.Module, targets: list[str]) -> None:
    known = sorted({path.rsplit(".", 1)[-1] for path, part in model.named_modules() if isinstance(part, nn.Linear)})
    if not targets:
        raise ConfigError("recipe.lora_targets", "is empty", f"any of {', '.join(known)}")
    for target in targets:
        if target not in known:
            raise ConfigError(
                "recipe.lora_targets", f"{target!r} matches no linear layer", f"known: {', '.join(known)}"
            )


def base_path(path: str) -> str:
    """The path in the model without adapters of a module or parameter of an adapted layer."""
    return path.replace(BASE, "")


class Whole(ParallelStyle):
    """Every rank keeps the whole module, as a DTensor: its input comes as one too, and its gradient in partial sums."""

    def _apply(self, module: nn.Module, device_mesh: DeviceMesh) -> nn.Module:
        return distribute_module(module, device_mesh)


def adapter_plan(model: nn.Module, plan: dict[str, str], sequence_parallel: bool) -> dict[str, ParallelStyle]:
    """Styles of the adapters beside matrices that `plan` (path of the base layer -> style's name) splits.

    Beside a column-wise matrix the way out is split as its columns are; beside a row-wise one the way in is split as
    its rows are, and its sum is over `rank` numbers a token instead of the hidden size. The other half stays whole.
    """
    styles: dict[str, ParallelStyle] = {}
    for path, module in model.named_modules():
        if not isinstance(module, nn.Linear) or not (INTO in path or OUT_OF in path):
            continue
        layer, half = path.rsplit(INTO if INTO in path else OUT_OF, 1)[0], INTO if INTO in path else OUT_OF
        style = plan.get(layer + BASE, "")
        if style.startswith("colwise") and half == OUT_OF:
            styles[path] = ColwiseParallel()
        elif style.startswith("rowwise") and half == INTO:
            styles[path] = RowwiseParallel(output_layouts=Shard(1)) if sequence_parallel else RowwiseParallel()
        elif style.startswith("rowwise") and sequence_parallel:
            styles[path] = SequenceParallel(use_local_output=True)
        elif style.startswith("colwise") and sequence_parallel:
            styles[path] = Whole()
    return styles
