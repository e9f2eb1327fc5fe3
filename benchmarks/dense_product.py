"""Which of torch's two CPU libraries multiplies faster here, and whether kernels/dense_product.py knows it.

python benchmarks/dense_product.py    # the products of one training step of RGCN-ConvE on FB15k-237, takes seconds
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

import torch
from torch import Tensor

from powerlink.kernels.dense_product import onednn_is_faster, onednn_product
from powerlink.kernels.host_memory import freed_memory_kept

BATCH, FEATURES, WIDTH, ENTITIES = 1024, 36_000, 192, 14_541


def main() -> None:
    if not hasattr(torch.ops.mkldnn, "_linear_pointwise"):
        raise SystemExit("this torch was built without oneDNN: there is nothing to compare")
    features, slopes = torch.randn(BATCH, FEATURES), torch.randn(BATCH, WIDTH)
    project, tails, logits = torch.randn(WIDTH, FEATURES), torch.randn(ENTITIES, WIDTH), torch.randn(BATCH, ENTITIES)
    products: dict[str, tuple[Tensor, Tensor]] = {
        "project features": (features, project.t()),
        "its slope by features": (slopes, project),
        "its slope by weights": (slopes.t(), features),
        "score all tails": (slopes, tails.t()),
        "its slope by queries": (logits, tails),
        "its slope by tails": (slopes.t(), logits),
        "map all nodes": (tails, torch.randn(WIDTH, WIDTH)),
    }
    print(f"{torch.get_num_threads()} threads; powerlink takes {'oneDNN' if onednn_is_faster() else 'MKL'} here")
    print(f"{'':24}{'MKL, ms':>10}{'oneDNN, ms':>12}{'times':>7}{'difference':>12}")
    for name, (rows, matrix) in products.items():
        with freed_memory_kept():  # as training does
            mkl, onednn = (median(lambda: multiply(rows, matrix)) for multiply in (torch.mm, onednn_product))  # noqa: B023
        apart = (torch.mm(rows, matrix) - onednn_product(rows, matrix)).norm() / torch.mm(rows, matrix).norm()
        print(f"{name:24}{1000 * mkl:10.1f}{1000 * onednn:12.1f}{mkl / onednn:7.1f}{apart:12.1e}")


def median(work: Callable[[], Tensor], repeats: int = 15, warm_up: int = 3) -> float:
    """Return the median seconds of some runs."""
    seconds = []
    for run in range(warm_up + repeats):
        start = time.perf_counter()
        work()
        if run >= warm_up:
            seconds.append(time.perf_counter() - start)
    return statistics.median(seconds)


if __name__ == "__main__":
    main()
