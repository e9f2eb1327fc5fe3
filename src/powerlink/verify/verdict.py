"""The verdict on a batch of explanations: everything the model says about the chosen paths."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from powerlink.graphs.computation_graph import ComputationGraph
from powerlink.graphs.what_if import Removals
from powerlink.memory import Room
from powerlink.models.protocol import LinkModel
from powerlink.models.subject import Subject
from powerlink.paths.search import PathBatch
from powerlink.verify.carried import Carried, fact_of, measure_carried
from powerlink.verify.counterfactual import (
    Standing,
    edges_of_facts,
    scores_without,
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
    alone: Tensor  # (Q, count, max_length) fall of the logit without this fact alone
    together: Tensor  # (Q, count) what the facts of the path carry together
    deletion: Tensor  # (Q, facts) the logit after removing the first 1, 2, … facts; NaN behind the last
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
    *,
    carried: Carried | None = None,
) -> Verdict:
    """Judge each query's chosen paths, edges (Q, count, max_length) padded with −1, and the mask (E,).

    `carried` is what the paths carry, all places flat, where that was measured before.
    """
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
    carried = carried or measure_carried(subject.precise, graph, _as_batch(paths), room)
    alone = carried.alone.view(paths.shape)
    score, rank = standing.score.view(len(sets), queries), standing.rank.view(len(sets), queries)
    joint = {m: Standing(score[i], rank[i]) for i, m in [(0, 1), *enumerate(firsts, start=count)]}
    return Verdict(
        Standing(score[:count].t(), rank[:count].t()),
        {m: joint[m] for m in tops},
        joint[count],
        standings_with_only(subject, graph, *edges_of_facts(graph, ids, paths.flatten(1)), room=room),
        graph.visible(paths, subject.model.num_layers),
        alone,
        carried.together.view(queries, count),
        deletion_curve(subject.model, graph, paths, alone, room),
        measure_paper(subject.model, graph, mask, paths, tops, room),
    )


def _as_batch(paths: Tensor) -> PathBatch:
    """Return shown paths (Q, count, max_length) as a batch of all places, those without a path included."""
    query = torch.arange(paths.size(0), device=paths.device).repeat_interleave(paths.size(1))
    edges = paths.flatten(0, 1)
    length = (edges >= 0).sum(1)
    return PathBatch(query, edges, length, torch.zeros_like(length, dtype=torch.float64))


@torch.no_grad()
def deletion_curve(
    model: LinkModel, graph: ComputationGraph, paths: Tensor, alone: Tensor, room: Room | None = None
) -> Tensor:
    """Score each query without the first 1, 2, … facts of its paths (Q, count, max_length): (Q, facts).

    Facts go path by path, within a path by their own effect `alone`, the largest first; a fact that was removed already
    is passed over. What the computation graph cannot show of a path is NaN, as is all behind the last fact.
    """
    facts = fact_of(graph, paths)
    order = alone.where(facts >= 0, -torch.inf).argsort(dim=2, descending=True, stable=True)
    facts = facts.gather(2, order).flatten(1)  # (Q, facts)
    again = (facts.unsqueeze(2) == facts.unsqueeze(1)).tril(-1).any(2)
    facts = facts.where(~again, -1)
    facts = facts.gather(1, (facts < 0).int().argsort(dim=1, stable=True))
    queries, most = facts.shape
    until = torch.ones(most, most, dtype=torch.bool, device=facts.device).tril()
    removed = torch.where(until, facts.unsqueeze(1), -1)  # (Q, step, facts)
    there = facts >= 0
    query, _ = there.nonzero(as_tuple=True)
    owner = torch.arange(query.numel(), device=facts.device)
    removals = Removals.of(graph, query.numel(), *edges_of_facts(graph, owner, removed[there]))
    curve = torch.full((queries, most), torch.nan, dtype=graph.norm.dtype, device=facts.device)
    left = scores_without(model, graph, query, removals, room=room)
    return curve.to(left.dtype).masked_scatter(there, left)
