"""Which benchmarks there are, by name, as import paths: naming one does not import it."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

BENCHMARKS = {
    "finetune": "benchmarks.finetune:finetune",
    "collectives": "benchmarks.collectives:collectives",
}


def load(path: str) -> Callable[..., Any]:
    """The function behind "module:function"."""
    module, function = path.split(":")
    found: Callable[..., Any] = getattr(importlib.import_module(module), function)
    return found
