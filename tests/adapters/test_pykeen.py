"""PyKEEN's R-GCN and CompGCN: the adapter says what PyKEEN says, finds known reasons, and changes nothing."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

pytest.importorskip("pykeen", reason="PyKEEN is not installed")

from pykeen.datasets import Nations
from pykeen.models import RGCN, CompGCN
from pykeen.triples import CoreTriplesFactory, TriplesFactory

from builders import edges_without
from powerlink.adapters import from_pykeen, load_pykeen
from powerlink.errors import MismatchError, ModelError, SettingsError, UnknownNameError
from powerlink.explainers.floor import Gradient
from powerlink.kg import pykeen_data
from powerlink.kg.catalog import load
from powerlink.models.ranking import score_tails
from powerlink.pipeline import ExplainSettings
from powerlink.run.explain_many import explain, explain_many
from powerlink.testing import check_link_model

pytestmark = pytest.mark.filterwarnings("ignore")  # PyKEEN's own

MODELS = {
    "compgcn-1": lambda f: CompGCN(triples_factory=f, embedding_dim=8),
    "compgcn-2": lambda f: CompGCN(triples_factory=f, embedding_dim=8, encoder_kwargs={"num_layers": 2}),
    "compgcn-transe": lambda f: CompGCN(
        triples_factory=f,
        embedding_dim=8,
        interaction="transe",
        interaction_kwargs={"p": 1},
        encoder_kwargs={
            "num_layers": 2,
            "layer_kwargs": {"composition": "subtraction", "edge_weighting": "inverse_in_degree"},
        },
    ),
    "rgcn-bases": lambda f: RGCN(triples_factory=f, embedding_dim=8),
    "rgcn-blocks": lambda f: RGCN(
        triples_factory=f,
        embedding_dim=8,
        num_layers=1,
        decomposition="block",
        decomposition_kwargs={"num_blocks": 2},
        edge_weighting="inverse_out_degree",
    ),
    "rgcn-transe": lambda f: RGCN(
        triples_factory=f, embedding_dim=8, interaction="transe", interaction_kwargs={"p": 2}, activation="relu"
    ),
}


def nations(name: str) -> Nations:
    return Nations(create_inverse_triples=name.startswith("compgcn"))


def draw(name: str):
    """An untrained model in which nothing is trivial."""
    data = nations(name)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = MODELS[name](data.training)
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.add_(0.1 * torch.randn_like(parameter))
            for module in model.modules():
                if isinstance(module, torch.nn.BatchNorm1d):
                    module.running_mean.add_(0.1)
                    module.running_var.mul_(1.5)
    model.post_parameter_update()
    return model.eval(), data


@pytest.mark.parametrize("name", MODELS)
def test_scores_are_pykeens_own(name):
    model, data = draw(name)
    session = from_pykeen(model, data)
    triples = torch.from_numpy(session.graph.test.copy())
    with torch.no_grad():
        truth = model.predict_hrt(triples).squeeze(1)
        tails, heads = model.predict_t(triples[:5, :2]), model.predict_h(triples[:5, 1:])
    assert torch.allclose(session.model.score(session.whole, triples), truth, rtol=1e-5, atol=1e-5)
    found = score_tails(session.model, session.whole, triples[:5, 0], triples[:5, 1])
    assert torch.allclose(found, tails, rtol=1e-5, atol=1e-5)
    inverse = triples[:5, 1] + session.graph.num_relations
    found = score_tails(session.model, session.whole, triples[:5, 2], inverse)
    assert torch.allclose(found, heads, rtol=1e-5, atol=1e-5)
    each = torch.stack([triples[:5, 2], inverse, triples[:5, 0]], dim=1)
    assert torch.allclose(
        session.model.score(session.whole, each), found.gather(1, triples[:5, :1]).squeeze(1), rtol=1e-5, atol=1e-5
    )


@pytest.mark.parametrize("name", MODELS)
def test_it_is_a_link_model_in_which_weight_zero_is_removal(name):
    model, data = draw(name)
    session = from_pykeen(model, data.training)
    assert check_link_model(session.model, session.graph) == []
    messages = session.messages
    removed = list(range(0, messages.num_edges, 5))
    weight = torch.ones(messages.num_edges).index_fill(0, torch.tensor(removed), 0.0)
    masked, deleted = session.model.encode(messages, weight), session.model.encode(edges_without(messages, removed))
    assert torch.allclose(masked.entity, deleted.entity, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", ["compgcn-2", "rgcn-bases"])
def test_nothing_of_the_model_is_changed_also_when_it_raises(name):
    model, data = draw(name)
    model.train()
    before = {key: value.clone() for key, value in model.state_dict().items()}
    attributes = {part: {k: id(v) for k, v in vars(m).items()} for part, m in model.named_modules()}
    seed = torch.get_rng_state()
    session = from_pykeen(model, data)
    explain_many(session, torch.from_numpy(session.graph.test[:2].copy()), explainer=Gradient())

    def fails(*_, **__):
        raise ZeroDivisionError

    session.settled.interaction.forward = fails
    with pytest.raises(ZeroDivisionError):
        explain_many(session, torch.from_numpy(session.graph.test[:2].copy()), explainer=Gradient())
    assert torch.equal(seed, torch.get_rng_state())
    assert all(torch.equal(before[key], value) for key, value in model.state_dict().items())
    assert {part: {k: id(v) for k, v in vars(m).items()} for part, m in model.named_modules()} == attributes
    assert all(parameter.grad is None for parameter in model.parameters())


# Known reasoning: head –r0→ · –r1→ tail, with weights set by hand

TRUE = [(0, 0, 1), (1, 1, 2)]
DECOYS = [(0, 2, 3), (3, 2, 2), (0, 3, 4), (4, 1, 2), (0, 0, 5), (5, 3, 2), (1, 2, 2), (0, 1, 1), (6, 0, 1), (7, 1, 2)]


def factory(*, inverse: bool) -> TriplesFactory:
    rows = np.array([(f"e{h}", f"r{r}", f"e{t}") for h, r, t in [*TRUE, *DECOYS]])
    ids = {f"e{i}": i for i in range(8)}, {f"r{i}": i for i in range(4)}
    return TriplesFactory.from_labeled_triples(
        rows, create_inverse_triples=inverse, entity_to_id=ids[0], relation_to_id=ids[1]
    )


def hand_made(kind: str):
    """z = [own code, codes of those from whom a walk r0, r1 leads here]."""
    codes, width = 8, 16
    table = torch.cat([torch.eye(codes), torch.zeros(codes, codes)], 1)
    keep, first, second = (torch.zeros(width, width) for _ in range(3))
    keep[:codes, :codes] = torch.eye(codes)
    first[:codes, codes:] = second[codes:, codes:] = torch.eye(codes)
    data = factory(inverse=kind == "compgcn")
    if kind == "compgcn":
        model = CompGCN(triples_factory=data, embedding_dim=width, encoder_kwargs={"num_layers": 2})
        combined = model.entity_representations[0].combined
        with torch.no_grad():
            combined.entity_representations._embeddings.weight.copy_(table)
            combined.relation_representations._embeddings.weight.zero_()
            combined.relation_representations._embeddings.weight[0, :codes] = 1.0  # r0 forwards, in the first layer
            combined.relation_representations._embeddings.weight[2, codes:] = 1.0  # r1 forwards, in the second
            for layer, move in zip(combined.layers, (first, second), strict=True):
                layer.w_loop.copy_(keep)
                layer.w_fwd.copy_(move)
                layer.w_bwd.zero_()
                layer.self_loop.fill_(1.0)
                layer.w_rel.weight.copy_(torch.eye(width))
        return model.eval(), data
    model = RGCN(
        triples_factory=data, embedding_dim=width, decomposition_kwargs={"num_bases": 1}, relation_initializer="ones"
    )
    encoder = model.entity_representations[0]
    with torch.no_grad():
        encoder.entity_embeddings._embeddings.weight.copy_(table)
        for number, (layer, move) in enumerate(zip(encoder.layers, (first, second), strict=True)):
            for part, there in ((layer.bwd, 1.0), (layer.fwd, 0.0)):
                part.relation_representations.base._embeddings.weight.copy_(move.reshape(1, -1))
                part.relation_representations.weight._embeddings.weight.zero_()
                part.relation_representations.weight._embeddings.weight[number] = there
            layer.self_loop.weight.copy_(keep)
            layer.self_loop.bias.zero_()
    return model.eval(), data


class Blocks(torch.nn.Module):
    """Compares the head's own code with those the tail received."""

    def forward(self, h, r, t):
        return 100 * (h[..., :8] * t[..., 8:]).sum(-1)


