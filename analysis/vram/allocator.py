"""What stands between live tensors and the memory the driver shows: the caching allocator, libraries, the context."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from analysis.vram.parameters import Sizes
from analysis.vram.peak import Components
from analysis.vram.roles import Roles

MIB = 2**20


@dataclass(frozen=True)
class Margins:
    """The uncertain terms of a machine, to be corrected by measured cells (analysis.vram_calibration).

    fragmentation: share of allocated bytes that the allocator holds beyond them, its spread one standard deviation or
    so. context_mib: CUDA context with torch's kernels loaded, about 300 to 600 MiB by card. workspace_mib: cuBLAS keeps
    8 MiB (32 MiB on Hopper) in the caching allocator, see torch's notes on CUBLAS_WORKSPACE_CONFIG. communicator_mib:
    NCCL's buffers for one communicator. activations: relative spread of what kernels and autograd keep.
    """

    fragmentation: float = 0.03
    fragmentation_spread: float = 0.03
    context_mib: float = 500.0
    workspace_mib: float = 32.0
    communicator_mib: float = 250.0
    context_spread: float = 0.5
    activations: float = 0.05
    source: str = "not calibrated"


def allocator_bytes(roles: Roles, components: Components, margins: Margins) -> tuple[Sizes, Sizes]:
    """(fragmentation, context) in bytes, one entry a role; nothing of either on a CPU."""
    on_card = roles.foreach
    axes = (roles.dp > 1).astype(float) + (roles.tp > 1) + (roles.pp > 1)
    fragmentation = components.total * margins.fragmentation
    context = (margins.context_mib + margins.workspace_mib + axes * margins.communicator_mib) * MIB
    return np.asarray(on_card * fragmentation), np.asarray(on_card * context)
