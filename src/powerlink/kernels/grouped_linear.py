"""One small matrix product per query over rows that lie query by query, without padding."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


class _GroupedLinear(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, rows: Tensor, weight: Tensor, sizes: tuple[int, ...]) -> Tensor:
        ctx.save_for_backward(rows, weight)
        ctx.sizes = sizes
        out = rows.new_empty(rows.size(0), weight.size(2))
        for part, matrix, target in zip(rows.split(sizes), weight, out.split(sizes), strict=True):
            torch.mm(part, matrix, out=target)
        return out

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, Tensor | None, None]:
        rows, weight = ctx.saved_tensors
        grad = grads[0].contiguous()
        grad_rows = grad_weight = None
        if ctx.needs_input_grad[0]:
            grad_rows = torch.empty_like(rows)
            for part, matrix, target in zip(grad.split(ctx.sizes), weight, grad_rows.split(ctx.sizes), strict=True):
                torch.mm(part, matrix.t(), out=target)
        if ctx.needs_input_grad[1]:
            grad_weight = torch.empty_like(weight)
            for part, given, target in zip(rows.split(ctx.sizes), grad.split(ctx.sizes), grad_weight, strict=True):
                torch.mm(part.t(), given, out=target)
        return grad_rows, grad_weight, None


def grouped_linear(rows: Tensor, weight: Tensor, sizes: tuple[int, ...]) -> Tensor:
    """Multiply each group of rows by its own matrix.

    rows (n, in) lie group by group, `sizes` of them each; weight (G, in, out); returns (n, out).
    """
    result: Tensor = _GroupedLinear.apply(rows, weight, sizes)  # type: ignore[no-untyped-call]
    return result
