"""From indices to names: a batch's findings as Explanations people can read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

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
from powerlink.kg.knowledge_graph import KnowledgeGraph
from powerlink.paths.propose import Candidates
from powerlink.verify.counterfactual import Standing
from powerlink.verify.verdict import Verdict


@dataclass(frozen=True, eq=False)
class Findings:
    """All that the stages found about a batch of queries that could be searched."""

    graph: ComputationGraph
    scores: Tensor  # (E,)
    path_term: Tensor | None  # (Q,) bool
    candidates: Candidates
    chosen: Tensor  # (Q, count) position among the candidates, −1 where there are fewer
    verdict: Verdict
    proposers: Sequence[str]


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
    counts = torch.bincount(findings.candidates.paths.query, minlength=findings.graph.num_queries).tolist()
    return [_narrate_one(graph, findings, standing, q, considered, made_by) for q, considered in enumerate(counts)]


def _narrate_one(
    graph: KnowledgeGraph, findings: Findings, standing: Standing, q: int, considered: int, made_by: MadeBy | None
) -> Explanation:
    verdict, batch = findings.verdict, findings.graph
    chosen = [index for index in findings.chosen[q].tolist() if index >= 0]
    paths = tuple(_path(graph, findings, q, place, index) for place, index in enumerate(chosen))
    if chosen:
        off = findings.path_term is not None and not bool(findings.path_term[q])
        status = Status.EXPLAINED_WITHOUT_PATH_TERM if off else Status.EXPLAINED
    else:
        status = Status.NO_EFFECT if considered else Status.NO_PATH
    first, last = batch.edge_row[q : q + 2].tolist()
    return Explanation(
        name_query(graph, batch.queries[q].tolist()),
        status,
        score=standing.score[q].item(),
        rank=standing.rank[q].item(),
        paths=paths,
        without_all=_outcome(verdict.without_all, q) if chosen else None,
        only_these=_outcome(verdict.only_these, q) if chosen else None,
        without_top={m: _outcome(top, q) for m, top in verdict.without_top.items()} if chosen else {},
        considered=considered,
        paper=_paper(verdict, q),
        size=GraphSize(
            nodes=int(batch.node_row[q + 1] - batch.node_row[q]),
            edges=last - first,
            edges_kept=int(batch.kept[first:last].sum()),
        ),
        made_by=made_by,
    )


def _path(graph: KnowledgeGraph, findings: Findings, q: int, place: int, index: int) -> ExplainedPath:
    candidates, each = findings.candidates, findings.verdict.without_each
    edges = [edge for edge in candidates.paths.edges[index].tolist() if edge >= 0]
    seen = findings.verdict.visible[q, place].tolist()
    facts = [_fact(graph, findings.graph, edge, seen[hop]) for hop, edge in enumerate(edges)]
    if int(findings.graph.queries[q, 1]) >= graph.num_relations:
        # asked through the inverse, the search ran from the fact's tail; people read from its head
        facts = [replace(fact, inverse=not fact.inverse) for fact in reversed(facts)]
    return ExplainedPath(
        facts=tuple(facts),
        score=findings.scores[edges].double().prod().item(),
        cost=candidates.paths.cost[index].item(),
        score_without=each.score[q, place].item(),
        rank_without=each.rank[q, place].item(),
        proposed_by=findings.proposers[int(candidates.proposer[index])],
    )


def _fact(graph: KnowledgeGraph, batch: ComputationGraph, edge: int, visible: bool) -> Fact:
    source, target = int(batch.entity[batch.source[edge]]), int(batch.entity[batch.target[edge]])
    relation = int(batch.relation[edge])
    inverse = relation >= graph.num_relations
    head, tail = (target, source) if inverse else (source, target)
    return Fact(
        graph.entities[head], graph.relations[relation % graph.num_relations], graph.entities[tail], inverse, visible
    )


def _outcome(standing: Standing, q: int) -> Outcome:
    return Outcome(standing.score[q].item(), standing.rank[q].item())


def _paper(verdict: Verdict, q: int) -> PaperMetrics:
    paper = verdict.paper
    return PaperMetrics(
        fidelity_plus=paper.fidelity_plus[q].item(),
        fidelity_minus=paper.fidelity_minus[q].item(),
        sparsity=paper.sparsity[q].item(),
        sparsity_kept=paper.sparsity_kept[q].item(),
        rank=paper.rank[q].item(),
        rank_without_top=dict(zip(verdict.without_top, paper.rank_without_top[q].tolist(), strict=True)),
    )
