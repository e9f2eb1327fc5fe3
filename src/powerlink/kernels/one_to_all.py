"""The 1-to-all loss: binary cross-entropy of every tail for each (head, relation), most of them wrong.

Its labels are never a matrix: all tails are taken for wrong first, and the few right ones are corrected.
"""

from __future__ import annotations

import torch
from torch import Tensor

from powerlink.graphs.edges import expand_rows
from powerlink.kernels.fused import can_fuse


def one_to_all_loss(
    logits: Tensor, pairs: Tensor, pointer: Tensor, tails: Tensor, *, smoothing: float
) -> tuple[Tensor, Tensor]:
    """Return the mean loss, a scalar, and its slope by the logits (B, N), which are not part of any autograd graph.

    The right tails of batch row i are those of row pairs[i] in (pointer, tails). Labels are smoothed to
    (1 − smoothing)·y + 1/N, as the paper's models are trained.
    """
    base, lift = (1 / logits.size(1), 1 - smoothing) if smoothing else (0.0, 1.0)
    if can_fuse(logits):
        from powerlink.kernels.gpu.one_to_all import loss_and_slope  # noqa: PLC0415 - only where there is Triton

        return loss_and_slope(logits, pairs, pointer, tails, lift, base)
    share = 1 / logits.numel()
    row, place = expand_rows(pointer, pairs)
    tail = tails[place]
    loss = torch.nn.functional.softplus(logits).sum() - base * logits.sum() - lift * logits[row, tail].sum()
    slope = torch.sigmoid(logits).sub_(base).mul_(share)
    slope[row, tail] -= lift * share
    return loss * share, slope
