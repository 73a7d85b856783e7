"""Where a model's first weights come from: drawn by a seed, or read from safetensors one tensor at a time.

A rank never holds more of the model than its share and the tensor that is being copied.
"""

from __future__ import annotations

from pathlib import Path

import torch
from safetensors import safe_open
from torch import nn
from transformers import PretrainedConfig

from benchmarks.training.lora import INTO, OUT_OF
from benchmarks.training.model import Source, seeded_source
from configs.cell import Cell
from configs.errors import ConfigError
from configs.weights import header, weight_files

WEIGHT_SEED = 0


def source_of(cell: Cell, model: nn.Module, config: PretrainedConfig) -> Source:
    """Weights for `model`, whole or a stage of it, as `cell` asks. Adapters are always drawn."""
    drawn = seeded_source(model, WEIGHT_SEED, config.initializer_range)
    if cell.model.init != "pretrained" or cell.model.path is None:
        return drawn
    stored = safetensors_source(cell.model.path)
    return lambda name, *rest: (drawn if INTO in name or OUT_OF in name else stored)(name, *rest)


def safetensors_source(folder: str) -> Source:
    """The full tensors of a Hugging Face folder by name, each mapped from its file when asked for, in its own dtype."""
    files = weight_files(Path(folder))

    def read(name: str, shape: torch.Size, dtype: torch.dtype, device: torch.device) -> torch.Tensor:
        with safe_open(files[name], framework="pt", device="cpu") as opened:
            return opened.get_tensor(name)

    return read


def check_weights(folder: Path, model: nn.Module, tied: bool) -> None:
    """Refuse a folder that lacks a tensor of `model` (the whole of it, on meta) or holds it in another shape."""
    files = weight_files(folder)
    shapes = {path: header(path) for path in set(files.values())}
    for name, parameter in model.named_parameters():
        if tied and name == "lm_head.weight":
            continue
        if name not in files:
            raise ConfigError("model.path", f"{folder} holds no tensor {name}", "the tensors of its config.json")
        shape = shapes[files[name]][name]["shape"]
        if shape != list(parameter.shape):
            raise ConfigError(
                "model.path", f"{name} is {shape} in {files[name]}", f"config.json says {[*parameter.shape]}"
            )
