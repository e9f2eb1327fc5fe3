"""Evidence of both kinds: pooled, chosen, judged and told; and proposers of sets, ours or a stranger's."""

from __future__ import annotations

import io
import re
import time
from dataclasses import dataclass
from importlib.metadata import EntryPoint
from typing import ClassVar

import pytest
import torch
from rich.console import Console

from builders import edges_of_fact, edges_without, evidence_of, knowledge_graph, model_of, random_rows, triple_tensor
from powerlink.errors import ExplainerError, SettingsError
from powerlink.evidence import EvidenceBatch, fact_of, pool
from powerlink.explainers import catalog
from powerlink.explainers.catalog import find_recipe, make_explainer
from powerlink.explainers.protocol import Proposal, setting
from powerlink.explainers.slopes import fact_slopes
from powerlink.models.session import Session
from powerlink.pipeline import ExplainSettings, computation_graph, explain_batch
from powerlink.questions import Questions
from powerlink.report.drawing import lay_out
from powerlink.report.figure import save_figure
from powerlink.report.html import render_page
from powerlink.report.schema import from_json, to_json
from powerlink.report.text import print_explanations
from powerlink.run.explain_many import explain_many
from powerlink.run.job import ExplainJob


def batch(*paths, length=3):
    """Paths given as (query, edges, cost)."""
    rows = [list(edges) + [-1] * (length - len(edges)) for _, edges, _ in paths]
    edges = torch.tensor(rows, dtype=torch.int64).reshape(-1, length)
    found = evidence_of(torch.tensor([q for q, _, _ in paths], dtype=torch.int64), edges)
    cost = torch.tensor([cost for _, _, cost in paths], dtype=torch.float64)
    return EvidenceBatch(found.query, found.edges, cost, found.is_path)


def listed(candidates):
    found = candidates.evidence
    rows = zip(
        found.query.tolist(), found.edges.tolist(), found.cost.tolist(), candidates.proposer.tolist(), strict=True
    )
    return [(q, tuple(e for e in edges if e >= 0), cost, who) for q, edges, cost, who in rows]


def test_a_pool_keeps_what_two_propose_once_under_the_first_and_is_sorted_by_query():
    first = batch((0, [1, 2], 1.0), (1, [7], 2.0), (1, [8, 9], 3.0))
    second = batch((0, [3], 0.5), (0, [1, 2], 9.0), (1, [8, 9], 9.0), (2, [7], 1.0))
    assert listed(pool([first, second])) == [
        (0, (1, 2), 1.0, 0),
        (0, (3,), 0.5, 1),
        (1, (7,), 2.0, 0),
        (1, (8, 9), 3.0, 0),
        (2, (7,), 1.0, 1),
    ]


def test_pools_of_nothing_are_empty():
    empty = batch()
    assert pool([empty]).evidence.count == 0
    assert pool([empty, empty]).evidence.edges.shape == (0, 3)
    assert listed(pool([empty, batch((0, [1], 1.0))])) == [(0, (1,), 1.0, 1)]


def test_the_same_facts_are_two_pieces_as_a_path_and_as_a_set_and_widths_are_joined():
    path = batch((0, [1, 2], 1.0))
    same = EvidenceBatch(path.query, path.edges[:, :2], path.cost, torch.zeros(1, dtype=torch.bool))
    assert listed(pool([path, same])) == [(0, (1, 2), 1.0, 0), (0, (1, 2), 1.0, 1)]


# Sets: a proposer of another package, judged as paths are


@dataclass(frozen=True, kw_only=True)
class TwoFacts:
    """Sets of two facts: the one with the steepest slope, and each of the next ones."""

    name: ClassVar[str] = "two-facts"
    looks_everywhere: ClassVar[bool] = True
    partners: int = setting(3, "how many others the first fact is put beside", least=1)

    def propose(self, oracle, graph, wish, seed):
        slopes = fact_slopes(oracle.model, graph).where(graph.kept, -torch.inf)
        query, edges = [], []
        for q in range(graph.num_queries):
            own = ((graph.query_of_edge == q) & graph.kept).nonzero().squeeze(1)
            facts = fact_of(graph, own[slopes[own].argsort(descending=True, stable=True)]).tolist()
            first, *others = list(dict.fromkeys(facts))[: self.partners + 1] or [None]
            query += [q] * len(others)
            edges += [[first, other] for other in others]
        query, edges = torch.tensor(query, dtype=torch.long), torch.tensor(edges, dtype=torch.long).reshape(-1, 2)
        return Proposal(EvidenceBatch.of_sets(graph, query, edges, torch.arange(len(query))))


