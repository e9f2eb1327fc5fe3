"""powerlink explain --pykeen: a saved result of PyKEEN's, in this process."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

pytest.importorskip("pykeen", reason="PyKEEN is not installed")

from pykeen.datasets import Nations
from pykeen.models import RGCN

pytestmark = pytest.mark.filterwarnings("ignore")  # PyKEEN's own


@pytest.fixture(scope="module")
def saved(tmp_path_factory) -> Path:
    """What PyKEEN's save_to_directory leaves of an untrained model."""
    folder = tmp_path_factory.mktemp("result")
    training = Nations().training
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        torch.save(RGCN(triples_factory=training, embedding_dim=8), folder / "trained_model.pkl")
    training.to_path_binary(folder / "training_triples")
    return folder


def test_one_triple_and_many(saved, powerlink, tmp_path):
    triple = ("--head", "brazil", "--relation", "accusation", "--tail", "uk")
    outcome = powerlink("explain", "--pykeen", saved, *triple, "--explainer", "gradient")
    assert outcome.code == 0, outcome
    assert outcome.out.startswith("brazil ─accusation→ uk")
    assert "path 1" in outcome.out
    out = tmp_path / "many.jsonl"
    for _ in range(2):  # the second goes on behind the first
        many = powerlink("explain", "--pykeen", saved, "--split", "train", "--limit", 3, "--out", out)
        assert many.code == 0, many
    assert "3 of 3 are already in" in many.said
    assert len(out.read_text("utf-8").splitlines()) == 3


def test_bad_input_is_told_in_a_sentence(saved, refused, tmp_path):
    assert "say which model to explain" in refused("explain", "--split", "train").said
    assert "say which model to explain" in refused("explain", "models", "--pykeen", saved, "--split", "train").said
    assert "holds no trained_model.pkl" in refused("explain", "--pykeen", tmp_path, "--split", "train").said
    assert "no test facts" in refused("explain", "--pykeen", saved, "--split", "test").said
    assert "did you mean 'nations'" in refused("train", "--data", "pykeen:nation", "--out", tmp_path / "model").said
