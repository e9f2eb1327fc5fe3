"""Which message each edge carries and where it is added: the pattern of a sparse matrix, in every sort order."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import torch
from torch import Tensor

from powerlink.graphs.edges import Heirs, expand_ranges, row_pointer

LONGEST_CHUNK = 128  # entries that one GPU program adds up: a hub must not keep the whole device waiting
RUN = 256  # rows of one group that a GPU program multiplies


@dataclass(frozen=True, eq=False)
class Chunks:
    """Rows cut into pieces of bounded length, so that pieces can be added up in parallel and then together.

    Piece i < num_rows is the beginning of row i (maybe empty); the rest of the long rows follows, row by row.
    """

    start: Tensor  # (C,) first entry of each piece
    end: Tensor  # (C,) behind its last
    long_row: Tensor  # (L,) rows of more than one piece
    rest: Tensor  # (L + 1,) where the further pieces of each long row begin


@dataclass(frozen=True, eq=False)
class Incidence:
    """Edges as entries of a matrix: messages are columns, the places they are added up at are rows.

    With a `factor`, an entry's message is first multiplied by a row of another table (a relation's vector, say).
    """

    row: Tensor  # (rows + 1,) where each row's entries begin
    column: Tensor  # (E,)
    edge: Tensor  # (E,) the edge behind each entry
    num_columns: int
    factor: Tensor | None = None  # (E,)
    num_factors: int = 0
    heirs: Heirs | None = None  # rows to be completed once all are summed

    @property
    def num_rows(self) -> int:
        return self.row.numel() - 1

    @classmethod
    def of(
        cls,
        rows: Tensor,
        columns: Tensor,
        num_rows: int,
        num_columns: int,
        factors: Tensor | None = None,
        num_factors: int = 0,
        *,
        edges: Tensor | None = None,
        heirs: Heirs | None = None,
        ascending: bool = False,
    ) -> Incidence:
        """Sort entries, given by their row, column and perhaps factor (E,), by row; `ascending`: they are sorted.

        `edges` (E,) says which edge is behind each entry, if they are not all edges in their order.
        """
        if ascending:
            order = torch.arange(rows.numel(), device=rows.device)
        else:
            rows, order = rows.sort(stable=True)
            columns, factors = columns[order], None if factors is None else factors[order]
        edge = order if edges is None else edges[order]
        return cls(row_pointer(rows, num_rows), columns, edge, num_columns, factors, num_factors, heirs)

    @cached_property
    def row_of_entry(self) -> Tensor:
        """The row of each entry: (E,)."""
        rows = torch.arange(self.num_rows, device=self.row.device)
        return torch.repeat_interleave(rows, self.row.diff(), output_size=self.edge.numel())

    @cached_property
    def pattern(self) -> tuple[Tensor, Tensor]:
        """Row pointer and columns as sparse libraries want them: in 32 bits, else they copy them at every product."""
        small = self.edge.numel() < 2**31 and max(self.num_rows, self.num_columns) < 2**31
        return (self.row.int(), self.column.int()) if small else (self.row, self.column)

    @cached_property
    def transposed(self) -> Incidence:
        """The same edges sorted by column: the backward of a sum is a sum over the other order."""
        sizes, factors = (self.num_columns, self.num_rows), (self.factor, self.num_factors)
        return Incidence.of(self.column, self.row_of_entry, *sizes, *factors, edges=self.edge)

    @cached_property
    def by_factor(self) -> Incidence:
        """The same edges sorted by factor; rows and factors change places."""
        if self.factor is None:
            raise ValueError("these edges have no factor to be sorted by")
        sizes, factors = (self.num_factors, self.num_columns), (self.row_of_entry, self.num_rows)
        return Incidence.of(self.factor, self.column, *sizes, *factors, edges=self.edge)

    @cached_property
    def chunks(self) -> Chunks:
        """The rows in pieces of at most LONGEST_CHUNK entries."""
        begin, end = self.row[:-1], self.row[1:]
        more = ((end - begin - 1).clamp(min=0) // LONGEST_CHUNK).long()  # pieces behind each row's first
        long_row = more.nonzero().squeeze(1)
        rest = torch.cat([more.new_zeros(1), more[long_row].cumsum(0)])
        owner, which = expand_ranges(torch.ones_like(long_row), more[long_row] + 1)
        owner = long_row[owner]
        further = begin[owner] + which * LONGEST_CHUNK
        start = torch.cat([begin, further])
        stop = torch.minimum(start + LONGEST_CHUNK, torch.cat([end, end[owner]]))
        return Chunks(start, stop, long_row, rest)


@dataclass(frozen=True, eq=False)
class Lookup:
    """Which rows of a table are read, and, for the way back, by whom each row was read."""

    index: Tensor  # (n,)
    size: int  # rows of the table

    @cached_property
    def readers(self) -> Incidence:
        """The readings, sorted by the row they read."""
        places = torch.arange(self.index.numel(), device=self.index.device)
        return Incidence.of(self.index, places, self.size, places.numel())

    @cached_property
    def groups(self) -> Groups:
        """Of an ascending index: the places that read each row."""
        return Groups(row_pointer(self.index, self.size))


@dataclass(frozen=True, eq=False)
class Runs:
    """Places in runs of one group each, however different the groups' sizes."""

    bounds: tuple[Tensor, Tensor, Tensor]  # (runs,) each: first place, behind the last, group
    by_group: Incidence  # the runs of each group

    @classmethod
    def of(cls, row: Tensor, longest: int) -> Runs:
        """Cut groups, given by where they begin (G + 1,), into runs of at most `longest`."""
        begin, end = row[:-1], row[1:]
        count = (end - begin + longest - 1) // longest
        group, which = expand_ranges(torch.zeros_like(count), count)
        start = begin[group] + which * longest
        stop = torch.minimum(start + longest, end[group])
        return cls((start, stop, group), Lookup(group, count.numel()).readers)


@dataclass(frozen=True, eq=False)
class Groups:
    """Rows that lie sorted by group."""

    row: Tensor  # (G + 1,) where each group begins

    @cached_property
    def _ends(self) -> list[int]:
        return self.row.tolist()

    def __iter__(self) -> Iterator[tuple[int, slice]]:
        """Walk the groups that have rows, each with its places."""
        for group, (begin, end) in enumerate(pairwise(self._ends)):
            if end > begin:
                yield group, slice(begin, end)

    @cached_property
    def runs(self) -> Runs:
        """The rows in runs for a GPU."""
        return Runs.of(self.row, RUN)
