"""PyKEEN's models without messages: scored as PyKEEN scores them, explained by fitting again, untouched."""

from __future__ import annotations

import numpy as np
import pytest
import torch

pytest.importorskip("pykeen", reason="PyKEEN is not installed")

from pykeen import models
from pykeen.losses import CrossEntropyLoss, NSSALoss
from pykeen.triples import TriplesFactory

from powerlink.adapters import from_pykeen
from powerlink.adapters.pykeen_vectors import objective_of
from powerlink.errors import ModelError
from powerlink.models.protocol import abilities_of
from powerlink.pipeline import ExplainSettings
from powerlink.run.explain_many import explain_many
from powerlink.testing import check_link_model

pytestmark = pytest.mark.filterwarnings("ignore")  # PyKEEN's own

CONVE = {"output_channels": 4, "embedding_dim": 16, "embedding_height": 4, "embedding_width": 4}
NAMES = ["TransE", "DistMult", "ComplEx", "RotatE", "ConvE", "TuckER", "SimplE"]


def triples(seed=0, *, inverse=False):
    drawn = torch.randint(0, 12, (60, 3), generator=torch.Generator().manual_seed(seed))
    drawn[:, 1] %= 3
    rows = [(f"e{h}", f"r{r}", f"e{t}") for h, r, t in drawn.unique(dim=0).tolist()]
    return TriplesFactory.from_labeled_triples(np.array(rows), create_inverse_triples=inverse)


def model_of(name, **more):
    factory = triples(inverse=name == "ConvE")
    own = CONVE if name == "ConvE" else {"embedding_dim": 8}
    return getattr(models, name)(triples_factory=factory, random_seed=0, **own, **more).eval(), factory


@pytest.mark.parametrize("name", NAMES)
def test_it_scores_as_pykeen_does_and_keeps_the_contract(name):
    model, factory = model_of(name)
    session = from_pykeen(model, factory)
    some = factory.mapped_triples[:20]
    with torch.no_grad():
        assert session.settled.score(session.whole, some) == pytest.approx(model.predict_hrt(some).squeeze(1), abs=1e-6)
        heads = torch.stack([some[:, 2], some[:, 1] + factory.real_num_relations, some[:, 0]], dim=1)
        own = model.predict_h(some[:, 1:]).gather(1, some[:, :1]).squeeze(1)
        assert session.settled.score(session.whole, heads) == pytest.approx(own, abs=1e-6)
    assert check_link_model(session.settled, session.graph) == []


@pytest.mark.parametrize("name", NAMES)
def test_it_is_explained_and_left_as_it_was(name):
    model, factory = model_of(name)
    before = {key: value.clone() for key, value in model.state_dict().items()}
    session = from_pykeen(model, factory)
    settings = ExplainSettings(candidates=4, paths=3, also_consider="none")
    told = explain_many(session, factory.mapped_triples[:3], settings=settings)
    assert all(one.made_by.reading.startswith("post-training") for one in told)
    assert any(one.evidence for one in told)
    assert all(torch.equal(value, before[key]) for key, value in model.state_dict().items())
    assert all(parameter.grad is None for parameter in model.parameters())


def test_rows_are_constrained_as_pykeen_constrains_them():
    model, factory = model_of("TransE")
    own = abilities_of(from_pykeen(model, factory).settled).retrainable
    rows = own.constrained(3 * torch.randn(5, 8, generator=torch.Generator().manual_seed(0)))
    assert rows.norm(dim=1) == pytest.approx(torch.ones(5), abs=1e-6)
    complex_rows, _ = model_of("RotatE")
    rotate = abilities_of(from_pykeen(complex_rows, factory).settled).retrainable
    assert rotate.rows().shape == (12, 16)  # real and imaginary


def test_objectives_come_near_the_losses():
    assert objective_of(NSSALoss(margin=9.0)).kind == "all-tails"
    assert objective_of(NSSALoss(margin=9.0)).margin == 9.0
    assert objective_of(CrossEntropyLoss()).kind == "softmax"
    assert objective_of(model_of("TransE")[0].loss).kind == "margin"
    assert objective_of(model_of("ComplEx")[0].loss).kind == "all-tails"


def test_what_has_no_rows_of_its_own_is_refused_in_a_sentence():
    factory = triples()
    with pytest.raises(
        ModelError, match=r"NodePiece reads .* of an entity, and not a vector that the entity has to itself"
    ):
        from_pykeen(models.NodePiece(triples_factory=triples(inverse=True), embedding_dim=4), triples(inverse=True))
    frozen, _ = model_of("DistMult")
    frozen.entity_representations[0]._embeddings.requires_grad_(False)
    with pytest.raises(ModelError, match="the vectors of DistMult are frozen"):
        from_pykeen(frozen, factory)
    with pytest.raises(ModelError, match="has no vectors and interaction"):
        from_pykeen(models.MarginalDistributionBaseline(triples_factory=factory), factory)
