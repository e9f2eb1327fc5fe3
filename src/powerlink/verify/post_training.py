"""The oracle for models that pass no messages: what would they have learned of head and tail without some facts?

Such a model reads no fact when it is asked, so taking one out of the graph changes nothing. What it knows of an entity
lies in the entity's own numbers: a stand-in's are fitted again, see models/stand_ins.py. Facts of neither end, a path's
middle hop, say, are not seen.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from powerlink.graphs.computation_graph import ComputationGraph, target_edges
from powerlink.graphs.edges import row_pointer
from powerlink.graphs.message_graph import MessageGraph
from powerlink.kernels.keyed_random import keyed_uniform, keys_of
from powerlink.memory import Room
from powerlink.models.protocol import LinkModel, Retrainable, abilities_of
from powerlink.models.ranking import filtered_ranks, score_tails_of
from powerlink.models.session import Session
from powerlink.models.stand_ins import StandIns
from powerlink.questions import Asking, Questions, asked
from powerlink.verify.counterfactual import Standing, number_of


def retrainable(model: LinkModel) -> Retrainable:
    """Return what can be fitted again of a model that passes no messages."""
    own = abilities_of(model).retrainable
    assert own is not None
    return own


def stand_ins_of(session: Session) -> StandIns:
    """Return what fits a session's entities again, in float64."""
    return StandIns(retrainable(session.precise), session.messages, session.fit)


DRAWN_HEADS = 5  # times as many as are wanted: some are believed as it is


@dataclass(frozen=True, eq=False)
class PostTraining:
    """Facts are forgotten: head and tail are fitted again on those that are left, all else stays as it was trained.

    Facts (S, most) are edges of the computation graph, one for each, padded with −1; question (S,) says whose they are.
    """

    session: Session
    graph: ComputationGraph
    room: Room
    stand_ins: StandIns

    @classmethod
    def of(cls, session: Session, graph: ComputationGraph, room: Room | None = None) -> PostTraining:
        """Ask about a batch's questions."""
        return cls(session, graph, room or Room.of(graph.device), stand_ins_of(session))

    @property
    def model(self) -> LinkModel:
        return self.session.settled

    def precisely(self) -> PostTraining:
        """Return the same oracle: fits are in float64 as it is."""
        return self

    def sees(self, facts: Tensor) -> Tensor:
        """Tell which facts (…) are head's or tail's: bool."""
        return self.graph.visible(facts, 1)

    def now(self) -> Tensor:
        """Return each question's number with all facts in place, but for the one in question: (Q,)."""
        everyone = self._everyone
        return self.without(everyone, everyone.new_empty(everyone.numel(), 0))

    def without(self, question: Tensor, facts: Tensor) -> Tensor:
        """Return each question's number if some facts had not been there: (S,)."""
        return self._numbers(question, self._named(question, facts), only=False)

    def with_only(self, question: Tensor, facts: Tensor) -> Tensor:
        """Return each question's number if head and tail had had no other facts: (S,)."""
        return self._numbers(question, self._rows_of(facts), only=True)

    def standings_without(self, question: Tensor, facts: Tensor) -> Standing:
        """Return numbers and ranks without some facts: (S,) each."""
        asking = Questions(self.graph.queries, self._foils)[question]
        return standings_after(self.session, self.stand_ins, asking, self._named(question, facts), self.room)

    def standings_with_only(self, facts: Tensor) -> Standing:
        """Return every question's number and rank if head and tail had had no facts but these (Q, most)."""
        asking = Questions(self.graph.queries, self._foils)
        return standings_after(self.session, self.stand_ins, asking, self._rows_of(facts), self.room, only=True)

    def ranks_without(self, question: Tensor, facts: Tensor) -> Tensor:
        """Return the filtered ranks without some facts: (S,)."""
        return self.standings_without(question, facts).rank

    def given(self, question: Tensor, other: Tensor, facts: Tensor) -> tuple[Tensor, Tensor]:
        """Ask some questions (S,) of other heads (S,), as if facts of the question's own head were theirs, too."""
        graph = self.graph
        asking = Questions(graph.queries, self._foils)[question]
        triples = torch.cat([other.unsqueeze(1), asking.triples[:, 1:]], dim=1)
        rows = self.stand_ins.rows_given(other, asking.triples[:, 0], self._rows_of(facts))
        standing = standings_of_heads(self.session, rows, Questions(triples, asking.foils), self.room)
        return standing.score.double(), standing.rank

    def other_heads(self, count: int, seed: int) -> Tensor:
        """Draw entities of which the model does not believe what it believes of each question's head: (Q, ≤ count)."""
        session, queries = self.session, self.graph.queries
        keys = keys_of(seed, *queries.unbind(1))
        drawn = (keyed_uniform(keys, DRAWN_HEADS * count) * session.graph.num_entities).long()  # (Q, ·)
        chosen = []
        for (head, relation, tail), lot in zip(queries.tolist(), drawn, strict=True):
            some = torch.tensor(list(dict.fromkeys(lot.tolist())), device=lot.device)
            row, known = session.known.lookup(some, torch.full_like(some, relation))
            some = some[~torch.isin(torch.arange(some.numel(), device=some.device), row[known == tail])]
            some = some[(some != head) & (some != tail)]
            triples = torch.stack([some, torch.full_like(some, relation), torch.full_like(some, tail)], dim=1)
            own = self.stand_ins.own[some]
            wrong = standings_of_heads(session, own, Questions(triples), self.room).rank > 1
            chosen.append(some[wrong][:count])
        heads: Tensor = torch.nn.utils.rnn.pad_sequence(chosen, batch_first=True, padding_value=-1)
        return heads

    @torch.no_grad()
    def _numbers(self, question: Tensor, named: Tensor, *, only: bool) -> Tensor:
        graph = self.graph
        ends = graph.entity[graph.ends[question]]  # (S, 2 or 3)
        rows = self.stand_ins.rows(ends.flatten(), named.repeat_interleave(ends.size(1), dim=0), only=only)
        place = torch.arange(ends.numel(), device=graph.device).view_as(ends)
        asking = Asking.of(
            graph.queries[question, 1], place, None if graph.against is None else graph.against[question]
        )
        model = self.session.precise
        return asked(model, retrainable(model).stood_in(rows), asking)

    def _named(self, question: Tensor, facts: Tensor) -> Tensor:
        """Return rows of training facts, the facts in question among them: (S, ·)."""
        return torch.cat([self._rows_of(facts), self._targets[question]], dim=1)

    def _rows_of(self, facts: Tensor) -> Tensor:
        if not self.graph.num_edges:
            return facts
        return torch.where(facts >= 0, self.session.messages.fact[self.graph.edge[facts.clamp(min=0)]], -1)

    @cached_property
    def _targets(self) -> Tensor:
        return targets_of(self.session.messages, Questions(self.graph.queries, self._foils))

    @cached_property
    def _foils(self) -> Tensor | None:
        foil = self.graph.foil
        return None if foil is None else torch.where(foil >= 0, self.graph.entity[foil.clamp(min=0)], -1)

    @property
    def _everyone(self) -> Tensor:
        return torch.arange(self.graph.num_queries, device=self.graph.device)


