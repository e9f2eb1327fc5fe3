"""From indices to names: a batch's findings as Explanations people can read."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from powerlink.explainers.protocol import EdgeScores
from powerlink.explanation import (
    ExplainedPath,
    Explanation,
    Fact,
    GraphSize,
    MadeBy,
    Outcome,
    PaperMetrics,
    Query,
    Status,
)
from powerlink.graphs.computation_graph import ComputationGraph
from powerlink.kernels.segments import run_count
from powerlink.kg.knowledge_graph import KnowledgeGraph
from powerlink.paths.propose import Candidates
from powerlink.verify.counterfactual import Standing
from powerlink.verify.verdict import Verdict

EFFECT = 0.01  # of the logit: less moves the odds by under one per cent


@dataclass(frozen=True, eq=False)
class Findings:
    """All that the stages found about a batch of queries that could be searched."""

    graph: ComputationGraph
    scores: EdgeScores
    candidates: Candidates
    chosen: Tensor  # (Q, count) position among the candidates, −1 where there are fewer
    witnesses: Tensor  # (Q, count) for how many candidates each stands
    verdict: Verdict
    proposers: Sequence[str]
    remarks: Sequence[tuple[str, ...]]  # by query


def name_query(graph: KnowledgeGraph, triple: Sequence[int]) -> Query:
    """Name a triple; a relation ≥ R was asked through the inverse, and is told as the fact it is about."""
    head, relation, tail = triple
    if relation < graph.num_relations:
        return Query(graph.entities[head], graph.relations[relation], graph.entities[tail])
    return Query(
        graph.entities[tail], graph.relations[relation - graph.num_relations], graph.entities[head], inverse=True
    )


def unexplained(
    graph: KnowledgeGraph, triple: Sequence[int], status: Status, outcome: Outcome | None, made_by: MadeBy | None
) -> Explanation:
    """Tell a query that was never searched, and why."""
    return Explanation(
        name_query(graph, triple),
        status,
        outcome.score if outcome else None,
        outcome.rank if outcome else None,
        made_by=made_by,
    )


def narrate(graph: KnowledgeGraph, findings: Findings, standing: Standing, made_by: MadeBy | None) -> list[Explanation]:
    """Tell every query of a batch; `standing` is the model's word on the unchanged graph, (Q,)."""
    table = _tabulate(findings, standing)
    return [_narrate_one(graph, table, q, findings.proposers, made_by) for q in range(findings.graph.num_queries)]


@dataclass(frozen=True)
class _Table:
    """All that is told of a batch, as plain lists by query: each is brought from the device once."""

    query: list[list[int]]
    size: list[list[int]]  # nodes, edges, kept edges
    considered: list[int]
    path_term: list[bool]
    standing: list[Outcome]
    without_top: dict[int, list[Outcome]]
    without_all: list[Outcome]
    only_these: list[Outcome]
    paper: list[list[float]]  # F+, F−, sparsity, sparsity of the kept, rank, ranks without the top paths
    chosen: list[list[int]]  # by query and place: position among the candidates, −1 where there are fewer
    each: list[list[list[float]]]  # by query and place: score, cost, score and rank without, carried together
    proposer: list[list[int]]
    witnesses: list[list[int]]
    hops: list[list[list[list[int]]]]  # by query, place and hop: source, relation, target, whether visible; −1: none
    alone: list[list[list[float]]]  # by query, place and hop: the fall of the logit without this fact
    deletion: list[list[float]]  # by query; NaN behind the last fact
    remarks: Sequence[tuple[str, ...]]  # by query


