"""The page of train.py: seconds per epoch, edges per second against the memory's own speed, peak memory."""

from __future__ import annotations

from pathlib import Path

from pages.markdown import Result, origin, saved_as, table

SHARED = ["million edges/s", "× floor", "peak GiB"]


def saved(results: Path) -> list[Result]:
    """Return what was measured, on a GPU first."""
    return saved_as(results / "speed", "train_cuda.json", "train_cpu.json")


def text(*results: Result) -> str:
    return "\n".join(
        [
            "# How fast training is",
            "",
            "FB15k-237 with all inverses (544,230 message edges), batches of 1,024 (head, relation) pairs against every entity.",
            "The floor is the time in which the memory can move what passing messages must at least move: a source row for every",
            "edge and layer, there and back. A step also scores 1,024 × 14,541 tails and updates all weights, which the floor leaves out.",
            *(part for result in results for part in _machine(result)),
        ]
    )


def _machine(result: Result) -> list[str]:
    on_gpu = any("seconds_per_epoch" in row for row in result["models"].values())
    lines = [
        "",
        f"## {result['machine'] if on_gpu else 'CPU, beside a plain step'}",
        "",
        origin(result),
        f"A plain copy moves {result['copy_gigabytes_per_second']:,.0f} GB/s.",
        *([result["note"]] if "note" in result else []),
        "",
    ]
    return [*lines, *(_gpu(result["models"]) if on_gpu else _cpu(result["models"])), ""]


def _gpu(models: dict[str, Result]) -> list[str]:
    header = ["model", "s per epoch", "ms per step", *SHARED, "s to rank test"]
    return [table(header, [_gpu_row(name, row) for name, row in models.items()])]


def _cpu(models: dict[str, Result]) -> list[str]:
    passing = [_times(row, "encode") for row in models.values()]
    steps = [_times(row, "step") for row in models.values()]
    return [
        f"""`plain` (`benchmarks/plain_step.py`) is the same step as it is first written, in the same run: it gathers a message for every edge,
adds them up with `index_add`, leaves the way back to autograd, subtracts every tail from every query for TransE, convolves images
for ConvE, and has the labels as a matrix. Our training keeps freed memory (`kernels/host_memory.py`); in the last columns the plain step
has that, too. Each measurement has a process of its own.

**Message passing**, there and back, is {_least_to_most(passing, 0)} times faster than gather + `index_add`, and {_least_to_most(passing, 1)} times faster than that with
its memory kept.
""",
        table(["model", *BESIDE], [_cpu_row(name, row, "encode") for name, row in models.items()]),
        f"""
**Whole steps** are {_least_to_most(steps, 0)} times faster than plain ones, and {_least_to_most(steps, 1)} times faster than those with their memory kept. Half of our step
with ConvE goes into the products of its projection, its filters and its tails. Plain has them as well, but asks MKL for them; ours
asks oneDNN where that uses more of the processor (`benchmarks/dense_product.py` compares the two). TransE's distances are the library's
`cdist`, where the plain step subtracts in memory that is new each time. So these figures say as much about what is called plain
as about ours, and message passing is the fairer one.
""",
        table(
            ["model", *BESIDE, *SHARED],
            [[*_cpu_row(name, row, "step"), *_shared(row)] for name, row in models.items()],
        ),
    ]


OURS = {"encode": "encode_seconds", "step": "seconds_per_step"}
PLAIN = ("plain", "plain_with_memory_kept")
BESIDE = ["ours, s", "plain, s", "times faster", "plain, memory kept, s", "times faster"]


def _times(row: Result, part: str) -> list[float | None]:
    """Return how many times faster ours is than the plain one, and than the plain one with its memory kept."""
    return [row[way] and row[way][part] / row[OURS[part]] for way in PLAIN]


def _least_to_most(times: list[list[float | None]], place: int) -> str:
    known = [one for pair in times if (one := pair[place]) is not None]
    return f"{min(known):.1f} to {max(known):.1f}"


def _cpu_row(name: str, row: Result, part: str) -> list[str]:
    cells = [f"{row[OURS[part]]:.2f}"]
    for way, times in zip(PLAIN, _times(row, part), strict=True):
        cells += ["out of memory", "–"] if times is None else [f"{row[way][part]:.2f}", f"{times:.1f}"]
    return [name, *cells]


def _gpu_row(name: str, row: Result) -> list[str]:
    return [
        name,
        f"{row['seconds_per_epoch']:.2f}",
        f"{1000 * row['seconds_per_step']:.2f}",
        *_shared(row),
        f"{row['ranking_test_seconds']:.2f}",
    ]


def _shared(row: Result) -> list[str]:
    return [
        f"{row['edges_per_second'] / 1e6:,.1f}",
        f"{row['seconds_per_step'] / row['message_floor_seconds']:.1f}",
        f"{row['peak_gib']:.2f}",
    ]
