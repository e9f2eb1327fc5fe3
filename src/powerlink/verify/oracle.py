"""Oracles: how the model answers "what if". Choice, verdicts and proposers ask one and do not know which it is."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Protocol

import torch
from torch import Tensor

from powerlink.errors import SettingsError
from powerlink.explainers.protocol import Oracle
from powerlink.graphs.computation_graph import ComputationGraph, target_edges
from powerlink.graphs.what_if import Removals, nothing_but
from powerlink.memory import LOGITS_PER_SCORE, Room
from powerlink.models.layer_by_layer import LayerByLayer
from powerlink.models.protocol import Embeddings, LinkModel
from powerlink.models.ranking import filtered_ranks, score_tails_of
from powerlink.models.session import Session
from powerlink.questions import Asking, asked, asking_of
from powerlink.verify.counterfactual import (
    Standing,
    asking_elsewhere,
    edges_of_facts,
    scores_without,
    standings_without,
)
from powerlink.verify.in_pieces import layers_or_full, scores_in_pieces


class FullOracle(Oracle, Protocol):
    """An oracle that also ranks: what verdicts ask."""

    @property
    def graph(self) -> ComputationGraph: ...

    @property
    def room(self) -> Room: ...

    def standings_without(self, question: Tensor, facts: Tensor) -> Standing:
        """Return numbers and ranks without some facts: (S,) each."""

    def standings_with_only(self, facts: Tensor) -> Standing:
        """Return every question's number and rank where nothing is left but some facts (Q, most)."""


