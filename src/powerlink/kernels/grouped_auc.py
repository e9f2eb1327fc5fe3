"""ROC-AUC of many groups at once, by ranks."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata


def grouped_auc(
    scores: NDArray[np.floating], positive: NDArray[np.bool_], group: NDArray[np.int64], num_groups: int
) -> NDArray[np.float64]:
    """Return the ROC-AUC within each group, (num_groups,), of scores (n,); NaN where one of the classes is empty.

    It is the chance that a positive item scores above a negative one of its group; ties count half.
    """
    # One ranking for all: by (group, score), with mean ranks; the items of earlier groups are then counted off.
    distinct, level = np.unique(scores, return_inverse=True)
    ranks = rankdata(group * len(distinct) + level)
    size = np.bincount(group, minlength=num_groups)
    ranks -= (np.cumsum(size) - size)[group]
    right = np.bincount(group[positive], minlength=num_groups).astype(np.float64)
    won = np.bincount(group[positive], weights=ranks[positive], minlength=num_groups) - right * (right + 1) / 2
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(won / (right * (size - right)))
