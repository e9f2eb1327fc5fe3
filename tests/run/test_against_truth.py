"""Explainers held against known explanations, on the small example and on UserItemAttr."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
import torch

from powerlink.errors import DataError, PowerlinkError
from powerlink.explainers.catalog import EXPLAINERS, make_explainer
from powerlink.explainers.floor import Random
from powerlink.explainers.learned.power_link import PowerLink
from powerlink.kg.explained_links import ExplainedLinks
from powerlink.kg.link_splits import split_links
from powerlink.kg.typed_folder import read_links
from powerlink.models.link_model import ModelSettings
from powerlink.models.link_training import LinkTrainingSettings, link_auc, train_on_links
from powerlink.models.subject import Subject
from powerlink.run.against_truth import hold_against_truth, predicted_links
from typed_example import SHARED, needs_user_item_attr, write_example

SMALL = ModelSettings(encoder="rgcn", widths=(8, 8, 8), blocks=2)


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> tuple[ExplainedLinks, Subject]:
    data = read_links(write_example(tmp_path_factory.mktemp("shop")))
    return data, train_on_links(data, SMALL, LinkTrainingSettings(epochs=5))


@pytest.mark.parametrize("name", EXPLAINERS)
def test_every_explainer_can_be_held_against_the_truth(shop: tuple[ExplainedLinks, Subject], name: str) -> None:
    data, subject = shop
    queries = torch.from_numpy(data.links.copy())
    try:
        found = hold_against_truth(subject, data, queries, make_explainer(name))
    except PowerlinkError as error:
        pytest.skip(f"{name} cannot be used as it is: {error}")
    assert found.queries == 3
    for values in found.auc.values():
        assert ((values >= 0) & (values <= 1) | np.isnan(values)).all()
    # each link has one route of at most three steps, or few: whoever searches for five must find it
    assert found.hit_at(5) == 1.0
    assert found.hit_at(1) <= found.hit_at(3) <= found.hit_at(5)


def test_no_query_and_unexplained_queries(shop: tuple[ExplainedLinks, Subject]) -> None:
    data, subject = shop
    nothing = hold_against_truth(subject, data, torch.empty(0, 3, dtype=torch.long), Random())
    assert nothing.queries == 0
    assert math.isnan(nothing.mean_auc("directed"))
    with pytest.raises(DataError, match="does not say what explains"):
        hold_against_truth(subject, data, torch.from_numpy(data.negatives["test"].copy()), Random())


def test_training_needs_links_and_negatives(tmp_path: Path) -> None:
    data = read_links(write_example(tmp_path, likes_valid_negatives_tsv=None))
    with pytest.raises(DataError, match="has no valid links, or no negatives beside them"):
        train_on_links(data, SMALL)


def test_training_depends_on_its_seed_alone(shop: tuple[ExplainedLinks, Subject]) -> None:
    data, subject = shop
    torch.rand(3)  # whatever else was drawn
    again = train_on_links(data, SMALL, LinkTrainingSettings(epochs=5))
    assert torch.equal(again.whole.entity, subject.whole.entity)
    other = train_on_links(data, SMALL, LinkTrainingSettings(epochs=5, seed=1))
    assert not torch.equal(other.whole.entity, subject.whole.entity)
    assert not (subject.messages.relation % data.graph.num_relations == data.relation).any()


@needs_user_item_attr
def test_power_link_finds_planted_explanations() -> None:
    data = split_links(read_links(SHARED), seed=0)
    settings = ModelSettings(encoder="rgcn", widths=(64, 64, 64), blocks=1)
    subject = train_on_links(data, settings)
    assert link_auc(subject.model, subject.messages, data, "test") > 0.9
    believed = predicted_links(subject, data)
    assert 0.8 < len(believed) / len(data.links_of("test")) < 1
    queries = believed[:32]
    found = hold_against_truth(subject, data, queries, PowerLink(size_weight=0.5))
    chance = hold_against_truth(subject, data, queries, Random())
    assert min(found.mean_auc(reading) for reading in found.auc) >= 0.961
    assert abs(chance.mean_auc("directed") - 0.5) < 0.1
    assert found.hit_at(5) > chance.hit_at(5)
