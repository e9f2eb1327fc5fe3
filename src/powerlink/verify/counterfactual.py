"""Counterfactuals: scores and ranks on the graph without some facts, thousands of scenarios in one forward."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor

from powerlink.graphs.computation_graph import ComputationGraph, target_edges
from powerlink.graphs.edges import find_sorted
from powerlink.graphs.message_graph import MessageGraph
from powerlink.graphs.what_if import Removals, WhatIf, changed_nodes, nothing_but, what_if
from powerlink.models.protocol import Embeddings, LinkModel, abilities_of
from powerlink.models.ranking import filtered_ranks, score_tails_of
from powerlink.models.subject import Subject

BYTES_PER_EDGE = 600  # of a what-if graph, its nodes' vectors included, at width 100
BYTES_PER_LOGIT = 24  # while it is ranked
LOGITS_PER_SCORE = 6_000  # what a decoder may hold for one score, above all ConvE its feature maps
SHARE_OF_A_GPU = 0.25  # of its memory, beside what a batch holds


@dataclass(frozen=True)
class Room:
    """How much is encoded and ranked at a time. A single scenario that is larger still runs alone."""

    edges: int = 2_000_000
    logits: int = 20_000_000  # scenarios × entities

    @classmethod
    def of(cls, device: torch.device, memory: int | None = None) -> Room:
        """Derive it from the device, and from `memory` in bytes where that is less. A GPU is busy only with much."""
        most = cls()
        if device.type == "cuda":
            most = cls(32_000_000, 400_000_000)
            memory = memory or int(SHARE_OF_A_GPU * torch.cuda.get_device_properties(device).total_memory)
        if memory is None:
            return most
        edges, logits = memory // BYTES_PER_EDGE, memory // BYTES_PER_LOGIT
        return cls(max(min(most.edges, edges), 1), max(min(most.logits, logits), 1))

    def cut(self, loads: list[int], logits_each: int) -> list[tuple[int, int]]:
        """Cut scenarios into runs first … last − 1 whose loads, in edges, and whose logits fit."""
        most = max(self.logits // max(logits_each, 1), 1)
        first, total, cuts = 0, 0, [0]
        for scenario, edges in enumerate(loads):
            if scenario > first and (total + edges > self.edges or scenario - first >= most):
                cuts.append(scenario)
                first, total = scenario, 0
            total += edges
        return list(pairwise([*cuts, len(loads)])) if loads else []


@dataclass(frozen=True, eq=False)
class Answers:
    """What changes in the scenarios first … last − 1."""

    first: int
    last: int
    keys: Tensor  # (C,) the changed nodes, ascending: (scenario − first)·N + node
    row: Tensor  # (C,) the row of each that is wanted; where all are, 0 … C − 1
    copies: Embeddings | None  # their new encoding; None where nothing changes


@torch.no_grad()
def answers(
    model: LinkModel,
    graph: MessageGraph | ComputationGraph,
    removals: Removals,
    room: Room | None,
    *,
    wanted: Tensor | None = None,
    logits_each: int = 0,
) -> Iterator[Answers]:
    """Encode what each scenario changes, in runs that fit; `wanted` as for `changed_nodes`."""
    layers, by_difference = model.num_layers, abilities_of(model).adds_messages
    changes = changed_nodes(graph, removals, layers, wanted=wanted)
    loads = changes.load(graph, removals.num_scenarios, by_difference=by_difference).tolist()
    for first, last in (room or Room.of(graph.device)).cut(loads, logits_each):
        part, changed = removals.slice(graph, first, last), changes.slice(graph, first, last)
        if changed.keys.numel():
            world = what_if(graph, part, changed, layers, focused=wanted is not None, by_difference=by_difference)
            yield Answers(first, last, changed.keys, world.copy, encode_world(model, world))
        else:
            yield Answers(first, last, changed.keys, changed.keys, None)


def encode_world(model: LinkModel, world: WhatIf) -> Embeddings:
    """Encode copies and originals."""
    return model.encode(world) if world.sign is None else model.encode(world, world.sign)


def edges_of_facts(graph: ComputationGraph, owner: Tensor, edges: Tensor) -> tuple[Tensor, Tensor]:
    """Return (owner, edge) for both directions of the path edges (n, max_length), padding dropped."""
    owner = owner.unsqueeze(1).expand_as(edges)[edges >= 0]
    edge = edges[edges >= 0]
    return torch.cat([owner, owner]), torch.cat([edge, graph.reverse[edge]])


@torch.no_grad()
def scores_without(
    model: LinkModel, graph: ComputationGraph, query: Tensor, removals: Removals, *, room: Room | None = None
) -> Tensor:
    """Score each scenario's query (S,) on its computation graph without the scenario's edges: logits (S,)."""
    wanted = torch.stack([graph.head[query], graph.tail[query]], dim=1)
    parts = []
    for run in answers(model, graph, removals, room, wanted=wanted, logits_each=LOGITS_PER_SCORE):
        assert run.copies is not None, "what is wanted is always encoded"
        ids = torch.arange(run.last - run.first, device=graph.device).unsqueeze(1)
        place = torch.searchsorted(run.keys, ids * graph.num_nodes + wanted[run.first : run.last])
        head, tail = run.row[place].unbind(1)
        relation = graph.queries[query[run.first : run.last], 1]
        parts.append(model.score(run.copies, torch.stack([head, relation, tail], dim=1)))
    return torch.cat(parts) if parts else graph.norm.new_empty(0)


@dataclass(frozen=True, eq=False)
class Standing:
    """Score and filtered rank of one triple per scenario."""

    score: Tensor  # (S,)
    rank: Tensor  # (S,) float64


@torch.no_grad()
def standings_without(
    subject: Subject, triples: Tensor, scenario: Tensor, edge: Tensor, *, room: Room | None = None
) -> Standing:
    """Score and rank each scenario's triple (S, 3) on the whole graph without edges of the message graph.

    The fact in question is always left out as well. Every entity within the model's reach of a removed fact is encoded
    again; all others keep their place in the whole graph's encoding.
    """
    messages = subject.messages
    own_scenario, own_edge = target_edges(messages, triples)
    removals = Removals.of(messages, triples.size(0), torch.cat([scenario, own_scenario]), torch.cat([edge, own_edge]))
    scores, ranks = [], []
    for run in answers(subject.model, messages, removals, room, logits_each=messages.num_nodes):
        asked = triples[run.first : run.last]
        logits = _logits_of_all(subject, run, asked)
        scores.append(logits.gather(1, asked[:, 2:]).squeeze(1))
        ranks.append(filtered_ranks(logits, asked, subject.known))
    if not scores:
        return Standing(messages.norm.new_empty(0), messages.norm.new_empty(0, dtype=torch.float64))
    return Standing(torch.cat(scores), torch.cat(ranks))


def _logits_of_all(subject: Subject, run: Answers, triples: Tensor) -> Tensor:
    """Score every entity as the tail in each scenario: (S, N)."""
    model, whole, size = subject.model, subject.whole, subject.messages.num_nodes
    scenarios, relation = torch.arange(triples.size(0), device=triples.device), triples[:, 1]
    heads = whole.rows(triples[:, 0])
    if run.copies is None:
        return score_tails_of(model, heads, whole, scenarios, relation)
    place, is_copy = find_sorted(run.keys, scenarios * size + triples[:, 0])
    copies = run.copies.rows(slice(run.keys.numel()))
    heads = heads.where(is_copy, copies.rows(place))
    logits = score_tails_of(model, heads, whole, scenarios, relation)
    # What changed is scored again, each copy for its scenario's own head.
    scenario, behind = run.keys // size, scenarios.numel() + torch.arange(run.keys.numel(), device=triples.device)
    changed = model.score(heads.followed_by(copies), torch.stack([scenario, relation[scenario], behind], dim=1))
    return logits.contiguous().index_put_((scenario, run.keys % size), changed)


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
def standings_with_only(
    subject: Subject, graph: ComputationGraph, owner: Tensor, edge: Tensor, *, room: Room | None = None
) -> Standing:
    """Score and rank every query with head and tail encoded from the given facts alone.

    (owner, edge) lists the edges kept per query, both directions. Other candidates keep their whole-graph encoding.
    """
    model = subject.model
    everyone = torch.arange(graph.num_queries, device=graph.device)
    embeddings, triples = encode_only(model, graph, everyone, owner, edge)
    score = model.score(embeddings, triples)
    at_once = max((room or Room.of(graph.device)).logits // subject.messages.num_nodes, 1)
    ranks = []
    for asked, head, own in zip(
        graph.queries.split(at_once), triples[:, 0].split(at_once), score.split(at_once), strict=True
    ):
        logits = score_tails_of(model, embeddings, subject.whole, head, asked[:, 1])
        ranks.append(filtered_ranks(logits.scatter_(1, asked[:, 2:], own.unsqueeze(1)), asked, subject.known))
    return Standing(score, torch.cat(ranks) if ranks else score.double())
