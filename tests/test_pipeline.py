from __future__ import annotations

import copy
from dataclasses import dataclass, replace
from typing import ClassVar

import pytest
import torch

from builders import MessageSum, knowledge_graph, model_of, random_rows, settings_of, triple_tensor
from powerlink.errors import SettingsError
from powerlink.explainers.floor import Gradient, Random
from powerlink.explainers.learned.power_link import PowerLink
from powerlink.explainers.protocol import EdgeScores
from powerlink.explainers.remarks import HOLLOW, NO_WALK, SATURATED, SATURATED_EVERYWHERE
from powerlink.explanation import MadeBy, Query, Status
from powerlink.models.link_model import build_model
from powerlink.models.session import Session
from powerlink.pipeline import ExplainSettings
from powerlink.pipeline import explain_batch as explain

N, R = 20, 3
ROWS = [*random_rows(0, 15, R, 40), (16, 0, 17)]  # 16 and 17 have one fact of their own; 15, 18 and 19 have none
GRAPH = knowledge_graph(ROWS, N, R)
QUICK = PowerLink(steps=5)
QUERIES = [
    (0, 0, 1),
    ROWS[4],  # a training fact
    (ROWS[9][2], ROWS[9][1] + R, ROWS[9][0]),  # a training fact through the inverse
    (2, 1, 3),
    (5, 0, 5),  # head is tail
    (7, 4, 8),
    (0, 2, 18),  # an entity without facts
    (0, 1, 16),  # no path
    (0, 0, 1),  # the first one again
    (10, 5, 11),
]
EXPLAINED = {Status.EXPLAINED}


@pytest.fixture(scope="module")
def session():
    return Session.of(GRAPH, model_of("compgcn", "distmult", 2, N, R))


@pytest.fixture(scope="module")
def told(session):
    return explain(session, triple_tensor(QUERIES), explainer=QUICK, seed=3)


def facts(explanation):
    return [[(f.head, f.relation, f.tail, f.inverse) for f in path.facts] for path in explanation.paths]


def numbers(explanation):
    """Every number of an explanation, in one fixed order."""
    out = [explanation.score, explanation.rank, explanation.considered]
    for path in explanation.paths:
        out += [path.score, path.cost, path.score_without, path.rank_without]
    for outcome in (explanation.without_all, explanation.only_these, *explanation.without_top.values()):
        out += [outcome.score, outcome.rank] if outcome else []
    if explanation.paper:
        paper = explanation.paper
        out += [paper.fidelity_plus, paper.fidelity_minus, paper.sparsity, paper.sparsity_kept, paper.rank]
        out += list(paper.rank_without_top.values())
    if explanation.size:
        out += [explanation.size.nodes, explanation.size.edges, explanation.size.edges_kept]
    return out


def assert_alike(one, other):
    assert one.query == other.query
    assert one.status == other.status
    assert facts(one) == facts(other)
    assert [path.proposed_by for path in one.paths] == [path.proposed_by for path in other.paths]
    assert numbers(one) == pytest.approx(numbers(other), abs=1e-4, rel=1e-4)


@pytest.mark.parametrize("name", ["rgcn-transe", "wgcn-conve", "compgcn-distmult"])
@pytest.mark.parametrize("precision", ["float64", "float32"])
def test_a_batch_is_its_queries_one_by_one_in_any_order(name, precision):
    model = model_of(*name.split("-"), 2, N, R)
    session = Session.of(GRAPH, model if precision == "float64" else model.float())
    together = explain(session, triple_tensor(QUERIES), explainer=QUICK, seed=3)
    backwards = explain(session, triple_tensor(QUERIES[::-1]), explainer=QUICK, seed=3)
    for query, one, other in zip(QUERIES, together, backwards[::-1], strict=True):
        (alone,) = explain(session, triple_tensor([query]), explainer=QUICK, seed=3)
        assert_alike(one, alone)
        assert_alike(one, other)


def test_every_query_gets_one_explanation_in_its_place(told):
    assert len(told) == len(QUERIES)
    for (head, relation, tail), explanation in zip(QUERIES, told, strict=True):
        if relation < R:
            assert explanation.query == Query(f"e{head}", f"r{relation}", f"e{tail}")
        else:
            assert explanation.query == Query(f"e{tail}", f"r{relation - R}", f"e{head}", inverse=True)
    assert_alike(told[0], told[8])


