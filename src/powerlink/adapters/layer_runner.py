"""LayerRunner: runs somebody's message-passing layers over any part of a graph, each message weighed.

Degrees, means and attention divide a message by something that all of a node's incoming edges decide. Take an edge away
and there are two readings of what becomes of the others:

* **fixed** (the paper's): they keep what they had. An edge that is absent still takes its place in the normaliser and
  carries nothing, so it is put back with weight zero; its source has the vector it has in the whole graph.
* **recomputed**: the normaliser is that of the edges that are left, as if the absent one had never been.

A graph that is asked about is nearly the whole graph: copies of a few nodes that lost a fact, and around them originals
that lost nothing. A node whose incoming edges are all there, and those of their sources, and so on as far as a layer
sees, leaves that layer with the row it has in the whole graph. That row is known; no message to the node is needed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, Literal
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn

from powerlink.adapters.messages import KnownMessages, Make, MessageArguments, make_in_pieces
from powerlink.adapters.traced_edges import TracedEdges
from powerlink.adapters.weighted_layers import LayerCall, Pass, RowNames, some
from powerlink.adapters.wiring import find_edges
from powerlink.errors import ModelError
from powerlink.graphs.edges import Edges, expand_rows, find_sorted
from powerlink.graphs.message_graph import MessageGraph
from powerlink.kernels.segments import gather

Normaliser = Literal["fixed", "recomputed"]


@dataclass(frozen=True, eq=False)
class Given:
    """The edges one pass of the encoder runs over: the graph's own, then absent ones that only normalise."""

    entity: Tensor  # (nodes,) the graph's, then sources of absent edges
    edge_index: Tensor  # (2, edges)
    edge: Tensor  # (edges,) of the whole graph
    own: Tensor  # (edges of the graph that carry messages,) their place in the graph
    absent: int  # nodes behind the graph's

    def only(self, kept: Tensor) -> Given:
        """Return the same nodes with some of the edges, (edges,) bool."""
        own = self.own[kept[: self.own.numel()]]
        return replace(self, edge_index=self.edge_index[:, kept], edge=self.edge[kept], own=own)


Once = Callable[[Given, TracedEdges], Any]  # one pass of the module over the given edges


@dataclass(frozen=True, eq=False)
class LayerNeeds:
    """What one call of a layer must compute, by nodes of the pass."""

    read: Tensor  # (nodes,) bool: messages to these nodes are needed
    known: Tensor  # (nodes,) bool: these leave the layer as in the whole graph
    known_before: Tensor  # (nodes,) bool: these enter it so


