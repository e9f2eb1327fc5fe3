"""The sum every encoder ends in: messages times edge weights, added up at the edges' targets.

On a CPU, a sum over edges is one sparse product; its backward is another over the transposed order (by messages) and
one sampled product (by weights). On a GPU one fused kernel gathers, scales and adds, and is its own backward in the
other sort orders. In neither does a tensor of edges × width ever exist.
"""

from __future__ import annotations

import warnings
from typing import Any

import torch
from torch import Tensor

from powerlink.kernels.fused import can_fuse
from powerlink.kernels.incidence import Incidence, Lookup

with warnings.catch_warnings():
    # torch says once per process that sparse rows are "in beta" and unchecked; hear it here, not in the user's run
    warnings.simplefilter("ignore")
    torch.sparse_csr_tensor([0, 1], [0], [1.0], (1, 1), check_invariants=False)


def message_sum(messages: Tensor, weight: Tensor, incidence: Incidence, factors: Tensor | None = None) -> Tensor:
    """Return Σ weight·message at every row: messages (columns, d), weight (E,) → (rows, d).

    On a GPU, messages may be multiplied by factors (factors, d) on the way.
    """
    weight = weight.to(messages.dtype)  # norms are float32, a model may be float64
    if incidence.edge.numel() and can_fuse(messages):
        from powerlink.kernels.gpu.product_sum import FusedSum  # noqa: PLC0415 - only where there is Triton

        sums = _apply(FusedSum, messages, factors, weight, incidence)
    elif incidence.edge.numel() and factors is None and _multiplies_sparse(messages):
        sums = _apply(_SparseSum, messages, weight, incidence)
    else:
        sums = message_sum_reference(messages, weight, incidence, factors)
    heirs = incidence.heirs
    return sums if heirs is None else sums.index_add(0, heirs.row, sums.index_select(0, heirs.ancestor))


def message_sum_reference(
    messages: Tensor, weight: Tensor, incidence: Incidence, factors: Tensor | None = None
) -> Tensor:
    """The same edge by edge in plain torch, without heirs: the oracle, and the way without a sparse library."""
    carried = messages.index_select(0, incidence.column) * weight.index_select(0, incidence.edge).unsqueeze(1)
    if factors is not None and incidence.factor is not None:
        carried = carried * factors.index_select(0, incidence.factor)
    return messages.new_zeros(incidence.num_rows, messages.size(1)).index_add(0, incidence.row_of_entry, carried)


def read_rows(table: Tensor, lookup: Lookup) -> Tensor:
    """Return table[index], (n, d); its backward is a sum over the readers of each row, not an index_add."""
    return _apply(_ReadRows, table, lookup)


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
    if not (lookup.index.numel() and _multiplies_sparse(slopes)):
        return slopes.new_zeros(readers.num_rows, slopes.size(1)).index_add(0, lookup.index, slopes)
    return _product(readers, slopes.new_ones(readers.edge.numel()), slopes)


def _apply(function: type[torch.autograd.Function], *arguments: Any) -> Tensor:
    result: Tensor = function.apply(*arguments)
    return result


def _multiplies_sparse(tensor: Tensor) -> bool:
    """Say whether torch has a sparse library where a tensor lies."""
    return tensor.device.type != "cpu" or torch.backends.mkl.is_available()


def _product(incidence: Incidence, weight: Tensor, rows: Tensor) -> Tensor:
    """Return Σ weight·row at every row of the incidence: weight (E,), rows (columns, d) → (rows, d)."""
    out = rows.new_empty(incidence.num_rows, rows.size(1))
    # `@` would fill a matrix with zeros and copy it over the result, which then is written a third time
    return torch.addmm(out, _matrix(incidence, weight.index_select(0, incidence.edge)), rows, beta=0, out=out)


def _matrix(incidence: Incidence, values: Tensor) -> Tensor:
    """Return the sparse matrix of some values, one per entry."""
    size = (incidence.num_rows, incidence.num_columns)
    return torch.sparse_csr_tensor(*incidence.pattern, values, size, check_invariants=False)
