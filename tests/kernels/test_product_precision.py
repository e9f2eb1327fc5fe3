"""What precision is asked of torch's products, and what of the scorer's."""

from __future__ import annotations

import pytest
import torch

from powerlink.kernels.fused import exact_but_for_the_scorer, product_precision, scorer_precision


@pytest.fixture(autouse=True)
def _as_before():
    before = torch.get_float32_matmul_precision()
    yield
    torch.set_float32_matmul_precision(before)


@pytest.mark.parametrize(("asked", "scorer"), [("highest", "tf32x3"), ("high", "bf16x3"), ("medium", "bf16")])
def test_only_the_scorer_leaves_float32_while_a_mask_is_learned(asked, scorer):
    torch.set_float32_matmul_precision(asked)
    with exact_but_for_the_scorer():
        assert torch.get_float32_matmul_precision() == "highest"
        assert product_precision() == "ieee"
        assert scorer_precision() == scorer
        with exact_but_for_the_scorer():
            assert scorer_precision() == scorer
    assert torch.get_float32_matmul_precision() == asked
    assert scorer_precision() == scorer


def test_a_failure_leaves_the_precision_as_it_was():
    torch.set_float32_matmul_precision("high")
    with pytest.raises(RuntimeError), exact_but_for_the_scorer():
        raise RuntimeError
    assert torch.get_float32_matmul_precision() == "high"
