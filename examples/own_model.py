"""Explain a model of your own: anything with `num_layers`, `encode` and `score`.

This one counts common neighbours. Its reasons are known in advance: every neighbour that head and tail share adds one
to the score, so removing a path through that neighbour must cost exactly one.

python examples/own_model.py
"""

import torch
from torch import Tensor

import powerlink
from powerlink.graphs.edges import Edges


class CommonNeighbours:
    """score(head, relation, tail) = number of neighbours that head and tail share, whatever the relation."""

    num_layers = 1  # how many hops a message travels

    def __init__(self, num_entities: int) -> None:
        self.codes = torch.eye(num_entities)  # a vector per entity, orthogonal to all others

    def encode(self, graph: Edges, edge_weight: Tensor | None = None) -> powerlink.Embeddings:
        """A node's vector is the weighted sum of its neighbours' codes: multiply every message by its edge's weight."""
        weight = torch.ones(graph.num_edges) if edge_weight is None else edge_weight
        messages = self.codes[graph.entity[graph.source]] * weight.unsqueeze(1)
        nodes = torch.zeros(graph.num_nodes, len(self.codes)).index_add(0, graph.target, messages)
        return powerlink.Embeddings(nodes, torch.zeros(2 * graph.num_relations, len(self.codes)))

    def score(self, embeddings: powerlink.Embeddings, triples: Tensor) -> Tensor:
        """The logits of triples (n, 3) of node, relation, node."""
        head, _, tail = triples.unbind(1)
        return (embeddings.entity[head] * embeddings.entity[tail]).sum(1)


knows = [("Ada", "Ben"), ("Ada", "Cleo"), ("Ben", "Dan"), ("Cleo", "Dan"), ("Dan", "Eve"), ("Ada", "Finn")]
graph = powerlink.KnowledgeGraph.from_names("friends", {"train": [(a, "knows", b) for a, b in knows]})
session = powerlink.Session.of(graph, CommonNeighbours(graph.num_entities))

explanation = powerlink.explain(session, "Ada", "knows", "Dan")
powerlink.show(explanation)

for path in explanation.paths:
    shared = path.facts[0].target
    print("without", shared, "the score falls by", explanation.score - path.score_without)