def _tabulate(findings: Findings, standing: Standing) -> _Table:
    batch, verdict, paths = findings.graph, findings.verdict, findings.candidates.paths
    everyone, chosen = batch.num_queries, findings.chosen
    size = torch.stack([batch.node_row.diff(), batch.edge_row.diff(), run_count(batch.kept, batch.edge_row)], dim=1)
    paper = verdict.paper
    figures = (paper.fidelity_plus, paper.fidelity_minus, paper.sparsity, paper.sparsity_kept, paper.rank)

    width = paths.edges.size(1)
    edges = paths.edges.new_full((*chosen.shape, width), -1)
    cost, proposer = chosen.new_zeros(chosen.shape, dtype=torch.float64), torch.zeros_like(chosen)
    if paths.count:
        place = chosen.clamp(min=0)
        edges = torch.where((chosen >= 0).unsqueeze(2), paths.edges[place], -1)
        cost, proposer = paths.cost[place], findings.candidates.proposer[place]
    there, edge = edges >= 0, edges.clamp(min=0)
    score = torch.ones_like(cost)
    hops = edges.new_full((*edges.shape, 4), -1)
    if batch.num_edges:
        score = torch.where(there, findings.scores.values[edge].double(), 1.0).prod(2)
        ends = (batch.entity[batch.source[edge]], batch.relation[edge], batch.entity[batch.target[edge]])
        hops = torch.where(there.unsqueeze(3), torch.stack([*ends, verdict.visible.long()], dim=3), -1)
    each = (score, cost, verdict.without_each.score, verdict.without_each.rank, verdict.together)
    term = findings.scores.path_term
    return _Table(
        query=batch.queries.tolist(),
        size=size.tolist(),
        considered=torch.bincount(paths.query, minlength=everyone).tolist(),
        path_term=[True] * everyone if term is None else term.tolist(),
        standing=_outcomes(standing),
        without_top={m: _outcomes(top) for m, top in verdict.without_top.items()},
        without_all=_outcomes(verdict.without_all),
        only_these=_outcomes(verdict.only_these),
        paper=torch.cat([torch.stack([f.double() for f in figures], 1), paper.rank_without_top.double()], 1).tolist(),
        chosen=chosen.tolist(),
        each=torch.stack([number.double() for number in each], dim=2).tolist(),
        proposer=proposer.tolist(),
        witnesses=findings.witnesses.tolist(),
        hops=hops.tolist(),
        alone=verdict.alone.tolist(),
        deletion=verdict.deletion.tolist(),
        remarks=findings.remarks,
    )


def _outcomes(standing: Standing) -> list[Outcome]:
    return [Outcome(*both) for both in zip(standing.score.tolist(), standing.rank.tolist(), strict=True)]


def _narrate_one(
    graph: KnowledgeGraph, table: _Table, q: int, proposers: Sequence[str], made_by: MadeBy | None
) -> Explanation:
    places = [place for place, index in enumerate(table.chosen[q]) if index >= 0]
    if places and table.standing[q].score - table.without_all[q].score < EFFECT:
        status = Status.FAINT
    elif places:
        status = Status.EXPLAINED if table.path_term[q] else Status.EXPLAINED_WITHOUT_PATH_TERM
    else:
        status = Status.NO_EFFECT if table.considered[q] else Status.NO_PATH
    plus, minus, sparsity, sparsity_kept, rank, *without_top = table.paper[q]
    return Explanation(
        name_query(graph, table.query[q]),
        status,
        score=table.standing[q].score,
        rank=table.standing[q].rank,
        paths=tuple(_path(graph, table, q, place, proposers) for place in places),
        without_all=table.without_all[q] if places else None,
        only_these=table.only_these[q] if places else None,
        without_top={m: top[q] for m, top in table.without_top.items()} if places else {},
        deletion=tuple(score for score in table.deletion[q] if not math.isnan(score)),
        considered=table.considered[q],
        remarks=table.remarks[q],
        paper=PaperMetrics(
            plus,
            minus,
            sparsity,
            sparsity_kept,
            rank,
            rank_without_top=dict(zip(table.without_top, without_top, strict=True)),
        ),
        size=GraphSize(*table.size[q]),
        made_by=made_by,
    )


def _path(graph: KnowledgeGraph, table: _Table, q: int, place: int, proposers: Sequence[str]) -> ExplainedPath:
    seen = zip(table.hops[q][place], table.alone[q][place], strict=True)
    facts = [_fact(graph, hop, effect) for hop, effect in seen if hop[0] >= 0]
    if table.query[q][1] >= graph.num_relations:
        # asked through the inverse, the search ran from the fact's tail; people read from its head
        facts = [replace(fact, inverse=not fact.inverse) for fact in reversed(facts)]
    score, cost, score_without, rank_without, together = table.each[q][place]
    return ExplainedPath(
        tuple(facts),
        score,
        cost,
        score_without,
        rank_without,
        proposed_by=proposers[table.proposer[q][place]],
        together=together,
        witnesses=table.witnesses[q][place],
    )


def _fact(graph: KnowledgeGraph, hop: list[int], effect: float) -> Fact:
    source, relation, target, visible = hop
    inverse = relation >= graph.num_relations
    head, tail = (target, source) if inverse else (source, target)
    named = graph.entities[head], graph.relations[relation % graph.num_relations], graph.entities[tail]
    return Fact(*named, inverse, bool(visible), effect)
