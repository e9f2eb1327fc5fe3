"""PowerLinkExplainer in PyG's Explainer: it finds what the model reasons by, and PyG's metrics read it."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch_geometric.explain import Explainer, GNNExplainer, PGExplainer
from torch_geometric.explain import metric as pyg_metric
from torch_geometric.nn import GATv2Conv, GCNConv, RGCNConv, TransformerConv
from torch_geometric.utils import to_undirected

from builders import edges_without, random_rows, triple_tensor
from powerlink.errors import DataError, ModelError, SettingsError
from powerlink.explainers.floor import Gradient
from powerlink.explainers.learned.power_link import PowerLink
from powerlink.pipeline import ExplainSettings
from powerlink.pyg_explainer import PowerLinkExplainer, fidelity
from powerlink.pyg_explainer.pairing import pair_up
from powerlink.pyg_explainer.whole_model import WholeModel
from pyg_encoders import Reasoner

N, R, WIDTH = 16, 3, 8
EASY = ExplainSettings(core=0)


class LinkNet(nn.Module):
    """Two layers and the product of the ends, as in PyG's link-prediction examples."""

    def __init__(self, make, output=None):
        super().__init__()
        self.conv1, self.conv2, self.output = make(), make(), output or nn.Identity()

    def forward(self, x, edge_index, edge_label_index, edge_type=None, edge_attr=None):
        rest = [part for part in (edge_type, edge_attr) if part is not None]
        z = self.conv2(self.conv1(x, edge_index, *rest).relu(), edge_index, *rest)
        return self.output((z[edge_label_index[0]] * z[edge_label_index[1]]).sum(-1))


HOMOGENEOUS = {
    "gcn": lambda: GCNConv(WIDTH, WIDTH),
    "gatv2": lambda: GATv2Conv(WIDTH, WIDTH, edge_dim=4),
    "transformer": lambda: TransformerConv(WIDTH, WIDTH, edge_dim=4),
}
X = torch.randn(N, WIDTH, generator=torch.Generator().manual_seed(0))
PAIRS = [(h, t) for h, _, t in random_rows(1, N, 1, 30) if h != t]
EDGES = to_undirected(torch.tensor(PAIRS).t(), num_nodes=N)
TYPES = torch.arange(EDGES.size(1)) % R  # of a directed relational graph
LABELS = torch.tensor([[0, 2, 5], [7, 9, 11]])


def explainer_of(model, algorithm=None, **others) -> Explainer:
    config = {"mode": "binary_classification", "task_level": "edge", "return_type": "raw"} | others.pop("config", {})
    algorithm = algorithm or PowerLinkExplainer(Gradient(), EASY)
    return Explainer(
        model, algorithm, **{"explanation_type": "model", "edge_mask_type": "object", "model_config": config} | others
    )


def inputs_of(name: str) -> dict[str, torch.Tensor]:
    features = torch.randn(EDGES.size(1), 4, generator=torch.Generator().manual_seed(1))
    return {"edge_label_index": LABELS} | ({} if name == "gcn" else {"edge_attr": features})


def make(name: str, seed: int = 0) -> LinkNet:
    torch.manual_seed(seed)
    if name == "rgcn":
        return LinkNet(lambda: RGCNConv(WIDTH, WIDTH, R)).eval()
    return LinkNet(HOMOGENEOUS[name]).eval()


@pytest.mark.parametrize("normaliser", ["fixed", "recomputed"])
@pytest.mark.parametrize("name", [*HOMOGENEOUS, "rgcn"])
def test_a_part_of_the_graph_is_scored_as_the_whole_and_a_removal_as_a_removal(name, normaliser):
    model = make(name)
    inputs = inputs_of(name) if name != "rgcn" else {"edge_label_index": LABELS, "edge_type": TYPES}
    edges = pair_up(EDGES, inputs.get("edge_type"), N)
    link_model = WholeModel(model, X, edges, inputs, label=0, sign=1.0, probabilities=False, normaliser=normaliser)
    triples = triple_tensor([(0, 0, 7), (2, 0, 9)])
    truth = model(X, EDGES, **inputs | {"edge_label_index": LABELS[:, :2]})
    messages = edges.messages
    assert torch.allclose(link_model.score(link_model.encode(messages), triples), truth, atol=1e-5)
    if normaliser == "recomputed":
        gone = [3, 4, 11]
        kept = torch.ones(EDGES.size(1), dtype=torch.bool)
        kept[edges.column[gone][edges.column[gone] >= 0]] = False
        rest = {k: v if "label" in k else v[kept] for k, v in inputs.items()}
        truth = model(X, EDGES[:, kept], **rest | {"edge_label_index": LABELS[:, :2]})
        found = link_model.score(link_model.encode(edges_without(messages, gone)), triples)
        assert torch.allclose(found, truth, atol=1e-5)


