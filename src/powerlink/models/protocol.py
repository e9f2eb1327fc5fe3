"""LinkModel, the seam: anything with these two methods can be explained."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal, Protocol, runtime_checkable

import torch
from torch import Tensor

from powerlink.errors import ExplainerError
from powerlink.graphs.edges import Edges, EdgeSlice


@dataclass(frozen=True, eq=False)
class Embeddings:
    """What a model knows of a graph's nodes and of the relations once messages have been passed."""

    entity: Tensor  # (num_nodes, d)
    relation: Tensor  # (2R, d)
    bias: Tensor | None = None  # (num_nodes,) added to a triple's score for its tail

    def detach(self) -> Embeddings:
        bias = None if self.bias is None else self.bias.detach()
        return Embeddings(self.entity.detach(), self.relation.detach(), bias)

    def rows(self, index: Tensor | slice) -> Embeddings:
        """Return the embeddings of some of the nodes."""
        return Embeddings(self.entity[index], self.relation, None if self.bias is None else self.bias[index])

    def where(self, condition: Tensor, other: Embeddings) -> Embeddings:
        """Return another graph's nodes in place of these where a condition (num_nodes,) holds."""
        bias = None if self.bias is None or other.bias is None else torch.where(condition, other.bias, self.bias)
        return Embeddings(torch.where(condition.unsqueeze(1), other.entity, self.entity), self.relation, bias)

    def followed_by(self, other: Embeddings) -> Embeddings:
        """Append another graph's nodes after this one's."""
        bias = None if self.bias is None or other.bias is None else torch.cat([self.bias, other.bias])
        return Embeddings(torch.cat([self.entity, other.entity]), self.relation, bias)


@runtime_checkable
class LinkModel(Protocol):
    """A model that scores triples over a graph. The graph and its edge weights are arguments, never hidden state."""

    @property
    def num_layers(self) -> int:
        """How many hops a message can travel."""
        ...

    def encode(self, graph: Edges, edge_weight: Tensor | None = None) -> Embeddings:
        """Pass messages over the graph, each multiplied by its edge's weight (num_edges,)."""
        ...

    def score(self, embeddings: Embeddings, triples: Tensor) -> Tensor:
        """Return the logits (n,) of triples (n, 3) of node, relation, node; higher is more plausible."""
        ...


class Layers(Protocol):
    """A model's layers, to be passed one by one and for some of the nodes at a time; an entity is a node."""

    def inputs(self, entity: Tensor) -> Tensor:
        """Return what the first layer reads of entities (n,): (n, d)."""
        ...

    def sums(self, depth: int, nodes: Tensor, edges: EdgeSlice, weight: Tensor) -> Tensor:
        """Return the sums of a layer's messages, times the edges' weights (E,), of nodes (n, d): (targets, k, d)."""
        ...

    def after(self, depth: int, nodes: Tensor, sums: Tensor) -> Tensor:
        """Return what a layer makes of nodes (n, d) and of their messages' sums (n, k, d): (n, out)."""
        ...

    def embeddings(self, nodes: Tensor, entity: Tensor) -> Embeddings:
        """Return what scores are read from, of nodes (n, d) behind the last layer that stand for entities (n,)."""
        ...


class Queries(Protocol):
    """Questions of head and relation, made once and matched with any tails."""

    def match(self, tails: Embeddings, query: Tensor, tail: Tensor) -> Tensor:
        """Return the logits (m,) of some queries and tails, places (m,) of each."""
        ...

    def match_all(self, tails: Embeddings) -> Tensor:
        """Return the logits (queries, tails) of all pairs."""
        ...


@dataclass(frozen=True)
class Objective:
    """What a model was trained by, or what comes near.

    `all-tails`: every tail is right or wrong, by the sigmoid of its score and `margin`; `softmax`: one of all is right;
    `margin`: a right one is better than a wrong one by at least so much.
    """

    kind: Literal["all-tails", "softmax", "margin"] = "all-tails"
    margin: float = 0.0


class Retrainable(Protocol):
    """What can be fitted again of a model: the numbers that every entity has to itself, all else frozen."""

    @property
    def objective(self) -> Objective:
        """What it was trained by."""
        ...

    def rows(self) -> Tensor:
        """Return these numbers: (N, k)."""
        ...

    def stood_in(self, rows: Tensor) -> Embeddings:
        """Return what scores are read from, of stand-ins with these numbers (n, k)."""
        ...

    def queries(self, heads: Embeddings, head: Tensor, relation: Tensor) -> Queries:
        """Ask about heads and relations (n,)."""
        ...

    def constrained(self, rows: Tensor) -> Tensor:
        """Return rows (n, k) as training puts them right after a step."""
        ...


@dataclass(frozen=True, kw_only=True)
class Abilities:
    """What a model can do beyond `encode` and `score`: its attribute `abilities`, if it has one."""

    of: type = field(kw_only=False)  # the class whose `encode` and `score` all this goes with
    adds_messages: bool = False
    """A node receives a weighted sum of messages by `kernels.message_sum` and nothing else from its edges, so that a
    sum may be told as another one and a difference."""
    layers: Layers | None = None
    """Its layers one by one, so that a graph too large for the memory is encoded in pieces."""
    score_tails: Callable[[Embeddings, Tensor, Tensor], Tensor] | None = None
    """Of an encoding, heads and relations (n,): the logits of every node as the tail (n, num_nodes)."""
    score_tails_of: Callable[[Embeddings, Embeddings, Tensor, Tensor], Tensor] | None = None
    """The same for heads of a first encoding and tails of a second one."""
    prepare_logits: Callable[[Edges, Tensor], Callable[[Tensor], Tensor]] | None = None
    """Of a graph and triples (n, 3): their logits (n,) as a function of the edges' weights (num_edges,)."""
    retrainable: Retrainable | None = None
    """Its entities' own numbers, where what it learned of an entity lies in them alone: it passes no messages."""
    in_double: Callable[[], LinkModel] | None = None
    """A copy of the model that computes in float64; the model itself stays as it is."""


METHODS = ("encode", "score", "score_tails", "score_tails_of", "prepare_logits", "in_double")


def abilities_of(model: LinkModel) -> Abilities:
    """Return what a model says it can do, as far as it speaks for itself.

    Whoever overrides one of the methods is not meant by what he inherits, and an object that hands on what another one
    says is not meant either.
    """
    told = getattr(model, "abilities", None)
    if isinstance(told, Abilities) and isinstance(model, told.of):
        methods = ((getattr(model, name, None), getattr(told.of, name, None)) for name in METHODS)
        if all(meant is None or getattr(method, "__func__", None) is meant for method, meant in methods):
            return told
    return Abilities(type(model))


def logits_by_weight(model: LinkModel, graph: Edges, triples: Tensor) -> Callable[[Tensor], Tensor]:
    """Return the logits (n,) of triples (n, 3) as a function of the edges' weights (num_edges,), to be asked often."""
    if abilities_of(model).retrainable:
        raise ExplainerError(
            "this explainer weighs messages, and the model passes none: take slopes, single-facts, kelpie, subgraphx, "
            "or one that does not ask the model"
        )
    if prepare_logits := abilities_of(model).prepare_logits:
        return prepare_logits(graph, triples)
    return lambda edge_weight: model.score(model.encode(graph, edge_weight), triples)