@pytest.mark.parametrize("kind", ["compgcn", "rgcn"])
def test_the_path_a_model_reasons_by_is_found(kind):
    model, data = hand_made(kind)
    session = from_pykeen(model, data)
    session.settled.interaction = Blocks()
    told = explain(session, "e0", "r2", "e2", explainer=Gradient(), settings=ExplainSettings(core=0, paths=1))
    assert told.score is not None
    assert told.score > 0
    assert [(f.head, f.relation, f.tail) for f in told.paths[0].facts] == [("e0", "r0", "e1"), ("e1", "r1", "e2")]
    assert told.paths[0].score_without < told.score / 2


# Saved results and names


@pytest.fixture(scope="module")
def saved(tmp_path_factory) -> Path:
    """A CompGCN trained by PyKEEN's own pipeline on its Nations, and saved by it."""
    from pykeen.pipeline import pipeline  # noqa: PLC0415 - slow to import

    folder = tmp_path_factory.mktemp("pykeen") / "result"
    result = pipeline(
        dataset=Nations(create_inverse_triples=True),
        model="CompGCN",
        model_kwargs={"embedding_dim": 16, "encoder_kwargs": {"num_layers": 2}},
        training_kwargs={"num_epochs": 5, "batch_size": 256, "use_tqdm": False},
        evaluation_kwargs={"use_tqdm": False},
        random_seed=0,
        device="cpu",
    )
    result.save_to_directory(folder)
    session = from_pykeen(result)
    assert session.graph.entities.ids[0] == "brazil"
    return folder