TRUE = [(0, 0, 1), (1, 1, 2)]
DECOYS = [(0, 2, 3), (3, 2, 2), (0, 3, 4), (4, 1, 2), (0, 0, 5), (5, 3, 2), (1, 2, 2), (0, 1, 1), (6, 0, 1), (7, 1, 2)]


class Judge(nn.Module):
    """The hand-made reasoner as one call; its table is x."""

    def __init__(self, name, types):
        super().__init__()
        self.inner = Reasoner(name, 8, types, hops=(0, 1))

    def forward(self, x, edge_index, edge_label_index, edge_type):
        self.inner.table = x
        z = self.inner(edge_index, edge_type)
        return self.inner.decode(z[edge_label_index[0]], None, z[edge_label_index[1]])


@pytest.mark.parametrize("explainer", [PowerLink(steps=5), Gradient()])
@pytest.mark.parametrize("inverses", [True, False])
@pytest.mark.parametrize("name", ["rgcn", "rgat", "gatv2", "compgcn"])
def test_the_path_a_model_reasons_by_is_in_the_mask(name, inverses, explainer):
    head, kind, tail = triple_tensor([*TRUE, *DECOYS]).unbind(1)
    edge_index = torch.stack([head, tail])
    if inverses:
        edge_index, kind = torch.cat([edge_index, edge_index.flip(0)], 1), torch.cat([kind, kind + 4])
    model = Judge(name, 8)
    made = explainer_of(model, PowerLinkExplainer(explainer, ExplainSettings(core=0, paths=1)))
    found = made(model.inner.table, edge_index, edge_label_index=torch.tensor([[0], [2]]), edge_type=kind)
    columns = [0, 1, *([len(head), len(head) + 1] if inverses else [])]
    assert int(found.target) == 1
    assert found.edge_mask.nonzero().flatten().tolist() == columns
    assert found.paths == [[[0, 1]]]
    assert fidelity(made, found) == (1.0, 0.0)


@pytest.mark.parametrize("mask", ["paths", "scores"])
@pytest.mark.parametrize("name", HOMOGENEOUS)
def test_pygs_metrics_run_on_it_and_ours_agrees(name, mask):
    explainer = explainer_of(make(name), PowerLinkExplainer(Gradient(), EASY, mask=mask))
    found = explainer(X, EDGES, **inputs_of(name))
    assert found.validate()
    assert found.edge_mask.shape == (EDGES.size(1),)
    assert (found.edge_mask > 0).sum() > 0
    assert len(found.paths) == 3
    theirs, ours = pyg_metric.fidelity(explainer, found), fidelity(explainer, found)
    assert ours == pytest.approx(theirs)
    assert 0 <= pyg_metric.characterization_score(*(torch.tensor(v) for v in (0.5, 0.25))) <= 1
    assert isinstance(pyg_metric.unfaithfulness(explainer, found), float)


def test_pygs_own_tools_fail_on_rgcn_and_ours_do_not():
    model = make("rgcn")
    inputs = {"edge_label_index": LABELS, "edge_type": TYPES}
    explainer = explainer_of(model)
    found = explainer(X, EDGES, **inputs)
    with pytest.raises(AssertionError):
        pyg_metric.fidelity(explainer, found)
    for module in model.modules():  # what PyG's failure leaves behind
        if isinstance(module, RGCNConv):
            module.explain = None
            module._edge_mask = module._loop_mask = None
    plus, minus = fidelity(explainer, found)
    assert 0 <= plus <= 1
    assert 0 <= minus <= 1
    with pytest.raises(AssertionError):
        explainer_of(make("rgcn"), GNNExplainer(epochs=2))(X, EDGES, **inputs)
    with pytest.raises(ValueError, match="does not support"):
        explainer_of(model, PGExplainer(epochs=2), explanation_type="phenomenon")


