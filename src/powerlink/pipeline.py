"""The flow as one function: extract, prune, propose, choose, judge, tell."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal, TypeVar, get_args

import torch
from torch import Tensor

from powerlink.errors import SettingsError
from powerlink.evidence import MOST_FACTS
from powerlink.explainers.nearest import Sample, nearest_part
from powerlink.explainers.proposals import AlsoConsider, Proposals, Proposing
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
from powerlink.paths.propose import Cost, has_path
from powerlink.questions import Questions
from powerlink.settings import check_settings, setting
from powerlink.stage_clock import Seconds, stage, timed
from powerlink.verify.choice import Choice, Select, choose
from powerlink.verify.counterfactual import Standing
from powerlink.verify.oracle import Removal
from powerlink.verify.verdict import Verdict, judge, standing_of

Metrics = Literal["removal", "paper"]
Way = TypeVar("Way", bound=str)
DEFAULT_EXPLAINER: Explainer = Slopes()


@dataclass(frozen=True, kw_only=True)
class ExplainSettings:
    """What is asked of every explanation, whichever explainer makes it."""

    paths: int = setting(5, "how many paths to show at most")
    min_length: int = setting(1, "fewest hops of a path")
    max_length: int = setting(3, "most hops of a path")
    hops: int | None = setting(
        None, "how far around head and tail to look; by default as far as the model sees", least=1
    )
    hub_limit: int = setting(200, "leave out nodes with more incoming edges than this; 0: no limit", least=0)
    core: int = setting(2, "leave out nodes with fewer distinct neighbours than this", least=0)
    candidates: int = setting(40, "how many paths each explainer proposes")
    select: Select = setting(
        "carried",
        "choose paths by what their facts carry together, by the largest fall of the score when they are removed, or "
        "in the mask's own order (the paper)",
        among=get_args(Select),
    )
    also_consider: AlsoConsider = setting(
        "cheap",
        "who else proposes candidates, unless mask selects; cheap: slopes and low-degree, which learn nothing",
        among=get_args(AlsoConsider),
    )
    cost: Cost | None = setting(
        None, "a path search minimises the sum of 1/score, −log score, or that + log in-degree", among=get_args(Cost)
    )
    metrics: Metrics = setting(
        "removal", "paper: measure the paper's own figures as well, F+, F−, Sparsity and HΔR", among=get_args(Metrics)
    )

    def __post_init__(self) -> None:
        check_settings(self)
        if not 1 <= self.min_length <= self.max_length:
            raise SettingsError(
                f"path lengths must satisfy 1 ≤ min_length ≤ max_length, not {self.min_length} and {self.max_length}"
            )
        if self.max_length > MOST_FACTS:
            raise SettingsError(
                f"max_length must be at most {MOST_FACTS}, not {self.max_length}: "
                "a path of k facts asks the model 2^k − 1 questions"
            )
        if self.paths < 1 or self.candidates < self.paths:
            raise SettingsError(
                f"paths must be at least 1, and candidates at least as many, not {self.paths} and {self.candidates}"
            )

    @property
    def wish(self) -> Wish:
        """What is wanted of a proposer, but for the memory it may take."""
        lengths = {"min_length": self.min_length, "max_length": self.max_length}
        return Wish(count=self.candidates, cost=self.cost, **lengths)


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
                    hops = first.hops or session.settled.num_layers
                    sample = nearest_part(session.messages, questions[left], hops, most, seed)
                graph = computation_graph(session, questions[left], first, sample)
            oracle = Removal.of(session, graph, room) if sample is None else Removal.beside(session, graph, room)
            asking = replace(first.wish, at_once=room.edges)
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


def find_evidence(
    proposing: Proposing, oracle: Removal, explainer: AnyExplainer, settings: ExplainSettings
) -> tuple[Proposals, Choice]:
    """Let evidence be proposed, and choose among it."""
    by_mask = settings.select == "mask"  # then nobody but the explainer is heard, and on the graph it learned on
    proposals = proposing(explainer, "none" if by_mask else settings.also_consider, everywhere=not by_mask)
    with stage("choose paths"):
        evidence, select = proposals.candidates.evidence, settings.select
        return proposals, choose(oracle, oracle.graph, evidence, select, settings.paths)


def _judge(oracle: Removal, proposals: Proposals, choice: Choice, settings: ExplainSettings) -> Verdict:
    carried = choice.carried.at(choice.index) if choice.carried else None
    mask = proposals.mask if settings.metrics == "paper" else None
    return judge(oracle, choice.edges_of(proposals.candidates.evidence), carried=carried, paper_mask=mask)


def computation_graph(
    session: Session, questions: Questions | Tensor, settings: ExplainSettings, sample: Sample | None = None
) -> ComputationGraph:
    """Extract and prune, with the whole graph's encoding as features; of a sample there is nothing to extract."""
    questions = Questions.of(questions)
    hops = settings.hops or session.settled.num_layers
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
