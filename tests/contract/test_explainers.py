"""What every explainer must do, whatever it thinks of: the contract that `powerlink.testing` ships, and the catalog."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, dataclass, replace
from importlib.metadata import EntryPoint
from typing import Any, ClassVar

import pytest
import torch

from builders import computation_graph, model_of, random_rows
from powerlink.errors import ExplainerError, SettingsError, UnknownNameError
from powerlink.evidence import EvidenceBatch
from powerlink.explainers import catalog
from powerlink.explainers.catalog import EXPLAINERS, find_recipe, make_explainer
from powerlink.explainers.floor import Gradient, LowDegree, Random, Shortest
from powerlink.explainers.k_paths import KPaths
from powerlink.explainers.learned.gnn_explainer import GNNExplainer
from powerlink.explainers.learned.kex import KEX
from powerlink.explainers.learned.page_link import PaGELink
from powerlink.explainers.learned.pg_explainer import PGExplainer, PGFitting
from powerlink.explainers.learned.power_link import PowerLink
from powerlink.explainers.learned.power_link_plus import PowerLinkPlus
from powerlink.explainers.protocol import EdgeScores, Proposal, described
from powerlink.explainers.single_facts import SingleFacts
from powerlink.explainers.slopes import Slopes
from powerlink.explainers.subsets.kelpie import Kelpie
from powerlink.explainers.subsets.subgraphx import SubgraphX
from powerlink.graphs.prune import prune
from powerlink.pipeline import explain_batch
from powerlink.run.fitting import fit_explainer
from powerlink.settings import settings_of
from powerlink.testing import broken_promises, check_explainer, small_session
from powerlink.testing.small_world import PRUNING, WORLD_QUERIES, graph_of

N, R = 12, 3
ROWS = random_rows(0, N, R, 30)
QUERIES = [(0, 0, 1), (2, 4, 3), (5, 1, 6), (0, 0, 1), (7, 2, 8)]
QUICK: dict[str, dict[str, Any]] = {
    **{name: {"steps": 2} for name in ("power-link", "power-link-plus", "gnn-explainer", "page-link", "ke-x")},
    "subgraphx": {"budget": 8, "rollouts": 2, "samples": 4},
    "kelpie": {"facts": 5, "most": 2},
}
OTHERS = {
    "power-link, paths from one hop on": PowerLink(steps=2, combination="euclidean", min_order=1),
    "power-link, no steps": PowerLink(steps=0),
    "power-link, nothing to learn from": PowerLink(steps=2, prediction_weight=0, path_weight=0, size_weight=0),
    "gnn-explainer, entropy only": GNNExplainer(steps=2, prediction_weight=0, size_weight=0),
    "power-link, missed without it": PowerLink(steps=2, counterfactual_weight=1.0),
    "gnn-explainer, missed without it": GNNExplainer(steps=2, counterfactual_weight=1.0),
    "page-link, missed without it": PaGELink(steps=2, counterfactual_weight=1.0),
    "power-link-plus, the counterfactual alone": PowerLinkPlus(steps=2, prediction_weight=0, path_weight=0, start=0.0),
    "slopes, at four weights": Slopes(points=4),
    "page-link, one path": PaGELink(steps=2, best=1, longest=2),
    "ke-x, missed without it": KEX(steps=2, counterfactual_weight=1.0),
    "ke-x, one rival, one fact": KEX(steps=2, rivals=1, budget=1, facts=1),
    "ke-x, the gain alone, learned to the end": KEX(prediction_weight=0, size_weight=0, entropy_weight=0, budget=4),
    "k-paths, no more than wished": KPaths(search=1),
    "subgraphx, the rest gone": SubgraphX(budget=8, rollouts=2, samples=4, rest="goes"),
    "subgraphx, nodes, many of them": SubgraphX(players="nodes", budget=62, rollouts=1, samples=1, least=1, most=20),
}
HELD: set[str] = set()  # the names of the catalog that a contract run was made for


@pytest.fixture(scope="module")
def fitted(tmp_path_factory):
    file = tmp_path_factory.mktemp("fit") / "pg.safetensors"
    return fit_explainer(small_session(), WORLD_QUERIES, file, fitting=PGFitting(epochs=2, hidden=8))


def quick(name: str, fitted: Any) -> Any:
    """An explainer of the catalog that takes little time."""
    recipe = find_recipe(name)
    return fitted if recipe.fitting else recipe.make(QUICK.get(recipe.kind.name))


@pytest.mark.parametrize("name", EXPLAINERS)
def test_every_explainer_of_the_catalog_keeps_the_contract(name, fitted):
    explainer = quick(name, fitted)
    assert explainer.name == name
    check_explainer(explainer)
    HELD.add(name)


@pytest.mark.parametrize("case", OTHERS)
def test_other_settings_keep_it_too(case):
    check_explainer(OTHERS[case])


def test_no_explainer_is_without_a_contract_run(request):
    if request.config.option.keyword or len(request.session.items) < len(EXPLAINERS):
        pytest.skip("only some of the tests were asked for")
    assert set(EXPLAINERS) == HELD
    assert {recipe.kind for recipe in EXPLAINERS.values()} == {
        PowerLink,
        PowerLinkPlus,
        Slopes,
        GNNExplainer,
        PGExplainer,
        PaGELink,
        KEX,
        KPaths,
        SubgraphX,
        Kelpie,
        SingleFacts,
        Gradient,
        Shortest,
        LowDegree,
        Random,
    }


@dataclass(frozen=True, kw_only=True)
class Faulty:
    """Scores every kept edge one half, and does one thing wrong."""

    name: ClassVar[str] = "faulty"
    cost: ClassVar[str] = "log"
    fault: str = "none"

    def score_edges(self, model: Any, graph: Any, seed: int) -> EdgeScores:
        values, parameter = 0.5 * graph.kept, next(iter(model.parameters()))
        match self.fault:
            case "no scores":
                return values
            case "parameter":
                parameter.data.add_(1e-3)
            case "grad":
                parameter.grad = torch.zeros_like(parameter)
            case "flag":
                model.train()
            case "state":
                COUNTED.append(1)
        wrong = {
            "shape": lambda: values[:-1],
            "not finite": lambda: values.index_fill(0, torch.tensor([0]), torch.nan),
            "above one": lambda: 3 * values,
            "pruned": lambda: torch.full_like(values, 0.5),
            "gradient": lambda: values.clone().requires_grad_() * 1.0,
            "batch": lambda: values / graph.num_queries,
            "order": lambda: values / (1 + graph.query_of_edge),
            "chance": lambda: values * torch.rand(()),
            "state": lambda: values / len(COUNTED),
        }
        return EdgeScores(wrong.get(self.fault, lambda: values)())


COUNTED: list[int] = []
FAULTS = {
    "shape": "returned scores of shape",
    "no scores": "must return EdgeScores, not Tensor",
    "not finite": "not finite",
    "above one": "need (0, 1]",
    "pruned": "gave pruned edges a score",
    "gradient": "with a gradient",
    "chance": "global generator",
    "parameter": "changed the model",
    "grad": "changed the model",
    "flag": "changed the model",
}
IN_DEPTH = {"batch": "alone than in a batch", "order": "in another order", "state": "asked again"}


def test_the_contract_lets_the_innocent_pass():
    assert broken_promises(Faulty()) == []


@pytest.mark.parametrize("fault", [*FAULTS, *IN_DEPTH])
def test_the_contract_finds_every_fault(fault):
    told = broken_promises(Faulty(fault=fault))
    expected = (FAULTS | IN_DEPTH)[fault]
    assert any(sentence.startswith("faulty ") and expected in sentence for sentence in told), told
    with pytest.raises(ExplainerError, match="faulty"):
        check_explainer(Faulty(fault=fault))


@pytest.mark.parametrize("fault", FAULTS)
def test_an_explainer_that_breaks_its_contract_is_refused_by_name_while_explaining(fault):
    with pytest.raises(ExplainerError, match=r"^the explainer faulty ") as refused:
        explain_batch(small_session(), WORLD_QUERIES, explainer=Faulty(fault=fault), settings=PRUNING)
    assert FAULTS[fault] in str(refused.value)
    assert "\n" not in str(refused.value)


@dataclass(frozen=True, kw_only=True)
class FaultyProposer:
    """Names the first fact of each query, and does one thing wrong."""

    name: ClassVar[str] = "faulty"
    fault: str = "none"

    def propose(self, oracle: Any, graph: Any, wish: Any, seed: int) -> Any:
        edge, parameter = graph.kept.nonzero().squeeze(1), next(iter(oracle.model.parameters()))
        edge = edge[graph.query_of_edge[edge].diff(prepend=edge.new_tensor([-1])) > 0]
        query, cost = graph.query_of_edge[edge], torch.zeros(len(edge))
        match self.fault:
            case "no evidence":
                return edge
            case "not its own":
                query = query.flip(0)
            case "flag":
                oracle.model.train()
            case "grad":
                parameter.grad = torch.zeros_like(parameter)
            case "batch":
                cost += graph.num_queries
            case "order":
                cost += query
            case "chance":
                cost += torch.rand(())
            case "state":
                COUNTED.append(1)
                cost += len(COUNTED)
        return Proposal(EvidenceBatch.of_sets(graph, query, edge.unsqueeze(1), cost))


@pytest.mark.parametrize(
    ("fault", "expected"),
    [
        ("no evidence", "must return a Proposal, not Tensor"),
        ("not its own", "named evidence of another query's edges"),
        ("flag", "changed the model"),
        ("grad", "changed the model"),
        ("chance", "global generator"),
        ("batch", "gives a query other evidence alone than in a batch"),
        ("order", "gives a query other evidence"),
        ("state", "gave other evidence when asked again"),
    ],
)
def test_the_contract_finds_every_fault_of_a_proposer(fault, expected):
    assert broken_promises(FaultyProposer()) == []
    told = broken_promises(FaultyProposer(fault=fault))
    assert any(sentence.startswith("faulty ") and expected in sentence for sentence in told), told


def test_what_is_no_dataclass_is_told():
    class Plain:
        name, cost = "plain", "log"

        def score_edges(self, model, graph, seed):
            return EdgeScores(graph.kept.float())

    assert broken_promises(Plain()) == ["plain must be a frozen dataclass"]
    assert broken_promises(replace_cost()) == ["nameless must have a cost: inverse or log or log-degree"]


def replace_cost() -> Any:
    @dataclass(frozen=True)
    class Costless:
        name: ClassVar[str] = "nameless"

        def score_edges(self, model, graph, seed):
            return EdgeScores(graph.kept.float())

    return Costless()


# What the catalog makes


@pytest.mark.parametrize("name", EXPLAINERS)
def test_it_is_frozen_and_the_catalog_makes_it_from_its_settings(name, fitted):
    explainer, recipe = quick(name, fitted), EXPLAINERS[name]
    settings = {key: getattr(explainer, key) for key in settings_of(recipe.kind) if key not in recipe.fixed}
    assert make_explainer(name, settings) == explainer
    with pytest.raises(FrozenInstanceError):
        explainer.anything = 1


def test_a_variant_is_a_name_and_settings_over_power_link():
    made = make_explainer("power-link-no-path", {"steps": 7})
    assert made == PowerLink(name="power-link-no-path", path_weight=0.0, steps=7)
    assert "name" not in described(made)
    assert described(made)["path_weight"] == 0.0
    with pytest.raises(SettingsError, match="power-link-no-path is power-link with path_weight 0"):
        make_explainer("power-link-no-path", {"path_weight": 1.0})


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("no-path", {"path_weight": 0}),
        ("no-prediction", {"prediction_weight": 0}),
        ("euclidean", {"combination": "euclidean"}),
        ("free", {"combination": "none"}),
        ("order-2", {"order": 2}),
        ("order-3", {"order": 3}),
        ("order-4", {"order": 4}),
        ("authors", {"prediction_weight": 0.8}),
    ],
)
def test_every_ablation_differs_from_power_link_in_what_its_name_says(name, expected):
    made = make_explainer(f"power-link-{name}")
    assert replace(made, name="power-link") == PowerLink(**expected)


def test_without_a_scorer_each_edge_has_a_number_of_its_own():
    session = small_session()
    graph = graph_of(session, WORLD_QUERIES)
    start, moved = (
        torch.logit(PowerLink(combination="none", steps=steps, lr=0.01).score_edges(session.model, graph, 0).values)
        for steps in (0, 1)
    )
    step = (moved - start)[graph.kept].abs()
    assert len(step) > 20
    torch.testing.assert_close(step, torch.full_like(step, 0.01), rtol=0, atol=1e-4)  # Adam's first: lr, up or down


def test_reports_show_the_variants_name():
    explainer = make_explainer("power-link-order-2", {"steps": 1})
    (told,) = explain_batch(small_session(), WORLD_QUERIES[2:3], explainer=explainer)
    assert told.paths
    assert {path.proposed_by for path in told.paths} <= {"power-link-order-2", "slopes", "low-degree"}


def test_unknown_explainers_and_settings_are_refused_with_what_there_is():
    with pytest.raises(UnknownNameError, match="power-link"):
        make_explainer("power-lnk")
    with pytest.raises(SettingsError, match="steps"):
        make_explainer("power-link", {"stepps": 3})
    with pytest.raises(SettingsError, match="none at all"):
        make_explainer("random", {"steps": 3})


# What other packages register


@pytest.fixture
def registered(monkeypatch):
    """Let other packages have registered explainers."""

    def register(**points: str) -> None:
        found = [EntryPoint(name.replace("_", "-"), value, catalog.GROUP) for name, value in points.items()]
        monkeypatch.setattr(catalog, "entry_points", lambda group: found if group == catalog.GROUP else [])
        catalog.registered_elsewhere.cache_clear()

    yield register
    catalog.registered_elsewhere.cache_clear()


def test_another_package_can_register_an_explainer(registered):
    registered(faulty=f"{__name__}:Faulty", random=f"{__name__}:Faulty")
    assert make_explainer("faulty", {}) == Faulty()
    assert find_recipe("faulty").line == "Scores every kept edge one half, and does one thing wrong"
    assert make_explainer("random") == Random(), "ours come first"
    with pytest.raises(UnknownNameError, match="did you mean 'faulty'"):
        make_explainer("faultyy")


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("no_such_module:Thing", "cannot be loaded: No module named 'no_such_module'"),
        (f"{__name__}:QUERIES", "must be a class with a method score_edges"),
        (f"{__name__}:Faulty", "whose `name` is 'other'"),
    ],
)
def test_a_registered_explainer_that_cannot_be_used_is_told_when_it_is_asked_for(registered, value, expected):
    registered(other=value)
    with pytest.raises(ExplainerError) as refused:
        make_explainer("other")
    assert expected in str(refused.value)


# What each of ours does


def graph_for(model, queries=QUERIES, rows=ROWS):
    graph = prune(computation_graph(rows, N, R, queries, 2), hub_limit=9, core=2, max_length=3)
    messages = computation_graph(rows, N, R, [(0, 0, 0)], N)  # any encoding will do as features, as long as it is fixed
    entity = torch.zeros(N, 8, dtype=torch.float64)
    whole = model.encode(messages.everywhere)
    entity[messages.entity] = whole.entity.detach()
    return graph.with_features(entity, whole.relation.detach())


@pytest.mark.parametrize("name", ["power-link", "gnn-explainer", "page-link", "ke-x", "random"])
def test_another_seed_gives_other_scores(name, fitted):
    graph = graph_of(small_session(), WORLD_QUERIES)
    one, other = (quick(name, fitted).score_edges(small_session().model, graph, seed).values for seed in (5, 6))
    assert not torch.equal(one, other)


def test_a_frozen_model_can_be_explained(fitted):
    model = model_of("compgcn", "distmult", 2, N, R)
    graph = graph_for(model)
    for name in ("power-link", "gnn-explainer", "page-link", "ke-x", "gradient", "pg-explainer"):
        explainer = quick(name, fitted)
        expected = explainer.score_edges(model.requires_grad_(True), graph, seed=0).values
        torch.testing.assert_close(explainer.score_edges(model.requires_grad_(False), graph, seed=0).values, expected)


def test_the_shortest_floor_scores_alike_and_the_low_degree_floor_by_incoming_kept_edges():
    model = model_of("compgcn", "distmult", 2, N, R)
    graph = graph_for(model)
    assert torch.equal(Shortest().score_edges(model, graph, 0).values, graph.kept.float())
    found = LowDegree().score_edges(model, graph, 0).values
    for e in graph.kept.nonzero().squeeze(1).tolist():
        target, query = int(graph.target[e]), int(graph.query_of_edge[e])
        degree = int(((graph.target == target) & graph.kept).sum())
        ends = (int(graph.head[query]), int(graph.tail[query]))
        assert found[e].item() == pytest.approx(1.0 if target in ends else 1 / degree)


@pytest.mark.parametrize(
    "wrong", [{"order": 1}, {"min_order": 0}, {"steps": -1}, {"lr": 0}, {"hidden": 0}, {"combination": "sum"}], ids=str
)
def test_power_link_refuses_settings_that_cannot_be(wrong):
    with pytest.raises(SettingsError):
        PowerLink(**wrong)


@pytest.mark.parametrize(
    "make",
    [
        lambda: GNNExplainer(steps=-1),
        lambda: GNNExplainer(lr=0),
        lambda: PaGELink(lr=float("nan")),
        lambda: PaGELink(best=0),
        lambda: PaGELink(longest=0),
        lambda: KEX(steps=-1),
        lambda: KEX(lr=0),
        lambda: KEX(rivals=0),
        lambda: KEX(budget=0),
        lambda: KEX(facts=11),
        lambda: KPaths(search=0),
        lambda: PGFitting(epochs=-1),
        lambda: PGFitting(hidden=0),
        lambda: PGFitting(batch=0),
        lambda: PGFitting(last_temperature=0),
    ],
)
def test_the_peers_refuse_settings_that_cannot_be(make):
    with pytest.raises(SettingsError):
        make()


def test_the_gradient_explainer_gives_each_fact_its_first_order_effect():
    model = model_of("compgcn", "distmult", 2, N, R)
    graph = graph_for(model)
    weight = torch.ones(graph.num_edges, dtype=torch.float64, requires_grad=True)
    score = model.score(model.encode(graph, weight), graph.triples)
    found = Gradient(floor=0.01).score_edges(model, graph, seed=0).values
    for q in range(len(QUERIES)):
        (raw,) = torch.autograd.grad(score[q], weight, retain_graph=True)
        own = (graph.query_of_edge == q) & graph.kept
        effect = (raw + raw[graph.reverse]).clamp(min=0)[own]
        torch.testing.assert_close(found[own], (effect / effect.max()).clamp(min=0.01).float(), rtol=1e-4, atol=1e-6)


def test_power_link_moves_the_mask_towards_walks_from_head_to_tail():
    model = model_of("compgcn", "distmult", 1, 6, 1)
    rows = [(0, 0, 1), (1, 0, 2), (0, 0, 3), (1, 0, 4), (2, 0, 5)]  # 0 → 1 → 2, and three edges that lead nowhere
    graph = computation_graph(rows, 6, 1, [(0, 0, 2)], 2)
    whole = model.encode(graph.everywhere)
    entity = torch.zeros(6, 8, dtype=torch.float64).index_copy(0, graph.entity, whole.entity.detach())
    graph = graph.with_features(entity, whole.relation.detach())
    values = PowerLink(steps=100, order=2, prediction_weight=0, size_weight=0.5).score_edges(model, graph, 0).values
    on_walk = {(0, 1), (1, 2)}
    pairs = list(zip(graph.entity[graph.source].tolist(), graph.entity[graph.target].tolist(), strict=True))
    weakest = min(values[e].item() for e, pair in enumerate(pairs) if pair in on_walk)
    assert weakest > max(values[e].item() for e, pair in enumerate(pairs) if pair not in on_walk)


def test_a_model_whose_weights_lie_anywhere_in_memory_is_explained():
    session = small_session()
    whole = torch.nn.utils.parameters_to_vector(session.model.parameters()).detach()
    torch.nn.utils.vector_to_parameters(torch.cat([whole[:1], whole])[1:], session.model.parameters())
    assert any(p.storage_offset() % 2 for p in session.model.parameters())
    assert explain_batch(session, WORLD_QUERIES[:1], explainer=Gradient())
