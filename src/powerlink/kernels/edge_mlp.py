"""The triplet scorer's hot loop: three gathered rows per edge through a small MLP of the edge's query.

On a CPU it runs over a few thousand edges at a time and keeps the second hidden layer for the way back, in memory that
every step uses again: fresh memory costs more than arithmetic does. On a GPU one fused kernel does it all and remembers
one number per edge. Batches are sized to fit; of a single query too large for that, hidden layers (CPU) or their slopes
(GPU) lie in memory for a piece at a time.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from powerlink.graphs.edges import row_pointer
from powerlink.kernels.fused import can_fuse
from powerlink.kernels.incidence import Incidence, Runs

CHUNK = 4_096  # edges whose hidden layers a core's cache holds
BLOCK = 16_384  # edges whose slopes are added up at once
RUN = 1_024  # edges that one GPU program walks
WIDEST = 64  # hidden layers whose tiles fit a GPU's multiprocessor on the way back
PIECE = 1_000_000  # edges of one query that are worked on whole: 256 MB at 64 numbers each


@dataclass(frozen=True, eq=False)
class _Block:
    """Edges of one query, and by which of them each row of the table was read."""

    query: int
    edges: slice
    chunks: list[tuple[slice, Tensor]]  # edges that go through the MLP together; (3·e,) int32, the rows each adds up
    row: Tensor  # (u,) rows of the table that are read
    reader: Tensor  # (3·e,) int32, edges counted from the block's first, sorted by the row they read
    first: Tensor  # (u + 1,) int32: where each row's readers begin


@dataclass(frozen=True, eq=False)
class _Piece:
    """Runs whose slopes lie in a GPU's memory together, and by which of their edges each row of the table was read."""

    edges: slice
    rows: Tensor  # (3, e) int32
    bounds: tuple[Tensor, Tensor, Tensor]  # of the runs, counted from the piece's first edge, and their queries
    readers: Incidence


@dataclass(frozen=True, eq=False)
class EdgeRows:
    """Which rows each edge gathers. Edges lie query by query, `sizes` of them each."""

    source: Tensor  # (E,) node
    target: Tensor  # (E,) node
    slot: Tensor  # (E,) row of `by_relation`
    num_nodes: int  # rows of `by_node`
    num_slots: int  # rows of `by_relation`
    sizes: tuple[int, ...]

    @cached_property
    def rows(self) -> Tensor:
        """The rows that each edge reads of the table, where nodes have two rows and slots follow: (3, E) int32."""
        return torch.stack([2 * self.source, 2 * self.target + 1, 2 * self.num_nodes + self.slot]).int()

    @cached_property
    def runs(self) -> Runs:
        """The edges in runs for the fused kernel."""
        sizes = torch.tensor((0, *self.sizes), device=self.source.device, dtype=torch.long)
        return Runs.of(sizes.cumsum(0), RUN)

    @cached_property
    def pieces(self) -> list[_Piece]:
        """The edges in pieces of whole runs for the fused kernel's way back: one, unless a query is too large."""
        start, _, _ = self.runs.bounds
        piece = start // PIECE if self.too_large else torch.zeros_like(start)
        sizes = torch.bincount(piece, minlength=1).tolist()
        pieces, first, num_rows = [], 0, 2 * self.num_nodes + self.num_slots
        for begin, end, query in zip(*(bound.split(sizes) for bound in self.runs.bounds), strict=True):
            count = int((end - begin).sum())
            edges, edge = slice(first, first + count), torch.arange(count, device=start.device).repeat(3)
            rows = self.rows[:, edges].contiguous()
            readers = Incidence.of(rows.flatten().long(), edge, num_rows, count)
            pieces.append(_Piece(edges, rows, (begin - first, end - first, query), readers))
            first += count
        return pieces

    @property
    def too_large(self) -> bool:
        """Whether a query has more edges than are worked on whole."""
        return self.longest > PIECE

    @cached_property
    def blocks(self) -> list[_Block]:
        """The edges in blocks of one query each."""
        rows = self.rows.t()  # (E, 3)
        blocks, begin = [], 0
        for query, size in enumerate(self.sizes):
            for start in range(begin, begin + size, BLOCK):
                edges = slice(start, min(start + BLOCK, begin + size))
                blocks.append(_block(query, edges, rows[edges]))
            begin += size
        return blocks

    @cached_property
    def longest(self) -> int:
        """The most edges of a query."""
        return max(self.sizes, default=0)

    @cached_property
    def _free(self) -> dict[tuple[object, ...], list[Tensor]]:
        return {}

    def lend(self, like: Tensor, rows: int) -> Loan:
        """Lend an uninitialised tensor of some rows as wide as another, from memory that every step uses again."""
        free = self._free.setdefault((like.dtype, like.device, rows, like.size(1)), [])
        return Loan(free.pop() if free else like.new_empty(rows, like.size(1)), free)

    @cached_property
    def three_by_three(self) -> Tensor:
        """Where the rows of each edge of a chunk begin: (CHUNK + 1,) int32."""
        return torch.arange(0, 3 * CHUNK + 1, 3, dtype=torch.int32, device=self.source.device)


