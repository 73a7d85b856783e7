"""What `benchmark=pairs` may be asked for."""

from __future__ import annotations

from configs.errors import ConfigError
from configs.schema import Pairs


def check_pairs(settings: Pairs, ranks: int) -> None:
    """Raises ConfigError where there is no pair, or a setting is no number of bytes, calls or seconds."""
    where = "benchmark.pairs"
    if ranks < 2:
        raise ConfigError("cards", f"{ranks} rank has nobody to send to (benchmark=pairs)", "cards=2 or more")
    if settings.bytes is not None and settings.bytes < 4:
        raise ConfigError(f"{where}.bytes", f"{settings.bytes} is no message", "4 or more, or null")
    if settings.iters < 1 or settings.warmup_iters < 1:
        name = "iters" if settings.iters < 1 else "warmup_iters"
        raise ConfigError(f"{where}.{name}", f"{getattr(settings, name)} is no number of calls", "1 or more")
    if not settings.max_seconds_per_pair > 0:
        raise ConfigError(f"{where}.max_seconds_per_pair", f"{settings.max_seconds_per_pair} is no time", "above 0")
