"""The verdict on a batch of explanations: everything the model says about the chosen paths."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from powerlink.graphs.computation_graph import ComputationGraph
from powerlink.models.subject import Subject
from powerlink.verify.counterfactual import (
    Room,
    Standing,
    edges_of_facts,
    standings_with_only,
    standings_without,
)
from powerlink.verify.paper_protocol import PaperBatch, measure_paper


@dataclass(frozen=True, eq=False)
class Verdict:
    """Scores and ranks per query; a path that is not there leaves its scenario like the graph itself."""

    without_each: Standing  # (Q, count)
    without_top: dict[int, Standing]  # m → (Q,)
    without_all: Standing  # (Q,)
    only_these: Standing  # (Q,)
    visible: Tensor  # (Q, count, max_length) bool: some layer passes this hop's fact on towards head or tail
    paper: PaperBatch


def standing_of(subject: Subject, queries: Tensor, room: Room | None = None) -> Standing:
    """Score and rank queries (Q, 3) on the graph, without the fact in question if it is in it."""
    none = queries.new_empty(0)
    return standings_without(subject, queries, none, none, room=room)


def judge(
    subject: Subject,
    graph: ComputationGraph,
    mask: Tensor,
    paths: Tensor,
    tops: Sequence[int],
    room: Room | None = None,
) -> Verdict:
    """Judge each query's chosen paths, edges (Q, count, max_length) padded with −1, and the mask (E,)."""
    queries, count = graph.num_queries, paths.size(1)
    firsts = sorted({*tops, count} - {1})  # the first alone is among the single ones
    sets = [paths[:, i] for i in range(count)]  # each path alone …
    sets += [paths[:, :m].flatten(1) for m in firsts]  # … then the first m together

    ids = torch.arange(queries, device=graph.device)
    owners, edges = [], []
    for number, removed in enumerate(sets):
        owner, edge = edges_of_facts(graph, ids + number * queries, removed)
        owners.append(owner)
        edges.append(graph.edge[edge])
    standing = standings_without(
        subject, graph.queries.repeat(len(sets), 1), torch.cat(owners), torch.cat(edges), room=room
    )
    score, rank = standing.score.view(len(sets), queries), standing.rank.view(len(sets), queries)
    joint = {m: Standing(score[i], rank[i]) for i, m in [(0, 1), *enumerate(firsts, start=count)]}
    return Verdict(
        Standing(score[:count].t(), rank[:count].t()),
        {m: joint[m] for m in tops},
        joint[count],
        standings_with_only(subject, graph, *edges_of_facts(graph, ids, paths.flatten(1)), room=room),
        _visible(graph, paths, subject.model.num_layers),
        measure_paper(subject.model, graph, mask, paths, tops, room),
    )


def _visible(graph: ComputationGraph, paths: Tensor, layers: int) -> Tensor:
    """A fact is seen if either of its messages arrives within the model's reach of head or tail."""
    assert graph.level is not None
    edge = paths.clamp(min=0)
    if not graph.num_edges:
        return torch.zeros_like(paths, dtype=torch.bool)
    nearest = torch.minimum(graph.level[graph.source[edge]], graph.level[graph.target[edge]])
    return (nearest <= layers - 1) & (paths >= 0)
