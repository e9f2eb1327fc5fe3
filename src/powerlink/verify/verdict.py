"""The verdict on a batch of explanations: everything the model says about the evidence that is shown."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from powerlink.evidence import EvidenceBatch, fact_of
from powerlink.explainers.protocol import Oracle
from powerlink.graphs.computation_graph import ComputationGraph
from powerlink.memory import Room
from powerlink.models.session import Session
from powerlink.questions import Questions
from powerlink.verify.carried import Carried, measure_carried
from powerlink.verify.counterfactual import Standing, standings_without
from powerlink.verify.oracle import FullOracle
from powerlink.verify.paper_protocol import PaperBatch, measure_paper
from powerlink.verify.post_training import stand_ins_of, standings_after, targets_of

TOPS = (1, 3, 5)  # the m of HΔR:m


@dataclass(frozen=True, eq=False)
class Verdict:
    """Scores and ranks per query; evidence that is not there leaves its scenario like the graph itself."""

    without_each: Standing  # (Q, count)
    without_top: dict[int, Standing]  # m → (Q,)
    without_all: Standing  # (Q,)
    only_these: Standing  # (Q,)
    visible: Tensor  # (Q, count, most) bool: some layer passes this fact on towards head or tail
    alone: Tensor  # (Q, count, most) fall of the score without this fact alone
    together: Tensor  # (Q, count) what the facts carry together
    deletion: Tensor  # (Q, facts) the score after removing the first 1, 2, … facts; NaN behind the last
    paper: PaperBatch | None  # where the paper's figures were asked for, and there is a mask


def standing_of(session: Session, questions: Questions | Tensor, room: Room | None = None) -> Standing:
    """Score and rank questions on the graph, without the facts in question if they are in it."""
    questions = Questions.of(questions)
    if not session.reads_facts:
        targets = targets_of(session.messages, questions)
        return standings_after(session, stand_ins_of(session), questions, targets, room or Room.of(targets.device))
    none = questions.triples.new_empty(0)
    return standings_without(session, questions.triples, none, none, foils=questions.foils, room=room)


def judge(
    oracle: FullOracle, shown: Tensor, *, carried: Carried | None = None, paper_mask: Tensor | None = None
) -> Verdict:
    """Judge the evidence that is shown, edges (Q, count, most) padded with −1.

    `carried` is what it carries, all places flat, where that was measured before. With `paper_mask` (E,) the paper's
    own figures are measured as well.
    """
    graph = oracle.graph
    queries, count = graph.num_queries, shown.size(1)
    firsts = sorted({*TOPS, count} - {1})  # the first alone is among the single ones
    sets = [shown[:, i] for i in range(count)]  # each alone …
    sets += [shown[:, :m].flatten(1) for m in firsts]  # … then the first m together
    most = max(part.size(1) for part in sets)
    removed = torch.cat([torch.nn.functional.pad(part, (0, most - part.size(1)), value=-1) for part in sets])
    ids = torch.arange(queries, device=graph.device)
    standing = oracle.standings_without(ids.repeat(len(sets)), removed)
    carried = carried or measure_carried(oracle.precisely(), graph, _as_batch(shown))
    alone = carried.alone.view(shown.shape)
    score, rank = standing.score.view(len(sets), queries), standing.rank.view(len(sets), queries)
    joint = {m: Standing(score[i], rank[i]) for i, m in [(0, 1), *enumerate(firsts, start=count)]}
    return Verdict(
        Standing(score[:count].t(), rank[:count].t()),
        {m: joint[m] for m in TOPS},
        joint[count],
        oracle.standings_with_only(shown.flatten(1)),
        oracle.sees(shown),
        alone,
        carried.together.view(queries, count),
        deletion_curve(oracle, graph, shown, alone),
        None if paper_mask is None else measure_paper(oracle.model, graph, paper_mask, shown, TOPS, oracle.room),
    )


def _as_batch(shown: Tensor) -> EvidenceBatch:
    """Return what is shown (Q, count, most) as a batch of all places, those without evidence included."""
    query = torch.arange(shown.size(0), device=shown.device).repeat_interleave(shown.size(1))
    nothing = torch.zeros_like(query)
    return EvidenceBatch(query, shown.flatten(0, 1), nothing.double(), nothing.bool())


def deletion_curve(oracle: Oracle, graph: ComputationGraph, shown: Tensor, alone: Tensor) -> Tensor:
    """Ask each question without the first 1, 2, … facts of its evidence (Q, count, most): (Q, facts).

    Facts go piece by piece, within a piece by their own effect `alone`, the largest first; a fact that was removed
    already is passed over. What the computation graph cannot show of a piece is NaN, as is all behind the last fact.
    """
    facts = fact_of(graph, shown)
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
    curve = torch.full((queries, most), torch.nan, dtype=graph.norm.dtype, device=facts.device)
    left = oracle.without(query, removed[there])
    return curve.to(left.dtype).masked_scatter(there, left)
