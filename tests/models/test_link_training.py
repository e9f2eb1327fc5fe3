"""Training on links and given negatives, in memory and into a folder."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from powerlink.errors import DataError, OutputError
from powerlink.kg.explained_links import ExplainedLinks
from powerlink.kg.typed_folder import read_links
from powerlink.models.link_model import ModelSettings
from powerlink.models.link_training import LinkTrainingSettings, link_auc, train_on_links
from powerlink.models.session import Session
from powerlink.run.train_links import read_linked_data, train_links
from typed_example import write_example

SMALL = ModelSettings(encoder="rgcn", widths=(8, 8, 8), blocks=2)


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> tuple[ExplainedLinks, Session]:
    data = read_links(write_example(tmp_path_factory.mktemp("shop")))
    return data, train_on_links(data, SMALL, LinkTrainingSettings(epochs=5))


def test_training_needs_links_and_negatives(tmp_path: Path) -> None:
    data = read_links(write_example(tmp_path, likes_valid_negatives_tsv=None))
    with pytest.raises(DataError, match="has no valid links, or no negatives beside them"):
        train_on_links(data, SMALL)


def test_training_depends_on_its_seed_alone(shop: tuple[ExplainedLinks, Session]) -> None:
    data, session = shop
    torch.rand(3)  # whatever else was drawn
    again = train_on_links(data, SMALL, LinkTrainingSettings(epochs=5))
    assert torch.equal(again.whole.entity, session.whole.entity)
    other = train_on_links(data, SMALL, LinkTrainingSettings(epochs=5, seed=1))
    assert not torch.equal(other.whole.entity, session.whole.entity)
    assert not (session.messages.relation % data.graph.num_relations == data.relation).any()


def test_a_folder_holds_the_same_model_and_is_not_overwritten(
    shop: tuple[ExplainedLinks, Session], tmp_path: Path
) -> None:
    data, session = shop
    heard: list[tuple[float, float]] = []
    saved = train_links(
        data,
        tmp_path / "m",
        model=SMALL,
        training=LinkTrainingSettings(epochs=5),
        told=lambda loss, auc: heard.append((loss, auc)),
    )
    assert torch.equal(saved.whole.entity, session.whole.entity)
    assert saved.graph.fingerprint == data.background.fingerprint
    assert len(heard) == 5
    assert heard[-1][0] < heard[0][0]
    told = json.loads((tmp_path / "m" / "model.json").read_text("utf-8"))["accuracy"]["link_auc"]
    assert told == {s: link_auc(session.model, session.messages, data, s) for s in ("valid", "test")}
    assert max(auc for _, auc in heard) == told["valid"]
    with pytest.raises(OutputError, match="holds a model already"):
        train_links(data, tmp_path / "m", model=SMALL)
    with pytest.raises(DataError, match="no folder of typed nodes and edges"):
        read_linked_data(tmp_path / "m")
