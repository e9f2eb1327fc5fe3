"""Which message each edge carries and where it is added: the pattern of a sparse matrix, in both sort orders."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor


@dataclass(frozen=True, eq=False)
class Incidence:
    """Edges as entries of a matrix: messages are columns, the places they are added up at are rows."""

    row: Tensor  # (rows + 1,) where each row's entries begin
    column: Tensor  # (E,)
    edge: Tensor  # (E,) the edge behind each entry
    num_columns: int

    @property
    def num_rows(self) -> int:
        return self.row.numel() - 1

    @classmethod
    def of(cls, rows: Tensor, columns: Tensor, num_rows: int, num_columns: int) -> Incidence:
        """Sort edges, given by their row and column (E,), by row."""
        ordered, edge = rows.sort(stable=True)
        return cls(row_pointer(ordered, num_rows), columns[edge], edge, num_columns)

    @cached_property
    def row_of_entry(self) -> Tensor:
        """The row of each entry: (E,)."""
        rows = torch.arange(self.num_rows, device=self.row.device)
        return torch.repeat_interleave(rows, self.row.diff(), output_size=self.edge.numel())

    @cached_property
    def transposed(self) -> Incidence:
        """The same edges sorted by column: the backward of a sum is a sum over the other order."""
        ordered, entry = self.column.sort(stable=True)
        row = row_pointer(ordered, self.num_columns)
        return Incidence(row, self.row_of_entry[entry], self.edge[entry], self.num_rows)


def row_pointer(sorted_index: Tensor, size: int) -> Tensor:
    """Return where each value 0 … size−1 begins in a sorted index: (size + 1,)."""
    counts = torch.bincount(sorted_index, minlength=size)
    return torch.cat([counts.new_zeros(1), counts.cumsum(0)])