def _block(query: int, edges: slice, rows: Tensor) -> _Block:
    flat = rows.flatten()
    chunks = [
        (slice(start, min(start + CHUNK, edges.stop)), flat[3 * (start - edges.start) :][: 3 * CHUNK])
        for start in range(edges.start, edges.stop, CHUNK)
    ]
    ordered, entry = flat.sort(stable=True)
    row, place = ordered.unique_consecutive(return_inverse=True)
    return _Block(query, edges, chunks, row, (entry // 3).int(), row_pointer(place, row.numel()).int())


def _sum_rows(table: Tensor, index: Tensor, first: Tensor) -> Tensor:
    """Return Σ table[index] over each run of the index that `first` (n + 1,) begins: (n, H)."""
    summed: Tensor = torch.embedding_bag(table, index, first, False, 0, False, None, True)[0]
    return summed


class Loan:
    """A tensor that goes back where it is lent from when nobody holds the loan any more."""

    def __init__(self, tensor: Tensor, free: list[Tensor]) -> None:
        self.tensor, self._free = tensor, free

    def __del__(self) -> None:
        self._free.append(self.tensor)


def _hidden(rows: EdgeRows, table: Tensor, index: Tensor) -> Tensor:
    """Return the first hidden layer of edges that add up rows of the table, index (3·e,): (e, H)."""
    return _sum_rows(table, index, rows.three_by_three[: index.numel() // 3 + 1]).relu_()


def _place(rows: EdgeRows, memory: Tensor, edges: slice) -> Tensor:
    """Return where a chunk's second hidden layer lies: its own rows, or the first ones if no chunk keeps its own."""
    return memory[: edges.stop - edges.start] if rows.too_large else memory[edges]


class _EdgeMLP(torch.autograd.Function):
    """The second hidden layer is kept for the way back: it costs a product to compute, the first only additions.

    Of a query that is too large it is not kept but computed again.
    """

    @staticmethod
    def forward(ctx: Any, rows: EdgeRows, *tensors: Tensor) -> Tensor:
        table, second, second_bias, last, last_bias = tensors
        ctx.save_for_backward(*tensors)
        ctx.rows = rows
        ctx.deeper = rows.lend(table, min(CHUNK, rows.longest) if rows.too_large else rows.source.numel())
        out = table.new_empty(rows.source.numel())
        for block in rows.blocks:
            query = block.query
            for edges, index in block.chunks:
                deeper = _place(rows, ctx.deeper.tensor, edges)
                torch.addmm(second_bias[query], _hidden(rows, table, index), second[query], out=deeper).relu_()
                torch.mv(deeper, last[query, :, 0], out=out[edges])
            out[block.edges] += last_bias[query]
        return out

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        """With D = [second layer > 0], everything follows from Σ gradᵉ·hiddenᵉ⊗Dᵉ and Σ gradᵉ·Dᵉ, row by row of D."""
        rows: EdgeRows = ctx.rows
        table, second, second_bias, last, _ = ctx.saved_tensors
        d_table = torch.zeros_like(table)
        products, sums = torch.zeros_like(second), torch.zeros_like(second_bias)
        d_last_bias = torch.zeros_like(ctx.saved_tensors[4])
        backwards = (second * last.transpose(1, 2)).transpose(1, 2)  # (Q, H, H)
        loans = [rows.lend(table, min(size, rows.longest)) for size in (CHUNK, BLOCK)]
        passed, slopes = (loan.tensor for loan in loans)
        for block in rows.blocks:
            query, begin = block.query, block.edges.start
            for edges, index in block.chunks:
                grad = grads[0][edges]
                hidden, deeper = _hidden(rows, table, index), _place(rows, ctx.deeper.tensor, edges)
                if rows.too_large:
                    torch.addmm(second_bias[query], hidden, second[query], out=deeper).relu_()
                back = passed[: grad.numel()]
                _where_positive(grad.unsqueeze(1).expand_as(deeper), deeper, out=back)
                products[query].addmm_(hidden.t(), back)
                sums[query] += back.sum(0)
                front = slopes[edges.start - begin : edges.stop - begin]
                torch.mm(back, backwards[query], out=front)
                _where_positive(front, hidden, out=front)
            d_last_bias[query] += grads[0][block.edges].sum()
            d_table.index_add_(0, block.row, _sum_rows(slopes, block.reader, block.first))
        return None, d_table, *parameter_slopes(products, sums, second, second_bias, last), d_last_bias


def parameter_slopes(
    products: Tensor, sums: Tensor, second: Tensor, second_bias: Tensor, last: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the slopes of second, second_bias and last from Σ grad·hidden⊗D (Q, H, H) and Σ grad·D (Q, H).

    Behind the ReLU the second layer is D·(hidden·W₂ + b₂), so that its own sum with grad needs no look at any edge.
    """
    d_last = ((products * second).sum(1) + sums * second_bias).unsqueeze(2)
    return products * last.transpose(1, 2), sums * last.squeeze(2), d_last


def _where_positive(slopes: Tensor, values: Tensor, out: Tensor) -> None:
    """Write the slopes, and zeros where the values behind a ReLU are zero."""
    torch.ops.aten.threshold_backward.grad_input(slopes, values, 0, grad_input=out)


def edge_mlp(
    rows: EdgeRows,
    by_node: Tensor,
    by_relation: Tensor,
    *,
    second: Tensor,
    second_bias: Tensor,
    last: Tensor,
    last_bias: Tensor,
) -> Tensor:
    """Return relu(relu(row)·W₂ + b₂)·w₃ + b₃ of every edge: (E,).

    row = by_node[source, 0] + by_node[target, 1] + by_relation[slot]:
    by_node (n, 2, H), a node as a source and as a target, and by_relation (s, H) are first-layer projections; second
    (Q, H, H), second_bias (Q, H), last (Q, H, 1) and last_bias (Q, 1) are each query's own.
    """
    table = torch.cat([by_node.flatten(0, 1), by_relation])
    function: type[torch.autograd.Function] = _EdgeMLP
    if can_fuse(table) and table.dtype == torch.float32 and table.size(1) <= WIDEST:  # matrix units multiply no float64
        from powerlink.kernels.gpu.edge_mlp import FusedMLP  # noqa: PLC0415 - only where there is Triton

        function = FusedMLP
    result: Tensor = function.apply(rows, table, second, second_bias, last, last_bias)
    return result
