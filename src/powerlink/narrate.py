"""From indices to names: a batch's findings as Explanations people can read."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import torch

from powerlink.explainers.nearest import Sample
from powerlink.explainers.proposals import Proposals
from powerlink.explanation import (
    Evidence,
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
from powerlink.verify.choice import Choice
from powerlink.verify.counterfactual import Standing
from powerlink.verify.verdict import Verdict

EFFECT = 0.01  # of the logit: less moves the odds by under one per cent


@dataclass(frozen=True, eq=False)
class Findings:
    """All that the stages found about a batch of questions that could be searched."""

    graph: ComputationGraph
    proposals: Proposals
    choice: Choice
    verdict: Verdict
    sample: Sample | None = None  # where the graph is but a part of a question's computation graph


def name_query(graph: KnowledgeGraph, triple: Sequence[int], foil: int = -1) -> Query:
    """Name a triple; a relation ≥ R was asked through the inverse, and is told as the fact it is about."""
    head, relation, tail = triple
    against = graph.entities[foil] if foil >= 0 else None
    if relation < graph.num_relations:
        return Query(graph.entities[head], graph.relations[relation], graph.entities[tail], foil=against)
    named = graph.relations[relation - graph.num_relations]
    return Query(graph.entities[tail], named, graph.entities[head], inverse=True, foil=against)


def unexplained(query: Query, status: Status, outcome: Outcome | None, made_by: MadeBy | None) -> Explanation:
    """Tell a query that was never searched, and why."""
    score, rank = (outcome.score, outcome.rank) if outcome else (None, None)
    return Explanation(query, status, score, rank, made_by=made_by)


def narrate(graph: KnowledgeGraph, findings: Findings, standing: Standing, made_by: MadeBy | None) -> list[Explanation]:
    """Tell every query of a batch; `standing` is the model's word on the unchanged graph, (Q,)."""
    table = _tabulate(findings, standing)
    told = [_narrate_one(graph, table, q, made_by) for q in range(findings.graph.num_queries)]
    return told if findings.sample is None else [_of_a_sample(told[0], findings.sample)]


def _of_a_sample(explanation: Explanation, sample: Sample) -> Explanation:
    """Say that evidence was looked for in a part of the computation graph alone."""
    assert explanation.size is not None
    size = GraphSize(sample.nodes, sample.edges, explanation.size.edges_kept, sample.graph.num_edges)
    return replace(explanation, remarks=(*explanation.remarks, sample.remark), size=size)


@dataclass(frozen=True)
class _Table:
    """All that is told of a batch, as plain lists by query: each is brought from the device once."""

    query: list[list[int]]
    foil: list[int]
    size: list[list[int]]  # nodes, edges, kept edges
    considered: list[int]
    standing: list[Outcome]
    without_top: dict[int, list[Outcome]]
    without_all: list[Outcome]
    only_these: list[Outcome]
    paper: list[list[float]] | None  # F+, F−, sparsity, sparsity of the kept, rank, ranks without the top paths
    chosen: list[list[int]]  # by query and place: position among the candidates, −1 where there are fewer
    each: list[list[list[float]]]  # by query and place: score, cost, score and rank without, carried together
    proposers: Sequence[str]
    proposer: list[list[int]]
    witnesses: list[list[int]]
    is_path: list[list[bool]]
    hops: list[list[list[list[int]]]]  # by query, place and hop: source, relation, target, whether visible; −1: none
    alone: list[list[list[float]]]  # by query, place and hop: the fall of the logit without this fact
    deletion: list[list[float]]  # by query; NaN behind the last fact
    remarks: Sequence[tuple[str, ...]]  # by query


