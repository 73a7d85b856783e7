"""Real weights from safetensors, one tensor at a time: a rank never holds more of the model than its share and one."""

from __future__ import annotations

from pathlib import Path

import torch
from safetensors import safe_open

from benchmarks.model import Source
from configs.weights import weight_files


def safetensors_source(folder: str) -> Source:
    """The full tensors of a Hugging Face folder by name, read when asked for.

    Raises KeyError for a tensor that the folder does not hold and ValueError for one of another shape.
    """
    files: dict[str, Path] = weight_files(Path(folder))

    def read(name: str, shape: torch.Size, dtype: torch.dtype, device: torch.device) -> torch.Tensor:
        if name not in files:
            raise KeyError(f"{folder} holds no tensor {name}")
        with safe_open(files[name], framework="pt", device="cpu") as opened:
            tensor = opened.get_tensor(name)
        if tensor.shape != shape:
            raise ValueError(f"{name} is {tuple(tensor.shape)} in {files[name]}, {tuple(shape)} in the config")
        return tensor.to(device=device, dtype=dtype)

    return read
