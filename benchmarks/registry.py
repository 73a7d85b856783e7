"""Which benchmarks there are, by name, as import paths: naming one does not import it.

`benchmark.name=my_module:my_function` measures a function of one's own that is importable where cardscale runs, without
an entry here; it is called as `Benchmark` in benchmarks.ranks says. The fault tests inject their faults that way.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

BENCHMARKS = {
    "finetune": "benchmarks.finetune:finetune",
    "collectives": "benchmarks.collectives:collectives",
    "storage": "benchmarks.storage:storage",
    "pairs": "benchmarks.collectives.pairs:pairs",
    "matmul": "benchmarks.matmul:matmul",
}


def path_of(name: str) -> str:
    """The import path of benchmark `name`; a name that is "module:function" already is its own."""
    return BENCHMARKS.get(name, name)


def load(path: str) -> Callable[..., Any]:
    """The function behind "module:function"."""
    module, function = path.split(":")
    found: Callable[..., Any] = getattr(importlib.import_module(module), function)
    return found
