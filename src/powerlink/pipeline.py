"""The flow as one function: extract, prune, score edges, search paths, judge them on the model, tell what was found."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Literal, get_args

import torch
from torch import Tensor

from powerlink.errors import SettingsError
from powerlink.explainers.contract import score_faithfully
from powerlink.explainers.floor import Gradient
from powerlink.explainers.learned.power_link import PowerLink
from powerlink.explainers.protocol import EdgeScores, Explainer, Fitted, setting
from powerlink.explanation import Explanation, MadeBy, Outcome, Status
from powerlink.graphs.computation_graph import ComputationGraph, extract
from powerlink.graphs.prune import prune
from powerlink.kernels.fused import on_device
from powerlink.models.calibration import Calibration
from powerlink.models.protocol import LinkModel
from powerlink.models.subject import Subject, undisturbed
from powerlink.narrate import Findings, narrate, unexplained
from powerlink.paths.propose import Candidates, Cost, has_path, pool, propose
from powerlink.stage_clock import StageClock
from powerlink.verify.counterfactual import Room, Standing
from powerlink.verify.selection import choose_by_proof, choose_in_order
from powerlink.verify.verdict import judge, standing_of

Select = Literal["proof", "mask"]
AlsoConsider = Literal["gradient", "none"]
TOPS = (1, 3, 5)  # the m of HΔR:m


@dataclass(frozen=True, kw_only=True)
class ExplainSettings:
    """What is asked of every explanation, whichever explainer makes it."""

    paths: int = setting(5, "how many paths to show at most")
    min_length: int = setting(1, "fewest hops of a path")
    max_length: int = setting(3, "most hops of a path")
    hops: int | None = setting(None, "how far around head and tail to look; by default as far as the model sees")
    hub_limit: int = setting(200, "leave out nodes with more incoming edges than this; 0: no limit")
    core: int = setting(2, "leave out nodes with fewer distinct neighbours than this")
    candidates: int = setting(40, "how many paths each explainer proposes")
    select: Select = setting("proof", "choose paths by their measured effect, or in the mask's own order (the paper)")
    also_consider: AlsoConsider = setting("gradient", "a second proposer of candidates, where proof selects")
    cost: Cost | None = setting(None, "a path search minimises the sum of 1/score, −log score, or that + log in-degree")

    def __post_init__(self) -> None:
        if not 1 <= self.min_length <= self.max_length:
            raise SettingsError(
                f"path lengths must satisfy 1 ≤ min_length ≤ max_length, not {self.min_length} and {self.max_length}"
            )
        if self.paths < 1 or self.candidates < self.paths:
            raise SettingsError(
                f"paths must be at least 1, and candidates at least as many, not {self.paths} and {self.candidates}"
            )
        for name, kind in (("select", Select), ("also_consider", AlsoConsider)):
            if getattr(self, name) not in get_args(kind):
                raise SettingsError(f"{name} must be {' or '.join(get_args(kind))}, not {getattr(self, name)!r}")
        if self.cost is not None and self.cost not in get_args(Cost):
            raise SettingsError(f"cost must be {' or '.join(get_args(Cost))}, not {self.cost!r}")
        for name, value, least in (("hops", self.hops, 1), ("hub_limit", self.hub_limit, 0), ("core", self.core, 0)):
            if value is not None and value < least:
                raise SettingsError(f"{name} must be at least {least}, not {value}")


def explain_batch(
    subject: Subject,
    queries: Tensor,
    *,
    explainer: Explainer | None = None,
    settings: ExplainSettings | None = None,
    seed: int = 0,
    made_by: MadeBy | None = None,
    clock: StageClock | None = None,
    room: Room | None = None,
) -> list[Explanation]:
    """Explain a batch of queries (Q, 3) of head, relation, tail; a relation ≥ R asks through the inverse.

    `room` is how much of the proof is computed at a time; by default, what suits the device.
    """
    clock = clock or StageClock()
    explainer, settings = explainer or PowerLink(), settings or ExplainSettings()
    if isinstance(explainer, Fitted):
        explainer.check_fit(subject)
    queries = queries.to(subject.messages.device)
    with undisturbed(subject.model), on_device(queries.device):
        with clock("rank the prediction"):
            standing = standing_of(subject, queries, room)
        with clock("calibrate"):
            calibration = subject.calibration
        told = _told_at_once(subject, queries, standing, made_by)
        open_queries = torch.tensor([i for i in range(len(queries)) if i not in told], device=queries.device)
        if open_queries.numel():
            findings = _investigate(subject, queries[open_queries], explainer, settings, seed, clock, room)
            here = Standing(standing.score[open_queries], standing.rank[open_queries])
            with clock("tell"):
                stories = narrate(subject.graph, findings, here, made_by)
            told |= dict(zip(open_queries.tolist(), stories, strict=True))
    return [_with_probability(told[i], calibration) for i in range(len(queries))]


@dataclass(frozen=True, eq=False)
class Found:
    """What stages 4 and 5 find, and which of it the model's own word chooses."""

    scores: EdgeScores
    candidates: Candidates
    chosen: Tensor  # (Q, count) position among the candidates, −1 where there are fewer
    shown: Tensor  # (Q, count, max_length) their edges, padded with −1
    proposers: list[str]


