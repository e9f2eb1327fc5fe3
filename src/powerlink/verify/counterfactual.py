"""Counterfactuals: scores and ranks on the graph without some facts, thousands of scenarios in one forward."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from powerlink.graphs.computation_graph import ComputationGraph, target_edges
from powerlink.graphs.message_graph import MessageGraph
from powerlink.graphs.what_if import Removals, changed_nodes, nothing_but, what_if
from powerlink.models.protocol import Embeddings, LinkModel
from powerlink.models.ranking import filtered_ranks, score_tails
from powerlink.models.subject import Subject

EDGE_BUDGET = 1_000_000  # edges encoded at a time: bounds memory to a few hundred MB at width 100
LOGIT_BUDGET = 20_000_000  # scenarios × entities ranked at a time


def edges_of_facts(graph: ComputationGraph, owner: Tensor, edges: Tensor) -> tuple[Tensor, Tensor]:
    """Return (owner, edge) for both directions of the path edges (n, max_length), padding dropped."""
    owner = owner.unsqueeze(1).expand_as(edges)[edges >= 0]
    edge = edges[edges >= 0]
    return torch.cat([owner, owner]), torch.cat([edge, graph.reverse[edge]])


@torch.no_grad()
def scores_without(
    model: LinkModel, graph: ComputationGraph, query: Tensor, removals: Removals, *, edge_budget: int = EDGE_BUDGET
) -> Tensor:
    """Score each scenario's query (S,) on its computation graph without the scenario's edges: logits (S,)."""
    wanted = torch.stack([graph.head[query], graph.tail[query]], dim=1)
    changed = changed_nodes(graph, removals, model.num_layers, wanted=wanted)
    parts = []
    for first, last in _chunks(graph, removals.num_scenarios, changed, edge_budget):
        part = removals.slice(graph, first, last)
        copies = _between(changed, first * graph.num_nodes, last * graph.num_nodes)
        world = what_if(graph, part, copies, model.num_layers, focused=True)
        embeddings = model.encode(world)
        ids = torch.arange(last - first, device=graph.device) * graph.num_nodes
        triples = torch.stack(
            [
                world.copy[torch.searchsorted(copies, ids + wanted[first:last, 0])],
                graph.queries[query[first:last], 1],
                world.copy[torch.searchsorted(copies, ids + wanted[first:last, 1])],
            ],
            dim=1,
        )
        parts.append(model.score(embeddings, triples))
    return torch.cat(parts) if parts else graph.norm.new_empty(0)


@dataclass(frozen=True, eq=False)
class Standing:
    """Score and filtered rank of one triple per scenario."""

    score: Tensor  # (S,)
    rank: Tensor  # (S,) float64


@torch.no_grad()
def standings_without(
    subject: Subject, triples: Tensor, scenario: Tensor, edge: Tensor, *, edge_budget: int = EDGE_BUDGET
) -> Standing:
    """Score and rank each scenario's triple (S, 3) on the whole graph without edges of the message graph.

    The fact in question is always left out as well. Every entity within the model's reach of a removed fact is encoded
    again; all others keep their place in the whole graph's encoding.
    """
    model, messages = subject.model, subject.messages
    own_scenario, own_edge = target_edges(messages, triples)
    removals = Removals.of(messages, triples.size(0), torch.cat([scenario, own_scenario]), torch.cat([edge, own_edge]))
    changed = changed_nodes(messages, removals, model.num_layers)
    scores, ranks = [], []
    most = max(LOGIT_BUDGET // max(messages.num_nodes, 1), 1)
    for first, last in _chunks(messages, removals.num_scenarios, changed, edge_budget, most):
        copies = _between(changed, first * messages.num_nodes, last * messages.num_nodes)
        part = removals.slice(messages, first, last)
        logits = _logits_of_all(subject, messages, part, copies, triples[first:last])
        scores.append(logits.gather(1, triples[first:last, 2:]).squeeze(1))
        ranks.append(filtered_ranks(logits, triples[first:last], subject.known))
    if not scores:
        return Standing(messages.norm.new_empty(0), messages.norm.new_empty(0, dtype=torch.float64))
    return Standing(torch.cat(scores), torch.cat(ranks))


def _logits_of_all(
    subject: Subject, messages: MessageGraph, removals: Removals, copies: Tensor, triples: Tensor
) -> Tensor:
    """Score every entity as the tail in each scenario: (S, N)."""
    model, size = subject.model, messages.num_nodes
    table = subject.whole
    if copies.numel():
        world = what_if(messages, removals, copies, model.num_layers, focused=False)
        encoded = model.encode(world)
        table = table.followed_by(encoded.rows(torch.arange(world.num_copies, device=messages.device)))
    head = _row_in_scenario(copies, size, triples[:, 0])
    logits = score_tails_of(model, table, subject.whole, head, triples[:, 1])
    if copies.numel():
        scenario, entity = copies // size, copies % size
        row = size + torch.arange(copies.numel(), device=copies.device)
        changed = model.score(table, torch.stack([head[scenario], triples[scenario, 1], row], dim=1))
        logits = logits.index_put((scenario, entity), changed)
    return logits


def score_tails_of(model: LinkModel, heads: Embeddings, tails: Embeddings, head: Tensor, relation: Tensor) -> Tensor:
    """Score every node of `tails` for heads taken from another encoding: (n, num_nodes of tails)."""
    joined = tails.followed_by(heads.rows(head))
    place = tails.entity.size(0) + torch.arange(head.numel(), device=head.device)
    return score_tails(model, joined, place, relation)[:, : tails.entity.size(0)]


def _row_in_scenario(copies: Tensor, size: int, entity: Tensor) -> Tensor:
    """Return the row of each scenario's entity in [whole graph; copies]: its copy if it has one."""
    wanted = torch.arange(entity.numel(), device=entity.device) * size + entity
    if not copies.numel():
        return entity
    place = torch.searchsorted(copies, wanted).clamp(max=copies.numel() - 1)
    return torch.where(copies[place] == wanted, size + place, entity)