def test_statuses_say_why_a_query_has_no_paths(told):
    status = [explanation.status for explanation in told]
    assert status[4] == Status.HEAD_IS_TAIL
    assert status[6] == Status.ENTITY_WITHOUT_FACTS
    assert status[7] == Status.NO_PATH
    for place in (4, 6, 7):
        assert told[place].paths == ()
        assert told[place].score is not None
        assert told[place].rank is not None
        assert told[place].without_all is None
    assert told[7].considered == 0
    assert set(status) - {status[4], status[6], status[7]} <= {*EXPLAINED, Status.NO_EFFECT, Status.FAINT}
    assert sum(s in EXPLAINED for s in status) >= 4


def test_a_batch_without_anything_to_search_is_told_all_the_same(session):
    (told,) = explain(session, triple_tensor([(0, 0, 16)]), explainer=QUICK)
    assert told.status == Status.NO_PATH
    assert [e.status for e in explain(session, triple_tensor([(1, 0, 1), (0, 0, 18)]), explainer=QUICK)] == [
        Status.HEAD_IS_TAIL,
        Status.ENTITY_WITHOUT_FACTS,
    ]
    assert explain(session, triple_tensor([])) == []


def test_an_entity_whose_only_fact_is_the_one_in_question_has_no_path(session):
    for query in [(16, 0, 17), (17, 0 + R, 16)]:
        (told,) = explain(session, triple_tensor([query]), explainer=QUICK)
        assert told.status == Status.NO_PATH
        assert told.size.edges == 0


def test_paths_lead_from_head_to_tail_along_facts_of_the_graph(told):
    known = {(f"e{h}", f"r{r}", f"e{t}") for h, r, t in ROWS}
    checked = 0
    for (head, relation, tail), explanation in zip(QUERIES, told, strict=True):
        asked = (head, relation, tail) if relation < R else (tail, relation - R, head)
        for path in explanation.paths:
            assert path.facts[0].source == explanation.query.head  # also where the search ran from the tail
            assert path.facts[-1].target == explanation.query.tail
            assert all(a.target == b.source for a, b in zip(path.facts, path.facts[1:], strict=False))
            assert len({path.facts[0].source, *(f.target for f in path.facts)}) == len(path.facts) + 1
            assert 1 <= len(path.facts) <= 3
            for fact in path.facts:
                assert (fact.head, fact.relation, fact.tail) in known
                assert (fact.head, fact.relation, fact.tail) != (f"e{asked[0]}", f"r{asked[1]}", f"e{asked[2]}")
            assert 0 < path.score <= 1
            assert path.proposed_by in ("power-link", "slopes", "low-degree")
            checked += 1
    assert checked > 10


@pytest.mark.parametrize("select", ["carried", "largest-drop", "mask"])
def test_a_training_fact_never_shows_itself(session, select):
    queries = [*ROWS, *((t, r + R, h) for h, r, t in ROWS)]
    settings = ExplainSettings(select=select)
    for (head, relation, tail), told in zip(
        queries, explain(session, triple_tensor(queries), explainer=Random(), settings=settings), strict=True
    ):
        own = (head, relation, tail) if relation < R else (tail, relation - R, head)
        shown = {(f.head, f.relation, f.tail) for path in told.paths for f in path.facts}
        assert (f"e{own[0]}", f"r{own[1]}", f"e{own[2]}") not in shown


@pytest.mark.parametrize("select", ["carried", "largest-drop"])
def test_what_is_explained_lowers_the_score_and_by_the_largest_drop_step_by_step(session, select):
    settings = ExplainSettings(select=select)
    explained = 0
    for explanation in explain(session, triple_tensor(QUERIES), explainer=QUICK, settings=settings):
        if explanation.status in EXPLAINED:
            explained += 1
            assert explanation.without_all.score < explanation.score
            assert explanation.without_top[1].score == pytest.approx(explanation.paths[0].score_without)
            together = [explanation.without_top[m].score for m in (1, 3, 5)]
            assert select == "carried" or together == sorted(together, reverse=True)
            if len(explanation.paths) == 1:
                assert explanation.without_all == explanation.without_top[1]
    assert explained


def test_paths_are_told_with_what_they_carry_the_reasons_first_and_of_those_the_shortest(told):
    ordered = 0
    for explanation in told:
        for path in explanation.paths:
            assert path.together is not None
            assert path.witnesses >= 1
            assert all(fact.effect is not None for fact in path.facts)
        joint = [(len(path.facts), -path.together) for path in explanation.paths if path.together > 1e-9]
        assert joint == sorted(joint)
        ordered += len(joint) > 1
        assert len(explanation.deletion) == len({f for path in explanation.paths for f in map(_stored, path.facts)})
        if explanation.paths:
            assert explanation.deletion[-1] == pytest.approx(explanation.without_all.score, abs=1e-9)
    assert ordered


