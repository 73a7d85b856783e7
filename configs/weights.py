"""A folder of safetensors, checked before anything starts: which file holds which tensor, and that all are whole."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

from configs.errors import ConfigError

INDEX, SINGLE = "model.safetensors.index.json", "model.safetensors"
_MOST_HEADER_BYTES = 100 * 2**20


def weight_files(folder: Path) -> dict[str, Path]:
    """Tensor name -> the file that holds it, from the index or the single file. Headers alone are read.

    Raises ConfigError if there are no weights, if a file that the index names is missing or cut short, or if a tensor
    is not in the file that the index says.
    """
    index = folder / INDEX
    if index.exists():
        try:
            listed = {name: folder / file for name, file in json.loads(index.read_text())["weight_map"].items()}
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise ConfigError("model.path", f"{index} cannot be read: {error!r}") from None
    elif (folder / SINGLE).exists():
        listed = dict.fromkeys(header(folder / SINGLE), folder / SINGLE)
    else:
        raise ConfigError("model.path", f"{folder} holds no {SINGLE} nor {INDEX}", "init=random needs no weights")
    missing = sorted({path.name for path in listed.values() if not path.exists()})
    if missing:
        raise ConfigError("model.path", f"{folder} lacks {len(missing)} of its files: {', '.join(missing[:5])}")
    there = {path: header(path) for path in set(listed.values())}
    for name, path in listed.items():
        if name not in there[path]:
            raise ConfigError("model.path", f"{path} does not hold {name}, which the index says it does")
    return listed


def header(path: Path) -> dict[str, Any]:
    """The tensors of a safetensors file with their dtype, shape and offsets. Raises ConfigError if it is cut short."""
    size = path.stat().st_size
    with path.open("rb") as file:
        start = file.read(8)
        length = struct.unpack("<Q", start)[0] if len(start) == 8 else _MOST_HEADER_BYTES + 1
        if length > min(_MOST_HEADER_BYTES, size):
            raise ConfigError("model.path", f"{path} is no safetensors file, or is cut short")
        try:
            content: dict[str, Any] = json.loads(file.read(length))
        except ValueError:
            raise ConfigError("model.path", f"{path} has a damaged header") from None
    content.pop("__metadata__", None)
    end = max((tensor["data_offsets"][1] for tensor in content.values()), default=0)
    if 8 + length + end > size:
        raise ConfigError("model.path", f"{path} is cut short: {size} of {8 + length + end} bytes")
    return content
