"""The page of train.py: seconds per epoch, edges per second against the memory's own speed, peak memory."""

from __future__ import annotations

from pathlib import Path

from pages.markdown import Result, origin, saved_as, table


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
    title = result["machine"] if on_gpu else "CPU, beside a plain step"
    rows = [_gpu_row(name, row) if on_gpu else _cpu_row(name, row) for name, row in result["models"].items()]
    shared = ["million edges/s", "× floor", "peak GiB"]
    header = (
        ["model", "s per epoch", "ms per step", *shared, "s to rank test"]
        if on_gpu
        else ["model", "s per step", "plain step", "times faster", "encoder", "plain encoder", "times faster", *shared]
    )
    lines = [
        "",
        f"## {title}",
        "",
        origin(result),
        f"A plain copy moves {result['copy_gigabytes_per_second']:,.0f} GB/s.",
        *([result["note"]] if "note" in result else []),
        "",
    ]
    if not on_gpu:
        lines += [
            "`plain` (`benchmarks/plain_step.py`) is the same step as it is first written, in the same run: it gathers a message for every",
            "edge, adds them up with `index_add`, leaves the way back to autograd, subtracts every tail from every query for TransE, convolves",
            "images for ConvE, and has the labels as a matrix. `encoder` is message passing alone, there and back. What no writing changes is",
            "part of both steps: a ConvE of width 192 or 256 spends most of ours in the products of its projection, which the plain step has as well,",
            "so the whole step gains less than the messages do. Most of plain TransE's time goes into the fresh memory of its differences;",
            "ours has the library's `cdist`, which makes none.",
            "",
            "How much of this is the choice of what is plain: until 2026-11-18 the plain step shared our decoder. So measured the same day,",
            "before ConvE's norm was folded, whole steps were 2.0 to 2.4 times faster with TransE and 3.6, 5.8 and 2.0 times with RGCN-, WGCN- and",
            "CompGCN-ConvE. And where the allocator keeps freed memory (`MALLOC_MMAP_MAX_=0`) the plain step gains most: RGCN- and WGCN-TransE were",
            "then 3.1 and 2.6 times faster, CompGCN-ConvE 2.1 and RGCN-ConvE 3.3 (before the fold, too). Message passing alone is the fairer figure.",
            "",
        ]
    return [*lines, table(header, rows), ""]


def _gpu_row(name: str, row: Result) -> list[str]:
    return [
        name,
        f"{row['seconds_per_epoch']:.2f}",
        f"{1000 * row['seconds_per_step']:.2f}",
        *_shared(row),
        f"{row['ranking_test_seconds']:.2f}",
    ]


def _cpu_row(name: str, row: Result) -> list[str]:
    return [
        name,
        f"{row['seconds_per_step']:.2f}",
        f"{row['plain_seconds_per_step']:.2f}",
        f"{row['times_faster']:.1f}",
        f"{row['encode_seconds']:.2f}",
        f"{row['plain_encode_seconds']:.2f}",
        f"{row['encode_times_faster']:.1f}",
        *_shared(row),
    ]


def _shared(row: Result) -> list[str]:
    return [
        f"{row['edges_per_second'] / 1e6:,.1f}",
        f"{row['seconds_per_step'] / row['message_floor_seconds']:.1f}",
        f"{row['peak_gib']:.2f}",
    ]
