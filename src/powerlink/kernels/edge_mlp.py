"""The triplet scorer's hot loop: three gathered rows per edge through a small MLP of the edge's query.

It runs over a few thousand edges at a time and computes them again in the backward pass, so that nothing of the size
edges × width is ever kept: what it remembers is one number per edge. On a CPU, fresh memory costs more than arithmetic
does: what a piece computes goes into the memory of the piece before it. On a GPU one fused kernel does it all.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from powerlink.graphs.incidence import Incidence, Lookup, row_pointer
from powerlink.kernels.fused import can_fuse

CHUNK = 4_096  # edges whose hidden layers a core's cache holds
BLOCK = 16_384  # edges whose slopes are added up at once
RUN = 1_024  # edges that one GPU program walks


@dataclass(frozen=True, eq=False)
class _Runs:
    """Edges in runs of one query each, however different the queries' sizes."""

    start: Tensor  # (runs,)
    end: Tensor  # (runs,)
    query: Tensor  # (runs,)
    by_query: Incidence  # the runs of each query

    @property
    def bounds(self) -> tuple[Tensor, Tensor, Tensor]:
        return self.start, self.end, self.query


@dataclass(frozen=True, eq=False)
class _Chunk:
    """Edges of one query that go through the MLP together."""

    edges: slice
    index: Tensor  # (3·e,) int32: the rows of the table that each edge adds up


@dataclass(frozen=True, eq=False)
class _Block:
    """Chunks of one query, and by which of their edges each row of the table was read."""

    query: int
    edges: slice
    chunks: list[_Chunk]
    row: Tensor  # (u,) rows of the table that are read
    reader: Tensor  # (3·e,) int32, edges counted from the block's first, sorted by the row they read
    first: Tensor  # (u + 1,) int32: where each row's readers begin


