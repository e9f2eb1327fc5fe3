"""Encoders and decoders by name, ours and strangers'."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from importlib.metadata import EntryPoint

import pytest
import torch
from torch import nn

from builders import knowledge_graph, random_rows
from powerlink import ModelSettings, TrainingSettings, explain_many, load_model
from powerlink.errors import ModelError, SettingsError
from powerlink.graphs.edges import EdgeSlice
from powerlink.kernels.arrangements import nodes_to_targets
from powerlink.kernels.messages import Messages
from powerlink.models import catalog
from powerlink.models.decoders import RotatE
from powerlink.models.encoders.layered import Layer, LayeredEncoder, Offer
from powerlink.run.train_folder import FolderTraining
from powerlink.settings import setting
from powerlink.testing import check_link_model

N, R = 20, 2
ROWS = random_rows(0, N, R, 70)
GRAPH = knowledge_graph(ROWS[8:], N, R, valid=ROWS[:4], test=ROWS[4:8])


class AverageLayer(Layer):
    """h'_t = tanh(share·Σ_e norm·weight·h_s + h_t)."""

    def __init__(self, share: float) -> None:
        super().__init__()
        self.share = nn.Parameter(torch.tensor(share))

    def offer(self, nodes: torch.Tensor, relations: torch.Tensor, edges: EdgeSlice) -> Offer:
        return Offer(Messages(self.share * nodes, nodes_to_targets(edges)), edges.norm, nodes[: edges.num_targets])

    def receive(self, offer: Offer, weight: torch.Tensor) -> torch.Tensor:
        return torch.tanh(offer.received(weight) + offer.own)


class Average(LayeredEncoder):
    """A node is itself and its neighbours' mean."""

    @dataclass(frozen=True, kw_only=True)
    class Settings(LayeredEncoder.Settings):
        name: str = field(default="average", init=False)
        share: float = setting(0.5, "how much neighbours count", least=0)

    def __init__(self, settings: Settings, num_entities: int, num_relations: int, widths: tuple[int, ...]) -> None:
        super().__init__(settings, num_entities, num_relations, widths)
        nn.init.normal_(self.entity, std=0.3)
        nn.init.normal_(self.relation, std=0.3)
        self.layers = nn.ModuleList(AverageLayer(settings.share) for _ in widths[1:])


def registered(monkeypatch, value):
    def entry_points(*, group):
        return [EntryPoint("average", value, group)] if group == "powerlink.encoders" else []

    monkeypatch.setattr(catalog, "entry_points", entry_points)


@pytest.mark.parametrize("way", ["a line", "an entry point"])
def test_an_encoder_from_outside_is_trained_saved_loaded_and_explained(tmp_path, monkeypatch, way):
    if way == "a line":
        monkeypatch.setitem(catalog.ENCODERS, "average", Average)
    else:
        registered(monkeypatch, f"{__name__}:Average")
    shape = ModelSettings(encoder="average", share=0.25, widths=(8, 8, 8))
    training = TrainingSettings(epochs=30, evaluate_every=10, batch_size=32, lr=0.02)
    reports = list(FolderTraining(tmp_path, GRAPH, shape, training).run())
    assert reports[-1].loss < 0.9 * reports[0].loss
    assert FolderTraining(tmp_path, GRAPH, shape, training).finished
    told = json.loads((tmp_path / "model.json").read_text())["model"]["encoder"]
    assert told == {"name": "average", "layer_dropout": 0.1, "share": 0.25}
    session = load_model(tmp_path)
    assert session.name == "average-distmult"
    assert session.model.settings == shape
    assert check_link_model(session.model, GRAPH) == []
    explanations = list(explain_many(session, torch.from_numpy(GRAPH.train[:5].copy())))
    assert any(explanation.paths for explanation in explanations)


def test_without_it_its_folder_is_told(tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setitem(catalog.ENCODERS, "average", Average)
        shape = ModelSettings(encoder="average", widths=(4, 4))
        list(FolderTraining(tmp_path, GRAPH, shape, TrainingSettings(epochs=1)).run())
    with pytest.raises(ModelError, match="there is no encoder 'average'; there are 'rgcn', 'wgcn', 'compgcn'"):
        load_model(tmp_path)


def test_a_broken_registration_is_told_when_it_is_asked_for(monkeypatch):
    registered(monkeypatch, "no_such_module:Average")
    assert ModelSettings(encoder="rgcn").name == "rgcn-distmult"
    with pytest.raises(ModelError, match=r"the encoder average \(no_such_module:Average\) cannot be loaded"):
        ModelSettings(encoder="average")
    registered(monkeypatch, f"{__name__}:AverageLayer")
    with pytest.raises(ModelError, match="must be a LayeredEncoder whose Settings have the name 'average'"):
        ModelSettings(encoder="average")


def test_settings_are_given_as_parts_or_beside_names():
    nested = ModelSettings(encoder=Average.Settings(share=0.1), decoder=RotatE.Settings(margin=3.0), widths=[6, 6])
    assert nested.widths == (6, 6)
    assert nested.flat() == {
        **{"encoder": "average", "decoder": "rotate", "widths": (6, 6), "output_dropout": 0.2},
        **{"layer_dropout": 0.1, "share": 0.1, "margin": 3.0},
    }
    flat = ModelSettings(encoder="wgcn", decoder="rotate", self_loop=True, margin=3.0)
    assert (flat.encoder.self_loop, flat.decoder) == (True, nested.decoder)
    with pytest.raises(SettingsError, match="there is no decoder 'average'"):
        ModelSettings(decoder="average")


@pytest.mark.parametrize(("widths", "blocks"), [((100, 100), 5), ((128, 64), 4), ((9, 6), 3), ((7, 7), 1)])
def test_an_rgcn_has_as_many_blocks_as_divide_its_widths(widths, blocks):
    assert ModelSettings(encoder="rgcn", widths=widths).encoder.blocks == blocks
