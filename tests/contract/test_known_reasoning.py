"""Explainers against a model whose reasons are known: is the first path shown a true one, to the exact relation?

Every query has one true path, seldom two, among dozens: false paths of the same and of smaller length, facts of other
relations beside every true hop, hubs. At the paper's 50 steps nearly all mask values around head and tail end close
to 1 and the shortest path wins; with more steps under a size term that counts (`PowerLink.thorough()`) the mask's own
order finds the truth. Choice by proof finds it at the default settings. Figures over more graphs are in
benchmarks/results/known_reasoning.json.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from powerlink.explainers.floor import Gradient, Random
from powerlink.explainers.learned.gnn_explainer import GNNExplainer
from powerlink.explainers.learned.kex import KEX
from powerlink.explainers.learned.page_link import PaGELink
from powerlink.explainers.learned.pg_explainer import PGExplainer, PGFitting
from powerlink.explainers.learned.power_link import PowerLink
from powerlink.explainers.protocol import Explainer
from powerlink.explainers.subsets.kelpie import Around, Kelpie
from powerlink.explanation import Explanation
from powerlink.graphs.computation_graph import ComputationGraph, extract
from powerlink.kg.explained_links import GroundTruth
from powerlink.kg.planted import GOALS, Planted, plant, true_paths
from powerlink.models.rule_model import RuleModel
from powerlink.models.session import Session
from powerlink.pipeline import ExplainSettings, computation_graph, explain_batch
from powerlink.run.fitting import GraphBatches, fit_explainer
from powerlink.verify.ground_truth import edge_auc, explaining_edges

SEEDS = (100, 101, 102)  # no setting was chosen on these
BY_MASK = ExplainSettings(select="mask", hops=1, max_length=3)  # one hop holds every path of three
BY_CARRIED = ExplainSettings(select="carried", hops=1, max_length=3)


@dataclass(frozen=True)
class Case:
    planted: Planted
    session: Session
    queries: Tensor


@pytest.fixture(scope="module")
def cases() -> list[Case]:
    found = []
    for seed in SEEDS:
        planted = plant(seed)
        graph = planted.graph
        session = Session.of(graph, RuleModel(planted.rules, graph.num_entities, graph.num_relations))
        found.append(Case(planted, session, torch.from_numpy(graph.test.copy())))
    return found


def is_hit(planted: Planted, told: Explanation) -> bool:
    """Whether the first path shown is one the model really reasons by."""
    fact = planted.graph.triple(told.query.head, told.query.relation, told.query.tail)
    return bool(told.paths) and planted.steps_of(told.paths[0]) in true_paths(planted, *fact)


def hit_rate(
    cases: list[Case], explainer: Explainer, settings: ExplainSettings, *, every: int = 1, inverse: bool = False
) -> float:
    hits = []
    for case in cases:
        queries = case.queries[::every]
        if inverse:
            head, relation, tail = queries.unbind(1)
            queries = torch.stack([tail, relation + case.planted.graph.num_relations, head], dim=1)
        told = explain_batch(case.session, queries, explainer=explainer, settings=settings)
        hits += [is_hit(case.planted, one) for one in told]
    return sum(hits) / len(hits)


def fact_auc(cases: list[Case], explainer: Explainer, every: int = 4) -> float:
    """Return how well an explainer's scores tell the facts of true paths from all others, as a mean ROC-AUC."""
    found: list[float] = []
    for case in cases:
        queries = case.queries[::every]
        graph = computation_graph(case.session, queries, BY_MASK)
        truth = [true_paths(case.planted, *query) for query in queries.tolist()]
        known = [GroundTruth(tuple({step for path in paths for step in path}), tuple(paths)) for paths in truth]
        scores = explainer.score_edges(case.session.model, graph, 0).values
        found += edge_auc(graph, scores, explaining_edges(graph, known), "facts").tolist()
    return sum(found) / len(found)


def count_paths(graph: ComputationGraph, query: int) -> int:
    """Count the loopless head-to-tail paths of at most three edges, parallel edges apart."""
    leaving: dict[int, list[int]] = {}
    for source, target in zip(graph.source.tolist(), graph.target.tolist(), strict=True):
        leaving.setdefault(source, []).append(target)
    head, tail = int(graph.head[query]), int(graph.tail[query])
    total, ends = 0, [(head,)]
    for _ in range(3):
        longer = [(*path, node) for path in ends for node in leaving.get(path[-1], []) if node not in path]
        total += sum(path[-1] == tail for path in longer)
        ends = [path for path in longer if path[-1] != tail]
    return total


def test_the_task_is_not_trivial(cases: list[Case]) -> None:
    counts, truths = [], []
    for case in cases:
        graph = extract(case.session.messages, case.queries[::4], hops=1)
        counts += [count_paths(graph, query) for query in range(graph.num_queries)]
        truths += [len(true_paths(case.planted, *query)) for query in case.queries.tolist()]
    assert sum(counts) / len(counts) > 40
    assert sum(truths) / len(truths) < 1.5


def test_chance_finds_little(cases: list[Case]) -> None:
    assert hit_rate(cases, Random(), BY_MASK) < 0.3


@pytest.mark.parametrize("inverse", [False, True])
def test_the_gradient_finds_the_truth(cases: list[Case], inverse: bool) -> None:
    assert hit_rate(cases, Gradient(), BY_MASK, inverse=inverse) >= 0.95


def test_the_mask_at_the_papers_settings_beats_chance(cases: list[Case]) -> None:
    assert hit_rate(cases, PowerLink(), BY_MASK, every=2) > hit_rate(cases, Random(), BY_MASK, every=2) + 0.1