def test_one_label_of_many_and_probabilities_and_phenomena():
    model = make("gcn")
    explainer = explainer_of(model)
    one = explainer(X, EDGES, index=1, **inputs_of("gcn"))
    assert len(one.paths) == 1
    every = explainer(X, EDGES, **inputs_of("gcn"))
    assert (every.edge_mask >= one.edge_mask).all()
    sure = LinkNet(HOMOGENEOUS["gcn"], nn.Sigmoid())
    sure.load_state_dict(model.state_dict())
    likely = explainer_of(sure.eval(), config={"return_type": "probs"})
    assert likely(X, EDGES, **inputs_of("gcn")).paths == every.paths
    asked = explainer_of(model, explanation_type="phenomenon")
    found = asked(X, EDGES, target=torch.tensor([1, 0, 1]), **inputs_of("gcn"))
    assert fidelity(asked, found) == pytest.approx(pyg_metric.fidelity(asked, found))


def test_a_label_may_have_a_type():
    class Typed(LinkNet):
        def forward(self, x, edge_index, edge_label_index, edge_label_type, edge_type):
            assert edge_label_type.shape == edge_label_index.shape[1:]
            return super().forward(x, edge_index, edge_label_index, edge_type) + edge_label_type

    torch.manual_seed(0)
    explainer = explainer_of(Typed(lambda: RGCNConv(WIDTH, WIDTH, R)).eval())
    found = explainer(
        X, EDGES, edge_label_index=LABELS, edge_type=TYPES, edge_label_type=torch.tensor([2, 0, 1]), index=0
    )
    assert found.edge_mask.sum() > 0


def test_ends_without_a_path_get_an_empty_mask():
    edges = torch.tensor([[0, 1], [1, 0]])
    found = explainer_of(make("gcn"))(X, edges, edge_label_index=torch.tensor([[0, 3], [5, 3]]))
    assert found.edge_mask.tolist() == [0, 0]
    assert found.paths == [[], []]


def test_the_model_is_left_as_it_was():
    model = make("gatv2").train()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    state = torch.get_rng_state()
    explainer_of(model)(X, EDGES, **inputs_of("gatv2"))
    assert torch.equal(state, torch.get_rng_state())
    assert model.training
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())
    assert not any(m._message_forward_hooks or m._forward_pre_hooks for m in (model.conv1, model.conv2))


@pytest.mark.parametrize(
    "settings",
    [
        {"config": {"task_level": "node"}},
        {"node_mask_type": "object"},
        {"edge_mask_type": None, "node_mask_type": "object"},
        {"config": {"mode": "multiclass_classification"}},
    ],
)
def test_what_it_does_not_serve_is_refused(settings, caplog):
    with pytest.raises(ValueError, match="does not support"):
        explainer_of(make("gcn"), **settings)
    assert "'PowerLinkExplainer' needs" in caplog.text


def test_bad_input_is_told_in_a_sentence():
    model = make("gcn")
    with pytest.raises(SettingsError, match="paths or scores, not 'edges'"):
        PowerLinkExplainer(mask="edges")
    with pytest.raises(ModelError, match="must return a number per column of edge_label_index, 1 here, not"):
        explainer_of(Wide(HOMOGENEOUS["gcn"]))(X, EDGES, edge_label_index=LABELS)
    with pytest.raises(ModelError, match="say which edges to explain"):
        explainer_of(Nothing(HOMOGENEOUS["gcn"]))(X, EDGES)
    with pytest.raises(DataError, match="twice"):
        explainer_of(model)(X, EDGES.repeat(1, 2), edge_label_index=LABELS)
    with pytest.raises(ModelError, match="no MessagePassing layer"):
        explainer_of(Flat())(X, EDGES, edge_label_index=LABELS)
    with pytest.raises(ModelError, match="from target to source"):
        explainer_of(LinkNet(lambda: GCNConv(WIDTH, WIDTH, flow="target_to_source")))(X, EDGES, edge_label_index=LABELS)


class Wide(LinkNet):
    def forward(self, x, edge_index, edge_label_index):
        return super().forward(x, edge_index, edge_label_index).repeat(2)


class Nothing(LinkNet):
    def forward(self, x, edge_index):
        return super().forward(x, edge_index, LABELS)


class Flat(nn.Module):
    def forward(self, x, edge_index, edge_label_index):
        return (x[edge_label_index[0]] * x[edge_label_index[1]]).sum(-1)
