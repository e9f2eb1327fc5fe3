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


def drawn_tails_loss(
    logits: Tensor,
    right: Tensor,
    owner: Tensor,
    stands_for: Tensor,
    met: tuple[Tensor, Tensor],
    wrong: Tensor,
    *,
    smoothing: float,
    count: int,
) -> Tensor:
    """Return the mean loss, to be differentiated, of some tails instead of all `count`; with all, the loss above.

    logits (B, K) of drawn tails; `right` (n,) of right tails of rows `owner`, each of which stands for so many; `met`
    are rows and columns of right tails among the drawn; `wrong` (B,) says how many wrong tails each row has in all.

    A drawn wrong tail stands for many, but does not weigh as many: slopes would be rare and huge. Every logit is
    raised by the log of that number instead, as in a case-control study: among the drawn, right tails are so many
    times more frequent than among all. The logits of the lowest loss stay the same, and no slope is larger than a
    right one's.
    """
    base, lift = (1 / count, 1 - smoothing) if smoothing else (0.0, 1.0)
    row, column = met
    drawn = logits.size(1) - torch.bincount(row, minlength=logits.size(0))
    times = (wrong / drawn.clamp(min=1)).to(logits.dtype).clamp(min=1)  # (B,)
    shift = times.log()
    yes = base * times  # the part of a label that says right, and of a right one's that says wrong
    no = (1 - lift - base) / times

    def of_wrong(raised: Tensor, yes: Tensor) -> Tensor:
        return (1 - base + yes) * torch.nn.functional.softplus(raised) - yes * raised

    total = of_wrong(logits + shift.unsqueeze(1), yes.unsqueeze(1)).sum()
    total = total - of_wrong(logits[row, column] + shift[row], yes[row]).sum()
    raised = right + shift[owner]
    of_right = (lift + base + no[owner]) * torch.nn.functional.softplus(raised) - (lift + base) * raised
    return (total + (stands_for * of_right).sum()) / logits.numel()