def test_the_thorough_mask_finds_the_truth_in_its_own_order(cases: list[Case]) -> None:
    by_mask = replace(BY_MASK, cost="log")
    assert hit_rate(cases, PowerLink.thorough(), by_mask, every=2) >= 0.95


def test_proof_finds_the_truth_at_the_default_settings(cases: list[Case]) -> None:
    assert hit_rate(cases, PowerLink(), BY_CARRIED, every=2) >= 0.95


def test_gnn_explainer_finds_the_truth_in_its_own_order(cases: list[Case]) -> None:
    """A free number per edge is all that a model of rules needs."""
    assert hit_rate(cases, GNNExplainer(), BY_MASK, every=4) >= 0.8


@pytest.mark.parametrize("inverse", [False, True])
def test_ke_x_finds_the_truth_in_its_own_order(cases: list[Case], inverse: bool) -> None:
    """A path walks its facts in either direction, whichever of their messages the model reads.

    The share of its budget was looked at on these graphs, too; on those of seeds 200 … 205 it finds as much.
    """
    assert hit_rate(cases, KEX(), BY_MASK, every=4, inverse=inverse) >= 0.9


@pytest.mark.parametrize("around", ["head", "both"])
def test_kelpie_names_facts_of_a_true_path_first(cases: list[Case], around: Around) -> None:
    hits = []
    for case in cases:
        settings = replace(BY_MASK, also_consider="none")
        for told in explain_batch(case.session, case.queries[::4], explainer=Kelpie(around=around), settings=settings):
            query = case.planted.graph.triple(told.query.head, told.query.relation, told.query.tail)
            count = case.planted.graph.num_relations
            steps = {step for path in true_paths(case.planted, *query) for step in path}
            true = {(tail, r - count, head) if r >= count else (head, r, tail) for head, r, tail in steps}
            first = [case.planted.graph.triple(fact.head, fact.relation, fact.tail) for fact in told.evidence[0].facts]
            hits.append(set(first) <= true)
    assert sum(hits) / len(hits) >= 0.9


def test_page_link_proposes_the_truth_far_more_often_than_chance(cases: list[Case]) -> None:
    """Its own order follows the short paths its first steps chose; what it proposes, judged by proof, does not."""
    alone = replace(BY_CARRIED, also_consider="none")
    assert hit_rate(cases, PaGELink(), alone, every=4) > hit_rate(cases, Random(), alone, every=4) + 0.2


@pytest.mark.parametrize(
    "explainer", [PowerLink(), GNNExplainer(), PaGELink(), KEX(), Gradient()], ids=lambda one: one.name
)
def test_scores_tell_true_facts_from_others_far_better_than_chance(cases: list[Case], explainer: Explainer) -> None:
    assert fact_auc(cases, explainer) > fact_auc(cases, Random()) + 0.3


def test_a_fitted_pg_explainer_tells_true_facts_better_than_chance_or_untrained(
    cases: list[Case], tmp_path: Path
) -> None:
    """With the edge's relation to read: nodes alone do not say which of the facts beside each other is the reason."""
    case = cases[0]
    graph = case.planted.graph
    goals = torch.from_numpy(np.concatenate([graph.train, graph.valid]))
    seen = goals[goals[:, 1] < GOALS][:96]
    fitting = PGFitting(reads_relations=True, size_weight=0.02, entropy_weight=0.0, epochs=30, batch=4)
    wish = {"kind": PGExplainer, "settings": BY_MASK}
    untrained = fit_explainer(case.session, seen, tmp_path / "0", fitting=replace(fitting, epochs=0), **wish)
    trained = fit_explainer(case.session, seen, tmp_path / "1", fitting=fitting, **wish)
    reached = fact_auc([case], trained, every=2)
    assert reached > fact_auc([case], untrained, every=2) + 0.1
    assert reached > fact_auc([case], Random(), every=2) + 0.15


def test_fitting_pg_explainer_lowers_its_loss_on_queries_it_has_not_seen(cases: list[Case], tmp_path: Path) -> None:
    case = cases[0]
    graph, fitting = case.planted.graph, PGFitting(epochs=10, lr=0.01)
    goals = torch.from_numpy(np.concatenate([graph.train, graph.valid]))
    seen = goals[goals[:, 1] < GOALS][:96]
    unseen = next(iter(GraphBatches(case.session, case.queries[::2], BY_MASK)))

    def loss(explainer: Explainer) -> float:
        mask = explainer.score_edges(case.session.model, unseen, 0).values[unseen.kept]
        logits, terms = torch.logit(mask, eps=1e-6), fitting.terms(case.session.model, unseen)
        return torch.stack([weight * term(logits) for weight, term in terms]).sum(0).mean().item()

    told: list[float] = []
    wish = {"kind": PGExplainer, "settings": BY_MASK}
    untrained = fit_explainer(case.session, seen, tmp_path / "0", fitting=replace(fitting, epochs=0), **wish)
    trained = fit_explainer(case.session, seen, tmp_path / "1", fitting=fitting, told=told.append, **wish)
    assert len(told) == 10
    assert told[-1] < 0.6 * told[0]
    assert loss(trained) < 0.6 * loss(untrained)


def test_proof_shows_what_the_prediction_stands_on(cases: list[Case]) -> None:
    """Without the first path shown nothing is left of the score, even where that path is only partly the reason."""
    left = []
    for case in cases:
        told = explain_batch(case.session, case.queries[::4], settings=BY_CARRIED)
        scores = [(one.score, one.without_all) for one in told]
        left += [score is not None and without is not None and without.score < 0 < score for score, without in scores]
    assert sum(left) / len(left) >= 0.95
