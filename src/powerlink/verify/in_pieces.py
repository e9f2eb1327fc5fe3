"""Scores and ranks without some facts where the graph is too large to be encoded at once: layer by layer, and exact."""

from __future__ import annotations

import torch
from torch import Tensor

from powerlink.graphs.edges import find_sorted
from powerlink.graphs.what_if import Removals
from powerlink.memory import LOGITS_PER_SCORE, Room
from powerlink.models.layer_by_layer import LayerByLayer
from powerlink.models.protocol import LinkModel
from powerlink.models.ranking import score_tails_of
from powerlink.models.session import Session
from powerlink.questions import Asking, asked

SCENARIOS_AT_ONCE = 256


def layers_or_full(layers: LayerByLayer | None) -> LayerByLayer:
    """Return a model's layers, or say that only the whole graph at once would do, for which there is no memory."""
    if layers is None:
        raise MemoryError("the model's layers cannot be passed one by one")
    return layers


@torch.no_grad()
def scores_in_pieces(
    model: LinkModel,
    layers: LayerByLayer,
    session: Session,
    relation: Tensor,
    ends: Tensor,
    against: Tensor | None,
    removals: Removals,
    room: Room,
) -> Tensor:
    """Ask about relations (S,) between entities, ends (S, 2 or 3), on the whole graph without edges: numbers (S,).

    `against` (S,) says which questions have a foil, their third end.
    """
    messages, parts = session.messages, []
    at_once = min(SCENARIOS_AT_ONCE, max(room.logits // LOGITS_PER_SCORE, 1))
    for first in range(0, relation.numel(), at_once):
        part = slice(first, first + at_once)
        these, wanted = removals.slice(messages, first, first + relation[part].numel()), ends[part]
        inside = layers.changed_inside(these, wanted)
        ids = torch.arange(wanted.size(0), device=ends.device).unsqueeze(1)
        keys, place = (ids * messages.num_nodes + wanted).unique(return_inverse=True)
        asking = Asking.of(relation[part], place, None if against is None else against[part])
        parts.append(asked(model, layers.encode(keys, inside, these), asking))
    return torch.cat(parts) if parts else messages.norm.new_empty(0)


@torch.no_grad()
def logits_in_pieces(session: Session, layers: LayerByLayer, triple: Tensor, removals: Removals) -> Tensor:
    """Score every entity as the tail of one triple (1, 3) on the whole graph without one scenario's edges: (1, N)."""
    model, whole = session.settled, session.whole
    head, relation, one = triple[:, 0], triple[:, 1], torch.zeros_like(triple[:, 0])
    inside = layers.changed_inside(removals)
    changed = layers.changed_at_last(removals, inside)
    asker = layers.encode(head, inside, removals) if find_sorted(changed, head)[1] else whole.rows(head)
    logits = score_tails_of(model, asker, whole, one, relation).contiguous()
    for run in layers.in_runs(changed):
        keys = changed[run]
        tails = torch.arange(1, keys.numel() + 1, device=keys.device)
        triples = torch.stack([torch.zeros_like(tails), relation.expand_as(tails), tails], dim=1)
        logits[0, keys] = model.score(asker.followed_by(layers.encode(keys, inside, removals)), triples)
    return logits
