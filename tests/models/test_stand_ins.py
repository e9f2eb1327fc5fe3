"""Stand-ins against a plain loop: one at a time, PyTorch's own Adam, every fact and wrong answer spelled out."""

from __future__ import annotations

import math

import pytest
import torch

from builders import knowledge_graph, random_rows
from powerlink.graphs.message_graph import MessageGraph
from powerlink.models.link_model import ModelSettings, build_model
from powerlink.models.protocol import Objective, abilities_of
from powerlink.models.stand_in_loss import Setting
from powerlink.models.stand_ins import Fit, StandIns

N, R = 20, 3
ROWS = random_rows(5, N, R, 60)
DECODERS = ("transe", "distmult", "conve", "complex", "rotate")
MARGIN = {"all-tails": 0.5, "softmax": 0.0, "margin": 1.5}
FIT = Fit(steps=12, rate=0.2, drawn=7)


def model_of(decoder):
    own = {"filters": 3, "kernel": 2} if decoder == "conve" else {}
    model = build_model(ModelSettings(encoder="none", decoder=decoder, widths=(8,), **own), N, R, 1).eval()
    return abilities_of(model).in_double()


class Plain:
    """The same fit, for one stand-in, from the definition."""

    def __init__(self, model, fit, loss):
        self.model, self.fit, self.loss = model, fit, loss
        self.own = abilities_of(model).retrainable
        messages = MessageGraph.of(knowledge_graph(ROWS, N, R))
        against = Setting.of(self.own, messages, self.own.rows().detach().double(), fit.drawn)
        self.start, self.spread = against.start, against.spread
        self.drawn = against.drawn.tolist()
        self.pairs = [divmod(pair, 2 * R) for pair in against.pairs.tolist()]
        self.all_pairs = {(h, r) for h, r, _ in self.both_ways(ROWS)}

    def both_ways(self, rows):
        return [*rows, *((t, r + R, h) for h, r, t in rows)]

    def logit(self, row, head, relation, tail):
        """Score a triple in which `None` is the stand-in."""
        table = torch.cat([self.own.rows().detach().double(), row.unsqueeze(0)])
        place = [N if end is None else end for end in (head, tail)]
        return self.model.score(self.own.stood_in(table), torch.tensor([[place[0], relation, place[1]]]))[0]

    def loss_of(self, row, entity, kept, gone):
        out = {r: [t for h, r2, t in self.both_ways([*kept, *gone]) if h == entity and r2 == r] for r in range(2 * R)}
        facts = [f for f in self.both_ways(kept) if f[0] == entity]
        lost = [f for f in self.both_ways(gone) if f[0] == entity]
        back = lambda r: r + R if r < R else r - R  # noqa: E731
        softplus, total = torch.nn.functional.softplus, row.new_zeros(())
        asked, margin = {r for _, r, _ in [*facts, *lost]}, MARGIN[self.loss]
        if self.loss == "all-tails":
            for sign, some in ((-1, facts), (1, lost)):
                for _, r, t in some:
                    total = total + softplus(sign * (self.logit(row, None, r, t) + margin))
                    total = total + softplus(sign * (self.logit(row, t, back(r), None) + margin))
            for r in asked:
                wrong = [t for t in self.drawn if t not in out[r]]
                shift = math.log((N - (len(self.drawn) - len(wrong))) / len(wrong))
                total = total + sum(softplus(self.logit(row, None, r, t) + shift + margin) for t in wrong)
            own = {(t, back(r)) for _, r, t in [*facts, *lost]}
            wrong = [pair for pair in self.pairs if pair not in own]
            shift = math.log((len(self.all_pairs) - (len(self.pairs) - len(wrong))) / len(wrong))
            return total + sum(softplus(self.logit(row, h, r, None) + shift + margin) for h, r in wrong)
        for _, r, t in facts:
            wrong = [e for e in self.drawn if e not in out[r]]
            others = [e for e in self.drawn if e != entity]
            if self.loss == "margin":
                right, there = self.logit(row, None, r, t), self.logit(row, t, back(r), None)
                behind = [(margin + self.logit(row, None, r, e) - right).relu() for e in wrong]
                rivals = [(margin + self.logit(row, t, back(r), e) - there).relu() for e in others]
                total = total + sum(behind) / len(behind) + sum(rivals) / len(rivals)
                continue
            shift = math.log((N - (len(self.drawn) - len(wrong))) / len(wrong))
            rivals = [self.logit(row, None, r, e) + shift for e in wrong] + [
                self.logit(row, None, r, e) for e in out[r]
            ]
            total = total + torch.stack(rivals).logsumexp(0) - self.logit(row, None, r, t)
            shift = math.log((N - 1 - (len(self.drawn) - len(others))) / len(others))
            here = self.logit(row, t, back(r), None)
            rivals = [self.logit(row, t, back(r), e) + shift for e in others]
            total = total + torch.stack([*rivals, here]).logsumexp(0) - here
        return total

    def fitted(self, entity, kept, gone):
        row = self.start.clone().requires_grad_()
        adam = torch.optim.Adam([row], lr=self.fit.rate * self.spread)
        falling = torch.optim.lr_scheduler.LambdaLR(adam, lambda step: 1 - step / self.fit.steps)
        for _ in range(self.fit.steps):
            adam.zero_grad()
            self.loss_of(row, entity, kept, gone).backward()
            adam.step()
            falling.step()
        return row.detach()

    def row_without(self, entity, gone):
        kept = [row for row in ROWS if row not in gone]
        changed = self.fitted(entity, kept, gone) - self.fitted(entity, ROWS, [])
        return self.own.rows().detach().double()[entity] + changed


def entities_with_facts():
    counts = {e: [i for i, (h, _, t) in enumerate(ROWS) if e in (h, t) and h != t] for e in range(N)}
    return [e for e, facts in counts.items() if len(facts) > 2][:3], counts


@pytest.mark.parametrize("loss", MARGIN)
@pytest.mark.parametrize("decoder", DECODERS)
def test_a_batch_of_fits_is_a_plain_loop_with_torchs_own_adam(decoder, loss, monkeypatch):
    model = model_of(decoder)
    plain = Plain(model, FIT, loss)
    monkeypatch.setattr(type(plain.own), "objective", Objective(loss, MARGIN[loss]))
    entities, counts = entities_with_facts()
    named = [(e, counts[e][:size]) for e in entities for size in (1, 2)]
    table = torch.full((len(named), 3), -1)
    for i, (_, facts) in enumerate(named):
        table[i, : len(facts)] = torch.tensor(facts)
    table[0, 2] = next(i for i in range(len(ROWS)) if entities[0] not in ROWS[i])  # another's fact changes nothing
    stand_ins = StandIns(plain.own, MessageGraph.of(knowledge_graph(ROWS, N, R)), FIT)
    together = stand_ins.rows(torch.tensor([e for e, _ in named]), table)
    for row, (entity, facts) in zip(together, named, strict=True):
        expected = plain.row_without(entity, [ROWS[i] for i in facts])
        assert row == pytest.approx(expected, abs=1e-8)
        assert (row - plain.own.rows().double()[entity]).abs().max() > 1e-4
