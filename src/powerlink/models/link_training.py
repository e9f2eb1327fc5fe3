"""Training on links and on pairs that are no links, where links are targets only and never carry a message.

The other training (`training.py`) takes every triple it does not know for false. With few links per entity that teaches
a model to doubt the held-out ones; where a data set brings its own negatives, those are the ones to learn from.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from powerlink.errors import DataError
from powerlink.graphs.message_graph import MessageGraph
from powerlink.kernels.grouped_auc import grouped_auc
from powerlink.kg.explained_links import ExplainedLinks
from powerlink.kg.knowledge_graph import Split
from powerlink.models.link_model import ModelSettings, build_model
from powerlink.models.protocol import LinkModel
from powerlink.models.subject import Subject, undisturbed
from powerlink.settings import check_settings, setting


@dataclass(frozen=True, kw_only=True)
class LinkTrainingSettings:
    """How a model is trained on links."""

    epochs: int = setting(100, "steps over all links at once", least=1)
    lr: float = setting(0.003, "Adam's learning rate", above=0)
    seed: int = setting(0, "everything random follows from it", least=0)

    def __post_init__(self) -> None:
        check_settings(self)


def train_on_links(
    data: ExplainedLinks,
    model: ModelSettings | None = None,
    training: LinkTrainingSettings | None = None,
    device: torch.device | str = "cpu",
    *,
    told: Callable[[float, float], None] = lambda loss, auc: None,
) -> Subject:
    """Train by binary cross-entropy over all training links and negatives at once, best by validation ROC-AUC.

    `told` hears every epoch's loss and validation ROC-AUC.
    """
    model, training = model or ModelSettings(), training or LinkTrainingSettings()
    for split in ("train", "valid"):
        if not len(data.splits[split]) or not len(data.negatives[split]):
            raise DataError(f"{data.name} has no {split} links, or no negatives beside them; expected both")
    network = build_model(model, len(data.entities), len(data.relations), training.seed)
    if network.bias is not None:
        nn.init.zeros_(network.bias)  # as many links are right as wrong here, not one tail in N
    network = network.to(device)
    messages = MessageGraph.of(data.background, device)
    triples, labels = (part.to(device) for part in _examples(data, "train"))
    optimizer = torch.optim.Adam(network.parameters(), lr=training.lr)
    best, weights = -1.0, network.state_dict()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(training.seed)
        for _ in range(training.epochs):
            network.train()
            logits = network.score(network.encode(messages), triples)
            loss = nn.functional.binary_cross_entropy_with_logits(logits, labels)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
            auc = link_auc(network, messages, data, "valid")
            told(loss.item(), auc)
            if auc > best:
                best, weights = auc, {name: value.clone() for name, value in network.state_dict().items()}
    network.load_state_dict(weights)
    network.eval()
    return Subject.of(data.background, network, device, name=model.name)


@torch.no_grad()
def link_auc(model: LinkModel, messages: MessageGraph, data: ExplainedLinks, split: Split) -> float:
    """Return the ROC-AUC of a split's links against its negatives."""
    triples, labels = _examples(data, split)
    with undisturbed(model):
        logits = model.score(model.encode(messages), triples.to(messages.device))
    one = np.zeros(len(triples), dtype=np.int64)
    return float(grouped_auc(logits.cpu().numpy(), labels.cpu().numpy() > 0, one, 1)[0])


def _examples(data: ExplainedLinks, split: Split) -> tuple[Tensor, Tensor]:
    """Return a split's links and negatives, (n, 3), and what each is: (n,)."""
    links, negatives = data.links_of(split), data.negatives[split]
    labels = torch.cat([torch.ones(len(links)), torch.zeros(len(negatives))])
    return torch.from_numpy(np.concatenate([links, negatives])), labels
