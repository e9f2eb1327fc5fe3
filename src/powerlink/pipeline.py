"""The flow as one function: extract, prune, propose, choose, judge, tell."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TypeVar

import torch
from torch import Tensor

from powerlink.errors import SettingsError
from powerlink.explain_settings import ExplainSettings as ExplainSettings  # noqa: PLC0414 - where it is looked for
from powerlink.explainers.nearest import Sample, nearest_part
from powerlink.explainers.proposals import Proposals, Proposing
from powerlink.explainers.protocol import AnyExplainer, Explainer, Fitted, Wish
from powerlink.explainers.slopes import Slopes
from powerlink.explanation import Explanation, MadeBy, Outcome, Status
from powerlink.graphs.computation_graph import ComputationGraph, extract
from powerlink.graphs.prune import prune
from powerlink.kernels.plain_torch import plain_torch
from powerlink.memory import Room
from powerlink.models.calibration import Calibration
from powerlink.models.session import Session
from powerlink.narrate import Findings, name_query, narrate, unexplained
from powerlink.paths.propose import has_path
from powerlink.questions import Questions
from powerlink.stage_clock import Seconds, stage, timed
from powerlink.verify.choice import Choice, choose
from powerlink.verify.counterfactual import Standing
from powerlink.verify.oracle import FullOracle, Removal
from powerlink.verify.post_training import PostTraining
from powerlink.verify.verdict import Verdict, judge, standing_of

Way = TypeVar("Way", bound=str)
DEFAULT_EXPLAINER: Explainer = Slopes()


def explain_batch(
    session: Session,
    questions: Questions | Tensor,
    *,
    explainer: AnyExplainer | None = None,
    settings: ExplainSettings | None = None,
    seed: int = 0,
    made_by: MadeBy | None = None,
    room: Room | None = None,
) -> list[Explanation]:
    """Explain a batch of questions, or queries (Q, 3) of head, relation, tail; a relation ≥ R asks through the inverse.

    `room` is how much of the proof is computed at a time; by default, what suits the device.
    """
    way = {"": settings or ExplainSettings()}
    origin = {} if made_by is None else {"": made_by}
    answers = explain_in_ways(session, questions, way, explainer=explainer, seed=seed, made_by=origin, room=room)
    return answers[""].explanations


@dataclass(frozen=True)
class Answer:
    """What is said of a batch in one way, and the seconds that this way alone would have taken."""

    explanations: list[Explanation]
    seconds: Seconds


def explain_in_ways(
    session: Session,
    questions: Questions | Tensor,
    ways: Mapping[Way, ExplainSettings],
    *,
    explainer: AnyExplainer | None = None,
    seed: int = 0,
    made_by: Mapping[Way, MadeBy] | None = None,
    room: Room | None = None,
    most: int | None = None,
) -> dict[Way, Answer]:
    """Explain a batch in several ways that look at the same graphs and differ in how they choose among its evidence.

    Of a single question whose graph has more edges than `most`, proposers see the nearest part.
    """
    explainer, made_by, first = explainer or DEFAULT_EXPLAINER, made_by or {}, next(iter(ways.values()))
    if isinstance(explainer, Fitted):
        explainer.check_fit(session)
    if not session.reads_facts and any(way.metrics == "paper" for way in ways.values()):
        raise SettingsError("the paper's figures weigh messages, and the model passes none")
    device = session.messages.device
    questions, room = Questions.of(questions).to(device), room or Room.of(device)
    with plain_torch(device), timed(if_heard=True) as shared:
        with stage("rank the prediction"):
            standing = standing_of(session, questions, room)
        with stage("calibrate"):
            calibration = session.calibration
        closed = _told_at_once(session, questions, standing)
        left = torch.tensor([i for i in range(len(questions)) if i not in closed], device=device)
        if left.numel():
            with stage("extract and prune"):
                sample = None
                if most is not None and left.numel() == 1:
                    hops = first.hops or session.reach
                    sample = nearest_part(session.messages, questions[left], hops, most, seed)
                graph = computation_graph(session, questions[left], first, sample)
            oracle = _oracle(session, graph, room, sample)
            asking = replace(Wish.of(first), at_once=room.edges)
            proposing = Proposing(oracle, graph, asking, seed, questions.allowed(graph))
    found: dict[Way, Answer] = {}
    for way, settings in ways.items():
        origin = made_by.get(way)
        stories = {i: replace(explanation, made_by=origin) for i, explanation in closed.items()}
        with plain_torch(device), timed(if_heard=True) as own:
            proposals: Proposals | None = None
            if left.numel():
                here = Standing(standing.score[left], standing.rank[left])
                proposals, choice = find_evidence(proposing, oracle, explainer, settings)
                with stage("judge"):
                    findings = Findings(graph, proposals, choice, _judge(oracle, proposals, choice, settings), sample)
                with stage("tell"):
                    told = narrate(session.graph, findings, here, origin)
                stories |= dict(zip(left.tolist(), told, strict=True))
        found[way] = Answer(
            [_with_probability(stories[i], calibration) for i in range(len(questions))],
            {**own, **(proposals.seconds if proposals else {}), **shared},
        )
    return found


def _oracle(session: Session, graph: ComputationGraph, room: Room, sample: Sample | None) -> FullOracle:
    """Return who answers "what if": the graph without facts, or for a model that passes no messages a stand-in."""
    if not session.reads_facts:
        return PostTraining.of(session, graph, room)
    return Removal.of(session, graph, room) if sample is None else Removal.beside(session, graph, room)


def find_evidence(
    proposing: Proposing, oracle: FullOracle, explainer: AnyExplainer, settings: ExplainSettings
) -> tuple[Proposals, Choice]:
    """Let evidence be proposed, and choose among it."""
    by_mask = settings.select == "mask"  # then nobody but the explainer is heard, and on the graph it learned on
    proposals = proposing(explainer, "none" if by_mask else settings.also_consider, everywhere=not by_mask)
    with stage("choose paths"):
        evidence, select = proposals.candidates.evidence, settings.select
        return proposals, choose(oracle, oracle.graph, evidence, select, settings.paths)


def _judge(oracle: FullOracle, proposals: Proposals, choice: Choice, settings: ExplainSettings) -> Verdict:
    carried = choice.carried.at(choice.index) if choice.carried else None
    mask = proposals.mask if settings.metrics == "paper" else None
    return judge(oracle, choice.edges_of(proposals.candidates.evidence), carried=carried, paper_mask=mask)


def computation_graph(
    session: Session, questions: Questions | Tensor, settings: ExplainSettings, sample: Sample | None = None
) -> ComputationGraph:
    """Extract and prune, with the whole graph's encoding as features; of a sample there is nothing to extract."""
    questions = Questions.of(questions)
    hops = settings.hops or session.reach
    seen = sample.graph if sample else extract(session.messages, questions.triples, hops, questions.foils)
    graph = prune_for(seen, settings)
    return graph.with_features(session.whole.entity, session.whole.relation)