def targets_of(messages: MessageGraph, questions: Questions) -> Tensor:
    """Return the rows of training facts that are the questions themselves, padded with −1: (Q, ·)."""
    question, edge = target_edges(messages, questions.triples, questions.foils)
    question, fact = torch.stack([question, messages.fact[edge]], dim=1).unique(dim=0).unbind(1)
    row = row_pointer(question, len(questions))
    table: Tensor = fact.new_full((len(questions), int(row.diff().max()) if len(questions) else 0), -1)
    table[question, torch.arange(fact.numel(), device=fact.device) - row[question]] = fact
    return table


@torch.no_grad()
def standings_after(
    session: Session, stand_ins: StandIns, questions: Questions, named: Tensor, room: Room, *, only: bool = False
) -> Standing:
    """Score and rank questions whose ends are fitted again without the facts named (S, ·), or with `only` these."""
    triples, foils = questions.triples, questions.foils
    ends = [triples[:, 0], triples[:, 2], *([] if foils is None else [foils.where(foils >= 0, triples[:, 2])])]
    head, *tails = (stand_ins.rows(end, named, only=only) for end in ends)
    return standings_of_heads(session, head, questions, room, list(zip(ends[1:], tails, strict=True)))


@torch.no_grad()
def standings_of_heads(
    session: Session, rows: Tensor, questions: Questions, room: Room, others: Sequence[tuple[Tensor, Tensor]] = ()
) -> Standing:
    """Score and rank questions whose heads have other numbers, rows (S, k); so have `others`, entities (S,)."""
    model, whole, triples, foils = session.settled, session.whole, questions.triples, questions.foils
    own = retrainable(model)
    heads, scores, ranks = own.stood_in(rows), [], []
    at_once = max(room.logits // session.messages.num_nodes, 1)
    for part in torch.arange(len(questions), device=triples.device).split(at_once):
        relation, place = triples[part, 1], torch.arange(part.numel(), device=part.device)
        logits = score_tails_of(model, heads, whole, part, relation).contiguous()
        for entity, theirs in others:
            both = heads.rows(part).followed_by(own.stood_in(theirs[part]))
            told = model.score(both, torch.stack([place, relation, part.numel() + place], dim=1))
            logits[place, entity[part]] = told
        scores.append(number_of(logits, triples[part], None if foils is None else foils[part]))
        ranks.append(filtered_ranks(logits, triples[part], session.known))
    nothing = rows.new_empty(0)
    return Standing(torch.cat(scores), torch.cat(ranks)) if scores else Standing(nothing, nothing)
