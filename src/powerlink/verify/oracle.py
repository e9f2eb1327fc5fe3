"""Oracles: how the model answers "what if". Choice, verdicts and proposers ask one and do not know which it is."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from powerlink.errors import SettingsError
from powerlink.graphs.computation_graph import ComputationGraph
from powerlink.graphs.what_if import Removals, nothing_but
from powerlink.memory import Room
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


@dataclass(frozen=True, eq=False)
class Removal:
    """Facts leave the graph in both directions, and the trained model is asked again: what it reads, not what it knows.

    Facts (S, most) are edges of the computation graph, one for each, padded with −1; question (S,) says whose they are.
    """

    model: LinkModel
    graph: ComputationGraph
    room: Room
    session: Session | None = None  # whose ranks are asked for; without it there are numbers alone

    @classmethod
    def of(cls, session: Session, graph: ComputationGraph, room: Room | None = None) -> Removal:
        """Ask a settled model about a batch's computation graph."""
        return cls(session.settled, graph, room or Room.of(graph.device), session)

    def precisely(self) -> Removal:
        """Return the same oracle in float64, where the model can: for differences of differences."""
        return self if self.session is None else replace(self, model=self.session.precise)

    def sees(self, facts: Tensor) -> Tensor:
        """Tell which facts (…) some layer passes on towards an end of the question: bool."""
        return self.graph.visible(facts, self.model.num_layers)

    @torch.no_grad()
    def now(self) -> Tensor:
        """Return each question's number with all facts in place: (Q,)."""
        return asked(self.model, self.model.encode(self.graph), asking_of(self.graph))

    def without(self, question: Tensor, facts: Tensor) -> Tensor:
        """Return each question's number on its computation graph without some facts: (S,)."""
        removals = Removals.of(self.graph, question.numel(), *edges_of_facts(self.graph, facts))
        return scores_without(self.model, self.graph, question, removals, room=self.room)

    @torch.no_grad()
    def with_only(self, question: Tensor, facts: Tensor) -> Tensor:
        """Return each question's number where nothing is left but some facts: (S,)."""
        return asked(self.model, *self._encode_only(self.model, question, facts))

    def standings_without(self, question: Tensor, facts: Tensor) -> Standing:
        """Return numbers and ranks on the whole graph without some facts: (S,) each."""
        scenario, edge = edges_of_facts(self.graph, facts)
        foil, edge = self.graph.foil, self.graph.edge[edge]
        if foil is not None:
            foil = torch.where(foil >= 0, self.graph.entity[foil.clamp(min=0)], -1)[question]
        return standings_without(self._ranked, self.graph.queries[question], scenario, edge, foils=foil, room=self.room)

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

    def _encode_only(self, model: LinkModel, question: Tensor, facts: Tensor) -> tuple[Embeddings, Asking]:
        """Encode the ends of some questions (S,) from some facts alone; also what to ask of them."""
        graph = self.graph
        world, place = nothing_but(graph, *edges_of_facts(graph, facts), graph.ends[question])
        return model.encode(world), asking_elsewhere(graph, question, place)

    @property
    def _ranked(self) -> Session:
        if self.session is None:
            raise SettingsError("this model can be asked for scores alone, and not for ranks")
        return self.session