class LayerRunner:
    """A module, the whole graph it knows, and how its normalisers are read."""

    def __init__(self, module: nn.Module, whole: MessageGraph, carries: Tensor, normaliser: Normaliser) -> None:
        self.module, self.whole, self.normaliser = module, whole, normaliser
        self.inputs: dict[LayerCall, list[Tensor]] = {}  # the node rows (N, …) each layer is given on the whole graph
        self.outputs: dict[LayerCall, Tensor] = {}  # and those it returns
        self.messages: dict[LayerCall, KnownMessages | None] = {}  # and what it sends, where it propagates once
        self.row_names: RowNames = {}
        self._carries = carries.to(whole.device)  # (edges of the whole graph,) bool: a message runs along this edge
        self._degree = torch.bincount(whole.target[self._carries], minlength=whole.num_nodes)  # (N,)
        self._levels = 1
        self._hops: int | None = None
        self._given: WeakKeyDictionary[Edges, Given] = WeakKeyDictionary()

    def reach(self, levels: int) -> None:
        """Settle that normalisers matter at nodes at a level below `levels`; the others are only read from."""
        self._levels = levels
        self._given.clear()

    def save(self, hops: int | None) -> None:
        """Make no message from now on that is not needed, if layers see `hops` far; None: make them all."""
        self._hops = hops if self.inputs and self.outputs.keys() == self.inputs.keys() else None

    @property
    def saves(self) -> bool:
        return self._hops is not None

    def run(self, graph: Edges, edge_weight: Tensor | None, once: Once) -> Any:
        """Make one pass over a graph, each message multiplied by its edge's weight (num_edges,)."""
        given, needs = self._edges_given(graph, edge_weight), {}
        if self._hops is not None:
            needs = self._needs(given, graph, edge_weight, self._hops)
            read = torch.stack([each.read for each in needs.values()]).any(0)
            given = given.only(some(read[given.edge_index[1]]))
        weight = None
        if edge_weight is not None or given.absent:
            ones = torch.ones(graph.num_edges, device=graph.device)
            own = gather(ones if edge_weight is None else edge_weight, given.own)
            weight = torch.cat([own, own.new_zeros(given.edge.numel() - own.numel())])
        with _Part(self, given, weight, needs).weighing() as edge_index:
            return once(given, edge_index)

    def observe(self, once: Once) -> Any:
        """Make a pass over the whole graph and keep what every layer is given, and what it returns."""
        self.inputs, self.outputs, self.messages = {}, {}, {}
        given = self._edges_given(self.whole, None)
        ones = torch.ones(given.edge.numel(), device=self.whole.device)
        with torch.no_grad(), _Observing(self, given, ones, {}).weighing() as edge_index:
            return once(given, edge_index)

    def _edges_given(self, graph: Edges, edge_weight: Tensor | None) -> Given:
        """Choose the edges to pass, once per graph unless some weigh zero.

        All that carry something, and, for a fixed normaliser, those that are absent.
        """
        zero = edge_weight is not None and bool((edge_weight == 0).any())
        if not zero and graph in self._given:
            return self._given[graph]
        whole, edge, entity = self.whole, find_edges(self.whole, graph), graph.entity
        there = self._carries[edge]
        if edge_weight is not None:
            there = there & (edge_weight != 0)
        own = there.nonzero().squeeze(1)
        source, target, edge = graph.source[own], graph.target[own], edge[own]
        # A copy may read itself through its original, whose row is then the same; layers know self-loops by their ends.
        source = torch.where(entity[source] == entity[target], target, source)
        absent = 0
        if self.normaliser == "fixed":
            present = (target * whole.num_edges + edge).unique()
            to, behind = self._absent_edges(graph, present)
            sources, place = whole.source[behind].unique(return_inverse=True)
            source, target = torch.cat([source, graph.num_nodes + place]), torch.cat([target, to])
            entity, edge, absent = torch.cat([entity, sources]), torch.cat([edge, behind]), sources.numel()
        given = Given(entity, torch.stack([source, target]), edge, own, absent)
        if not zero:
            self._given[graph] = given
        return given

    def _absent_edges(self, graph: Edges, present: Tensor) -> tuple[Tensor, Tensor]:
        """Find what a graph lacks into every node whose normalisers matter: return (node, edge of the whole graph).

        `present` (n,): keys node · E + edge of what is there.
        """
        nodes = torch.arange(graph.num_nodes, device=graph.device)
        if graph.level is not None:
            nodes = nodes[graph.level < self._levels]
        owner, edge = expand_rows(self.whole.row, graph.entity[nodes])
        lacking = self._carries[edge] & ~find_sorted(present, nodes[owner] * self.whole.num_edges + edge)[1]
        return nodes[owner[lacking]], edge[lacking]

    def _needs(self, given: Given, graph: Edges, edge_weight: Tensor | None, hops: int) -> dict[LayerCall, LayerNeeds]:
        """Tell what each layer must compute in a pass; an edge of another weight than one is not the whole graph's."""
        own = given.edge_index[1, : given.own.numel()]
        if edge_weight is not None:
            alike = (edge_weight[given.own] == 1) & (not edge_weight.requires_grad)
            own = own[alike]
        nodes = given.entity.numel()
        intact = torch.bincount(own, minlength=nodes) == self._degree[given.entity]
        wanted = torch.zeros(nodes, dtype=torch.bool, device=graph.device)
        wanted[: graph.num_nodes] = True if graph.level is None else graph.level == 0
        needs = needs_of(given.edge_index, intact, wanted, len(self.inputs), hops)
        return dict(zip(self.inputs, needs, strict=True))


