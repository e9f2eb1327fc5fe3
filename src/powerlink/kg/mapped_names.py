"""Names as Arrow columns in a file that is mapped into memory: a million of them cost nothing until they are asked for.

A name is found by bisection of the names' order, which lies beside them.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, overload

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from powerlink.errors import UnknownNameError
from powerlink.kg.knowledge_graph import Names

AT_ONCE = 65_536  # names that become Python's together, where all are walked
NEAR = 1_000  # names on either side, in their order, among which the one that was meant is looked for
HOLDING = 100  # and of those that hold what was given


class Texts(Sequence[str]):
    """A column of strings as a sequence; each is read when it is asked for."""

    def __init__(self, column: pa.Array) -> None:
        self.column = column

    def __len__(self) -> int:
        return len(self.column)

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[str, ...]: ...
    def __getitem__(self, index: int | slice) -> str | tuple[str, ...]:
        if isinstance(index, slice):
            return tuple(self.column.take(pa.array(range(*index.indices(len(self))), pa.int64())).to_pylist())
        place = int(index)
        if not -len(self) <= place < len(self):
            raise IndexError(f"there are {len(self)} names, and none at {place}")
        return str(self.column[place % len(self)].as_py())

    def __iter__(self) -> Iterator[str]:
        for first in range(0, len(self), AT_ONCE):
            yield from self.column.slice(first, AT_ONCE).to_pylist()

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Sequence) or isinstance(other, str):
            return NotImplemented
        return len(self) == len(other) and all(one == two for one, two in zip(self, other, strict=True))

    def __hash__(self) -> int:
        return hash(tuple(self))


class Labels(Mapping[str, str]):
    """The labels of those ids that have one; all are made Python's when the first is asked for."""

    def __init__(self, ids: Texts, labels: pa.Array) -> None:
        self._ids, self._labels, self._made = ids, labels, None

    _made: dict[str, str] | None

    def _all(self) -> dict[str, str]:
        if self._made is None:
            there = self._labels.is_valid()
            pairs = zip(self._ids.column.filter(there).to_pylist(), self._labels.filter(there).to_pylist(), strict=True)
            self._made = dict(pairs)
        return self._made

    def __getitem__(self, name: str) -> str:
        return self._all()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._all())

    def __len__(self) -> int:
        return len(self._labels) - int(self._labels.null_count)


class MappedNames(Names):
    """Names that were written by `write_names`."""

    _orders: tuple[tuple[Sequence[str], NDArray[np.int64]], ...]

    def find(self, name: str) -> int | None:
        """Return the index of a name, the ids' before the shown ones', or None."""
        for names, order in self._orders:
            place = _place(names, order, name)
            if place < len(order) and names[int(order[place])] == name:
                return int(order[place])
        return None

    def index(self, name: str) -> int:
        """Return the index of a name, or say which names come close."""
        found = self.find(name)
        if found is None:
            raise UnknownNameError(self.kind, name, self._close_to(name))
        return found

    def _close_to(self, name: str) -> list[str]:
        """Return the names around where it would stand, and some that hold it: there may be millions."""
        close: dict[str, None] = {}
        for names, order in self._orders:
            place = _place(names, order, name)
            close |= dict.fromkeys(names[int(i)] for i in order[max(0, place - NEAR) : place + NEAR])
            if isinstance(names, Texts) and name:
                holding = names.column.filter(pc.match_substring(names.column, name, ignore_case=True))
                close |= dict.fromkeys(holding.slice(0, HOLDING).to_pylist())
        return list(close)


def write_names(names: Names, path: Path) -> None:
    """Write names, what they are shown as, and the order of both, so that `map_names` need not read them."""
    columns = {"id": pa.array(names.ids, pa.large_string())}
    if names.labels:
        columns["label"] = pa.array([names.labels.get(name) for name in names.ids], pa.large_string())
        columns["shown"] = pa.array(names.shown, pa.large_string())
    for column in ("id", "shown"):
        if column in columns:
            columns[f"order of {column}"] = pc.sort_indices(columns[column]).cast(pa.int64())
    batch = pa.record_batch(columns)
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, batch.schema) as writer:
        writer.write_batch(batch)


def map_names(kind: str, path: Path) -> MappedNames:
    """Map what `write_names` wrote."""
    batch = pa.ipc.open_file(pa.memory_map(str(path))).get_batch(0)
    columns: dict[str, Any] = dict(zip(batch.schema.names, batch.columns, strict=True))
    ids = Texts(columns["id"])
    shown = Texts(columns["shown"]) if "shown" in columns else ids
    names = MappedNames(kind, ids, Labels(ids, columns["label"]) if "label" in columns else {})
    orders = [(ids, columns["order of id"].to_numpy())]
    if shown is not ids:
        orders.append((shown, columns["order of shown"].to_numpy()))
    vars(names).update(shown=shown, _orders=tuple(orders))
    return names


def _place(names: Sequence[str], order: NDArray[np.int64], name: str) -> int:
    """Return where a name stands, or would stand, among the names in their order."""
    return bisect_left(range(len(order)), name, key=lambda i: names[int(order[i])])
