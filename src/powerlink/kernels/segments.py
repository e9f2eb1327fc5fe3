"""Sums over the edges of a node, in ordinary and in log space."""

from __future__ import annotations

import torch
from torch import Tensor


def gather(rows: Tensor, index: Tensor) -> Tensor:
    """Return rows[index]. `index_select`'s backward is one index_add; that of `rows[index]` sorts first."""
    return rows.index_select(0, index)


def segment_sum(values: Tensor, segment: Tensor, num_segments: int) -> Tensor:
    """Sum values (n, …) by segment: (num_segments, …)."""
    return values.new_zeros(num_segments, *values.shape[1:]).index_add(0, segment, values)


def row_sum(values: Tensor, row: Tensor) -> Tensor:
    """Sum values (n,) over runs that lie side by side, given where each begins (rows + 1,): (rows,).

    A run's sum does not depend on its neighbours, and on a GPU, unlike `segment_sum`, not on chance. Flags are counted.
    """
    if not values.is_floating_point():
        before = torch.cat([row.new_zeros(1), values.cumsum(0)])
        return before[row].diff()
    return torch.segment_reduce(values.double(), "sum", offsets=row, initial=0).to(values.dtype)


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
