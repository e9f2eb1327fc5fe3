"""LinkModel, the seam: anything with these two methods can be explained."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import torch
from torch import Tensor

from powerlink.graphs.edges import Edges


@dataclass(frozen=True, eq=False)
class Embeddings:
    """What a model knows of a graph's nodes and of the relations once messages have been passed."""

    entity: Tensor  # (num_nodes, d)
    relation: Tensor  # (2R, d)
    bias: Tensor | None = None  # (num_nodes,) added to a triple's score for its tail

    def detach(self) -> Embeddings:
        return Embeddings(
            self.entity.detach(), self.relation.detach(), None if self.bias is None else self.bias.detach()
        )

    def rows(self, index: Tensor | slice) -> Embeddings:
        """Return the embeddings of some of the nodes."""
        return Embeddings(self.entity[index], self.relation, None if self.bias is None else self.bias[index])

    def where(self, condition: Tensor, other: Embeddings) -> Embeddings:
        """Return another graph's nodes in place of these where a condition (num_nodes,) holds."""
        bias = None
        if self.bias is not None and other.bias is not None:
            bias = torch.where(condition, other.bias, self.bias)
        return Embeddings(torch.where(condition.unsqueeze(1), other.entity, self.entity), self.relation, bias)

    def followed_by(self, other: Embeddings) -> Embeddings:
        """Append another graph's nodes after this one's."""
        bias = None
        if self.bias is not None and other.bias is not None:
            bias = torch.cat([self.bias, other.bias])
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


def adds_messages(model: LinkModel) -> bool:
    """Say whether a model's nodes receive a weighted sum of messages, and nothing else from their edges.

    Then a sum may be told as another one and a difference. A model says so of itself, by an attribute of this name; its
    layers must end in `kernels.message_sum`.
    """
    return bool(getattr(model, "adds_messages", False)) and speaks_for(model, "adds_messages", "encode")


@runtime_checkable
class Preparing(Protocol):
    """A LinkModel that can do beforehand what the weights of edges do not change."""

    def prepare_logits(self, graph: Edges, triples: Tensor) -> Callable[[Tensor], Tensor]:
        """Return the logits (n,) of triples (n, 3) as a function of the edges' weights (num_edges,)."""
        ...


def logits_by_weight(model: LinkModel, graph: Edges, triples: Tensor) -> Callable[[Tensor], Tensor]:
    """Return the logits (n,) of triples (n, 3) as a function of the edges' weights (num_edges,), to be asked often."""
    if isinstance(model, Preparing) and speaks_for(model, "prepare_logits", "encode", "score"):
        return model.prepare_logits(graph, triples)
    return lambda edge_weight: model.score(model.encode(graph, edge_weight), triples)


@runtime_checkable
class Doubling(Protocol):
    """A LinkModel that can compute in float64 as well."""

    def in_double(self) -> LinkModel:
        """Return a copy of the model that computes in float64; the model itself stays as it is."""
        ...


def speaks_for(model: LinkModel, name: str, *methods: str) -> bool:
    """Say whether what a model offers as `name` was meant for its own `methods`.

    A class that overrides one of them is not meant by what it inherits, and an object that hands `name` on from another
    one is not meant either.
    """
    if name in getattr(model, "__dict__", {}):
        return True

    def generation(attribute: str) -> int | None:
        return next((i for i, kind in enumerate(type(model).__mro__) if attribute in vars(kind)), None)

    given, asked = generation(name), [generation(method) for method in methods]
    return given is not None and all(place is None or given <= place for place in asked)