def _stored(fact):
    return fact.head, fact.relation, fact.tail


def test_a_mask_that_says_nothing_is_told_so():
    chain = knowledge_graph([(0, 0, 1), (1, 0, 3), (0, 0, 2), (2, 0, 3)], 4, 1)
    session = Session.of(chain, MessageSum([1.0] * 4, num_layers=2))

    @dataclass(frozen=True)
    class Constant:
        name: ClassVar[str] = "constant"
        cost: ClassVar[str] = "inverse"
        value: float = 1.0

        def score_edges(self, model, graph, seed):
            return EdgeScores(self.value * graph.kept.double())

    def remarks(explainer):
        return explain(session, triple_tensor([(0, 0, 3)]), explainer=explainer)[0].remarks

    assert remarks(Constant(value=0.99)) == (SATURATED_EVERYWHERE, SATURATED)
    assert remarks(Constant(value=0.5)) == ()
    assert remarks(Constant(value=0.01)) == (HOLLOW,)
    assert remarks(Gradient()) == (), "what is not learned is no mask"


def test_a_score_that_is_not_finite_is_told_as_such_and_disturbs_nobody():
    values = [1.0] * N
    values[18] = values[19] = float("nan")
    session = Session.of(GRAPH, MessageSum(values))
    told = explain(session, triple_tensor([(0, 0, 18), (0, 0, 1), (19, 0, 19)]), explainer=QUICK)
    assert [e.status for e in told] == [Status.NOT_FINITE, Status.EXPLAINED, Status.NOT_FINITE]
    assert told[0].score is None
    assert told[0].rank is None
    infinite = Session.of(GRAPH, MessageSum([float("inf")] * N))
    assert explain(infinite, triple_tensor([(0, 0, 1)]), explainer=QUICK)[0].status == Status.NOT_FINITE


def test_paths_that_do_not_lower_the_score_are_not_shown():
    session = Session.of(GRAPH, MessageSum([0.0] * N))
    (told,) = explain(session, triple_tensor([(0, 0, 1)]), explainer=QUICK)
    assert told.status == Status.NO_EFFECT
    assert told.considered > 0
    assert told.paths == ()
    assert told.without_all is None


def test_a_model_that_ignores_its_edges_is_told_to_have_no_effect():
    class Deaf(MessageSum):
        def encode(self, graph, edge_weight=None):
            return super().encode(graph, torch.zeros(graph.num_edges))

    session = Session.of(GRAPH, Deaf([1.0] * N))
    for explainer in (QUICK, Gradient(), Random()):
        (told,) = explain(session, triple_tensor([(0, 0, 1)]), explainer=explainer)
        assert told.status == Status.NO_EFFECT


def test_when_no_walk_is_short_enough_a_remark_says_the_path_term_was_off():
    chain = knowledge_graph([(0, 0, 1), (1, 0, 2), (2, 0, 3)], 4, 1)
    session = Session.of(chain, MessageSum([1.0] * 4))
    ask = triple_tensor([(0, 0, 3)])
    (short,) = explain(session, ask, explainer=PowerLink(steps=3, order=2))
    assert short.status == Status.EXPLAINED
    assert NO_WALK in short.remarks
    assert len(short.paths[0].facts) == 3
    (enough,) = explain(session, ask, explainer=PowerLink(steps=3, order=3))
    assert NO_WALK not in enough.remarks
    (no_such_term,) = explain(session, ask, explainer=Random())
    assert not no_such_term.remarks


def test_a_fact_through_its_inverse_tells_the_same_fact_with_heads_ranked(session):
    head, relation, tail = ROWS[9]
    forward, inverse = explain(
        session, triple_tensor([(head, relation, tail), (tail, relation + R, head)]), explainer=QUICK
    )
    assert (forward.query.head, forward.query.relation, forward.query.tail) == (
        inverse.query.head,
        inverse.query.relation,
        inverse.query.tail,
    )
    assert (forward.query.inverse, inverse.query.inverse) == (False, True)
    for path in (*forward.paths, *inverse.paths):
        assert path.facts[0].source == f"e{head}"
        assert path.facts[-1].target == f"e{tail}"


class Broken:
    name = "broken"

    def score_edges(self, model, graph, seed):
        assert not any(module.training for module in model.modules())
        torch.rand(())
        raise ArithmeticError("broken on purpose")


