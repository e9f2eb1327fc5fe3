"""All L1 distances between two sets of points: TransE's answer for every tail at once."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from powerlink.kernels.fused import can_fuse


def l1_distance(one: Tensor, other: Tensor) -> Tensor:
    """Return ‖one − other‖₁ of all pairs: (n, d), (m, d) → (n, m). A tensor of n × m × d never exists."""
    if can_fuse(one):
        result: Tensor = FusedDistance.apply(one, other)  # type: ignore[no-untyped-call]
        return result
    return torch.cdist(one, other, p=1.0)


class FusedDistance(torch.autograd.Function):
    """The distances on a GPU; the backward compares the points again instead of keeping their signs."""

    @staticmethod
    def forward(ctx: Any, one: Tensor, other: Tensor) -> Tensor:
        from powerlink.kernels.gpu.l1_distance import distances  # noqa: PLC0415 - only where there is Triton

        ctx.save_for_backward(one, other)
        return distances(one, other)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, Tensor | None]:
        from powerlink.kernels.gpu.l1_distance import slopes  # noqa: PLC0415

        one, other = ctx.saved_tensors
        to_one = slopes(one, other, grads[0].t()) if ctx.needs_input_grad[0] else None
        to_other = slopes(other, one, grads[0]) if ctx.needs_input_grad[1] else None
        return to_one, to_other
