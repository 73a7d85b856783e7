"""How many accelerator cards this machine shows, without starting a context on any."""

from __future__ import annotations


def visible_cards() -> int:
    """Cards that torch can use here, CUDA_VISIBLE_DEVICES obeyed; 0 where there is none."""
    import torch

    count: int = torch.cuda.device_count()
    return count