@torch.no_grad()
def encode_only(
    model: LinkModel, graph: ComputationGraph, query: Tensor, scenario: Tensor, edge: Tensor
) -> tuple[Embeddings, Tensor]:
    """Encode head and tail of each scenario's query (S,) from the edges (scenario, edge) alone.

    Returns the embeddings and the triples (S, 3) over them.
    """
    wanted = torch.stack([graph.head[query], graph.tail[query]], dim=1)
    world, place = nothing_but(graph, scenario, edge, wanted)
    return model.encode(world), torch.stack([place[:, 0], graph.queries[query, 1], place[:, 1]], dim=1)


@torch.no_grad()
def standings_with_only(subject: Subject, graph: ComputationGraph, owner: Tensor, edge: Tensor) -> Standing:
    """Score and rank every query with head and tail encoded from the given facts alone.

    (owner, edge) lists the edges kept per query, both directions. Other candidates keep their whole-graph encoding.
    """
    model = subject.model
    everyone = torch.arange(graph.num_queries, device=graph.device)
    embeddings, triples = encode_only(model, graph, everyone, owner, edge)
    score = model.score(embeddings, triples)
    logits = score_tails_of(model, embeddings, subject.whole, triples[:, 0], graph.queries[:, 1])
    logits = logits.scatter(1, graph.queries[:, 2:], score.unsqueeze(1))
    return Standing(score, filtered_ranks(logits, graph.queries, subject.known))


def _chunks(
    graph: MessageGraph | ComputationGraph, num_scenarios: int, changed: Tensor, edge_budget: int, most: int = 100_000
) -> list[tuple[int, int]]:
    """Split scenarios into runs of at most `most` whose copies have at most `edge_budget` incoming edges."""
    node = changed % graph.num_nodes
    degree = graph.row[node + 1] - graph.row[node]
    load = degree.new_zeros(num_scenarios).index_add(0, changed // graph.num_nodes, degree)
    runs, first, total = [], 0, 0
    for scenario, edges in enumerate(load.tolist()):
        if scenario > first and (total + edges > edge_budget or scenario - first >= most):
            runs.append((first, scenario))
            first, total = scenario, 0
        total += edges
    if num_scenarios > first:
        runs.append((first, num_scenarios))
    return runs


def _between(keys: Tensor, low: int, high: int) -> Tensor:
    """Return the sorted keys in [low, high), counted from low."""
    start, stop = torch.searchsorted(keys, torch.tensor([low, high], device=keys.device)).tolist()
    return keys[start:stop] - low
