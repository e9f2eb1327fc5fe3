from __future__ import annotations

import pytest
import torch

from powerlink.kernels import dense_product as kernel
from powerlink.kernels.dense_product import Linear, dense_product

RULE = kernel.onednn_is_faster  # itself, whatever a test puts in its place
HAS_ONEDNN = torch.backends.mkldnn.is_available() and hasattr(torch.ops.mkldnn, "_linear_pointwise")


@pytest.fixture(params=["mkl", "onednn"], autouse=True)
def library(request, monkeypatch):
    """Take either library, whatever this processor is, and for small products, too."""
    if request.param == "onednn" and not HAS_ONEDNN:
        pytest.skip("this torch was built without oneDNN")
    monkeypatch.setattr(kernel, "onednn_is_faster", lambda: request.param == "onednn")
    monkeypatch.setattr(kernel, "LEAST_WORK", 1)
    return request.param


def drawn(*shape, seed=0, dtype=torch.float32):
    return torch.randn(*shape, dtype=dtype, generator=torch.Generator().manual_seed(seed))


SHAPES = [(1, 1, 1), (5, 7, 3), (64, 33, 129), (300, 2, 300), (1, 50, 40), (40, 50, 1)]


@pytest.mark.parametrize(("n", "k", "m"), SHAPES)
@pytest.mark.parametrize("lying", ["rows", "columns", "every other"])
def test_products_and_slopes_are_those_of_float64_however_the_matrices_lie(n, k, m, lying):
    def laid(tensor):
        if lying == "rows":
            return tensor
        if lying == "columns":
            return tensor.t().contiguous().t()
        spread = tensor.new_zeros(tensor.size(0), 2 * tensor.size(1))
        spread[:, ::2] = tensor
        return spread[:, ::2]

    one, other, given_back = drawn(n, k), drawn(k, m, seed=1), drawn(n, m, seed=2)
    exact = [tensor.double().requires_grad_() for tensor in (one, other)]
    mine = [laid(tensor).requires_grad_() for tensor in (one, other)]
    expected, found = exact[0] @ exact[1], dense_product(*mine)
    torch.testing.assert_close(found.double(), expected, rtol=1e-5, atol=1e-4)
    slopes = torch.autograd.grad(found, mine, laid(given_back))
    for slope, right in zip(slopes, torch.autograd.grad(expected, exact, given_back.double()), strict=True):
        torch.testing.assert_close(slope.double(), right, rtol=1e-5, atol=1e-4)


def test_slopes_of_slopes_are_right():
    one, other = drawn(4, 3).requires_grad_(), drawn(3, 5, seed=1).requires_grad_()
    exact = [tensor.detach().double().requires_grad_() for tensor in (one, other)]

    def curvature(rows, matrix, product):
        slopes = torch.autograd.grad((product(rows, matrix) ** 2).sum(), (rows, matrix), create_graph=True)
        return torch.autograd.grad(sum(slope.square().sum() for slope in slopes), (rows, matrix))

    for mine, right in zip(curvature(one, other, dense_product), curvature(*exact, torch.matmul), strict=True):
        torch.testing.assert_close(mine.double(), right, rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("bias", [True, False])
def test_a_linear_layer_is_torchs_own(bias):
    ours, theirs = Linear(6, 4, bias=bias), torch.nn.Linear(6, 4, bias=bias)
    theirs.load_state_dict(ours.state_dict())
    rows = drawn(9, 6)
    torch.testing.assert_close(ours(rows), theirs(rows))
    torch.testing.assert_close(ours(rows.view(3, 3, 6)), theirs(rows.view(3, 3, 6)))
    slopes = [torch.autograd.grad(layer(rows).square().sum(), layer.weight)[0] for layer in (ours, theirs)]
    torch.testing.assert_close(*slopes)


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_other_precisions_and_empty_matrices_go_the_usual_way(dtype):
    one, other = drawn(3, 2, dtype=torch.float64), drawn(2, 4, seed=1, dtype=torch.float64)
    if dtype == torch.float64:
        assert torch.equal(dense_product(one, other), one @ other)
    else:
        assert not kernel._worth_it(one.to(dtype), other.to(dtype))
    assert dense_product(one.float()[:0], other.float()).shape == (0, 4)
    assert torch.equal(dense_product(one.float()[:, :0], other.float()[:0]), torch.zeros(3, 4))


def test_the_library_that_was_chosen_is_the_one_that_multiplies(library, monkeypatch):
    asked = []
    monkeypatch.setattr(kernel, "onednn_product", lambda rows, matrix: asked.append(rows.shape) or rows @ matrix)
    one, other = drawn(4, 3).requires_grad_(), drawn(3, 5, seed=1).requires_grad_()
    dense_product(one, other).sum().backward()
    Linear(3, 5)(one)
    assert len(asked) == (4 if library == "onednn" else 0)  # there, back to either factor, and the layer
    monkeypatch.setattr(kernel, "LEAST_WORK", 61)
    dense_product(one, other)  # 60 multiplications are not worth a call
    assert len(asked) == (4 if library == "onednn" else 0)


@pytest.mark.parametrize(
    ("processor", "capability", "faster"),
    [
        ("vendor_id\t: AuthenticAMD", "AVX512", True),
        ("vendor_id\t: AuthenticAMD", "AVX2", False),
        ("vendor_id\t: GenuineIntel", "AVX512", False),
        ("", "DEFAULT", False),
    ],
)
def test_onednn_is_asked_where_mkl_leaves_wide_instructions_unused(processor, capability, faster, monkeypatch):
    if not (HAS_ONEDNN and torch.backends.mkl.is_available()):
        pytest.skip("this torch has not both libraries")
    monkeypatch.setattr(kernel, "_processor", lambda: processor)
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: capability)
    assert RULE.__wrapped__() == faster
    monkeypatch.setattr(torch.backends.mkldnn, "is_available", lambda: False)
    assert not RULE.__wrapped__()


def test_a_product_asked_for_in_half_precision_stays_one(library):
    with torch.autocast("cpu", torch.bfloat16):
        assert not kernel._worth_it(drawn(4, 4), drawn(4, 4))


def test_shapes_that_vary_are_left_to_mkl(library):
    rows, matrix = drawn(8, 4), drawn(4, 6)
    with kernel.shapes_that_vary():
        assert not kernel._worth_it(rows, matrix)
        assert torch.equal(dense_product(rows, matrix), rows @ matrix)
    assert kernel._worth_it(rows, matrix) == (library == "onednn")
