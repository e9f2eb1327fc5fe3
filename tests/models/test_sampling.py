"""Drawn neighbourhoods and tails: all of them give the full loss and slopes, some of them the same on average."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from builders import LAYERED, edge_rows, knowledge_graph, messages_of, model_of, random_rows, settings_of
from powerlink.graphs.edges import row_pointer
from powerlink.graphs.message_graph import MessageGraph
from powerlink.kernels.keyed_random import keys_of
from powerlink.kernels.one_to_all import drawn_tails_loss, one_to_all_loss
from powerlink.models import sampled_loss
from powerlink.models.catalog import DECODERS
from powerlink.models.link_model import build_model
from powerlink.models.ranking import KnownTails
from powerlink.models.row_adam import adam_on_rows
from powerlink.models.sampled_loss import SampledLoss, key_of_step
from powerlink.models.sampling import Sampler, draw
from powerlink.models.training import Trainer, TrainingSettings

N, R = 14, 2
ROWS = random_rows(1, N, R, 50)
STILL = {"output_dropout": 0.0, "layer_dropout": 0.0}
NO_DROPOUT = {"conve": {"input_dropout": 0.0, "feature_dropout": 0.0, "hidden_dropout": 0.0}}
MODELS = [f"{encoder}-{decoder}" for encoder in LAYERED for decoder in DECODERS]


def learner(name, layers=2):
    encoder, decoder = name.split("-")
    return model_of(encoder, decoder, layers, N, R, **STILL, **NO_DROPOUT.get(decoder, {})).train()


def sampled(messages, targets, layers, **how):
    return SampledLoss.of(messages, targets, layers, **{"neighbours": 0, "negatives": 0, "smoothing": 0.1, **how})


def slopes_of(model):
    return {name: parameter.grad for name, parameter in model.named_parameters()}


@pytest.mark.parametrize("everything", [(0, 0), (1000, N)])
@pytest.mark.parametrize("name", MODELS)
def test_all_neighbours_and_all_tails_give_the_full_loss_and_slopes(name, everything):
    graph = knowledge_graph(ROWS, N, R)
    messages, targets = MessageGraph.of(graph), KnownTails.of(graph.train, R)
    batch = torch.randperm(len(targets.pairs), generator=torch.Generator().manual_seed(0))[:11]
    full, part = learner(name), learner(name)

    head, relation = targets.pairs[batch].unbind(1)
    logits = full.score_tails(full.encode(messages), head, relation)
    expected, slope = one_to_all_loss(logits.detach(), batch, targets.row, targets.tail, smoothing=0.1)
    logits.backward(slope)

    neighbours, negatives = everything
    loss, drawn = sampled(messages, targets, 2, neighbours=neighbours, negatives=negatives)(part, batch, 5)
    loss.backward()
    assert loss.item() == pytest.approx(expected.item(), rel=1e-12)
    found = slopes_of(part)
    assert {id(table) for table in drawn.read} == {id(p) for n, p in part.named_parameters() if found[n] is None}
    for table, rows in drawn.read.items():
        name = next(n for n, p in part.named_parameters() if p is table)
        found[name] = torch.zeros_like(table).index_copy(0, drawn.entity, rows.grad)
    # norms are float32, and edges of weight 1 are drawn in another order than they lie in
    for name, wanted in slopes_of(full).items():
        assert torch.allclose(found[name], wanted, rtol=1e-9, atol=1e-10), name


@given(st.lists(st.integers(0, 12), min_size=1, max_size=6), st.integers(1, 9), st.integers(0, 5))
def test_what_is_drawn_of_a_row_lies_in_it_once_and_stands_for_all_of_it(sizes, most, key):
    row = row_pointer(torch.repeat_interleave(torch.arange(len(sizes)), torch.tensor(sizes)), len(sizes))
    index = torch.arange(len(sizes)).flip(0)
    drawn = draw(row, index, most, keys_of(key, index))
    for place, size in zip(range(len(sizes)), reversed(sizes), strict=True):
        mine = drawn.owner == place
        places = drawn.place[mine].tolist()
        first = int(row[index[place]])
        assert len(places) == min(size, most)
        assert sorted(set(places)) == places
        assert all(first <= p < first + size for p in places)
        assert drawn.stands_for[mine].sum() == size


def test_every_place_is_drawn_as_often_as_what_it_stands_for_says():
    row, index = torch.tensor([0, 7]), torch.zeros(4000, dtype=torch.long)
    drawn = draw(row, index, 3, keys_of(0, torch.arange(4000)))
    weighed = torch.bincount(drawn.place, drawn.stands_for.double(), minlength=7) / 4000
    assert torch.allclose(weighed, torch.ones(7, dtype=torch.float64), atol=0.1)


@pytest.mark.parametrize("layers", [1, 2, 3])
def test_a_drawn_graph_holds_edges_of_the_graph_sorted_by_level(layers):
    messages = messages_of(ROWS, N, R)
    sampler = Sampler(messages, layers, 2)
    wanted = torch.tensor([3, 0, 9])
    drawn = sampler(wanted, 4)
    assert drawn.entity[:3].tolist() == [3, 0, 9]
    assert len(set(drawn.entity.tolist())) == drawn.num_nodes
    assert set(edge_rows(drawn)) <= set(edge_rows(messages))
    assert (drawn.target.diff() >= 0).all()
    degree = torch.bincount(drawn.target, minlength=drawn.num_nodes)
    inner = drawn.nodes_within[layers - 1]
    assert degree[:inner].tolist() == messages.row.diff()[drawn.entity[:inner]].clamp(max=2).tolist()
    assert not degree[inner:].any()
    assert (drawn.level[drawn.source] <= drawn.level[drawn.target] + 1).all()
    again, other = sampler(wanted, 4), sampler(wanted, 5)
    assert torch.equal(again.source, drawn.source)
    assert edge_rows(other) != edge_rows(drawn)


def test_what_a_node_hears_depends_on_the_key_and_the_node_alone():
    sampler = Sampler(messages_of(ROWS, N, R), 1, 2)
    alone, among = sampler(torch.tensor([5]), 1), sampler(torch.tensor([2, 5, 7]), 1)
    assert edge_rows(alone) == [edge for edge in edge_rows(among) if edge[2] == 5]


def test_a_sum_over_drawn_neighbours_is_on_average_the_sum_over_all():
    messages = messages_of(ROWS, N, R)
    model = model_of("wgcn", "distmult", 1, N, R)
    layer = model.encoder.layers[0]

    def received(graph, weight):
        edges = graph.layer(0)
        offer = layer.offer(graph.rows_of(model.encoder.entity), model.encoder.relation, edges)
        return offer.received(edges.weights(weight)).detach()

    wanted = torch.arange(N)
    sampler = Sampler(messages, 1, 2)
    drawn = torch.stack([received(g, g.weight)[:N] for g in (sampler(wanted, key) for key in range(3000))])
    error = drawn.mean(0) - received(messages, None)
    assert (error.abs() <= 4 * drawn.std(0) / 3000**0.5 + 1e-9).all()
    assert drawn.std(0).max() > 1


def test_the_lowest_loss_of_drawn_tails_is_that_of_all():
    """Logits that are fitted to a few drawn tails are those that are fitted to all of them."""
    count, right, drawn = 1000, 40, 100
    pointer, tails = torch.tensor([0, right]), torch.arange(right)
    level = torch.zeros(2, dtype=torch.float64, requires_grad=True)  # of right ones, and of wrong ones

    def of_all():
        logits = level[(torch.arange(count) >= right).long()].unsqueeze(0)
        loss, slope = one_to_all_loss(logits.detach(), torch.tensor([0]), pointer, tails, smoothing=0.1)
        logits.backward(slope)
        return loss

    def of_drawn():
        logits = level[1].expand(1, drawn)
        none = torch.empty(0, dtype=torch.long)
        owner, once = torch.zeros(right, dtype=torch.long), torch.ones(right, dtype=torch.long)
        wrong = torch.tensor([count - right])
        loss = drawn_tails_loss(
            logits, level[0].expand(right), owner, once, (none, none), wrong, smoothing=0.1, count=count
        )
        loss.backward()
        return loss

    found = []
    for loss in (of_all, of_drawn):
        with torch.no_grad():
            level.zero_()
        optimizer = torch.optim.LBFGS([level], max_iter=500, line_search_fn="strong_wolfe", tolerance_grad=1e-12)
        optimizer.step(lambda loss=loss, clear=optimizer.zero_grad: (clear(), loss())[1])
        found.append(level.detach().clone())
    # a right tail is right 9 times of 10 and is among all; a wrong one is right once in 1000
    assert found[0][1].item() == pytest.approx(found[1][1].item(), abs=1e-3)
    assert found[0][0].item() == pytest.approx(found[1][0].item(), abs=1e-3)


def test_more_right_tails_than_a_step_takes_are_drawn(monkeypatch):
    monkeypatch.setattr(sampled_loss, "MOST_RIGHT", 3)
    rows = [(0, 0, t) for t in range(1, N)]
    graph = knowledge_graph(rows, N, R)
    messages, targets = MessageGraph.of(graph), KnownTails.of(graph.train, R)
    model = learner("compgcn-distmult", 1)
    losses = [sampled(messages, targets, 1)(model, torch.arange(2), key)[0].item() for key in range(300)]
    monkeypatch.undo()
    whole = sampled(messages, targets, 1)(model, torch.arange(2), 0)[0].item()
    assert len(set(losses)) > 10
    assert sum(losses) / 300 == pytest.approx(whole, rel=0.02)


def test_adam_on_all_rows_is_torchs():
    generator = torch.Generator().manual_seed(0)
    ours, theirs = (torch.nn.Parameter(torch.ones(5, 3)) for _ in range(2))
    optimizer = torch.optim.AdamW([theirs], lr=0.1, weight_decay=0.2)
    state = {}
    for _ in range(4):
        slope = torch.randn(5, 3, generator=generator)
        theirs.grad = slope.clone()
        optimizer.step()
        order = torch.randperm(5, generator=generator)
        adam_on_rows(state, ours, order, slope[order], lr=0.1, weight_decay=0.2)
    assert torch.allclose(ours, theirs, atol=1e-6)


def test_rows_that_were_not_read_stay_and_later_ones_begin_as_early_ones():
    table, state = torch.nn.Parameter(torch.zeros(3, 2)), {}
    for _ in range(50):
        adam_on_rows(state, table, torch.tensor([0]), torch.ones(1, 2), lr=0.1, weight_decay=0.0)
    adam_on_rows(state, table, torch.tensor([1]), torch.ones(1, 2), lr=0.1, weight_decay=0.0)
    assert table[1].tolist() == pytest.approx([-0.1, -0.1], rel=1e-4)
    assert table[2].tolist() == [0, 0]


@pytest.mark.parametrize("name", ["rgcn-distmult", "wgcn-transe", "compgcn-conve"])
def test_training_on_samples_lowers_the_loss_of_all(name):
    graph = knowledge_graph(ROWS, N, R)
    settings = TrainingSettings(
        epochs=80, batch_size=10, lr=0.01, evaluate_every=1000, neighbours=2, negatives=5, patience=100
    )
    trainer = Trainer(build_model(settings_of(*name.split("-"), 1), N, R), graph, settings, "cpu")

    def whole():
        trainer.model.eval()
        pairs = trainer.targets.pairs
        with torch.no_grad():
            logits = trainer.model.score_tails(trainer.model.encode(trainer.messages), *pairs.unbind(1))
        every = torch.arange(len(pairs))
        return one_to_all_loss(logits, every, trainer.targets.row, trainer.targets.tail, smoothing=0.1)[0].item()

    before = whole()
    list(trainer.run())
    assert whole() < 0.9 * before


def test_a_step_of_samples_follows_from_seed_epoch_and_step():
    assert len({key_of_step(s, e, n) for s in range(3) for e in (1, 2, 3) for n in range(3)}) == 27
    assert key_of_step(1, 2, 3) == key_of_step(1, 2, 3)


def test_resuming_on_samples_gives_to_the_last_bit_what_an_uninterrupted_run_gives():
    def trainer(seed=0):
        settings = TrainingSettings(
            epochs=5, batch_size=10, evaluate_every=2, neighbours=2, negatives=4, weight_decay=0.1
        )
        model = build_model(settings_of("compgcn", "distmult", 2), N, R, seed)
        return Trainer(model, knowledge_graph(ROWS, N, R), settings, "cpu")

    whole, first, second = trainer(), trainer(), trainer(9)
    reports = list(whole.run())
    running = first.run()
    head = [next(running) for _ in range(3)]
    second.restore(*first.state())
    assert [*head, *second.run()] == reports
    for name, value in whole.state()[0].items():
        assert torch.equal(value, second.state()[0][name]), name
