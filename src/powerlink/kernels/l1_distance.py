"""All L1 distances between two sets of points: TransE's answer for every tail at once."""

from __future__ import annotations

import torch
from torch import Tensor

from powerlink.kernels.fused import can_fuse


def l1_distance(one: Tensor, other: Tensor) -> Tensor:
    """Return ‖one − other‖₁ of all pairs: (n, d), (m, d) → (n, m). A tensor of n × m × d never exists."""
    if can_fuse(one):
        from powerlink.kernels.gpu.l1_distance import FusedDistance  # noqa: PLC0415 - only where there is Triton

        result: Tensor = FusedDistance.apply(one, other)  # type: ignore[no-untyped-call]
        return result
    return torch.cdist(one, other, p=1.0)
