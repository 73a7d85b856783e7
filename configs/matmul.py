"""What `benchmark=matmul` may be asked for."""

from __future__ import annotations

from configs.errors import ConfigError, choose
from configs.schema import Matmul

DTYPES = ("fp32", "bf16", "fp16")


def check_matmul(settings: Matmul) -> None:
    """Raises ConfigError on a type that is none, a side or count that is not positive, and where no shape is left."""
    where = "benchmark.matmul"
    for dtype in settings.dtypes:
        choose(f"{where}.dtypes", dtype, DTYPES)
    for side in settings.squares or []:
        if side < 1:
            raise ConfigError(f"{where}.squares", f"{side} is no side of a matrix", "1 or more")
    if not settings.layers and settings.squares == []:
        raise ConfigError(where, "layers is off and squares is empty", "one of them")
    for name in ("iters", "warmup_iters"):
        if getattr(settings, name) < 1:
            raise ConfigError(f"{where}.{name}", f"{getattr(settings, name)} is no number of products", "1 or more")
    if not settings.max_seconds_per_shape > 0:
        raise ConfigError(f"{where}.max_seconds_per_shape", f"{settings.max_seconds_per_shape} is no time", "above 0")