@dataclass(frozen=True, eq=False)
class EdgeRows:
    """Which rows each edge gathers. Edges lie query by query, `sizes` of them each."""

    source: Tensor  # (E,) row of `as_head`
    target: Tensor  # (E,) row of `as_tail`
    slot: Tensor  # (E,) row of `by_relation`
    num_nodes: int  # rows of `as_head`, and of `as_tail`
    num_slots: int  # rows of `by_relation`
    sizes: tuple[int, ...]

    @cached_property
    def rows(self) -> Tensor:
        """The rows of the table [as_head; as_tail; by_relation] that each edge reads: (3, E) int32."""
        return torch.stack([self.source, self.target + self.num_nodes, self.slot + 2 * self.num_nodes]).int()

    @cached_property
    def runs(self) -> _Runs:
        """The edges in runs for the fused kernel."""
        sizes = torch.tensor(self.sizes, device=self.source.device, dtype=torch.long)
        count, end = (sizes + RUN - 1) // RUN, sizes.cumsum(0)
        query = torch.repeat_interleave(torch.arange(sizes.numel(), device=sizes.device), count)
        which = torch.arange(query.numel(), device=sizes.device) - (count.cumsum(0) - count)[query]
        start = (end - sizes)[query] + which * RUN
        stop = torch.minimum(start + RUN, end[query])
        return _Runs(start, stop, query, Lookup(query, sizes.numel()).readers)

    @cached_property
    def readers(self) -> Incidence:
        """The edges that read each row of the table, sorted by row."""
        edge = torch.arange(self.source.numel(), device=self.source.device)
        num_rows = 2 * self.num_nodes + self.num_slots
        return Incidence.of(self.rows.flatten().long(), edge.repeat(3), num_rows, edge.numel())

    @cached_property
    def blocks(self) -> list[_Block]:
        """The edges in blocks of one query each, over the table [as_head; as_tail; by_relation]."""
        rows = self.rows.t()  # (E, 3)
        blocks, begin = [], 0
        for query, size in enumerate(self.sizes):
            for start in range(begin, begin + size, BLOCK):
                edges = slice(start, min(start + BLOCK, begin + size))
                blocks.append(_block(query, edges, rows[edges]))
            begin += size
        return blocks

    @cached_property
    def _scratch(self) -> dict[torch.dtype, tuple[Tensor, Tensor, Tensor]]:
        return {}

    def scratch(self, table: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return memory for two chunks and a block, the same at every call."""
        if table.dtype not in self._scratch:
            width, widest = table.size(1), min(BLOCK, max(self.sizes, default=0))
            sizes = (min(CHUNK, widest), min(CHUNK, widest), widest)
            one, other, block = (table.new_empty(size, width) for size in sizes)
            self._scratch[table.dtype] = one, other, block
        return self._scratch[table.dtype]

    @cached_property
    def three_by_three(self) -> Tensor:
        """Where the rows of each edge of a chunk begin: (CHUNK + 1,) int32."""
        return torch.arange(0, 3 * CHUNK + 1, 3, dtype=torch.int32, device=self.source.device)


def _block(query: int, edges: slice, rows: Tensor) -> _Block:
    flat = rows.flatten()
    chunks = [
        _Chunk(slice(start, min(start + CHUNK, edges.stop)), flat[3 * (start - edges.start) :][: 3 * CHUNK])
        for start in range(edges.start, edges.stop, CHUNK)
    ]
    ordered, entry = flat.sort(stable=True)
    row, place = ordered.unique_consecutive(return_inverse=True)
    return _Block(query, edges, chunks, row, (entry // 3).int(), row_pointer(place, row.numel()).int())


def _sum_rows(table: Tensor, index: Tensor, first: Tensor) -> Tensor:
    """Return Σ table[index] over each run of the index that `first` (n + 1,) begins: (n, H)."""
    summed: Tensor = torch.embedding_bag(table, index, first, False, 0, False, None, True)[0]
    return summed


class _Layers:
    """Both hidden layers of a chunk of edges."""

    def __init__(self, rows: EdgeRows, table: Tensor, second: Tensor, second_bias: Tensor) -> None:
        self._rows, self._table, self._second, self._bias = rows, table, second, second_bias
        self._deeper = rows.scratch(table)[0]

    def __call__(self, query: int, chunk: _Chunk) -> tuple[Tensor, Tensor]:
        count = chunk.edges.stop - chunk.edges.start
        hidden = _sum_rows(self._table, chunk.index, self._rows.three_by_three[: count + 1]).relu_()
        deeper = self._deeper[:count]
        torch.addmm(self._bias[query], hidden, self._second[query], out=deeper)
        return hidden, deeper.relu_()


class _EdgeMLP(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, rows: EdgeRows, *tensors: Tensor) -> Tensor:
        table, second, second_bias, last, last_bias = tensors
        ctx.save_for_backward(*tensors)
        ctx.rows = rows
        out = table.new_empty(rows.source.numel())
        layers = _Layers(rows, table, second, second_bias)
        for block in rows.blocks:
            bias, weight = last_bias[block.query], last[block.query, :, 0]
            for chunk in block.chunks:
                deeper = layers(block.query, chunk)[1]
                torch.addmv(bias.expand(deeper.size(0)), deeper, weight, out=out[chunk.edges])
        return out

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        rows: EdgeRows = ctx.rows
        table, second, second_bias, last, _ = ctx.saved_tensors
        d_table, d_second, d_second_bias, d_last, d_last_bias = result = [
            torch.zeros_like(t) for t in ctx.saved_tensors
        ]
        layers = _Layers(rows, table, second, second_bias)
        _, scratch, slopes = rows.scratch(table)  # slopes of the second layer, for a chunk; of the first, for a block
        for block in rows.blocks:
            query, begin = block.query, block.edges.start
            for chunk in block.chunks:
                grad = grads[0][chunk.edges]
                hidden, deeper = layers(query, chunk)
                d_last[query, :, 0].addmv_(deeper.t(), grad)
                d_last_bias[query] += grad.sum()
                back = torch.mul(grad.unsqueeze(1), last[query, :, 0], out=scratch[: grad.numel()])
                _where_positive(back, deeper)
                d_second[query].addmm_(hidden.t(), back)
                d_second_bias[query] += back.sum(0)
                front = slopes[chunk.edges.start - begin : chunk.edges.stop - begin]
                torch.mm(back, second[query].t(), out=front)
                _where_positive(front, hidden)
            d_table.index_add_(0, block.row, _sum_rows(slopes, block.reader, block.first))
        return None, *result


class FusedMLP(torch.autograd.Function):
    """The same on a GPU."""

    @staticmethod
    def forward(ctx: Any, rows: EdgeRows, *tensors: Tensor) -> Tensor:
        from powerlink.kernels.gpu.edge_mlp import score_runs  # noqa: PLC0415 - only where there is Triton

        table, *parameters = tensors
        ctx.save_for_backward(*tensors)
        ctx.rows = rows
        return score_runs(table, rows.rows, rows.runs.bounds, parameters)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        from powerlink.kernels.gpu.edge_mlp import slopes_of_runs  # noqa: PLC0415
        from powerlink.kernels.gpu.product_sum import product_sum  # noqa: PLC0415

        rows: EdgeRows = ctx.rows
        table, *parameters = ctx.saved_tensors
        slopes, shares = slopes_of_runs(table, rows.rows, rows.runs.bounds, parameters, grads[0])
        d_table = product_sum(slopes, None, None, rows.readers)
        totals = product_sum(shares, None, None, rows.runs.by_query)  # (Q, H·H + 2H + 1)
        split = totals.split([part[0].numel() for part in parameters], dim=1)
        return None, d_table, *(total.reshape(part.shape) for total, part in zip(split, parameters, strict=True))


def _can_fuse(table: Tensor) -> bool:
    if not can_fuse(table) or table.dtype != torch.float32:  # matrix units multiply no float64
        return False
    from powerlink.kernels.gpu.edge_mlp import WIDEST  # noqa: PLC0415

    return table.size(1) <= WIDEST


def _where_positive(slopes: Tensor, values: Tensor) -> None:
    """Set slopes to zero, in place, where the values behind a ReLU are zero."""
    torch.ops.aten.threshold_backward.grad_input(slopes, values, 0, grad_input=slopes)


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
    table = torch.cat([as_head, as_tail, by_relation])
    function = FusedMLP if _can_fuse(table) else _EdgeMLP
    result: Tensor = function.apply(rows, table, second, second_bias, last, last_bias)  # type: ignore[no-untyped-call]
    return result
