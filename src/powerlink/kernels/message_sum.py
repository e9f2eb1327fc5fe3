"""The sum every encoder ends in: messages times edge weights, added up at the edges' targets.

On a CPU, a message is computed once per (source, relation), since it does not depend on its target; a sum over edges is
one sparse product; its backward is another over the transposed order (by messages) and one sampled product (by
weights). Where weights are known first, a relation may map its targets' sums instead of its sources, if those are
fewer. On a GPU one fused kernel gathers, scales and adds, and is its own backward in the other sort orders. In neither
does a tensor of edges × width ever exist.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor

from powerlink.graphs.crossings import Crossings
from powerlink.graphs.edges import EdgeSlice
from powerlink.graphs.incidence import Incidence, Lookup
from powerlink.kernels.fused import can_fuse

with warnings.catch_warnings():
    # torch says once per process that sparse rows are "in beta" and unchecked; hear it here, not in the user's run
    warnings.simplefilter("ignore")
    torch.sparse_csr_tensor([0, 1], [0], [1.0], (1, 1), check_invariants=False)


class Summable(Protocol):
    """What edges carry, to be weighted and added up."""

    def summed(self, weight: Tensor) -> Tensor:
        """Return Σ weight·message at every row: weight (E,) → (rows, d)."""
        ...


@dataclass(frozen=True, eq=False)
class Messages(Summable):
    """What edges carry before they are weighted: rows, perhaps times rows of another table, and where to."""

    rows: Tensor  # (columns, d)
    factors: Tensor | None  # (factors, d)
    incidence: Incidence

    def summed(self, weight: Tensor) -> Tensor:
        """Return Σ weight·message at every row of the incidence: weight (E,) → (rows, d)."""
        if self.factors is None:
            return message_sum(self.rows, weight, self.incidence)
        sums = _apply(FusedSum, self.rows, self.factors, weight.to(self.rows.dtype), self.incidence)
        return sums if self.incidence.heirs is None else self.incidence.heirs.complete(sums)


@dataclass(frozen=True, eq=False)
class MappedSums(Summable):
    """The same where every relation is a linear map and weights come first: fewer rows are mapped."""

    nodes: Tensor  # (n, in)
    crossings: Crossings
    map_rows: Callable[[Tensor], Tensor]  # (C, in) → (C, out), each row by its relation
    to_places: Incidence  # from the crossings

    def summed(self, weight: Tensor) -> Tensor:
        """Return Σ weight·message at every place: weight (E,) → (places, out)."""
        weight = self.crossings.weights(weight)
        rows = message_sum(self.nodes, weight, self.crossings.from_nodes)
        return message_sum(self.map_rows(rows), weight, self.to_places)


def message_sum(messages: Tensor, weight: Tensor, incidence: Incidence) -> Tensor:
    """Return Σ weight·message at every row: messages (columns, d), weight (E,) → (rows, d)."""
    sums = _own_sums(messages, weight.to(messages.dtype), incidence)  # norms are float32, a model may be float64
    return sums if incidence.heirs is None else incidence.heirs.complete(sums)


def _own_sums(messages: Tensor, weight: Tensor, incidence: Incidence) -> Tensor:
    if not incidence.edge.numel():
        return message_sum_reference(messages, weight, incidence)
    if can_fuse(messages):
        return _apply(FusedSum, messages, None, weight, incidence)
    if messages.device.type == "cpu" and not torch.backends.mkl.is_available():
        return message_sum_reference(messages, weight, incidence)
    return _apply(_SparseSum, messages, weight, incidence)


def related_messages(nodes: Tensor, relations: Tensor, edges: EdgeSlice) -> Summable:
    """Return node·relation of every edge: nodes (n, d), relations (2R, d).

    They are summed at every node, facts in row 2·target and inverses in 2·target + 1.
    """
    if can_fuse(nodes) and edges.source.numel():
        return Messages(nodes, relations, edges.related_nodes_to_targets_by_direction)
    if weights_come_first(nodes, edges):
        crossings = edges.crossings
        factors = read_rows(relations, crossings.relations)
        return MappedSums(nodes, crossings, lambda rows: rows * factors, crossings.to_targets_by_direction)
    messages = read_rows(nodes, edges.pair_sources) * read_rows(relations, edges.pair_relations)
    return Messages(messages, None, edges.pairs_to_targets_by_direction)


def weights_come_first(nodes: Tensor, edges: EdgeSlice) -> bool:
    """Say whether to add up before relations map, where that maps fewer rows; a GPU has kernels of its own."""
    return nodes.device.type == "cpu" and not edges.reweighed and edges.heirs is None


def read_rows(table: Tensor, lookup: Lookup) -> Tensor:
    """Return table[index], (n, d); its backward is a sum over the readers of each row, not an index_add."""
    if not lookup.index.numel() or (table.device.type == "cpu" and not torch.backends.mkl.is_available()):
        return table.index_select(0, lookup.index)
    return _apply(_ReadRows, table, lookup)


def message_sum_reference(
    messages: Tensor, weight: Tensor, incidence: Incidence, factors: Tensor | None = None
) -> Tensor:
    """The same sum edge by edge in plain torch: the oracle, and the way on machines without a sparse library."""
    carried = messages.index_select(0, incidence.column) * weight.index_select(0, incidence.edge).unsqueeze(1)
    if factors is not None and incidence.factor is not None:
        carried = carried * factors.index_select(0, incidence.factor)
    return messages.new_zeros(incidence.num_rows, messages.size(1)).index_add(0, incidence.row_of_entry, carried)


class FusedSum(torch.autograd.Function):
    """Σ weight·message·factor on a GPU."""

    @staticmethod
    def forward(ctx: Any, messages: Tensor, factors: Tensor | None, weight: Tensor, incidence: Incidence) -> Tensor:
        from powerlink.kernels.gpu.product_sum import product_sum  # noqa: PLC0415 - only where there is Triton

        ctx.save_for_backward(messages, weight, *(() if factors is None else (factors,)))
        ctx.incidence = incidence
        return product_sum(messages, factors, weight, incidence)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        from powerlink.kernels.gpu.product_sum import product_dot, product_sum  # noqa: PLC0415

        messages, weight, *rest = ctx.saved_tensors
        factors = rest[0] if rest else None
        incidence, grad = ctx.incidence, grads[0]
        to_messages = to_factors = to_weight = None
        if ctx.needs_input_grad[0]:
            to_messages = product_sum(grad, factors, weight, incidence.transposed)
        if ctx.needs_input_grad[1]:
            to_factors = product_sum(messages, grad, weight, incidence.by_factor)
        if ctx.needs_input_grad[2]:
            to_weight = product_dot(messages, factors, grad, incidence)
        return to_messages, to_factors, to_weight, None


class _SparseSum(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, messages: Tensor, weight: Tensor, incidence: Incidence) -> Tensor:
        ctx.save_for_backward(messages, weight)
        ctx.incidence = incidence
        return _product(incidence, weight, messages)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, Tensor | None, None]:
        messages, weight = ctx.saved_tensors
        incidence, grad = ctx.incidence, grads[0].contiguous()
        grad_messages = grad_weight = None
        if ctx.needs_input_grad[0]:
            grad_messages = _product(incidence.transposed, weight, grad)
        if ctx.needs_input_grad[1]:
            sampled = _sampled(incidence, grad, messages)  # entries may share a weight
            grad_weight = torch.zeros_like(weight).scatter_add_(0, incidence.edge, sampled)
        return grad_messages, grad_weight, None


def _sampled(incidence: Incidence, rows: Tensor, columns: Tensor) -> Tensor:
    """Return Σ_d row·column of every entry: (E,)."""
    if incidence.edge.numel() > incidence.num_rows * incidence.num_columns:  # parallel edges: more entries than places
        return (rows.index_select(0, incidence.row_of_entry) * columns.index_select(0, incidence.column)).sum(1)
    pattern = _matrix(incidence, rows.new_zeros(incidence.edge.numel()))
    sampled: Tensor = torch.sparse.sampled_addmm(pattern, rows, columns.t(), beta=0.0).values()
    return sampled


class _ReadRows(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, table: Tensor, lookup: Lookup) -> Tensor:
        ctx.lookup = lookup
        return table.index_select(0, lookup.index)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        return sum_readers(grads[0].contiguous(), ctx.lookup), None


def sum_readers(slopes: Tensor, lookup: Lookup) -> Tensor:
    """Return, for every row of a table, the sum of the slopes (n, d) of those who read it."""
    readers = lookup.readers
    if can_fuse(slopes):
        from powerlink.kernels.gpu.product_sum import product_sum  # noqa: PLC0415

        return product_sum(slopes, None, None, readers)
    if not lookup.index.numel() or (slopes.device.type == "cpu" and not torch.backends.mkl.is_available()):
        return slopes.new_zeros(readers.num_rows, slopes.size(1)).index_add(0, lookup.index, slopes)
    return _product(readers, slopes.new_ones(readers.edge.numel()), slopes)


def _apply(function: type[torch.autograd.Function], *arguments: Any) -> Tensor:
    result: Tensor = function.apply(*arguments)
    return result


def _product(incidence: Incidence, weight: Tensor, rows: Tensor) -> Tensor:
    """Return Σ weight·row at every row of the incidence: weight (E,), rows (columns, d) → (rows, d)."""
    out = rows.new_empty(incidence.num_rows, rows.size(1))
    # `@` would fill a matrix with zeros and copy it over the result, which then is written a third time
    return torch.addmm(out, _matrix(incidence, weight.index_select(0, incidence.edge)), rows, beta=0, out=out)


def _matrix(incidence: Incidence, values: Tensor) -> Tensor:
    """Return the sparse matrix of some values, one per entry."""
    size = (incidence.num_rows, incidence.num_columns)
    return torch.sparse_csr_tensor(*incidence.pattern, values, size, check_invariants=False)