def find_paths(
    model: LinkModel,
    graph: ComputationGraph,
    explainer: Explainer,
    settings: ExplainSettings,
    seed: int,
    clock: StageClock | None = None,
    room: Room | None = None,
) -> Found:
    """Score edges, search paths and choose among them; graph must be pruned and hold features."""
    clock, room = clock or StageClock(), room or Room.of(graph.device)
    with clock("score edges"):
        scores = score_faithfully(explainer, model, graph, seed)
    lengths = {"min_length": settings.min_length, "max_length": settings.max_length}
    wish = {"count": settings.candidates, **lengths, "at_once": room.edges}
    with clock("search paths"):
        proposals = {explainer.name: propose(graph, scores.values, cost=settings.cost or explainer.cost, **wish)}
    if settings.select == "proof" and settings.also_consider == "gradient":
        # Proof will judge what it proposes, so it may look everywhere: pruning is for those who must learn a mask.
        everything = graph.pruned_to(torch.ones_like(graph.kept))
        with clock("gradient"):
            slopes = Gradient().score_edges(model, everything, seed).values
        with clock("search paths"):
            proposals.setdefault(Gradient.name, propose(everything, slopes, cost=Gradient.cost, **wish))
    candidates = pool(list(proposals.values()))

    with clock("choose paths"):
        if settings.select == "proof":
            chosen = choose_by_proof(model, graph, candidates.paths, settings.paths, room).index
        else:
            chosen = choose_in_order(graph, candidates.paths, settings.paths)
    edges = candidates.paths.edges
    shown = (
        torch.where((chosen >= 0).unsqueeze(2), edges[chosen.clamp(min=0)], -1)
        if edges.numel()
        else (chosen.new_full((*chosen.shape, settings.max_length), -1))
    )
    return Found(scores, candidates, chosen, shown, list(proposals))


def _investigate(
    subject: Subject,
    queries: Tensor,
    explainer: Explainer,
    settings: ExplainSettings,
    seed: int,
    clock: StageClock,
    room: Room | None,
) -> Findings:
    """Run stages 3 to 6 on queries that can be searched."""
    with clock("extract and prune"):
        graph = computation_graph(subject, queries, settings)
    found = find_paths(subject.model, graph, explainer, settings, seed, clock, room)
    scores = found.scores
    with clock("judge"):
        verdict = judge(subject, graph, scores.values, found.shown, TOPS, room)
    return Findings(graph, scores.values, scores.path_term, found.candidates, found.chosen, verdict, found.proposers)


def computation_graph(subject: Subject, queries: Tensor, settings: ExplainSettings) -> ComputationGraph:
    """Extract and prune, with the whole graph's encoding as features."""
    graph = prune_for(extract(subject.messages, queries, settings.hops or subject.model.num_layers), settings)
    return graph.with_features(subject.whole.entity, subject.whole.relation)


def prune_for(graph: ComputationGraph, settings: ExplainSettings) -> ComputationGraph:
    """Prune as the settings say; a query whose only paths pruning would cut keeps its whole graph."""
    lengths = {"min_length": settings.min_length, "max_length": settings.max_length}
    pruned = prune(graph, hub_limit=settings.hub_limit or None, core=settings.core, max_length=settings.max_length)
    if settings.min_length > 1:  # `prune` looks for any path short enough; here a direct edge is not one
        lost = has_path(graph, **lengths) & ~has_path(pruned, **lengths)
        pruned = pruned.pruned_to(pruned.kept | lost[graph.query_of_edge])
    return pruned


def _told_at_once(
    subject: Subject, queries: Tensor, standing: Standing, made_by: MadeBy | None
) -> dict[int, Explanation]:
    """Tell the queries for which no path can be looked for, by their place in the batch."""
    row, ends = subject.messages.row, queries[:, [0, 2]]
    alone = (row[ends + 1] == row[ends]).any(1)
    said = zip(queries.tolist(), alone.tolist(), standing.score.tolist(), standing.rank.tolist(), strict=True)
    told = {}
    for i, ((head, relation, tail), is_alone, score, rank) in enumerate(said):
        outcome: Outcome | None = Outcome(score, rank)
        if not math.isfinite(score):
            status, outcome = Status.NOT_FINITE, None
        elif head == tail:
            status = Status.HEAD_IS_TAIL
        elif is_alone:
            status = Status.ENTITY_WITHOUT_FACTS
        else:
            continue
        told[i] = unexplained(subject.graph, (head, relation, tail), status, outcome, made_by)
    return told


def _with_probability(explanation: Explanation, calibration: Calibration | None) -> Explanation:
    if calibration is None or explanation.score is None:
        return explanation
    return replace(explanation, probability=calibration.probability(explanation.score))