@dataclass(frozen=True, eq=False)
class Removal:
    """Facts leave the graph in both directions, and the trained model is asked again: what it reads, not what it knows.

    Facts (S, most) are edges of the computation graph, one for each, padded with −1; question (S,) says whose they are.
    """

    model: LinkModel
    graph: ComputationGraph
    room: Room
    session: Session | None = None  # whose ranks are asked for; without it there are numbers alone
    layers: LayerByLayer | None = None  # where the graph is a sample: numbers are then those of the whole graph

    @classmethod
    def of(cls, session: Session, graph: ComputationGraph, room: Room | None = None) -> Removal:
        """Ask a settled model about a batch's computation graph."""
        return cls(session.settled, graph, room or Room.of(graph.device), session)

    @classmethod
    def beside(cls, session: Session, sample: ComputationGraph, room: Room) -> Removal:
        """Ask about the whole graph where there is but a sample of a computation graph, its facts' edges among it."""
        return cls(session.settled, sample, room, session, layers_or_full(session.layers))

    def precisely(self) -> Removal:
        """Return the same oracle in float64, where the model can: for differences of differences."""
        if self.session is None:
            return self
        layers = self.layers and self.session.precise_layers
        return replace(self, model=self.session.precise, layers=layers)

    def sees(self, facts: Tensor) -> Tensor:
        """Tell which facts (…) some layer passes on towards an end of the question: bool."""
        return self.graph.visible(facts, self.model.num_layers)

    @torch.no_grad()
    def now(self) -> Tensor:
        """Return each question's number with all facts in place: (Q,)."""
        if self.layers is not None:
            everyone = torch.arange(self.graph.num_queries, device=self.graph.device)
            return self.without(everyone, everyone.new_empty(everyone.numel(), 0))
        return asked(self.model, self.model.encode(self.graph), asking_of(self.graph))

    def without(self, question: Tensor, facts: Tensor) -> Tensor:
        """Return each question's number on its computation graph without some facts: (S,)."""
        if self.layers is not None:
            return self._without_on_the_whole(self.layers, question, facts)
        removals = Removals.of(self.graph, question.numel(), *edges_of_facts(self.graph, facts))
        return scores_without(self.model, self.graph, question, removals, room=self.room)

    @torch.no_grad()
    def with_only(self, question: Tensor, facts: Tensor) -> Tensor:
        """Return each question's number where nothing is left but some facts: (S,)."""
        runs = self.room.cut((2 * (facts >= 0).sum(1)).tolist(), LOGITS_PER_SCORE)
        parts = [asked(self.model, *self._encode_only(self.model, question[a:b], facts[a:b])) for a, b in runs]
        return torch.cat(parts) if parts else self.graph.norm.new_empty(0)

    def standings_without(self, question: Tensor, facts: Tensor) -> Standing:
        """Return numbers and ranks on the whole graph without some facts: (S,) each."""
        scenario, edge = edges_of_facts(self.graph, facts)
        triples, edge, foils = self.graph.queries[question], self.graph.edge[edge], self._foils(question)
        return standings_without(self._ranked, triples, scenario, edge, foils=foils, room=self.room)

    @torch.no_grad()
    def standings_with_only(self, facts: Tensor) -> Standing:
        """Return every question's number and rank, (Q,) each, with its ends encoded from some facts (Q, most) alone.

        Other candidates keep their whole-graph encoding.
        """
        session, graph = self._ranked, self.graph
        model, everyone = session.settled, torch.arange(graph.num_queries, device=graph.device)
        embeddings, asking = self._encode_only(model, everyone, facts)
        logits = model.score(embeddings, asking.triples)
        at_once = max(self.room.logits // session.messages.num_nodes, 1)
        heads, own = asking.triples[: graph.num_queries, 0], logits[: graph.num_queries]
        parts = (part.split(at_once) for part in (graph.queries, heads, own))
        ranks = []
        for queries, head, tail in zip(*parts, strict=True):
            all_tails = score_tails_of(model, embeddings, session.whole, head, queries[:, 1])
            all_tails.scatter_(1, queries[:, 2:], tail.unsqueeze(1))
            ranks.append(filtered_ranks(all_tails, queries, session.known))
        return Standing(asking.number(logits), torch.cat(ranks) if ranks else logits.double())

    def ranks_without(self, question: Tensor, facts: Tensor) -> Tensor:
        """Return the filtered ranks without some facts: (S,)."""
        return self.standings_without(question, facts).rank

    def given(self, question: Tensor, other: Tensor, facts: Tensor) -> tuple[Tensor, Tensor]:
        """Refuse: here facts are taken away, and none is given."""
        raise SettingsError(
            "what facts would do for other entities can be asked of models that pass no messages alone: take the "
            "necessary mode"
        )

    def other_heads(self, count: int, seed: int) -> Tensor:
        """Refuse, as above."""
        return self.given(self.graph.head, self.graph.head, self.graph.head.unsqueeze(1))[0]

    def _encode_only(self, model: LinkModel, question: Tensor, facts: Tensor) -> tuple[Embeddings, Asking]:
        """Encode the ends of some questions (S,) from some facts alone; also what to ask of them."""
        graph = self.graph
        world, place = nothing_but(graph, *edges_of_facts(graph, facts), graph.ends[question])
        return model.encode(world), asking_elsewhere(graph, question, place)

    def _without_on_the_whole(self, layers: LayerByLayer, question: Tensor, facts: Tensor) -> Tensor:
        session, graph = self._ranked, self.graph
        scenario, edge = edges_of_facts(graph, facts)
        triples, foils = graph.queries[question], self._foils(question)
        own_scenario, own_edge = target_edges(session.messages, triples, foils)
        pairs = torch.cat([scenario, own_scenario]), torch.cat([graph.edge[edge], own_edge])
        removals = Removals.of(session.messages, question.numel(), *pairs)
        against = None if graph.against is None else graph.against[question]
        ends = graph.entity[graph.ends[question]]
        return scores_in_pieces(self.model, layers, session, triples[:, 1], ends, against, removals, self.room)

    def _foils(self, question: Tensor) -> Tensor | None:
        foil = self.graph.foil
        return None if foil is None else torch.where(foil >= 0, self.graph.entity[foil.clamp(min=0)], -1)[question]

    @property
    def _ranked(self) -> Session:
        if self.session is None:
            raise SettingsError("this model can be asked for scores alone, and not for ranks")
        return self.session