def _tabulate(findings: Findings, standing: Standing) -> _Table:
    batch, verdict, choice, found = findings.graph, findings.verdict, findings.choice, findings.proposals
    evidence, proposer, chosen = found.candidates.evidence, found.candidates.proposer, choice.index
    size = torch.stack([batch.node_row.diff(), batch.edge_row.diff(), run_count(batch.kept, batch.edge_row)], dim=1)

    edges = choice.edges_of(evidence)
    cost, by, is_path = chosen.new_zeros(chosen.shape, dtype=torch.float64), torch.zeros_like(chosen), chosen >= 0
    if evidence.count:
        place = chosen.clamp(min=0)
        cost, by, is_path = evidence.cost[place], proposer[place], evidence.is_path[place]
    there, edge = edges >= 0, edges.clamp(min=0)
    score = torch.ones_like(cost)
    hops = edges.new_full((*edges.shape, 4), -1)
    if batch.num_edges:
        if found.mask is not None:
            score = torch.where(there, found.mask[edge].double(), 1.0).prod(2)
        ends = (batch.entity[batch.source[edge]], batch.relation[edge], batch.entity[batch.target[edge]])
        hops = torch.where(there.unsqueeze(3), torch.stack([*ends, verdict.visible.long()], dim=3), -1)
    each = (score, cost, verdict.without_each.score, verdict.without_each.rank, verdict.together)
    foil = torch.full_like(batch.head, -1)
    if batch.foil is not None:
        foil = torch.where(batch.foil >= 0, batch.entity[batch.foil.clamp(min=0)], -1)
    return _Table(
        query=batch.queries.tolist(),
        foil=foil.tolist(),
        size=size.tolist(),
        considered=torch.bincount(evidence.query, minlength=batch.num_queries).tolist(),
        standing=_outcomes(standing),
        without_top={m: _outcomes(top) for m, top in verdict.without_top.items()},
        without_all=_outcomes(verdict.without_all),
        only_these=_outcomes(verdict.only_these),
        paper=None if verdict.paper is None else verdict.paper.table.tolist(),
        chosen=chosen.tolist(),
        each=torch.stack([number.double() for number in each], dim=2).tolist(),
        proposers=found.proposers,
        proposer=by.tolist(),
        witnesses=choice.witnesses.tolist(),
        is_path=is_path.tolist(),
        hops=hops.tolist(),
        alone=verdict.alone.tolist(),
        deletion=verdict.deletion.tolist(),
        remarks=found.remarks,
    )


def _outcomes(standing: Standing) -> list[Outcome]:
    return [Outcome(*both) for both in zip(standing.score.tolist(), standing.rank.tolist(), strict=True)]


def _narrate_one(graph: KnowledgeGraph, table: _Table, q: int, made_by: MadeBy | None) -> Explanation:
    places = [place for place, index in enumerate(table.chosen[q]) if index >= 0]
    if places:
        falls = table.standing[q].score - table.without_all[q].score
        status = Status.FAINT if falls < EFFECT else Status.EXPLAINED
    else:
        status = Status.NO_EFFECT if table.considered[q] else Status.NO_PATH
    return Explanation(
        name_query(graph, table.query[q], table.foil[q]),
        status,
        score=table.standing[q].score,
        rank=table.standing[q].rank,
        evidence=tuple(_evidence(graph, table, q, place) for place in places),
        without_all=table.without_all[q] if places else None,
        only_these=table.only_these[q] if places else None,
        without_top={m: top[q] for m, top in table.without_top.items()} if places else {},
        deletion=tuple(score for score in table.deletion[q] if not math.isnan(score)),
        considered=table.considered[q],
        remarks=table.remarks[q],
        paper=None if table.paper is None else _paper(table.paper[q], table.without_top),
        size=GraphSize(*table.size[q]),
        made_by=made_by,
    )


def _paper(figures: list[float], tops: Iterable[int]) -> PaperMetrics:
    plus, minus, sparsity, sparsity_kept, rank, *without_top = figures
    return PaperMetrics(plus, minus, sparsity, sparsity_kept, rank, dict(zip(tops, without_top, strict=True)))


def _evidence(graph: KnowledgeGraph, table: _Table, q: int, place: int) -> Evidence:
    seen = zip(table.hops[q][place], table.alone[q][place], strict=True)
    facts = [_fact(graph, hop, effect) for hop, effect in seen if hop[0] >= 0]
    is_path = table.is_path[q][place]
    if not is_path:
        facts = [replace(fact, inverse=False) for fact in facts]  # nobody walks along a set
    elif table.query[q][1] >= graph.num_relations:
        # asked through the inverse, the search ran from the fact's tail; people read from its head
        facts = [replace(fact, inverse=not fact.inverse) for fact in reversed(facts)]
    score, cost, score_without, rank_without, together = table.each[q][place]
    return Evidence(
        tuple(facts),
        score,
        cost,
        score_without,
        rank_without,
        proposed_by=table.proposers[table.proposer[q][place]],
        together=together,
        witnesses=table.witnesses[q][place],
        kind="path" if is_path else "set",
    )


def _fact(graph: KnowledgeGraph, hop: list[int], effect: float) -> Fact:
    source, relation, target, visible = hop
    inverse = relation >= graph.num_relations
    head, tail = (target, source) if inverse else (source, target)
    named = graph.entities[head], graph.relations[relation % graph.num_relations], graph.entities[tail]
    return Fact(*named, inverse, bool(visible), effect)
