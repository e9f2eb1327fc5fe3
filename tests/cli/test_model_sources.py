"""Every command takes every kind of model: a folder of ours, PyKEEN's, a PyG factory's, and those of other packages."""

from __future__ import annotations

import json
import sys
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest
import torch

from powerlink import sources

pytest.importorskip("pykeen", reason="PyKEEN is not installed")

from pykeen.datasets import Nations
from pykeen.models import RGCN

pytestmark = pytest.mark.filterwarnings("ignore")  # PyKEEN's own

FACTORY = """
import torch
from torch_geometric.nn import FastRGCNConv

import powerlink


class Encoder(torch.nn.Module):
    def __init__(self, entities, types):
        super().__init__()
        self.nodes = torch.nn.Embedding(entities, 8)
        self.layer = FastRGCNConv(8, 8, types)

    def forward(self, edge_index, edge_type):
        return self.layer(self.nodes.weight, edge_index, edge_type)


def build(file=None):
    names = [(a, "r", b) for a, b in ("ab", "bc", "cd", "de", "ea", "ac", "bd")] + [("a", "s", "d"), ("c", "s", "e")]
    graph = powerlink.KnowledgeGraph.from_names("letters", {"train": names, "test": [("a", "r", "d")]})
    torch.manual_seed(0)
    encoder, relations = Encoder(5, 4), torch.nn.Embedding(4, 8)
    if file:
        encoder.load_state_dict(torch.load(file, weights_only=True))
    return powerlink.adapters.from_pyg(encoder, "distmult", graph, nodes="nodes.weight", relations=relations)


def nothing():
    return 5


def broken():
    raise ValueError("no such thing")
"""


@pytest.fixture(scope="module")
def nations(tmp_path_factory) -> Path:
    """What PyKEEN's save_to_directory leaves of an untrained model."""
    folder = tmp_path_factory.mktemp("result")
    training = Nations().training
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        torch.save(RGCN(triples_factory=training, embedding_dim=8), folder / "trained_model.pkl")
    training.to_path_binary(folder / "training_triples")
    return folder


@pytest.fixture
def letters(tmp_path, monkeypatch) -> str:
    """A factory in the folder where the command is run."""
    (tmp_path / "letters_factory.py").write_text(FACTORY)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(sys.modules, "letters_factory", raising=False)
    return "pyg:letters_factory:build"


QUICK = ("--explainer", "gradient")


def test_pykeen_goes_through_every_command(nations, powerlink, tmp_path):
    model, out = f"pykeen:{nations}", tmp_path / "many.jsonl"
    triple = ("--head", "brazil", "--relation", "accusation", "--tail", "uk")
    outcome = powerlink("explain", model, *triple, *QUICK)
    assert outcome.code == 0, outcome
    assert outcome.out.startswith("brazil ─accusation→ uk")
    assert "path 1" in outcome.out
    for _ in range(2):  # the second goes on behind the first
        many = powerlink("explain", model, "--split", "train", "--limit", 3, *QUICK, "--out", out)
        assert many.code == 0, many
    assert "3 of 3 are already in" in many.said
    assert len(out.read_text("utf-8").splitlines()) == 3
    few = ("--candidates", 6, "--out", tmp_path / "comparison")
    for command in (
        ("evaluate", model, out),
        ("report", model, out, "--out", tmp_path / "page.html"),
        ("rank", model, "--split", "train"),
        ("predict", model, "--head", "brazil", "--relation", "accusation", "--top", 2),
        ("compare", model, "--explainers", "gradient", "--split", "train", "--which", "all", "--limit", 2, *few),
    ):
        outcome = powerlink(*command)
        assert outcome.code == 0, outcome
    assert "RGCN-" in (tmp_path / "page.html").read_text("utf-8")


def test_a_pyg_factory_goes_through_every_command(letters, powerlink, tmp_path):
    out = tmp_path / "many.jsonl"
    assert powerlink("explain", letters, "--split", "test", *QUICK, "--out", out).code == 0
    made_by = json.loads(out.read_text("utf-8").splitlines()[0])["made_by"]
    assert made_by["model"].endswith("recomputed")
    assert made_by["model_hash"]
    for command in (
        ("evaluate", letters, out),
        ("report", letters, out, "--out", tmp_path / "page.html"),
        ("rank", letters),
        ("predict", letters, "--head", "a", "--relation", "r"),
        ("fit", letters, "--limit", 2, "--set", "epochs=1", "--out", tmp_path / "fit"),
        ("compare", letters, "--explainers", "gradient", "--which", "all", "--out", tmp_path / "comparison"),
    ):
        outcome = powerlink(*command)
        assert outcome.code == 0, outcome


def test_a_factory_is_given_its_file(letters, powerlink, tmp_path):
    other = sources.open_model(letters).model.caller.encoder.state_dict()
    torch.save({name: tensor + 1.0 for name, tensor in other.items()}, tmp_path / "weights.pt")
    plain, loaded = (powerlink("rank", source, "--json") for source in (letters, f"{letters}:weights.pt"))
    assert plain.code == loaded.code == 0
    assert sources.identity_of(letters).hash != sources.identity_of(f"{letters}:weights.pt").hash


def test_another_package_adds_a_kind_by_one_entry_point(letters, powerlink, monkeypatch):
    point = EntryPoint("letters", letters.replace("pyg:", "").replace(":build", ":opened"), sources.GROUP)
    Path("letters_factory.py").write_text(FACTORY + "\n\ndef opened(rest, device):\n    return build(rest or None)\n")
    monkeypatch.setattr(sources, "_registered", lambda: {"letters": point})
    monkeypatch.syspath_prepend(str(Path.cwd()))
    assert powerlink("rank", "letters:").code == 0
    assert "did you mean 'letters'" in powerlink("rank", "leters:x").err


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("pyken:somewhere", "did you mean 'pykeen'"),
        ("pykeen:nowhere", "holds no trained_model.pkl"),
        ("pyg:letters_factory", "must be pyg:MODULE:FUNCTION"),
        ("pyg:no_such_module:build", "No module named 'no_such_module'"),
        ("pyg:letters_factory:bild", "has no attribute 'bild'"),
        ("pyg:letters_factory:nothing", "gave a int, not what from_pyg"),
        ("pyg:letters_factory:broken", "cannot be opened (ValueError: no such thing)"),
        ("nowhere", "no model"),
    ],
)
@pytest.mark.usefixtures("letters")
def test_bad_sources_are_told_in_a_sentence(refused, source, said):
    assert said in refused("rank", source).said


def test_bad_input_is_told_in_a_sentence(nations, refused, tmp_path):
    assert "missing argument 'model'" in refused("explain", "--split", "train").said
    assert "no test facts" in refused("explain", f"pykeen:{nations}", "--split", "test").said
    assert "did you mean 'nations'" in refused("train", "--data", "pykeen:nation", "--out", tmp_path / "model").said