def prune_for(graph: ComputationGraph, settings: ExplainSettings) -> ComputationGraph:
    """Prune as the settings say; a query whose only paths pruning would cut keeps its whole graph."""
    lengths = {"min_length": settings.min_length, "max_length": settings.max_length}
    pruned = prune(graph, hub_limit=settings.hub_limit or None, core=settings.core, max_length=settings.max_length)
    if settings.min_length > 1:  # `prune` looks for any path short enough; here a direct edge is not one
        lost = has_path(graph, **lengths) & ~has_path(pruned, **lengths)
        pruned = pruned.pruned_to(pruned.kept | lost[graph.query_of_edge])
    return pruned


def _told_at_once(session: Session, questions: Questions, standing: Standing) -> dict[int, Explanation]:
    """Tell the questions for which no evidence can be looked for, by their place in the batch."""
    row, ends = session.messages.row, questions.triples[:, [0, 2]]
    alone = (row[ends + 1] == row[ends]).any(1)
    foils = [-1] * len(questions) if questions.foils is None else questions.foils.tolist()
    said = zip(
        questions.triples.tolist(), foils, alone.tolist(), standing.score.tolist(), standing.rank.tolist(), strict=True
    )
    told = {}
    for i, ((head, relation, tail), foil, is_alone, score, rank) in enumerate(said):
        outcome: Outcome | None = Outcome(score, rank)
        if not math.isfinite(score):
            status, outcome = Status.NOT_FINITE, None
        elif head == tail:
            status = Status.HEAD_IS_TAIL
        elif is_alone:
            status = Status.ENTITY_WITHOUT_FACTS
        else:
            continue
        told[i] = unexplained(name_query(session.graph, (head, relation, tail), foil), status, outcome, None)
    return told


def _with_probability(explanation: Explanation, calibration: Calibration | None) -> Explanation:
    if calibration is None or explanation.score is None or explanation.query.foil is not None:
        return explanation
    return replace(explanation, probability=calibration.probability(explanation.score))
