"""The ranks' latest signs of life, as the launcher reads them."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Any

Beats = list[dict[str, Any]]


def read_beats(folder: Path) -> Beats:
    """One mapping a rank, in rank order; one caught in the middle of a write is left for the next look."""
    beats = []
    for path in folder.glob("rank*.heartbeat"):
        with contextlib.suppress(OSError, ValueError):
            beats.append(json.loads(path.read_text()))
    return sorted(beats, key=lambda beat: int(beat["rank"]))