@pytest.mark.parametrize("explainer", [QUICK, Gradient(), Random(), Broken()], ids=lambda e: e.name)
def test_the_model_and_the_generators_are_left_as_they_were_even_after_an_error(explainer):
    model = build_model(settings_of("wgcn", "conve", 2), N, R).train()
    model.decoder.eval()  # a user's own choice, to be respected
    for parameter in list(model.parameters())[:2]:
        parameter.grad = torch.ones_like(parameter)
    session = Session.of(GRAPH, model)
    state = copy.deepcopy(model.state_dict())
    flags = [module.training for module in model.modules()]
    generator = torch.get_rng_state()
    if explainer.name == "broken":
        with pytest.raises(ArithmeticError):
            explain(session, triple_tensor(QUERIES), explainer=explainer)
    else:
        explain(session, triple_tensor(QUERIES), explainer=explainer)
        assert torch.equal(torch.get_rng_state(), generator)
    assert [module.training for module in model.modules()] == flags
    assert all(torch.equal(value, state[name]) for name, value in model.state_dict().items())
    for place, parameter in enumerate(model.parameters()):
        assert torch.equal(parameter.grad, torch.ones_like(parameter)) if place < 2 else parameter.grad is None
        assert parameter.requires_grad
    assert torch.is_grad_enabled()
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in model.modules())


def test_a_model_in_training_mode_is_explained_as_in_eval_mode():
    model = build_model(settings_of("wgcn", "distmult", 2), N, R)
    ask = triple_tensor(QUERIES[:4])
    first = explain(Session.of(GRAPH, model.eval()), ask, explainer=QUICK)
    second = explain(Session.of(GRAPH, model.train()), ask, explainer=QUICK)
    assert first == second


def test_explaining_works_where_gradients_are_switched_off(session, told):
    with torch.no_grad():
        again = explain(session, triple_tensor(QUERIES), explainer=QUICK, seed=3)
    assert again == told


def test_the_paper_selects_by_cost_and_other_proposers_stay_out(session):
    settings = ExplainSettings(select="mask", paths=3)
    for told in explain(session, triple_tensor(QUERIES[:4]), explainer=QUICK, settings=settings):
        costs = [path.cost for path in told.paths]
        assert costs == sorted(costs)
        assert {path.proposed_by for path in told.paths} == {"power-link"}
        assert 1 <= len(told.paths) <= 3


def test_lengths_counts_and_proposers_follow_the_settings(session):
    settings = ExplainSettings(paths=2, candidates=6, min_length=2, max_length=2, also_consider="none")
    for told in explain(session, triple_tensor(QUERIES[:4]), explainer=QUICK, settings=settings):
        assert len(told.paths) <= 2
        assert told.considered <= 6
        assert all(len(path.facts) == 2 for path in told.paths)
        assert {path.proposed_by for path in told.paths} <= {"power-link"}


@pytest.mark.parametrize("hub_limit", [4, 0], ids=["pruned", "unpruned"])
def test_pruning_does_not_hide_the_only_paths_of_the_allowed_lengths(hub_limit):
    # another relation joins 0 and 2 directly; the way round leads through a hub
    rows = [(0, 1, 2), (0, 0, 1), (1, 0, 2), *((1, 0, v) for v in range(3, 8))]
    session = Session.of(knowledge_graph(rows, 8, 2), MessageSum([1.0] * 8))
    settings = ExplainSettings(min_length=2, hub_limit=hub_limit, hops=2)
    (told,) = explain(session, triple_tensor([(0, 0, 2)]), explainer=Random(), settings=settings)
    assert told.status == Status.EXPLAINED
    assert len(told.paths[0].facts) == 2


def test_who_made_it_is_noted_on_every_explanation(session):
    made_by = MadeBy("power-link", {}, {}, 0, GRAPH.fingerprint, "compgcn-distmult", "", {})
    told = explain(session, triple_tensor(QUERIES), explainer=QUICK, made_by=made_by)
    assert {explanation.status for explanation in told if explanation.made_by is not made_by} == set()


@pytest.mark.parametrize(
    "wrong",
    [
        {"min_length": 0},
        {"min_length": 4},
        {"paths": 0},
        {"paths": 5, "candidates": 4},
        {"hops": 0},
        {"hub_limit": -1},
        {"core": -1},
        {"select": "luck"},
        {"cost": "linear"},
        {"also_consider": "luck"},
    ],
    ids=str,
)
def test_settings_that_cannot_be_are_refused(wrong):
    with pytest.raises(SettingsError):
        ExplainSettings(**wrong)


def test_settings_are_immutable_but_can_be_varied():
    assert replace(ExplainSettings(), paths=3).paths == 3