N, R = 14, 3
ROWS = random_rows(4, N, R, 55)
QUERIES = [(0, 0, 1), ROWS[3], (2, 4, 6), (5, 1, 7)]


@pytest.fixture(scope="module")
def session():
    return Session.of(knowledge_graph(ROWS, N, R), model_of("compgcn", "distmult", 2, N, R))


def number(session, query, removed):
    facts = [query, *(tuple(session.graph.triple(f.head, f.relation, f.tail)) for f in removed)]
    gone = {edge for fact in facts for edge in edges_of_fact(session.messages, fact)}
    with torch.no_grad():
        encoded = session.model.encode(edges_without(session.messages, sorted(gone)))
        return session.model.score(encoded, torch.tensor([query])).item()


@pytest.mark.parametrize("select", ["carried", "largest-drop", "mask"])
def test_sets_are_chosen_and_judged_as_rebuilt_graphs_say(session, select):
    settings = ExplainSettings(select=select, also_consider="none", core=0, metrics="paper")
    told = explain_batch(session, triple_tensor(QUERIES), explainer=TwoFacts(), settings=settings)
    assert sum(len(explanation.evidence) for explanation in told) >= 4
    for query, explanation in zip(QUERIES, told, strict=True):
        assert explanation.paths == ()
        assert explanation.paper is None, "there is no mask to measure"
        for piece in explanation.evidence:
            one, other = piece.facts
            assert (piece.kind, piece.proposed_by, one.inverse) == ("set", "two-facts", False)
            base, without = explanation.score, number(session, query, piece.facts)
            assert piece.score_without == pytest.approx(without, abs=1e-8)
            alone = [base - number(session, query, [fact]) for fact in piece.facts]
            assert [one.effect, other.effect] == pytest.approx(alone, abs=1e-8)
            assert piece.together == pytest.approx(sum(alone) - (base - without), abs=1e-8)


def test_paths_and_sets_stand_side_by_side_and_are_told_in_every_form(session, tmp_path):
    settings = ExplainSettings(core=0, paths=10)
    told = explain_batch(session, triple_tensor(QUERIES), explainer=TwoFacts(partners=6), settings=settings)
    kinds = {piece.kind for explanation in told for piece in explanation.evidence}
    assert kinds == {"path", "set"}
    for explanation in told:
        assert from_json(to_json(explanation)) == explanation
        sets = [i for i, piece in enumerate(explanation.evidence, 1) if piece.kind == "set"]
        console = Console(width=100, file=io.StringIO())
        print_explanations(console, [explanation])
        text, page = console.file.getvalue(), render_page([explanation], "sets")
        for i in sets:
            assert f"set {i}" in text
            assert f"Set {i}: " in page
            for fact in explanation.evidence[i - 1].facts:
                assert f"{fact.head} ─{fact.relation}→ {fact.tail}" in text
        if explanation.evidence:
            drawn = {(edge.fact.head, edge.fact.relation, edge.fact.tail) for edge in lay_out(explanation).edges}
            assert drawn == {(f.head, f.relation, f.tail) for p in explanation.evidence for f in p.facts}
            assert explanation.to_networkx().number_of_edges() == len(drawn)
            save_figure(explanation, tmp_path / "figure.svg")


def test_another_package_adds_a_proposer_by_one_entry_point(monkeypatch, session):
    point = EntryPoint("two-facts", f"{__name__}:TwoFacts", catalog.GROUP)
    monkeypatch.setattr(catalog, "registered_elsewhere", lambda: {"two-facts": point})
    explainer = make_explainer("two-facts", {"partners": 1})
    assert explainer == TwoFacts(partners=1)
    assert find_recipe("two-facts").line.startswith("Sets of two facts")
    told = explain_many(session, triple_tensor(QUERIES), explainer=explainer)
    assert {piece.proposed_by for e in told for piece in e.evidence} >= {"two-facts"}
    with pytest.raises(SettingsError, match="two-facts has no setting 'partner'"):
        make_explainer("two-facts", {"partner": 0})


