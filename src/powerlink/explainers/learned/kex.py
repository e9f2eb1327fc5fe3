"""KE-X (Zhao et al., Knowledge-Based Systems 2023): the few facts that leave least doubt which tail it is."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from torch import Tensor

from powerlink.evidence import EvidenceBatch, pool
from powerlink.explain_settings import MOST_FACTS
from powerlink.explainers.learned.gnn_explainer import check_descent
from powerlink.explainers.learned.learner import learn_mask
from powerlink.explainers.learned.masks import FreeLogits
from powerlink.explainers.learned.terms import (
    Term,
    WeightedTerms,
    counterfactual,
    keep_prediction,
    mask_entropy,
    mask_sum,
)
from powerlink.explainers.protocol import EdgeScores, Oracle, Proposal, Wish
from powerlink.explainers.remarks import remarks_on_mask
from powerlink.graphs.computation_graph import ComputationGraph
from powerlink.graphs.edges import row_pointer
from powerlink.kernels.segments import gather, segment_logsumexp, segment_sum
from powerlink.models.protocol import LinkModel, logits_by_weight
from powerlink.paths.propose import Cost, edge_cost, propose
from powerlink.settings import check_settings, setting


@dataclass(frozen=True, kw_only=True)
class KEX:
    """A subgraph within a budget, of which the model is surest what the tail is: its paths, and its strongest facts.

    There is no public code. This is how the paper is read here; what the names mean is in docs/method.md.

    | paper | here |
    |---|---|
    | information entropy | H(M) = −Σ p·log p; p: softmax over the masked model's logits of tail and `rivals` |
    | information gain | H(no facts) − H(M); the first is the same for every mask, so H(M) is lowered |
    | the prediction | −log P(Y = 1), so that the doubt does not end with another tail |
    | size of the subgraph | max(0, Σ M / B − 1); B: the `budget`, or a `share` of a small graph's edges |
    """

    name: ClassVar[str] = "ke-x"
    proposes: ClassVar[str] = "paths, a set"
    cost: ClassVar[Cost] = "log"
    weighs_messages: ClassVar[bool] = True

    steps: int = setting(50, "steps of Adam that learn the mask")
    lr: float = setting(0.3, "Adam's learning rate")
    rivals: int = setting(15, "how many other tails, the model's strongest, the doubt is about", least=1)
    budget: int = setting(100, "how many edges the mask, and facts the subgraph, may have at most", least=1)
    share: float = setting(
        0.1, "the same as a share of the query's kept edges: the smaller one counts", above=0, most=1
    )
    facts: int = setting(4, "how many facts the set beside the paths has at most", least=1, most=MOST_FACTS)
    gain_weight: float = setting(1.0, "weight of the entropy over the tails")
    prediction_weight: float = setting(1.0, "weight of keeping the prediction")
    counterfactual_weight: float = setting(0.0, "weight of losing the prediction without the mask; 0 switches it off")
    size_weight: float = setting(1.0, "weight of the mask's sum above the budget, as a share of the budget")
    entropy_weight: float = setting(0.1, "weight of the mask's mean entropy")

    def __post_init__(self) -> None:
        check_settings(self)
        check_descent(self.steps, self.lr)

    def score_edges(self, model: LinkModel, graph: ComputationGraph, seed: int) -> EdgeScores:
        """Learn a logit per edge, all queries of the batch together."""
        budget = self.budget_of(graph)
        gain = [(self.gain_weight, tail_entropy(model, graph, self.rivals))] if self.gain_weight else []
        terms: WeightedTerms = [
            *gain,
            (self.prediction_weight, keep_prediction(model, graph)),
            (self.size_weight, over_budget(graph, budget)),
            (self.entropy_weight, mask_entropy(graph)),
            *counterfactual(self.counterfactual_weight, model, graph),
        ]
        mask = FreeLogits(graph, seed=seed, start=filling(graph, budget))
        return EdgeScores.of_kept(graph, learn_mask(mask, terms, steps=self.steps, lr=self.lr))

    def propose(self, oracle: Oracle, graph: ComputationGraph, wish: Wish, seed: int) -> Proposal:
        """Name the best paths within the strongest facts, and behind them the very strongest as a set."""
        scores = self.score_edges(oracle.model, graph, seed)
        # a fact is as strong as the stronger of its messages: a path walks it in either direction
        strength = torch.maximum(scores.values, scores.values[graph.reverse]) * graph.kept
        strongest = StrongestFacts.of(oracle, graph, strength, self.budget_of(graph))
        found = propose(
            strongest.subgraph(graph),
            strength,
            cost=wish.cost or self.cost,
            count=wish.count,
            min_length=wish.min_length,
            max_length=wish.max_length,
            at_once=wish.at_once,
        )
        both = pool([EvidenceBatch.of_paths(found), strongest.as_sets(graph, self.facts)]).evidence
        return Proposal(both.first(wish.count), scores.values, remarks_on_mask(graph, EdgeScores(strength), found))

    def budget_of(self, graph: ComputationGraph) -> Tensor:
        """Return how many edges, and facts, each query has to spend: (Q,)."""
        count = torch.bincount(graph.kept_edges.query, minlength=graph.num_queries)
        return (self.share * count).ceil().clamp(min=min(self.facts, self.budget), max=self.budget)


def tail_entropy(model: LinkModel, graph: ComputationGraph, rivals: int) -> Term:
    """Leave no doubt: the entropy, in nats, of which of the candidate tails it is on the masked graph."""
    query, triples = candidate_tails(model, graph, rivals)
    # a rival is encoded as fully as head and tail are, wherever it lies
    logits_of = logits_by_weight(model, replace(graph.kept_edges, level=None), triples)

    def loss(logits: Tensor) -> Tensor:
        told = logits_of(torch.sigmoid(logits))
        log_chance = told - gather(segment_logsumexp(told, query, graph.num_queries), query)
        return -segment_sum(log_chance.exp() * log_chance, query, graph.num_queries)

    return loss


@torch.no_grad()
def candidate_tails(model: LinkModel, graph: ComputationGraph, rivals: int) -> tuple[Tensor, Tensor]:
    """Return each query's tail and its strongest rivals on the unmasked graph: (query (n,), triples (n, 3)) by query.

    Rivals are nodes of the computation graph. Those that a fact of it names as tails are none; a foil always is one.
    """
    query, node = graph.query_of_node, torch.arange(graph.num_nodes, device=graph.device)
    triples = torch.stack([graph.head[query], graph.queries[query, 1], node], dim=1)
    strength = model.score(model.encode(graph.everywhere), triples).double()
    head, relation = graph.head[graph.query_of_edge], graph.queries[graph.query_of_edge, 1]
    strength[graph.target[(graph.source == head) & (graph.relation == relation)]] = -torch.inf
    if graph.foil is not None:
        strength[graph.foil[graph.foil >= 0]] = torch.inf
    strength[graph.tail] = torch.inf
    order, place = _strongest_first(strength, query, graph.num_queries)
    taken = order[(place <= rivals) & (strength[order] > -torch.inf)]
    return query[taken], triples[taken]


def over_budget(graph: ComputationGraph, budget: Tensor) -> Term:
    """Stay within a budget (Q,): how far Σ M over the query's kept edges is above it, as a share; 0 within."""
    total = mask_sum(graph)
    return lambda logits: torch.relu(total(logits) / budget - 1)


