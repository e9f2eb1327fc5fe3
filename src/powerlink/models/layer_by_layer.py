"""What nodes encode to without some facts, layer by layer and in pieces of bounded size, on graphs of any size.

`graphs.what_if` lays what changes and all that it reads out as one graph: beside a hub, that is most of the whole
graph. Here the whole graph's vectors are kept between the layers, so nothing unchanged is encoded again, and a layer is
passed for some nodes at a time. A hub's sum is made once; a scenario is told by what differs from it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from powerlink.graphs.edges import EdgeSlice, expand_ranges, expand_rows, find_sorted, row_pointer
from powerlink.graphs.message_graph import MessageGraph
from powerlink.graphs.what_if import Removals
from powerlink.models.protocol import Embeddings, Layers, LinkModel, abilities_of

NUMBERS_AT_ONCE = 2**20  # of the messages that are passed together: 8 MB in float64, a few times
LONG = 4_096  # edges of a row that is summed once and then told by differences


@dataclass(frozen=True, eq=False)
class Changed:
    """The nodes that scenarios change before some layer, and their new vectors."""

    keys: Tensor  # (c,) scenario·N + node, ascending
    rows: Tensor  # (c, d)


class LayerByLayer:
    """A model's layers over a whole graph, whose vectors between the layers are made once: (N, d) each."""

    @classmethod
    def of(cls, model: LinkModel, graph: MessageGraph) -> LayerByLayer | None:
        """Return them, or None of a model whose layers cannot be passed one by one."""
        layers = abilities_of(model).layers
        return None if layers is None else cls(layers, model.num_layers, graph)

    @torch.no_grad()
    def __init__(self, layers: Layers, num_layers: int, graph: MessageGraph) -> None:
        self._layers, self._last, self._graph = layers, num_layers - 1, graph
        self._between: list[Tensor] = []
        self._long_sums: dict[tuple[int, int], Tensor] = {}
        nothing, everyone = Removals(1, graph.row[:0]), torch.arange(graph.num_nodes, device=graph.device)
        for depth in range(self._last):
            self._between.append(self._after(depth, everyone, self._nothing(), nothing))

    def changed_inside(self, removals: Removals, wanted: Tensor | None = None) -> Changed:
        """Return what scenarios change before the last layer; with `wanted` (S, w) nodes, only what those notice."""
        changed = self._nothing()
        keys = self._losing(removals)
        for depth in range(self._last):
            keys = self._with_readers(keys) if depth else keys
            if wanted is not None and depth == self._last - 1:
                keys = self._read_by(keys, wanted)
            changed = Changed(keys, self._after(depth, keys, changed, removals))
        return changed

    def changed_at_last(self, removals: Removals, inside: Changed) -> Tensor:
        """Return the nodes whose encodings scenarios change, as keys scenario·N + node: (c,)."""
        return self._with_readers(inside.keys) if self._last else self._losing(removals)

    @torch.no_grad()
    def encode(self, keys: Tensor, inside: Changed, removals: Removals) -> Embeddings:
        """Encode nodes of scenarios, keys (n,) of scenario·N + node."""
        rows = self._after(self._last, keys, inside, removals)
        return self._layers.embeddings(rows, keys % self._graph.num_nodes)

    def in_runs(self, keys: Tensor) -> Iterator[Tensor]:
        """Cut keys (n,) into runs of which each is encoded in one piece: (·,) places."""
        row, node = self._graph.row, keys % self._graph.num_nodes
        return iter(torch.arange(keys.numel(), device=keys.device).split(self._sizes(row[node + 1] - row[node])))

    def _after(self, depth: int, keys: Tensor, before: Changed, removals: Removals) -> Tensor:
        """Pass a layer for some nodes of scenarios, keys (n,): (n, out)."""
        row, node, scenario = self._graph.row, keys % self._graph.num_nodes, keys // self._graph.num_nodes
        degree = row[node + 1] - row[node]
        owner = torch.cat([before.keys // self._graph.num_nodes, removals.keys // max(self._graph.num_edges, 1)])
        differing = torch.bincount(owner, minlength=removals.num_scenarios)
        told = (degree > LONG) & (degree > 8 * differing[scenario])  # by their difference
        out: Tensor | None = None
        for some, by_difference in ((~told, False), (told, True)):
            place = some.nonzero().squeeze(1)
            sizes = self._sizes(torch.zeros_like(place) if by_difference else degree[place])
            for run in place.split(sizes):
                sums = (self._by_difference if by_difference else self._sums)(depth, keys[run], before, removals)
                rows = self._layers.after(depth, self._vectors(depth, keys[run], before), sums)
                out = rows.new_empty(keys.numel(), rows.size(1)) if out is None else out
                out[run] = rows
        return self._vectors(depth, keys, before) if out is None else out

    def _sums(self, depth: int, keys: Tensor, before: Changed, removals: Removals) -> Tensor:
        """Add up all messages to nodes of scenarios: (n, k, d)."""
        graph = self._graph
        owner, edge = expand_rows(graph.row, keys % graph.num_nodes)
        scenario = (keys // graph.num_nodes)[owner]
        left = (~find_sorted(removals.keys, scenario * graph.num_edges + edge)[1]).nonzero().squeeze(1)
        owner, edge, scenario = owner[left], edge[left], scenario[left]
        sender = scenario * graph.num_nodes + graph.source[edge]
        return self._added_up(depth, keys.numel(), owner, edge, sender, before)

    def _by_difference(self, depth: int, keys: Tensor, before: Changed, removals: Removals) -> Tensor:
        """The same for nodes with many edges: the whole graph's sum, and what a scenario changes of it."""
        graph, old = self._graph, removals.num_scenarios * self._graph.num_nodes  # a scenario that changes nothing
        node, scenario = keys % graph.num_nodes, keys // graph.num_nodes
        # changed senders of each node
        senders = row_pointer(before.keys // graph.num_nodes, removals.num_scenarios)
        which, place = expand_rows(senders, scenario)
        pair = node[which] * graph.num_nodes + before.keys[place] % graph.num_nodes
        found, edge = expand_ranges(*(torch.searchsorted(graph.pair_key, pair, right=right) for right in (False, True)))
        owner, sender = which[found], before.keys[place[found]]
        there = ~find_sorted(removals.keys, scenario[owner] * graph.num_edges + edge)[1]
        owner, edge, sender = owner[there], edge[there], sender[there]
        # removed edges of each node
        gone, edges = torch.arange(keys.numel(), device=keys.device), removals.keys % max(graph.num_edges, 1)
        gone, place = expand_rows(
            row_pointer(removals.keys // max(graph.num_edges, 1), removals.num_scenarios), scenario
        )
        here = graph.target[edges[place]] == node[gone]
        gone, lost = gone[here], edges[place[here]]

        reader, back = torch.cat([owner, owner, gone]), torch.cat([edge, edge, lost])
        passed = torch.cat([sender, old + graph.source[edge], old + graph.source[lost]])
        sign = torch.cat([torch.ones_like(edge), -torch.ones_like(edge), -torch.ones_like(lost)]).float()
        differences = self._added_up(depth, keys.numel(), reader, back, passed, before, sign)
        return differences + torch.cat([self._long_sum(depth, one) for one in node.tolist()])

    def _long_sum(self, depth: int, node: int) -> Tensor:
        """Add up all messages to a node of the whole graph, once: (1, k, d)."""
        if (depth, node) not in self._long_sums:
            nothing = Removals(1, self._graph.row[:0])
            key = torch.tensor([node], device=self._graph.device)
            self._long_sums[depth, node] = self._sums(depth, key, self._nothing(), nothing)
        return self._long_sums[depth, node]

    def _added_up(
        self,
        depth: int,
        count: int,
        reader: Tensor,
        edge: Tensor,
        sender: Tensor,
        before: Changed,
        sign: Tensor | None = None,
    ) -> Tensor:
        """Add up messages along edges (n,), from senders (n,) by key to readers (n,), some of 0 … count − 1."""
        graph, total = self._graph, None
        order = reader.argsort(stable=True) if sign is not None else slice(None)
        reader, edge, sender, sign = reader[order], edge[order], sender[order], None if sign is None else sign[order]
        at_once = self._at_once
        for first in range(0, max(reader.numel(), 1), at_once):
            part = slice(first, first + at_once)
            keys, source = sender[part].unique(return_inverse=True)
            edges = EdgeSlice(
                index=part,
                source=source,
                target=reader[part],
                relation=graph.relation[edge[part]],
                norm=graph.norm[edge[part]],
                num_sources=keys.numel(),
                num_targets=count,
                num_relations=graph.num_relations,
                reweighed=True,
            )
            weight = torch.ones_like(edges.norm) if sign is None else sign[part]
            sums = self._layers.sums(depth, self._vectors(depth, keys, before), edges, weight)
            total = sums if total is None else total + sums
        assert total is not None
        return total

    def _vectors(self, depth: int, keys: Tensor, before: Changed) -> Tensor:
        """Return what a layer reads of nodes of scenarios: (n, d)."""
        node = keys % self._graph.num_nodes
        rows = self._layers.inputs(node) if depth == 0 else self._between[depth - 1].index_select(0, node)
        place, there = find_sorted(before.keys, keys)
        if before.keys.numel():
            rows[there] = before.rows[place[there]]
        return rows

    def _losing(self, removals: Removals) -> Tensor:
        """Return the nodes that lose an edge, as keys."""
        edges = max(self._graph.num_edges, 1)
        target = self._graph.target[removals.keys % edges]
        losing: Tensor = (removals.keys // edges * self._graph.num_nodes + target).unique()
        return losing

    def _with_readers(self, keys: Tensor) -> Tensor:
        """Return keys and those of all who read them: the graph is symmetric."""
        graph = self._graph
        owner, edge = expand_rows(graph.row, keys % graph.num_nodes)
        readers = (keys - keys % graph.num_nodes)[owner] + graph.source[edge]
        both: Tensor = torch.cat([keys, readers]).unique()
        return both

    def _read_by(self, keys: Tensor, wanted: Tensor) -> Tensor:
        """Return the keys (n,) that are, or send to, one of their scenario's wanted nodes (S, w)."""
        graph = self._graph
        node, ends = keys % graph.num_nodes, wanted[keys // graph.num_nodes]  # (n, w)
        sends = find_sorted(graph.pair_key, ends * graph.num_nodes + node.unsqueeze(1))[1]
        return keys[((ends == node.unsqueeze(1)) | sends).any(1)]

    def _nothing(self) -> Changed:
        return Changed(self._graph.row[:0], self._graph.norm[:0])

    @property
    def _at_once(self) -> int:
        width = self._layers.inputs(self._graph.row[:0]).size(1)
        return max(NUMBERS_AT_ONCE // width, 1)

    def _sizes(self, degree: Tensor) -> list[int]:
        """Cut rows of so many edges (n,) into runs that are passed together; a row counts as an edge, too."""
        load = degree + 1
        run = (load.cumsum(0) - load) // self._at_once
        sizes: list[int] = run.unique_consecutive(return_counts=True)[1].tolist()
        return sizes
