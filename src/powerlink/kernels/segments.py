"""Sums over the edges of a node, in ordinary and in log space."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


def gather(rows: Tensor, index: Tensor) -> Tensor:
    """Return rows[index]. `index_select`'s backward is one index_add; that of `rows[index]` sorts first."""
    return rows.index_select(0, index)


def segment_sum(values: Tensor, segment: Tensor, num_segments: int) -> Tensor:
    """Sum values (n, …) by segment: (num_segments, …)."""
    return values.new_zeros(num_segments, *values.shape[1:]).index_add(0, segment, values)


class _RunSum(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, values: Tensor, segment: Tensor, row: Tensor) -> Tensor:
        ctx.save_for_backward(segment)
        return torch.segment_reduce(values, "sum", offsets=row, initial=0)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None]:
        return grads[0].index_select(0, *ctx.saved_tensors), None, None


def run_sum(values: Tensor, segment: Tensor, row: Tensor) -> Tensor:
    """Sum values (n,) whose segments lie one after the other, row (s + 1,) says where: (s,).

    On a GPU, `segment_sum` would let thousands of neighbours wait for one another at the same number.
    """
    if not values.is_cuda:
        return segment_sum(values, segment, row.numel() - 1)
    result: Tensor = _RunSum.apply(values, segment, row)  # type: ignore[no-untyped-call]
    return result


def run_count(flags: Tensor, row: Tensor) -> Tensor:
    """Count the flags (n,) that are set in segments that lie one after the other, row (s + 1,) says where: (s,)."""
    before = torch.cat([row.new_zeros(1), flags.cumsum(0)])
    return before[row].diff()


def segment_logsumexp(values: Tensor, segment: Tensor, num_segments: int) -> Tensor:
    """Return log Σ exp(values) by segment, (num_segments,); −inf where a segment is empty.

    Products of three masks of 1e-10 underflow float32; their logarithms do not. All values must be finite.
    """
    peak = values.new_full((num_segments,), -torch.inf)
    peak = peak.scatter_reduce(0, segment, values.detach(), "amax")
    finite = torch.where(peak.isfinite(), peak, torch.zeros_like(peak))
    total = segment_sum((values - finite.index_select(0, segment)).exp(), segment, num_segments)
    # log of an empty segment's zero would send NaN back through the gradient: give it a one, then overwrite it.
    empty = total == 0
    logs = torch.where(empty, torch.ones_like(total), total).log() + finite
    return logs.masked_fill(empty, -torch.inf)
