"""Rows times their group's own matrix, group by group: rows lie sorted by group, without padding."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from powerlink.kernels.fused import can_fuse
from powerlink.kernels.incidence import Groups, Lookup
from powerlink.kernels.message_sum import sum_readers


def grouped_product(
    table: Tensor, matrices: Tensor, groups: Groups, lookup: Lookup | None = None, *, precision: str
) -> Tensor:
    """Multiply rows (n, B·i), sorted by group, by their groups' block-diagonal matrices (G, B, i, o): (n, B·o).

    With a lookup, the rows are those it reads of the table, a group's at a time: no table of all of them exists. No
    matrix is ever copied per row. A GPU takes products in a `precision` as `kernels.fused` says it.
    """
    function: type[torch.autograd.Function] = _GroupedProduct
    if can_fuse(table) and table.dtype == torch.float32:  # matrix units multiply no float64
        from powerlink.kernels.gpu.grouped_product import FusedGroupedProduct  # noqa: PLC0415 - only where there is Triton

        function = FusedGroupedProduct
    result: Tensor = function.apply(table, matrices, groups, lookup, precision)
    return result


class _GroupedProduct(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, table: Tensor, matrices: Tensor, groups: Groups, lookup: Lookup | None, _: str) -> Tensor:
        ctx.save_for_backward(table, matrices)
        ctx.groups, ctx.lookup = groups, lookup
        count = table.size(0) if lookup is None else lookup.index.numel()
        products = table.new_empty(count, matrices.size(1) * matrices.size(3))
        for group, some in groups:
            rows = _by_block(_read(table, some, lookup), matrices)
            _multiply(rows, matrices[group], out=_by_block(products[some], matrices))  # (B, p, i) @ (B, i, o)
        return products

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        (table, matrices), lookup, grad = ctx.saved_tensors, ctx.lookup, grads[0].contiguous()
        for_table, for_matrices, *_ = ctx.needs_input_grad
        to_rows = table.new_empty(grad.size(0), table.size(1)) if for_table else None
        to_matrices = torch.zeros_like(matrices) if for_matrices else None
        for group, some in ctx.groups:
            slopes = _by_block(grad[some], matrices)
            if to_rows is not None:
                _multiply(slopes, matrices[group].transpose(1, 2), out=_by_block(to_rows[some], matrices))
            if to_matrices is not None:
                rows = _by_block(_read(table, some, lookup), matrices)
                torch.bmm(rows.transpose(1, 2), slopes, out=to_matrices[group])
        to_table = to_rows if to_rows is None or lookup is None else sum_readers(to_rows, lookup)
        return to_table, to_matrices, None, None, None


def _read(table: Tensor, some: slice, lookup: Lookup | None) -> Tensor:
    return table[some] if lookup is None else table.index_select(0, lookup.index[some])


def _by_block(rows: Tensor, matrices: Tensor) -> Tensor:
    """Look at rows (p, B·d) as (B, p, d)."""
    return rows.view(rows.size(0), matrices.size(1), -1).transpose(0, 1)


def _multiply(a: Tensor, b: Tensor, out: Tensor) -> None:
    if out.size(0) == 1:
        torch.bmm(a, b, out=out)
    else:  # blocks lie side by side in a row, and torch would multiply them one by one
        out.copy_(torch.bmm(a, b))
