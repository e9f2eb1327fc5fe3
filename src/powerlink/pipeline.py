"""The flow as one function: extract, prune, score edges, search paths, judge them on the model, tell what was found."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Literal, get_args

import torch
from torch import Tensor

from powerlink.errors import SettingsError
from powerlink.explainers.contract import score_faithfully
from powerlink.explainers.floor import LowDegree
from powerlink.explainers.protocol import EdgeScores, Explainer, Fitted, LooksEverywhere
from powerlink.explainers.remarks import remarks_on_mask
from powerlink.explainers.slopes import Slopes
from powerlink.explanation import Explanation, MadeBy, Outcome, Status
from powerlink.graphs.computation_graph import ComputationGraph, extract
from powerlink.graphs.prune import prune
from powerlink.kernels.fused import on_device
from powerlink.memory import Room
from powerlink.models.calibration import Calibration
from powerlink.models.protocol import LinkModel
from powerlink.models.subject import Subject, undisturbed
from powerlink.narrate import Findings, narrate, unexplained
from powerlink.paths.propose import Candidates, Cost, has_path, pool, propose
from powerlink.paths.search import PathBatch
from powerlink.settings import setting
from powerlink.stage_clock import StageClock
from powerlink.verify.carried import MOST_FACTS, Carried, measure_carried
from powerlink.verify.counterfactual import Standing
from powerlink.verify.selection import choose_by_carried, choose_by_largest_drop, choose_in_order
from powerlink.verify.verdict import judge, standing_of

Select = Literal["carried", "largest-drop", "mask"]
AlsoConsider = Literal["cheap", "slopes", "none"]
SECOND_PROPOSERS: dict[AlsoConsider, tuple[Explainer, ...]] = {
    "cheap": (Slopes(), LowDegree()),
    "slopes": (Slopes(),),
    "none": (),
}
DEFAULT_EXPLAINER: Explainer = Slopes()
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
    select: Select = setting(
        "carried",
        "choose paths by what their facts carry together, by the largest fall of the score when they are removed, or "
        "in the mask's own order (the paper)",
    )
    also_consider: AlsoConsider = setting(
        "cheap", "who else proposes candidates, unless mask selects; cheap: slopes and low-degree, which learn nothing"
    )
    cost: Cost | None = setting(None, "a path search minimises the sum of 1/score, −log score, or that + log in-degree")

    def __post_init__(self) -> None:
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
    explainer, settings = explainer or DEFAULT_EXPLAINER, settings or ExplainSettings()
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
    """What stages 4 and 5 find, and which of it is shown."""

    scores: EdgeScores
    candidates: Candidates
    chosen: Tensor  # (Q, count) position among the candidates, −1 where there are fewer
    witnesses: Tensor  # (Q, count) for how many candidates each stands
    carried: Carried | None  # by the candidates, where that chose
    proposers: list[str]
    remarks: list[tuple[str, ...]]  # (Q,) doubts about the mask

    @property
    def shown(self) -> Tensor:
        """The edges of the chosen paths, padded with −1: (Q, count, max_length)."""
        edges, place = self.candidates.paths.edges, self.chosen.clamp(min=0)
        if not edges.size(0):
            return self.chosen.new_full((*self.chosen.shape, edges.size(1)), -1)
        return torch.where((self.chosen >= 0).unsqueeze(2), edges[place], -1)


def find_paths(
    model: LinkModel,
    graph: ComputationGraph,
    explainer: Explainer,
    settings: ExplainSettings,
    seed: int,
    clock: StageClock | None = None,
    room: Room | None = None,
    precise: LinkModel | None = None,
) -> Found:
    """Score edges, search paths and choose among them; graph must be pruned and hold features.

    `precise` is the model in float64, where it has such a form: it tells what facts carry together.
    """
    clock, room = clock or StageClock(), room or Room.of(graph.device)
    lengths = {"min_length": settings.min_length, "max_length": settings.max_length}
    wish = {"count": settings.candidates, **lengths, "at_once": room.edges}
    # The model will judge what they propose, so they may look everywhere: pruning is for those who must learn a mask.
    everything = graph.pruned_to(torch.ones_like(graph.kept)) if settings.select != "mask" else graph
    proposals = {}

    def search(by: Explainer, within: ComputationGraph, scores: EdgeScores) -> None:
        with clock("search paths"):
            proposals[by.name] = propose(within, scores.for_search, cost=settings.cost or by.cost, **wish)

    within = everything if isinstance(explainer, LooksEverywhere) else graph
    with clock("score edges"):
        scores = score_faithfully(explainer, model, within, seed)
    search(explainer, within, scores)
    for second in SECOND_PROPOSERS[settings.also_consider] if settings.select != "mask" else ():
        if second.name not in proposals:
            with clock("second proposers"):
                theirs = second.score_edges(model, everything, seed)
            search(second, everything, theirs)
    candidates = pool(list(proposals.values()))
    remarks: list[tuple[str, ...]] = [()] * graph.num_queries
    if not isinstance(explainer, LooksEverywhere):  # what is not learned is no mask, and has no emptiness to confess
        remarks = remarks_on_mask(within, scores, proposals[explainer.name])
    with clock("choose paths"):
        chosen, witnesses, carried = _choose(model, graph, candidates.paths, settings, room, precise or model)
    return Found(scores, candidates, chosen, witnesses, carried, list(proposals), remarks)


def _choose(
    model: LinkModel,
    graph: ComputationGraph,
    paths: PathBatch,
    settings: ExplainSettings,
    room: Room,
    precise: LinkModel,
) -> tuple[Tensor, Tensor, Carried | None]:
    """Choose the paths to show, (Q, count); tell for how many candidates each stands, and what they carry."""
    if settings.select == "carried":
        carried = measure_carried(precise, graph, paths, room)
        return *choose_by_carried(graph, paths, carried, settings.paths), carried
    if settings.select == "largest-drop":
        chosen = choose_by_largest_drop(model, graph, paths, settings.paths, room).index
    else:
        chosen = choose_in_order(graph, paths, settings.paths)
    return chosen, (chosen >= 0).long(), None


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
    found = find_paths(subject.model, graph, explainer, settings, seed, clock, room, subject.precise)
    with clock("judge"):
        carried = found.carried.at(found.chosen) if found.carried else None
        verdict = judge(subject, graph, found.scores.values, found.shown, TOPS, room, carried=carried)
    return Findings(
        graph, found.scores, found.candidates, found.chosen, found.witnesses, verdict, found.proposers, found.remarks
    )


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
