"""The triplet scorer's hot loop: three gathered rows per edge through a small MLP of the edge's query.

It runs over a few thousand edges at a time and computes them again in the backward pass, so that nothing of the size
edges × width is ever kept: what it remembers is one number per edge.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

CHUNK = {"cpu": 8_192, "cuda": 1_048_576}  # edges at a time: the cache of a core, or enough to fill a GPU


@dataclass(frozen=True, eq=False)
class EdgeRows:
    """Which rows each edge gathers. Edges lie query by query, `sizes` of them each."""

    source: Tensor  # (E,) row of `as_head`
    target: Tensor  # (E,) row of `as_tail`
    slot: Tensor  # (E,) row of `by_relation`
    sizes: tuple[int, ...]

    def chunks(self) -> Iterator[tuple[int, slice]]:
        """Walk the edges in pieces that belong to one query each: (query, edges)."""
        step = CHUNK.get(self.source.device.type, CHUNK["cuda"])
        first = 0
        for query, size in enumerate(self.sizes):
            for start in range(first, first + size, step):
                yield query, slice(start, min(start + step, first + size))
            first += size


def _hidden(rows: EdgeRows, edges: slice, parts: tuple[Tensor, Tensor, Tensor]) -> Tensor:
    """Return the first hidden layer of some edges: (e, H)."""
    as_head, as_tail, by_relation = parts
    total = as_head.index_select(0, rows.source[edges])
    total += as_tail.index_select(0, rows.target[edges])
    total += by_relation.index_select(0, rows.slot[edges])
    return total.relu_()


def _through_relu(grad: Tensor, out: Tensor) -> Tensor:
    """Return the gradient where the relu let something through, in one pass: comparing first would take three."""
    return torch.ops.aten.threshold_backward(grad, out, 0)  # type: ignore[no-any-return]


class _EdgeMLP(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, rows: EdgeRows, *tensors: Tensor) -> Tensor:
        as_head, as_tail, by_relation, second, second_bias, last, last_bias = tensors
        ctx.save_for_backward(*tensors)
        ctx.rows = rows
        out = as_head.new_empty(rows.source.numel())
        for query, edges in rows.chunks():
            hidden = _hidden(rows, edges, (as_head, as_tail, by_relation))
            deeper = torch.addmm(second_bias[query], hidden, second[query]).relu_()
            torch.addmv(last_bias[query].expand(deeper.size(0)), deeper, last[query, :, 0], out=out[edges])
        return out

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        rows: EdgeRows = ctx.rows
        as_head, as_tail, by_relation, second, second_bias, last, _ = ctx.saved_tensors
        result = [torch.zeros_like(tensor) for tensor in ctx.saved_tensors]
        d_head, d_tail, d_relation, d_second, d_second_bias, d_last, d_last_bias = result
        for query, edges in rows.chunks():
            grad = grads[0][edges]
            hidden = _hidden(rows, edges, (as_head, as_tail, by_relation))
            deeper = torch.addmm(second_bias[query], hidden, second[query]).relu_()
            d_last[query, :, 0].addmv_(deeper.t(), grad)
            d_last_bias[query] += grad.sum()
            back = _through_relu(torch.outer(grad, last[query, :, 0]), deeper)
            d_second[query].addmm_(hidden.t(), back)
            d_second_bias[query] += back.sum(0)
            back = _through_relu(back @ second[query].t(), hidden)
            d_head.index_add_(0, rows.source[edges], back)
            d_tail.index_add_(0, rows.target[edges], back)
            d_relation.index_add_(0, rows.slot[edges], back)
        return None, *result


def edge_mlp(
    rows: EdgeRows,
    as_head: Tensor,
    as_tail: Tensor,
    by_relation: Tensor,
    *,
    second: Tensor,
    second_bias: Tensor,
    last: Tensor,
    last_bias: Tensor,
) -> Tensor:
    """Return relu(relu(as_head[source] + as_tail[target] + by_relation[slot])·W₂ + b₂)·w₃ + b₃ of every edge: (E,).

    as_head, as_tail (n, H) and by_relation (s, H) are first-layer projections; second (Q, H, H), second_bias (Q, H),
    last (Q, H, 1) and last_bias (Q, 1) are each query's own.
    """
    weights = (as_head, as_tail, by_relation, second, second_bias, last, last_bias)
    result: Tensor = _EdgeMLP.apply(rows, *weights)  # type: ignore[no-untyped-call]
    return result
