"""From indices to names: a batch's findings as Explanations people can read."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

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
    return Query(*_named(graph, *triple), graph.entities[foil] if foil >= 0 else None)


def _named(graph: KnowledgeGraph, source: int, relation: int, target: int) -> tuple[str, str, str, bool]:
    """Name the fact behind an edge, and tell whether the edge runs from its tail to its head."""
    inverse = relation >= graph.num_relations
    head, tail = (target, source) if inverse else (source, target)
    return graph.entities[head], graph.relations[relation % graph.num_relations], graph.entities[tail], inverse


def unexplained(query: Query, status: Status, outcome: Outcome | None, made_by: MadeBy | None) -> Explanation:
    """Tell a query that was never searched, and why."""
    score, rank = (outcome.score, outcome.rank) if outcome else (None, None)
    return Explanation(query, status, score, rank, made_by=made_by)


def narrate(graph: KnowledgeGraph, findings: Findings, standing: Standing, made_by: MadeBy | None) -> list[Explanation]:
    """Tell every query of a batch; `standing` is the model's word on the unchanged graph, (Q,).

    What is told is brought from the device once a batch, not once a number.
    """
    batch, verdict = findings.graph, findings.verdict
    foil = torch.full_like(batch.head, -1)
    if batch.foil is not None:
        foil = torch.where(batch.foil >= 0, batch.entity[batch.foil.clamp(min=0)], -1)
    size = torch.stack([batch.node_row.diff(), batch.edge_row.diff(), run_count(batch.kept, batch.edge_row)], dim=1)
    candidates = torch.bincount(findings.proposals.candidates.evidence.query, minlength=batch.num_queries)
    triples, foils, sizes, considered = (part.tolist() for part in (batch.queries, foil, size, candidates))
    now, without_all, only_these = map(_outcomes, (standing, verdict.without_all, verdict.only_these))
    without_top = {m: _outcomes(top) for m, top in verdict.without_top.items()}
    papers = None if verdict.paper is None else verdict.paper.table.tolist()
    deletion = verdict.deletion.tolist()
    told = []
    for q, evidence in enumerate(_evidence(graph, findings)):
        if evidence:
            status = Status.FAINT if now[q].score - without_all[q].score < EFFECT else Status.EXPLAINED
        else:
            status = Status.NO_EFFECT if considered[q] else Status.NO_PATH
        explanation = Explanation(
            name_query(graph, triples[q], foils[q]),
            status,
            score=now[q].score,
            rank=now[q].rank,
            evidence=evidence,
            without_all=without_all[q] if evidence else None,
            only_these=only_these[q] if evidence else None,
            without_top={m: top[q] for m, top in without_top.items()} if evidence else {},
            deletion=tuple(score for score in deletion[q] if not math.isnan(score)),
            considered=considered[q],
            remarks=findings.proposals.remarks[q],
            paper=_paper(papers[q], without_top) if papers else None,
            size=GraphSize(*sizes[q]),
            made_by=made_by,
        )
        told.append(explanation)
    return told if findings.sample is None else [_of_a_sample(told[0], findings.sample)]


def _of_a_sample(explanation: Explanation, sample: Sample) -> Explanation:
    """Say that evidence was looked for in a part of the computation graph alone."""
    assert explanation.size is not None
    size = GraphSize(sample.nodes, sample.edges, explanation.size.edges_kept, sample.graph.num_edges)
    return replace(explanation, remarks=(*explanation.remarks, sample.remark), size=size)


def _outcomes(standing: Standing) -> list[Outcome]:
    return [Outcome(*both) for both in zip(standing.score.tolist(), standing.rank.tolist(), strict=True)]


def _paper(figures: list[float], tops: Iterable[int]) -> PaperMetrics:
    plus, minus, sparsity, sparsity_kept, rank, *without_top = figures
    return PaperMetrics(plus, minus, sparsity, sparsity_kept, rank, dict(zip(tops, without_top, strict=True)))


def _evidence(graph: KnowledgeGraph, findings: Findings) -> list[tuple[Evidence, ...]]:
    """Tell the evidence of every query of a batch."""
    batch, verdict, choice, found = findings.graph, findings.verdict, findings.choice, findings.proposals
    candidates, chosen = found.candidates.evidence, choice.index
    edges = choice.edges_of(candidates)
    cost, by, is_path = chosen.new_zeros(chosen.shape, dtype=torch.float64), torch.zeros_like(chosen), chosen >= 0
    if candidates.count:
        place = chosen.clamp(min=0)
        cost, by, is_path = candidates.cost[place], found.candidates.proposer[place], candidates.is_path[place]
    there, edge = edges >= 0, edges.clamp(min=0)
    score = torch.ones_like(cost)
    hops = edges.new_full((*edges.shape, 4), -1)
    if batch.num_edges:
        if found.mask is not None:
            score = torch.where(there, found.mask[edge].double(), 1.0).prod(2)
        ends = (batch.entity[batch.source[edge]], batch.relation[edge], batch.entity[batch.target[edge]])
        hops = torch.where(there.unsqueeze(3), torch.stack([*ends, verdict.visible.long()], dim=3), -1)
    numbers = (score, cost, verdict.without_each.score, verdict.without_each.rank, verdict.together)
    columns = (
        chosen,  # (Q, count) position among the candidates; −1 where there are fewer
        torch.stack([number.double() for number in numbers], dim=2),  # (Q, count, 5)
        by,
        choice.witnesses,
        is_path,
        hops,  # (Q, count, most, 4) source, relation, target, whether visible; −1 behind the last
        verdict.alone,  # (Q, count, most) the fall of the logit without this fact
    )
    inverse = (batch.queries[:, 1] >= graph.num_relations).tolist()
    return [
        tuple(
            _piece(graph, found.proposers, is_inverse, *piece)
            for index, *piece in zip(*by_place, strict=True)
            if index >= 0
        )
        for is_inverse, *by_place in zip(inverse, *(column.tolist() for column in columns), strict=True)
    ]


def _piece(
    graph: KnowledgeGraph,
    proposers: Sequence[str],
    is_inverse: bool,
    numbers: list[float],
    by: int,
    witnesses: int,
    is_path: bool,
    hops: list[list[int]],
    alone: list[float],
) -> Evidence:
    seen = [(hop, effect) for hop, effect in zip(hops, alone, strict=True) if hop[0] >= 0]
    facts = [Fact(*_named(graph, *edge), bool(visible), effect) for (*edge, visible), effect in seen]
    if not is_path:
        facts = [replace(fact, inverse=False) for fact in facts]  # nobody walks along a set
    elif is_inverse:
        # asked through the inverse, the search ran from the fact's tail; people read from its head
        facts = [replace(fact, inverse=not fact.inverse) for fact in reversed(facts)]
    score, cost, score_without, rank_without, together = numbers
    kind: Literal["path", "set"] = "path" if is_path else "set"
    return Evidence(tuple(facts), score, cost, score_without, rank_without, proposers[by], together, witnesses, kind)
