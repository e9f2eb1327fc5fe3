"""Questions, and the one place where a question becomes a number of the model.

Why (head, relation, tail)? The number is the triple's logit. Why this tail and not that one, the foil? It is the
difference of the two logits. What may not be part of an answer acts on the evidence, never on the model.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from powerlink.graphs.computation_graph import ComputationGraph
from powerlink.graphs.edges import Edges
from powerlink.models.protocol import Embeddings, LinkModel, logits_by_weight


@dataclass(frozen=True, eq=False)
class Questions:
    """A batch of questions, as ids of the graph."""

    triples: Tensor  # (Q, 3) head, relation, tail; a relation ≥ R asks through the inverse
    foils: Tensor | None = None  # (Q,) the tails that these are held against, −1 where there is none
    not_through: tuple[int, ...] = ()  # entities that no evidence may pass, unless they are head or tail

    @classmethod
    def of(cls, queries: Questions | Tensor) -> Questions:
        """Return questions as they are, and plain queries (Q, 3) as questions."""
        return cls(queries) if isinstance(queries, Tensor) else queries

    def __len__(self) -> int:
        return self.triples.size(0)

    def __getitem__(self, index: Tensor) -> Questions:
        return Questions(self.triples[index], None if self.foils is None else self.foils[index], self.not_through)

    def to(self, device: torch.device) -> Questions:
        """Return the same questions on a device."""
        return Questions(
            self.triples.to(device), None if self.foils is None else self.foils.to(device), self.not_through
        )

    def allowed(self, graph: ComputationGraph) -> Tensor | None:
        """Tell which edges may be part of the evidence, (num_edges,) bool; None: all of them."""
        if not self.not_through:
            return None
        named = torch.tensor(self.not_through, device=graph.device)
        barred = torch.isin(graph.entity, named)
        barred[graph.ends.flatten()] = False
        return ~(barred[graph.source] | barred[graph.target])


@dataclass(frozen=True, eq=False)
class Asking:
    """The triples whose logits make n questions' numbers: all tails, and behind them all foils if there are any."""

    triples: Tensor  # (n or 2n, 3) of head, relation, tail
    against: Tensor | None  # (n,) bool: has a foil

    @classmethod
    def of(cls, relation: Tensor, ends: Tensor, against: Tensor | None) -> Asking:
        """Ask about relations (n,) between rows of head, tail and, where `against` says so, foil: ends (n, 2 or 3)."""
        head, *tails = ends.unbind(1)
        if against is None:
            tails = tails[:1]
        return cls(torch.cat([torch.stack([head, relation, tail], dim=1) for tail in tails]), against)

    def number(self, logits: Tensor) -> Tensor:
        """Return what the triples' logits say of each question: (n,)."""
        if self.against is None:
            return logits
        tail, foil = logits.chunk(2)
        return tail - torch.where(self.against, foil, 0.0)


def asking_of(graph: ComputationGraph) -> Asking:
    """Return what a computation graph's questions ask of its own nodes."""
    return Asking.of(graph.queries[:, 1], graph.ends, graph.against)


def asked(model: LinkModel, embeddings: Embeddings, asking: Asking) -> Tensor:
    """Return the numbers that are explained: (n,)."""
    return asking.number(model.score(embeddings, asking.triples))


def asked_by_weight(model: LinkModel, edges: Edges, graph: ComputationGraph) -> Callable[[Tensor], Tensor]:
    """Return the numbers (Q,) of a graph's questions as a function of the weights of `edges`, to be asked often."""
    asking = asking_of(graph)
    logits = logits_by_weight(model, edges, asking.triples)
    return lambda edge_weight: asking.number(logits(edge_weight))
