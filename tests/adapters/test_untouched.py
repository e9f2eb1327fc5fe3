"""Nothing of the user's model is changed by a call, also when explaining raises in the middle."""

from __future__ import annotations

import random

import numpy as np
import pytest
import torch
from torch import nn
from torch_geometric.nn import RGCNConv

from builders import knowledge_graph, random_rows
from powerlink.adapters import DistMult, from_pyg
from powerlink.explainers.learned.power_link import PowerLink
from powerlink.run.explain_many import explain
from pyg_encoders import LAYERS, draw_encoder

N, R = 30, 2
ROWS = random_rows(5, N, R, 70)
GRAPH = knowledge_graph(ROWS, N, R)


class Clock(list[int]):
    """The test's own count of runs, the same one in whatever copy of a model."""

    def __deepcopy__(self, memo):
        return self


class Spoiled(nn.Module):
    """An encoder that writes into itself whenever it runs, and raises when it has run often enough."""

    def __init__(self, layer: str, patience: int | None = None) -> None:
        super().__init__()
        self.inner = draw_encoder(layer, N, 2 * R)
        self.norm = nn.BatchNorm1d(8).double()
        self.register_buffer("runs", torch.zeros(()))
        self.register_buffer("last", torch.zeros(1))
        self.patience, self.left = patience, patience
        self.log = Clock()

    def forward(self, edge_index, edge_type):
        self.runs += 1
        self.last = torch.rand(1)
        self.seen = edge_index.shape
        out = self.inner(edge_index, edge_type)
        if self.patience is not None:
            self.log.append(1)  # the one thing that is not brought back
            if len(self.log) > self.patience:
                raise RuntimeError("enough")
        return (self.norm(out[0]), out[1]) if isinstance(out, tuple) else self.norm(out)


def everything(*modules: nn.Module) -> dict[str, object]:
    """All that could be changed, in a form that can be compared."""
    state: dict[str, object] = {"torch": torch.get_rng_state().tolist(), "numpy": str(np.random.get_state())}
    state["python"] = random.getstate()
    for number, module in enumerate(modules):
        for name, tensor in module.state_dict().items():
            state[f"{number}.{name}"] = (tensor.tolist(), tensor.data_ptr())
        for name, part in module.named_modules():
            for key, value in vars(part).items():
                if key == "log":
                    continue
                if "hooks" in key:
                    state[f"{number}.{name}.{key}"] = list(value)
                elif key in ("_parameters", "_buffers", "_modules"):
                    state[f"{number}.{name}.{key}"] = {k: id(v) for k, v in value.items()}
                else:
                    state[f"{number}.{name}.{key}"] = (id(value), str(value))
        for name, parameter in module.named_parameters():
            state[f"{number}.{name}.grad"] = parameter.grad
    return state


@pytest.mark.parametrize(("layer", "normaliser"), [*((layer, "fixed") for layer in LAYERS), ("gatv2", "recomputed")])
def test_it_is_as_it_was(layer, normaliser):
    encoder, decoder = Spoiled(layer).train(), DistMult()
    encoder.norm.eval()
    relations = encoder.inner.rel_emb
    before = everything(encoder, decoder)
    session = from_pyg(encoder, decoder, GRAPH, nodes="inner.node_emb", relations=relations, normaliser=normaliser)
    assert everything(encoder, decoder) == before
    head, _, tail = ROWS[0]
    told = explain(session, f"e{head}", "r1", f"e{tail}", explainer=PowerLink(steps=3))
    assert told.score is not None
    assert everything(encoder, decoder) == before
    assert encoder.training
    assert not encoder.norm.training


@pytest.mark.parametrize("after", [0, 1, 3, 4, 5, 8])
def test_it_is_as_it_was_when_it_raises(after):
    encoder = Spoiled("rgcn", patience=after).train()
    before = everything(encoder)

    def explain_some():
        for _ in range(3):
            session = from_pyg(encoder, "distmult", GRAPH, nodes="inner.node_emb", relations=encoder.inner.rel_emb)
            explain(session, "e0", "r1", "e1", explainer=PowerLink(steps=3))

    with pytest.raises(RuntimeError, match="enough"):
        explain_some()
    assert len(encoder.log) == after + 1
    assert everything(encoder) == before


def test_it_is_as_it_was_when_a_layer_or_the_decoder_raises():
    class Failing(RGCNConv):
        left = 2 * R * 2

        def message(self, x_j, edge_type_ptr):
            type(self).left -= 1
            if type(self).left < 0:
                raise KeyboardInterrupt
            return x_j

    encoder = draw_encoder("rgcn", N, 2 * R, layers=1)
    encoder.convs[0].__class__ = Failing
    before = everything(encoder)
    with pytest.raises(KeyboardInterrupt):
        from_pyg(encoder, "distmult", GRAPH, nodes="node_emb", relations=encoder.rel_emb)
    assert everything(encoder) == before

    def decoder(head, relation, tail):
        raise ZeroDivisionError

    encoder = draw_encoder("gatv2", N, 2 * R)
    before = everything(encoder)
    with pytest.raises(ZeroDivisionError):
        from_pyg(encoder, decoder, GRAPH, nodes="node_emb", relations=encoder.rel_emb)
    assert everything(encoder) == before
