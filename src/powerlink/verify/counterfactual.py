"""Counterfactuals: scores and ranks on the graph without some facts, thousands of scenarios in one forward."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from powerlink.graphs.computation_graph import ComputationGraph, target_edges
from powerlink.graphs.edges import find_sorted
from powerlink.graphs.message_graph import MessageGraph
from powerlink.graphs.what_if import Removals, changed_nodes, what_if
from powerlink.memory import LOGITS_PER_SCORE, Room
from powerlink.models.protocol import Embeddings, LinkModel, abilities_of
from powerlink.models.ranking import filtered_ranks, score_tails_of
from powerlink.models.session import Session
from powerlink.questions import Asking, asked
from powerlink.verify.in_pieces import layers_or_full, logits_in_pieces


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
            yield Answers(first, last, changed.keys, world.copy, model.encode(world, world.sign))
        else:
            yield Answers(first, last, changed.keys, changed.keys, None)


def edges_of_facts(graph: ComputationGraph, facts: Tensor) -> tuple[Tensor, Tensor]:
    """Return (row, edge) for both directions of the facts of each row (S, most), padding dropped."""
    row, column = (facts >= 0).nonzero(as_tuple=True)
    edge = facts[row, column]
    return torch.cat([row, row]), torch.cat([edge, graph.reverse[edge]])


@torch.no_grad()
def scores_without(
    model: LinkModel, graph: ComputationGraph, query: Tensor, removals: Removals, *, room: Room | None = None
) -> Tensor:
    """Ask each scenario's query (S,) on its computation graph without the scenario's edges: numbers (S,)."""
    wanted = graph.ends[query]
    parts = []
    for run in answers(model, graph, removals, room, wanted=wanted, logits_each=LOGITS_PER_SCORE):
        assert run.copies is not None, "what is wanted is always encoded"
        ids = torch.arange(run.last - run.first, device=graph.device).unsqueeze(1)
        place = torch.searchsorted(run.keys, ids * graph.num_nodes + wanted[run.first : run.last])
        parts.append(asked(model, run.copies, asking_elsewhere(graph, query[run.first : run.last], run.row[place])))
    return torch.cat(parts) if parts else graph.norm.new_empty(0)


def asking_elsewhere(graph: ComputationGraph, query: Tensor, ends: Tensor) -> Asking:
    """Ask some of a graph's queries (S,) about other rows of their ends (S, 2 or 3)."""
    return Asking.of(graph.queries[query, 1], ends, None if graph.against is None else graph.against[query])


@dataclass(frozen=True, eq=False)
class Standing:
    """The number that is explained, and the filtered rank of the triple's tail, per scenario."""

    score: Tensor  # (S,)
    rank: Tensor  # (S,) float64


@torch.no_grad()
def standings_without(
    session: Session,
    triples: Tensor,
    scenario: Tensor,
    edge: Tensor,
    *,
    foils: Tensor | None = None,
    room: Room | None = None,
) -> Standing:
    """Score and rank each scenario's triple (S, 3) on the whole graph without edges of the message graph.

    With `foils` (S,), −1 where there is none, the score is the difference of tail and foil. The facts in question are
    always left out as well. Every entity within the model's reach of a removed fact is encoded
    again; all others keep their place in the whole graph's encoding.
    """
    messages = session.messages
    own_scenario, own_edge = target_edges(messages, triples, foils)
    removals = Removals.of(messages, triples.size(0), torch.cat([scenario, own_scenario]), torch.cat([edge, own_edge]))
    room, scores, ranks = room or Room.of(messages.device), [], []
    for first, last, logits in _logits_without(session, triples, removals, room):
        these = triples[first:last]
        scores.append(number_of(logits, these, None if foils is None else foils[first:last]))
        ranks.append(filtered_ranks(logits, these, session.known))
    if not scores:
        return Standing(messages.norm.new_empty(0), messages.norm.new_empty(0, dtype=torch.float64))
    return Standing(torch.cat(scores), torch.cat(ranks))


def _logits_without(
    session: Session, triples: Tensor, removals: Removals, room: Room
) -> Iterator[tuple[int, int, Tensor]]:
    """Score every entity as the tail in scenarios first … last − 1, (S, N), in runs that fit."""
    messages = session.messages
    if not _is_cramped(messages, removals, session.settled.num_layers, room):
        for run in answers(session.settled, messages, removals, room, logits_each=messages.num_nodes):
            yield run.first, run.last, _logits_of_all(session, run, triples[run.first : run.last])
        return
    for scenario in range(triples.size(0)):
        these, triple = removals.slice(messages, scenario, scenario + 1), triples[scenario : scenario + 1]
        yield scenario, scenario + 1, logits_in_pieces(session, layers_or_full(session.layers), triple, these)


def _is_cramped(messages: MessageGraph, removals: Removals, layers: int, room: Room) -> bool:
    """Say whether what scenarios change is too much for a graph of its own; no more than that is walked to find out."""
    if not removals.keys.numel() or not room.is_cramped_by(messages.num_edges):
        return False
    return any(
        room.is_cramped_by(
            int(
                changed_nodes(messages, removals, depth)
                .load(messages, removals.num_scenarios, by_difference=False)
                .sum()
            )
        )
        for depth in range(1, layers + 1)  # each walks what the one before has found to be little
    )


def number_of(logits: Tensor, triples: Tensor, foils: Tensor | None) -> Tensor:
    """Read the numbers of triples (S, 3) off the logits of all tails (S, N): (S,)."""
    place = torch.arange(logits.size(0), device=logits.device)
    if foils is None:
        return logits[place, triples[:, 2]]
    ends = torch.stack([place, triples[:, 2], foils.where(foils >= 0, triples[:, 2])], dim=1)
    asking = Asking.of(triples[:, 1], ends, foils >= 0)
    return asking.number(logits[asking.triples[:, 0], asking.triples[:, 2]])


def _logits_of_all(session: Session, run: Answers, triples: Tensor) -> Tensor:
    """Score every entity as the tail in each scenario: (S, N)."""
    model, whole, size = session.settled, session.whole, session.messages.num_nodes
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
