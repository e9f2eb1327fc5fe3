"""The Triton kernels equal their plain-torch references: on a GPU where there is one, else in Triton's interpreter."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("triton", reason="needs triton")


from powerlink.graphs.message_graph import MessageGraph
from powerlink.kernels import edge_mlp as edge_mlp_module
from powerlink.kernels import incidence as incidence_module
from powerlink.kernels.arrangements import pairs_of, pairs_to_targets, related_nodes_to_targets_by_direction
from powerlink.kernels.edge_mlp import EdgeRows, _EdgeMLP
from powerlink.kernels.gpu.edge_mlp import FusedMLP
from powerlink.kernels.gpu.grouped_product import FusedGroupedProduct
from powerlink.kernels.gpu.l1_distance import FusedDistance, slopes
from powerlink.kernels.gpu.one_to_all import loss_and_slope
from powerlink.kernels.gpu.product_sum import FusedSum, product_dot, product_sum
from powerlink.kernels.grouped_product import _GroupedProduct
from powerlink.kernels.incidence import Groups, Incidence
from powerlink.kernels.message_sum import message_sum_reference
from powerlink.kernels.messages import related_messages
from powerlink.kernels.one_to_all import one_to_all_loss

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
ROWS, COLUMNS, FACTORS = 4, 5, 3
ENTRIES = st.lists(
    st.tuples(st.integers(0, ROWS - 1), st.integers(0, COLUMNS - 1), st.integers(0, FACTORS - 1)), max_size=24
)
needs_cuda = pytest.mark.skipif(not torch.cuda.is_available(), reason="the interpreter multiplies no bf16")
few = settings(max_examples=15, deadline=None)


def drawn(*shape, seed=0, dtype=torch.float64):
    return torch.randn(*shape, dtype=dtype, generator=torch.Generator().manual_seed(seed)).to(DEVICE)


def incidence_of(entries):
    rows, columns, factors = torch.tensor(entries, dtype=torch.int64).reshape(-1, 3).to(DEVICE).unbind(1)
    return Incidence.of(rows, columns, ROWS, COLUMNS, factors, FACTORS)


@few
@given(entries=ENTRIES, width=st.sampled_from([1, 3, 70]), with_factor=st.booleans(), longest=st.sampled_from([2, 128]))
def test_sums_and_all_their_slopes_equal_the_reference(entries, width, with_factor, longest):
    # parallel edges, empty rows and empty graphs are all drawn
    incidence = incidence_of(entries)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(incidence_module, "LONGEST_CHUNK", longest)
        messages, weight = drawn(COLUMNS, width).requires_grad_(), drawn(len(entries), seed=1).requires_grad_()
        factors = drawn(FACTORS, width, seed=2).requires_grad_() if with_factor else None
        inputs = (messages, weight) if factors is None else (messages, weight, factors)
        fast = FusedSum.apply(messages, factors, weight, incidence)
        slow = message_sum_reference(messages, weight, incidence, factors)
        torch.testing.assert_close(fast, slow)
        given_back = drawn(ROWS, width, seed=3)
        if entries:
            for one, other in zip(
                torch.autograd.grad(fast, inputs, given_back),
                torch.autograd.grad(slow, inputs, given_back),
                strict=True,
            ):
                torch.testing.assert_close(one, other)


def test_gradcheck_agrees_on_messages_factors_and_weights():
    incidence = incidence_of([(0, 1, 0), (3, 1, 2), (0, 1, 0), (2, 4, 1), (0, 0, 0), (2, 0, 2)])
    inputs = (
        drawn(COLUMNS, 3).requires_grad_(),
        drawn(FACTORS, 3, seed=1).requires_grad_(),
        drawn(6, seed=2).requires_grad_(),
    )
    assert torch.autograd.gradcheck(lambda m, f, w: FusedSum.apply(m, f, w, incidence), inputs)


@pytest.fixture
def poisoned_memory():
    """Fresh tensors hold NaN until they are written."""
    torch.use_deterministic_algorithms(True)
    yield
    torch.use_deterministic_algorithms(False)


def test_every_number_is_written_even_for_rows_without_an_edge(poisoned_memory):
    assert drawn(1).new_empty(1).isnan()
    incidence = incidence_of([(1, 0, 0)])
    summed = product_sum(drawn(COLUMNS, 5), None, drawn(1), incidence)
    assert summed.isfinite().all()
    assert (summed[[0, 2, 3]] == 0).all()
    assert product_dot(drawn(COLUMNS, 5), None, drawn(ROWS, 5), incidence).isfinite().all()


def test_a_graph_of_one_node_sums_to_what_it_tells_itself():
    graph = MessageGraph.from_facts(torch.tensor([[0, 0, 0]]), 1, 1, DEVICE)
    incidence = related_nodes_to_targets_by_direction(graph.layer(0))
    node, relations = drawn(1, 4), drawn(2, 4, seed=1)
    fast = FusedSum.apply(node, relations, graph.norm.double(), incidence)
    torch.testing.assert_close(fast, related_messages(node, relations, graph.layer(0)).summed(graph.norm.double()))
    torch.testing.assert_close(fast, 0.5 * node * relations)  # the loop and its inverse, each of norm 1/√(2·2)


@pytest.mark.parametrize(("ones", "others", "width"), [(1, 1, 1), (3, 300, 5), (70, 130, 33)])
def test_distances_and_their_slopes_equal_cdist(ones, others, width):
    one, other = drawn(ones, width).requires_grad_(), drawn(others, width, seed=1).requires_grad_()
    fast, slow = FusedDistance.apply(one, other), (one[:, None] - other[None]).abs().sum(-1)
    torch.testing.assert_close(fast, slow)
    given_back = drawn(ones, others, seed=2)
    for mine, theirs in zip(
        torch.autograd.grad(fast, (one, other), given_back), torch.autograd.grad(slow, (one, other), given_back),
        strict=True,
    ):  # fmt: skip
        torch.testing.assert_close(mine, theirs)


def test_distances_of_nothing_are_nothing():
    assert FusedDistance.apply(drawn(0, 3), drawn(2, 3)).shape == (0, 2)
    assert slopes(drawn(2, 3), drawn(0, 3), drawn(0, 2)).abs().sum() == 0


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_the_loss_and_its_slope_equal_binary_cross_entropy_over_a_label_matrix(smoothing):
    logits = (5 * drawn(4, 2100, dtype=torch.float32)).requires_grad_()
    pointer = torch.tensor([0, 2, 2, 72, 75], device=DEVICE)
    tails = torch.cat([torch.randperm(2100)[:size] for size in (2, 70, 3)]).to(DEVICE)
    pairs = torch.tensor([2, 0, 1, 3], device=DEVICE)
    labels = torch.full_like(logits, 1 / 2100 if smoothing else 0.0, requires_grad=False)
    for row, pair in enumerate(pairs.tolist()):
        labels[row, tails[pointer[pair] : pointer[pair + 1]]] += 1 - smoothing
    expected = torch.nn.functional.binary_cross_entropy_with_logits(logits, labels)
    (slope,) = torch.autograd.grad(expected, logits)
    plain = one_to_all_loss(logits.detach().cpu(), pairs.cpu(), pointer.cpu(), tails.cpu(), smoothing=smoothing)
    base = 1 / 2100 if smoothing else 0.0
    fused = loss_and_slope(logits.detach(), pairs, pointer, tails, 1 - smoothing, base)
    for loss, slopes_of in (plain, fused):
        torch.testing.assert_close(loss.to(DEVICE), expected.detach())
        torch.testing.assert_close(slopes_of.to(DEVICE), slope, atol=1e-9, rtol=1e-4)


def test_logits_too_large_for_an_exponential_have_a_finite_loss():
    logits = torch.tensor([[1e4, -1e4, 0.0]], device=DEVICE)
    zero = torch.zeros(1, dtype=torch.int64, device=DEVICE)
    loss, slope = loss_and_slope(logits, zero, torch.tensor([0, 1], device=DEVICE), zero, 1.0, 0.0)
    assert loss.item() == pytest.approx(torch.tensor(2.0).log().item() / 3, rel=1e-3)
    assert slope.isfinite().all()


@pytest.mark.parametrize("run", [5, 256])
@pytest.mark.parametrize(("blocks", "size_in", "size_out"), [(2, 3, 4), (1, 70, 33)])
def test_rows_that_are_looked_up_and_multiplied_by_blocks_and_their_slopes_equal_the_plain_ones(
    run, blocks, size_in, size_out, monkeypatch, poisoned_memory
):
    monkeypatch.setattr(incidence_module, "RUN", run)
    generator = torch.Generator().manual_seed(0)
    facts = torch.stack([torch.randint(0, n, (300,), generator=generator) for n in (12, 3, 12)], dim=1)
    pairs = pairs_of(MessageGraph.from_facts(facts.unique(dim=0), 12, 4, DEVICE).layer(0))  # a relation has no fact
    nodes = drawn(12, blocks * size_in, dtype=torch.float32).requires_grad_()
    matrices = drawn(8, blocks, size_in, size_out, seed=1, dtype=torch.float32).requires_grad_()
    fast = FusedGroupedProduct.apply(nodes, matrices, pairs.relations.groups, pairs.sources, "ieee")
    slow = _GroupedProduct.apply(nodes, matrices, pairs.relations.groups, pairs.sources, "ieee")
    torch.testing.assert_close(fast, slow, rtol=1e-4, atol=1e-4)
    given_back = drawn(*slow.shape, seed=2, dtype=torch.float32)
    one = torch.autograd.grad(fast, (nodes, matrices), given_back)
    for mine, theirs in zip(one, torch.autograd.grad(slow, (nodes, matrices), given_back), strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-4, atol=1e-4)


def relative_error(mine, reference):
    return ((mine.double() - reference).norm() / reference.norm()).item()


FB15K_237 = pytest.param(
    (14_541, 237, 272_115, 192, 8),
    marks=pytest.mark.skipif(
        not torch.cuda.is_available(), reason="needs a CUDA device: too large for the interpreter"
    ),
    id="fb15k-237",
)


@pytest.mark.parametrize("size", [(50, 4, 300, 12, 2), FB15K_237])
def test_sums_of_messages_through_blocks_and_their_slopes_err_by_less_than_a_thousandth_in_float32(size):
    entities, relations, count, width, blocks = size
    generator = torch.Generator().manual_seed(0)
    ends = (entities * torch.rand(2, count, generator=generator) ** 3).long()  # a power law, as in the data
    facts = torch.stack([ends[0], torch.randint(0, relations, (count,), generator=generator), ends[1]], dim=1)
    edges = MessageGraph.from_facts(facts.unique(dim=0), entities, relations, DEVICE).layer(0)
    nodes = drawn(entities, width, dtype=torch.float32)
    matrices = drawn(2 * relations, blocks, width // blocks, width // blocks, seed=1, dtype=torch.float32)
    given_back = drawn(entities, width, seed=2, dtype=torch.float32)

    pairs, incidence = pairs_of(edges), pairs_to_targets(edges)

    def summed(nodes, matrices, fused):
        arguments = nodes, matrices, pairs.relations.groups, pairs.sources, "ieee"
        if fused:
            return FusedSum.apply(FusedGroupedProduct.apply(*arguments), None, edges.norm, incidence)
        return message_sum_reference(_GroupedProduct.apply(*arguments), edges.norm.double(), incidence)

    inputs = [tensor.requires_grad_() for tensor in (nodes, matrices)]
    exact = [tensor.detach().double().requires_grad_() for tensor in inputs]
    fast, slow = summed(*inputs, fused=True), summed(*exact, fused=False)
    assert relative_error(fast, slow.detach()) < 1e-3
    mine = torch.autograd.grad(fast, inputs, given_back)
    for slope, reference in zip(mine, torch.autograd.grad(slow, exact, given_back.double()), strict=True):
        assert relative_error(slope, reference) < 1e-3


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device: too large for the interpreter")
def test_at_the_size_of_fb15k_237_float32_errs_by_less_than_a_thousandth():
    entities, relations, edges, width = 14_541, 474, 544_230, 100
    generator = torch.Generator().manual_seed(0)
    # a power law, as in the data: hubs of thousands of edges
    ends = (entities * torch.rand(2, edges, generator=generator) ** 3).long().to(DEVICE)
    kinds = torch.randint(0, relations, (edges,), generator=generator).to(DEVICE)
    incidence = Incidence.of(ends[0], ends[1], entities, entities, kinds, relations)
    inputs = [drawn(*shape, seed=len(shape), dtype=torch.float32) for shape in ((entities, width), (relations, width))]
    inputs = [tensor.requires_grad_() for tensor in (*inputs, drawn(edges, dtype=torch.float32))]
    exact = [tensor.detach().double().requires_grad_() for tensor in inputs]
    given_back = drawn(entities, width, seed=9, dtype=torch.float32)
    fast = FusedSum.apply(inputs[0], inputs[1], inputs[2], incidence)
    slow = message_sum_reference(exact[0], exact[2], incidence, exact[1])
    assert relative_error(fast, slow.detach()) < 1e-3
    mine = torch.autograd.grad(fast, inputs, given_back)
    for slope, reference in zip(mine, torch.autograd.grad(slow, exact, given_back.double()), strict=True):
        assert relative_error(slope, reference) < 1e-3
    one, other = drawn(256, width, seed=5, dtype=torch.float32), inputs[0].detach()
    points, there = one.requires_grad_(), other.requires_grad_()
    distance = FusedDistance.apply(points, there)
    given_back = drawn(256, entities, seed=6, dtype=torch.float32)
    theirs = [tensor.detach().double().requires_grad_() for tensor in (points, there)]
    expected = torch.cdist(*theirs, p=1.0)
    assert relative_error(distance, expected.detach()) < 1e-3
    mine = torch.autograd.grad(distance, (points, there), given_back)
    for slope, reference in zip(mine, torch.autograd.grad(expected, theirs, given_back.double()), strict=True):
        assert relative_error(slope, reference) < 1e-3


@pytest.mark.parametrize("sizes", [(7,), (70, 0, 9, 200), (0,)])
@pytest.mark.parametrize("width", [3, 16])
@pytest.mark.parametrize(
    ("precision", "error"),
    [
        ("highest", 1e-4),
        pytest.param("high", 1e-3, marks=needs_cuda),
        pytest.param("medium", 0.15, marks=needs_cuda),  # a rounded number near zero may pass a ReLU or not
    ],
)
@pytest.mark.parametrize("piece", [140, 100_000])
def test_the_fused_scorer_and_all_its_slopes_equal_the_plain_one(
    sizes, width, precision, error, piece, monkeypatch, poisoned_memory
):
    # queries of very different sizes, runs that end within a tile, a query without edges, and nothing at all
    monkeypatch.setattr(edge_mlp_module, "RUN", 128)
    monkeypatch.setattr(edge_mlp_module, "PIECE", piece)
    generator = torch.Generator().manual_seed(0)
    index = [torch.randint(0, size, (sum(sizes),), generator=generator).to(DEVICE) for size in (5, 5, 4)]
    rows, queries = EdgeRows(*index, 5, 4, sizes), len(sizes)
    shapes = [(14, width), (queries, width, width), (queries, width), (queries, width, 1), (queries, 1)]
    tensors = [drawn(*shape, seed=i, dtype=torch.float32).requires_grad_() for i, shape in enumerate(shapes)]
    torch.set_float32_matmul_precision(precision)
    try:
        fast, slow = FusedMLP.apply(rows, *tensors), _EdgeMLP.apply(rows, *tensors)
        given_back = drawn(sum(sizes), seed=9, dtype=torch.float32)
        ours = torch.autograd.grad(fast, tensors, given_back)
    finally:
        torch.set_float32_matmul_precision("highest")
    theirs = torch.autograd.grad(slow, tensors, given_back)
    for one, other in zip((fast.detach(), *ours), (slow.detach(), *theirs), strict=True):
        assert (one - other).norm() <= error * other.norm()


@pytest.mark.parametrize("sizes", [(7,), (70, 0, 9, 200), (0, 0)])
@pytest.mark.parametrize(("width", "out"), [(3, 5), (70, 33)])
def test_the_fused_grouped_product_and_its_slopes_equal_the_plain_one(sizes, width, out, monkeypatch, poisoned_memory):
    monkeypatch.setattr(incidence_module, "RUN", 48)  # several runs a group, each ending within a tile
    groups = Groups(torch.tensor([0, *sizes]).cumsum(0).to(DEVICE))
    tensors = [
        drawn(sum(sizes), width, dtype=torch.float32),
        drawn(len(sizes), width, out, seed=1, dtype=torch.float32),
    ]
    rows, weight = (tensor.requires_grad_() for tensor in tensors)
    exact = [tensor.detach().double().requires_grad_() for tensor in (rows, weight)]
    fast = FusedGroupedProduct.apply(rows, weight.unsqueeze(1), groups, None, "tf32x3")
    slow = _GroupedProduct.apply(exact[0], exact[1].unsqueeze(1), groups, None, "tf32x3")
    torch.testing.assert_close(fast.double(), slow, rtol=1e-4, atol=1e-4)
    given_back = drawn(sum(sizes), out, seed=2, dtype=torch.float32)
    ours = torch.autograd.grad(fast, (rows, weight), given_back)
    for one, other in zip(ours, torch.autograd.grad(slow, exact, given_back.double()), strict=True):
        torch.testing.assert_close(one.double(), other, rtol=1e-4, atol=1e-4)
