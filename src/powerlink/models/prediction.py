"""Predictions: the most plausible tails (or heads) of a question."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch

from powerlink.errors import SettingsError
from powerlink.kernels.plain_torch import plain_torch
from powerlink.models.ranking import score_tails
from powerlink.models.session import Session


@dataclass(frozen=True)
class Prediction:
    """One answer to a question; `known`: it already stands in the data; `probability`: calibrated, or None."""

    head: str
    relation: str
    tail: str
    score: float
    known: bool
    probability: float | None = None


@torch.no_grad()
def predict(
    session: Session, *, relation: str, head: str | None = None, tail: str | None = None, top: int = 10
) -> list[Prediction]:
    """Return the best completions of (head, relation, ?) or of (?, relation, tail), best first."""
    graph = session.graph
    if (head is None) == (tail is None):
        raise SettingsError("a prediction needs a head or a tail, and not both")
    if top < 1:
        raise SettingsError(f"top must be at least 1, not {top}")
    given = graph.entities.index(head if head is not None else tail or "")
    named = graph.relations.index(relation)
    relation = graph.relations[named]
    asked = named if head is not None else named + graph.num_relations
    device = session.messages.device
    one, kind = torch.tensor([given], device=device), torch.tensor([asked], device=device)
    with plain_torch(device):
        logits = score_tails(session.settled, session.whole, one, kind).squeeze(0)
    known = set(session.known.lookup(one, kind)[1].tolist())
    calibration = session.calibration
    best, predictions = logits.topk(min(top, logits.numel())), []
    for score, entity in zip(best.values.tolist(), best.indices.tolist(), strict=True):
        ends = graph.entities[given], graph.entities[entity]
        first, last = ends if head is not None else reversed(ends)
        probability = calibration.probability(score) if calibration is not None and math.isfinite(score) else None
        predictions.append(Prediction(first, relation, last, score, entity in known, probability))
    return predictions