class _Part(Pass):
    """A pass over a part of the graph: what is known is put in, and rows of nodes that only normalise, too."""

    def __init__(
        self, runner: LayerRunner, given: Given, weight: Tensor | None, needs: dict[LayerCall, LayerNeeds]
    ) -> None:
        super().__init__(runner.module, given.edge_index, weight, runner.row_names)
        self._runner, self._given, self._needs, self.saves = runner, given, needs, bool(needs)
        self._parts: Counter[LayerCall] = Counter()

    def at_input(self, call: LayerCall, rows: Tensor) -> Tensor:
        nodes = self._given.entity.numel()
        if rows.size(0) != nodes:
            raise ModelError(
                f"layer {call[0]!r} is given {rows.size(0)} rows for a graph of {nodes} nodes: the encoder looks its "
                "nodes up by itself; name that table with nodes='…', or let the encoder take x"
            )
        if not self._given.absent:
            return rows
        part = self._parts[call]  # a layer may be given several tensors of rows, one after the other
        self._parts[call] += 1
        if part >= len(self._runner.inputs.get(call, [])):
            raise ModelError(f"layer {call[0]!r} is called otherwise than on the whole graph: it cannot be followed")
        own = nodes - self._given.absent
        behind = self._runner.inputs[call][part][self._given.entity[own:]]
        return torch.cat([rows[:own], behind.to(rows.dtype)])

    def needed(self, call: LayerCall) -> Tensor | None:
        return self._needs[call].read if call in self._needs else None

    def at_messages(self, call: LayerCall, given: MessageArguments, make: Make) -> Tensor:
        if call not in self._needs:
            return make(**given.arguments)
        known, entity = self._needs[call].known_before, self._given.entity
        return make_in_pieces(make, given, self._runner.messages.get(call), entity, known)

    def at_output(self, call: LayerCall, rows: Tensor) -> Tensor:
        if call not in self._needs:
            return rows
        known = self._needs[call].known.nonzero().squeeze(1)
        return rows.index_copy(0, known, self._runner.outputs[call][self._given.entity[known]].to(rows.dtype))


class _Observing(_Part):
    """Keeps what layers are given and return on the whole graph."""

    def at_input(self, call: LayerCall, rows: Tensor) -> Tensor:
        self._runner.inputs.setdefault(call, []).append(super().at_input(call, rows).detach())
        return rows

    def at_messages(self, call: LayerCall, given: MessageArguments, make: Make) -> Tensor:
        messages, first = make(**given.arguments), call not in self._runner.messages
        size = self._runner.whole.num_nodes
        self._runner.messages[call] = KnownMessages.of(given, messages, size) if first else None
        return messages

    def at_output(self, call: LayerCall, rows: Tensor) -> Tensor:
        if rows.size(0) == self._runner.whole.num_nodes:
            self._runner.outputs[call] = rows.detach()
        return rows


def needs_of(edge_index: Tensor, intact: Tensor, wanted: Tensor, calls: int, hops: int) -> list[LayerNeeds]:
    """Tell what each call of a layer needs, the first one first.

    `intact` (nodes,) bool: all incoming edges of the whole graph are there and weigh one; `wanted` (nodes,) bool: whose
    vectors are asked for. A layer that looks further than its messages come from (it divides by the degree of their
    sources, or propagates several times) makes `hops` more than the calls: each call then counts as that much wider.
    """
    source, target = edge_index
    wider = max(hops - calls, 0)
    found = [torch.ones_like(wanted)]
    for _ in range(calls + wider):
        changed = torch.zeros_like(wanted).index_fill_(0, target[~found[-1][source]], True)
        found.append(found[-1] & intact & ~changed)
    needs = []
    for before, known in reversed(list(pairwise(found[wider:]))):
        read = wanted & ~known
        for _ in range(wider):
            read = _with_sources(read, source, target)
        wanted = wanted | _with_sources(read, source, target)
        needs.append(LayerNeeds(read, known, before))
    return needs[::-1]


def _with_sources(nodes: Tensor, source: Tensor, target: Tensor) -> Tensor:
    """Add whom the nodes (nodes,) read from."""
    return nodes.index_fill(0, source[nodes[target]], True)
