"""The 1-to-all loss and its slope in one pass over the logits."""

from __future__ import annotations

import triton
import triton.language as tl
from torch import Tensor


@triton.jit
def _all_wrong(logits_ptr, slope_ptr, loss_ptr, num_tails, base, share, BLOCK: tl.constexpr):
    """Every tail as if it were wrong, with label `base`."""
    row = tl.program_id(0).to(tl.int64)
    tail = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    there = tail < num_tails
    logit = tl.load(logits_ptr + row * num_tails + tail, mask=there, other=0.0).to(tl.float32)
    fade = tl.exp(-tl.abs(logit))
    sigmoid = tl.where(logit >= 0, 1.0, fade) / (1.0 + fade)
    loss = tl.maximum(logit, 0.0) + tl.log(1.0 + fade) - base * logit
    tl.store(slope_ptr + row * num_tails + tail, (sigmoid - base) * share, mask=there)
    tl.store(loss_ptr + row * tl.num_programs(1) + tl.program_id(1), tl.sum(tl.where(there, loss, 0.0), axis=0))


@triton.jit
def _correct_right(
    logits_ptr, slope_ptr, loss_ptr, pair_ptr, pointer_ptr, tail_ptr, num_tails, lift, share, BLOCK: tl.constexpr
):  # fmt: skip
    """The right tails' labels are `lift` higher than `_all_wrong` said."""
    row = tl.program_id(0).to(tl.int64)
    pair = tl.load(pair_ptr + row)
    start = tl.load(pointer_ptr + pair)
    end = tl.load(pointer_ptr + pair + 1)
    total = tl.zeros((BLOCK,), dtype=tl.float32)
    for first in range(start, end, BLOCK):
        place = first + tl.arange(0, BLOCK)
        there = place < end
        tail = tl.load(tail_ptr + place, mask=there, other=0)
        spot = row * num_tails + tail
        total += tl.load(logits_ptr + spot, mask=there, other=0.0).to(tl.float32)
        slope = tl.load(slope_ptr + spot, mask=there, other=0.0)
        tl.store(slope_ptr + spot, slope - lift * share, mask=there)
    tl.store(loss_ptr + row, -lift * tl.sum(total, axis=0))


def loss_and_slope(
    logits: Tensor, pairs: Tensor, pointer: Tensor, tails: Tensor, lift: float, base: float
) -> tuple[Tensor, Tensor]:
    """Return the mean loss and its slope (B, N); the right tails of batch row i are those of row pairs[i]."""
    batch, num_tails = logits.shape
    block = 2048
    logits = logits.contiguous()
    slope = logits.new_empty(batch, num_tails)
    wrong = logits.new_empty(batch, triton.cdiv(num_tails, block))
    right = logits.new_empty(batch)
    share = 1.0 / logits.numel()
    _all_wrong[(batch, triton.cdiv(num_tails, block))](
        logits, slope, wrong, num_tails, base, share, BLOCK=block, num_warps=8
    )
    _correct_right[(batch,)](logits, slope, right, pairs, pointer, tails, num_tails, lift, share, BLOCK=64, num_warps=1)
    return (wrong.sum() + right.sum()) * share, slope
