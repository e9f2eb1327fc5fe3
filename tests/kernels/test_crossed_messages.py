from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from hypothesis import given

from builders import fact_lists, messages_of, model_of, random_rows
from powerlink.graphs.message_graph import MessageGraph
from powerlink.kernels.arrangements import crossings_of
from powerlink.kernels.messages import MappedSums, related_blocks, related_messages

N, R = 6, 3


def drawn(*shape, seed=0):
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def whole(rows):
    return messages_of(rows, N, R).layer(0)


@given(fact_lists(N, R, 20))
def test_a_relation_maps_its_sources_or_its_targets_whichever_are_fewer(rows):
    edges = whole(rows)
    ends = {
        relation: (edges.source[edges.relation == relation].unique(), edges.target[edges.relation == relation].unique())
        for relation in range(2 * R)
    }
    expected = [
        (relation, node)
        for relation, (sources, targets) in ends.items()
        for node in (targets if len(targets) < len(sources) else sources).tolist()
    ]
    crossings = crossings_of(edges)
    assert list(zip(crossings.relations.index.tolist(), crossings.node.tolist(), strict=True)) == expected


@given(fact_lists(N, R, 20))
def test_what_crosses_arrives_as_if_every_edge_had_been_mapped_by_itself(rows):
    edges = whole(rows)
    nodes, relations, blocks = drawn(N, 4), drawn(2 * R, 4, seed=1), drawn(2 * R, 2, 2, 3, seed=2)
    weight = drawn(edges.source.numel(), seed=3)
    multiplied, mapped = torch.zeros(2 * N, 4, dtype=torch.float64), torch.zeros(N, 6, dtype=torch.float64)
    for edge, (source, target, relation) in enumerate(
        zip(edges.source.tolist(), edges.target.tolist(), edges.relation.tolist(), strict=True)
    ):
        multiplied[2 * target + (relation >= R)] += weight[edge] * nodes[source] * relations[relation]
        mapped[target] += weight[edge] * nodes[source] @ torch.block_diag(*blocks[relation])
    products, messages = related_messages(nodes, relations, edges), related_blocks(nodes, blocks, edges)
    assert isinstance(products, MappedSums)
    assert isinstance(messages, MappedSums)
    torch.testing.assert_close(products.summed(weight), multiplied)
    torch.testing.assert_close(messages.summed(weight), mapped)


ROWS = [(0, 0, 1), (2, 0, 1), (3, 0, 1), (3, 1, 1), (1, 1, 2), (1, 1, 4), (2, 2, 2), (0, 0, 1)[::-1]]  # node 5 is alone


def test_slopes_by_nodes_relations_and_weights_are_right():
    edges = whole(ROWS)
    assert 0 < crossings_of(edges).is_sum.sum() < crossings_of(edges).is_sum.numel()  # both sides are met
    weight = drawn(edges.source.numel(), seed=3).requires_grad_()
    nodes, relations = drawn(N, 2).requires_grad_(), drawn(2 * R, 2, seed=1).requires_grad_()
    blocks = drawn(2 * R, 1, 2, 1, seed=2).requires_grad_()
    assert torch.autograd.gradcheck(lambda n, r, w: related_messages(n, r, edges).summed(w), (nodes, relations, weight))
    assert torch.autograd.gradcheck(lambda n, b, w: related_blocks(n, b, edges).summed(w), (nodes, blocks, weight))


@pytest.mark.parametrize("encoder", ["rgcn", "compgcn"])
def test_a_whole_graph_is_encoded_alike_whether_messages_are_made_before_or_after_their_weights(encoder):
    graph = messages_of(random_rows(4, N, R, 25), N, R)
    model = model_of(encoder, "distmult", 2, N, R)
    weight = torch.rand(graph.num_edges, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    weight.requires_grad_()
    given_back = drawn(N, 8, seed=5)
    found = {}
    for reweighed in (False, True):
        graph._slices[0] = replace(graph.layer(0), reweighed=reweighed)
        vectors = model.encode(graph, weight).entity
        found[reweighed] = vectors, *torch.autograd.grad((vectors * given_back).sum(), [weight, model.encoder.entity])
    for after, before in zip(found[False], found[True], strict=True):
        torch.testing.assert_close(after, before)


def test_at_the_size_of_a_benchmark_float32_errs_by_less_than_a_thousandth():
    entities, relations, width, generator = 3_000, 40, 24, torch.Generator().manual_seed(0)
    ends = (entities * torch.rand(30_000, 2, generator=generator) ** 3).long()  # a power law: hubs of thousands
    kinds = (relations * torch.rand(30_000, generator=generator) ** 2).long()
    facts = torch.stack([ends[:, 0], kinds, ends[:, 1]], dim=1).unique(dim=0)
    edges = MessageGraph.from_facts(facts, entities, relations).layer(0)
    weight = edges.norm.double()
    tables = [drawn(entities, width), drawn(2 * relations, width, seed=1), drawn(2 * relations, 3, 8, 8, seed=2)]
    for summed, table in ((related_messages, tables[1]), (related_blocks, tables[2])):
        exact = [tensor.clone().requires_grad_() for tensor in (tables[0], table, weight)]
        found = [tensor.float().requires_grad_() for tensor in (tables[0], table, weight)]
        right = summed(exact[0], exact[1], replace(edges, reweighed=True)).summed(exact[2])
        mine = summed(found[0], found[1], edges).summed(found[2])
        given_back = drawn(*mine.shape, seed=3)
        slopes = torch.autograd.grad(mine, found, given_back.float())
        for one, other in zip((mine, *slopes), (right, *torch.autograd.grad(right, exact, given_back)), strict=True):
            assert (one.double() - other).norm() < 1e-3 * other.norm()