def test_a_saved_result_is_explained_end_to_end(saved):
    session = load_pykeen(saved)
    facts = torch.from_numpy(session.graph.train[::400].copy())
    found = explain_many(session, facts)
    assert all(one.score is not None and one.paths for one in found)
    assert all(one.without_all.score < one.score for one in found)


def test_data_sets_of_pykeen_have_names():
    graph = load("pykeen:Nations")
    assert (graph.num_entities, graph.num_relations, len(graph.train), len(graph.test)) == (14, 55, 1592, 201)
    with pytest.raises(UnknownNameError, match="did you mean 'nations'"):
        load("pykeen:nation")


def test_factories_without_labels_get_numbers():
    core = CoreTriplesFactory(torch.tensor([[0, 0, 1], [1, 1, 2]]), num_entities=3, num_relations=2)
    graph = pykeen_data.graph_of_factories(core, name="core")
    assert graph.entities.ids == ("e0", "e1", "e2")
    assert graph.relations.ids == ("r0", "r1")


def test_bad_input_is_told_in_a_sentence(tmp_path):
    model, data = draw("rgcn-bases")
    with pytest.raises(SettingsError, match="training triples are needed too"):
        from_pykeen(model)
    with pytest.raises(ModelError, match="not Nations"):
        from_pykeen(data, data)
    with pytest.raises(MismatchError, match="another data set: it has 8 entities and 4 relations, the model 14 and 55"):
        from_pykeen(model, factory(inverse=False))
    with pytest.raises(MismatchError, match="other triples than the model"):
        from_pykeen(model, data.testing)
    with pytest.raises(ModelError, match=r"holds no trained_model\.pkl"):
        load_pykeen(tmp_path)
    (tmp_path / "trained_model.pkl").write_bytes(b"nothing")
    (tmp_path / "training_triples").mkdir()
    with pytest.raises(ModelError, match="cannot be read as a PyKEEN result"):
        load_pykeen(tmp_path)


def test_without_pykeen_it_says_how_to_install_it(monkeypatch):
    def missing(name):
        raise ImportError(name)

    monkeypatch.setattr(pykeen_data, "import_module", missing)
    for ask in (lambda: from_pykeen(None), lambda: load_pykeen("x"), lambda: load("pykeen:nations")):
        with pytest.raises(SettingsError, match=r"PyKEEN is not installed: .* 'powerlink\[pykeen\]'"):
            ask()