def filling(graph: ComputationGraph, budget: Tensor) -> Tensor:
    """Return the logit, one for all of a query's kept edges, at which Σ M is the budget (Q,), but at most 0: (E,).

    From one half, emptying the mask of a large graph would take all steps, and Adam would remember nothing else.
    """
    query = graph.kept_edges.query
    count = torch.bincount(query, minlength=graph.num_queries).clamp(min=1)
    return gather(torch.logit((budget / count).clamp(max=0.5)), query)


@dataclass(frozen=True, eq=False)
class StrongestFacts:
    """Each query's strongest facts, by query and the strongest first."""

    query: Tensor  # (n,)
    place: Tensor  # (n,) 0, 1, … within its query
    edge: Tensor  # (n,) one of the fact's two edges
    strength: Tensor  # (n,)

    @classmethod
    def of(cls, oracle: Oracle, graph: ComputationGraph, strength: Tensor, count: Tensor) -> StrongestFacts:
        """Take the strongest facts, `count` (Q,) of each query, by their edges' strength (num_edges,).

        Of those alone that can change an answer at all: what only rivals see is no reason for the tail.
        """
        edge = torch.arange(graph.num_edges, device=graph.device)
        whole = graph.kept & graph.kept[graph.reverse] & (edge < graph.reverse)
        edge = edge[whole & oracle.sees(edge)]
        query, strength = graph.query_of_edge[edge], strength[edge]
        order, place = _strongest_first(strength, query, graph.num_queries)
        fits = place < count[query[order]]
        order, place = order[fits], place[fits]
        return cls(query[order], place, edge[order], strength[order])

    def subgraph(self, graph: ComputationGraph) -> ComputationGraph:
        """Return the graph pruned to these facts, in both directions."""
        kept = torch.zeros_like(graph.kept)
        kept[self.edge] = kept[graph.reverse[self.edge]] = True
        return graph.pruned_to(kept)

    def as_sets(self, graph: ComputationGraph, most: int) -> EvidenceBatch:
        """Return the first `most` facts of each query as a set."""
        query, row = self.query.unique_consecutive(return_inverse=True)
        first = self.place < most
        edges = self.edge.new_full((query.numel(), most), -1)
        edges[row[first], self.place[first]] = self.edge[first]
        cost = segment_sum(edge_cost(self.strength[first], "log"), row[first], query.numel())
        return EvidenceBatch.of_sets(graph, query, edges, cost)


def _strongest_first(strength: Tensor, query: Tensor, num_queries: int) -> tuple[Tensor, Tensor]:
    """Sort what belongs to queries (n,) by query, the strongest first: (order, place 0, 1, … within the query)."""
    order = strength.argsort(descending=True, stable=True)
    order = order[query[order].argsort(stable=True)]
    owner = query[order]
    return order, torch.arange(order.numel(), device=order.device) - row_pointer(owner, num_queries)[owner]