@dataclass(frozen=True)
class Faulty(TwoFacts):
    name: ClassVar[str] = "faulty"
    fault: str = ""

    def propose(self, oracle, graph, wish, seed):
        good = super().propose(oracle, graph, wish, seed)
        query, edges, cost = good.evidence.query, good.evidence.edges, good.evidence.cost
        no = torch.zeros_like(query, dtype=torch.bool)
        return {
            "nothing": lambda: None,
            "order": lambda: Proposal(EvidenceBatch(query.flip(0), edges.flip(0), cost, no)),
            "edges": lambda: Proposal(EvidenceBatch(query, edges + graph.num_edges, cost, no)),
            "others": lambda: Proposal(EvidenceBatch(query, edges.flip(0), cost, no)),
            "many": lambda: Proposal(EvidenceBatch(query, edges.repeat(1, 6), cost, no)),
            "remarks": lambda: Proposal(good.evidence, remarks=[("a",)]),
            "cost": lambda: Proposal(EvidenceBatch(query, edges, cost.log(), no)),
            "shapes": lambda: Proposal(EvidenceBatch(query, edges, cost[:-1], no)),
            "kinds": lambda: Proposal(EvidenceBatch(query, edges.double(), cost, no)),
            "astray": lambda: Proposal(EvidenceBatch(query, edges, cost, ~no)),
            "mask": lambda: Proposal(good.evidence, torch.full((graph.num_edges,), 2.0)),
        }[self.fault]()


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ("nothing", "must return a Proposal, not NoneType"),
        ("order", "named evidence that is not sorted by query"),
        ("edges", "named evidence without facts, or with edges that are not in the graph"),
        ("others", "named evidence of another query's edges"),
        ("many", "named evidence of 12 facts; 10 are the most that can be judged"),
        ("remarks", "returned remarks of 1 queries, and there are 4"),
        ("cost", "named evidence with a cost that is not finite"),
        ("shapes", "named evidence whose query, edges, cost and is_path do not go together"),
        ("kinds", "named evidence whose query, edges, cost and is_path do not go together"),
        ("astray", "named evidence that it calls a path and that does not lead from head to tail"),
        ("mask", "returned scores from 2 to 2; kept edges need"),
    ],
)
def test_a_proposal_that_cannot_be_is_refused_by_name(session, fault, said):
    with pytest.raises(ExplainerError, match=f"^the explainer faulty {re.escape(said)}"):
        explain_batch(session, triple_tensor(QUERIES), explainer=Faulty(fault=fault))


def test_what_the_question_bars_is_refused_also_in_sets():
    session = Session.of(knowledge_graph(ROWS, N, R), model_of("compgcn", "distmult", 2, N, R))

    class Heedless(TwoFacts):
        name: ClassVar[str] = "heedless"

        def propose(self, oracle, graph, wish, seed):
            return super().propose(oracle, graph.pruned_to(torch.ones_like(graph.kept)), wish, seed)

    questions = Questions(triple_tensor(QUERIES[:1]), not_through=tuple(range(2, N)))
    with pytest.raises(ExplainerError, match="was not to use"):
        explain_batch(session, questions, explainer=Heedless())


def test_a_fact_named_in_both_directions_is_one_and_no_evidence_at_all_is_none():
    session = Session.of(knowledge_graph(ROWS, N, R), model_of("compgcn", "distmult", 2, N, R))
    graph = computation_graph(session, triple_tensor(QUERIES[:1]), ExplainSettings())
    both = torch.tensor([[4, int(graph.reverse[4]), 6]])
    found = EvidenceBatch.of_sets(graph, torch.zeros(1, dtype=torch.long), both, torch.zeros(1))
    assert found.size.tolist() == [2]

    class Silent(TwoFacts):
        name: ClassVar[str] = "silent"

        def propose(self, oracle, graph, wish, seed):
            none = torch.zeros(0, dtype=torch.long)
            return Proposal(EvidenceBatch.of_sets(graph, none, none.reshape(0, 0), none))

    (told,) = explain_batch(
        session, triple_tensor(QUERIES[:1]), explainer=Silent(), settings=ExplainSettings(also_consider="none")
    )
    assert (told.evidence, told.considered) == ((), 0)


def test_the_time_of_a_proposer_counts(session):
    class Slow(TwoFacts):
        name: ClassVar[str] = "slow"

        def propose(self, oracle, graph, wish, seed):
            time.sleep(0.2)
            return super().propose(oracle, graph, wish, seed)

    result = ExplainJob.of(Slow()).run(session, triple_tensor(QUERIES))
    assert result.seconds["propose"].clock >= 0.2
