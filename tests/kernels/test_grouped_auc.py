"""ROC-AUC within groups equals counting all pairs."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from powerlink.kernels.grouped_auc import grouped_auc

ITEM = st.tuples(st.sampled_from([0.0, 0.25, 0.5, 1.0]), st.booleans(), st.integers(0, 3))


def counted(items: list[tuple[float, bool, int]], group: int) -> float:
    right = [score for score, positive, of in items if of == group and positive]
    wrong = [score for score, positive, of in items if of == group and not positive]
    if not right or not wrong:
        return float("nan")
    return float(np.mean([(a > b) + (a == b) / 2 for a in right for b in wrong]))


@given(st.lists(ITEM, max_size=40))
def test_it_is_the_share_of_pairs_in_the_right_order(items: list[tuple[float, bool, int]]) -> None:
    scores, positive, group = (np.array([item[i] for item in items]) for i in range(3))
    found = grouped_auc(scores.astype(np.float32), positive.astype(bool), group.astype(np.int64), 5)
    np.testing.assert_allclose(found, [counted(items, g) for g in range(5)], atol=1e-12)
