"""The ready decoders against their formulas, and inverses that have no vectors of their own."""

from __future__ import annotations

import pytest
import torch

from builders import knowledge_graph, random_rows
from powerlink.adapters import ComplEx, ConvE, DistMult, RotatE, TransE, from_pyg
from powerlink.errors import SettingsError
from powerlink.models.ranking import score_tails
from pyg_encoders import draw_encoder

N, R, WIDTH = 15, 2, 8
HEAD, TAIL, RELATION = torch.randn(3, 5, WIDTH, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
GRAPH = knowledge_graph(random_rows(0, N, R, 40), N, R)


def as_complex(rows):
    return torch.complex(*rows.chunk(2, dim=-1))


def test_they_are_their_formulas():
    assert torch.allclose(DistMult()(HEAD, RELATION, TAIL), (HEAD * RELATION * TAIL).sum(1))
    assert torch.allclose(TransE(margin=3)(HEAD, RELATION, TAIL), 3 - (HEAD + RELATION - TAIL).abs().sum(1))
    h, r, t = map(as_complex, (HEAD, RELATION, TAIL))
    assert torch.allclose(ComplEx()(HEAD, RELATION, TAIL), (h * r * t.conj()).sum(1).real)
    angles = RELATION[:, : WIDTH // 2]
    turned = h * torch.polar(torch.ones_like(angles), angles)
    assert torch.allclose(RotatE(margin=3)(HEAD, angles, TAIL), 3 - (turned - t).abs().sum(1))


@pytest.mark.parametrize("kind", [ComplEx, RotatE])
def test_vectors_without_two_halves_are_refused(kind):
    with pytest.raises(SettingsError, match="its width must be even, not 7"):
        kind()(HEAD[:, :7], RELATION[:, :7], TAIL[:, :7])


def test_a_rotation_that_hits_has_a_gradient():
    head = HEAD.clone().requires_grad_()
    RotatE()(head, torch.zeros(5, WIDTH // 2, dtype=torch.float64), HEAD).sum().backward()
    assert head.grad is not None
    assert head.grad.isfinite().all()


@pytest.mark.parametrize("inverse_rows", [True, False])
@pytest.mark.parametrize("kind", [DistMult, TransE, ComplEx, RotatE, ConvE, None])
def test_all_tails_at_once_are_each_tail(kind, inverse_rows):
    encoder = draw_encoder("rgcn", N, 2 * R)
    decoder = (
        (lambda h, r, t: (h - r * t).square().sum(1)) if kind is None else kind(*[WIDTH] * (kind is ConvE)).double()
    )
    rows = encoder.rel_emb.weight[: 2 * R if inverse_rows else R, : WIDTH // 2 if kind is RotatE else WIDTH]
    model = from_pyg(encoder, decoder, GRAPH, nodes="node_emb", relations=rows).model.eval()
    embeddings = model.encode(model.runner.whole)
    head, relation = torch.tensor([0, 3, 3, 7]), torch.tensor([0, 1, 2, 3])
    found = score_tails(model, embeddings, head, relation)
    for i in range(4):
        triples = torch.stack([head[i].expand(N), relation[i].expand(N), torch.arange(N)], dim=1)
        assert torch.allclose(found[i], model.score(embeddings, triples), rtol=0, atol=1e-10)
    facts, inverses = torch.tensor([[0, 1, 4]]), torch.tensor([[4, 1 + R, 0]])
    same = torch.allclose(model.score(embeddings, facts), model.score(embeddings, inverses))
    assert same != inverse_rows
