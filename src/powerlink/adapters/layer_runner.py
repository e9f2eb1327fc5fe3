"""LayerRunner: runs somebody's message-passing layers over any part of a graph, each message weighed.

A graph that is asked about is nearly the whole graph: copies of a few nodes that lost a fact, and around them originals
that lost nothing. A node whose incoming edges are all there, and those of their sources, and so on as far as a layer
sees, leaves that layer with the row it has in the whole graph. That row is known; no message to the node is needed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn

from powerlink.adapters.messages import KnownMessages, Make, MessageArguments, make_in_pieces
from powerlink.adapters.normaliser import Given, Normaliser, edges_given
from powerlink.adapters.traced_edges import TracedEdges
from powerlink.adapters.weighted_layers import LayerCall, Pass, RowNames, some
from powerlink.errors import ModelError
from powerlink.graphs.edges import Edges
from powerlink.graphs.message_graph import MessageGraph
from powerlink.kernels.segments import gather

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
        """Settle that normalisers matter at nodes at a level below `levels`."""
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
        """Arrange the edges of a pass; once per graph, unless some weigh zero."""
        if edge_weight is not None and bool((edge_weight == 0).any()):
            return edges_given(self.whole, graph, edge_weight, self._carries, self._levels, self.normaliser)
        if graph not in self._given:
            self._given[graph] = edges_given(self.whole, graph, None, self._carries, self._levels, self.normaliser)
        return self._given[graph]

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
