"""The page of spread.py."""

from __future__ import annotations

from pages.markdown import Result, origin, table


def text(result: Result) -> str:
    parts = [
        f"## {title}\n\n{origin(result[name])}\n\n{write(result[name])}\n"
        for name, title, write in (
            ("throughput", "Throughput", _throughput),
            ("overhead", "What scheduling costs", _overhead),
            ("explain", "Real explanations", _explain),
            ("kills", "What kills cost", _kills),
            ("gpu", "Several processes on one GPU", _gpu),
        )
        if name in result
    ]
    return (
        "# Many workers\n\nHow to use them: [many workers](../how-to/resume-and-scale.md#many-workers).\n\n"
        + "\n".join(parts)
    )


def _throughput(part: Result) -> str:
    rows = [
        [
            name,
            *(f"{row['rate'][w]:.1f}" for w in ("1", "2", "4")),
            *(f"{row['per worker'][w]:.2f}" for w in ("2", "4")),
        ]
        for name, row in part.items()
        if isinstance(row, dict) and "rate" in row
    ]
    head = ["workers, job", "1: parcels/s", "2", "4", "each of 2 beside one alone", "each of 4"]
    return (
        table(head, rows)
        + "\n\n`waits` is a slow job that keeps no core busy (50 ms); `computes` keeps one busy, and this machine has two: four workers "
        "share them. Workers have one thread each and are there already; medians of three."
    )


def _overhead(part: Result) -> str:
    waits = list(next(iter(part["overhead"].values())))
    rows = [[kind, *(f"{shares[wait]:.1%}" for wait in waits)] for kind, shares in part["overhead"].items()]
    return (
        f"How much longer {part['parcels']:,} parcels take, on {part['workers']} workers, than the waiting in them:\n\n"
        + table(["workers", *(f"parcels of {wait}" for wait in waits)], rows)
        + "\n\nA batch of 32 queries of FB15k-237 takes about two seconds on such a machine."
    )


def _explain(part: Result) -> str:
    rows = [
        [
            kind,
            f"{part[kind]['wall']:.1f}",
            f"{part[kind]['busy']:.1f}",
            f"{part['serial']['wall'] / part[kind]['wall']:.2f}",
        ]
        for kind in ("serial", "processes", "ray")
    ]
    return (
        table(["where", "wall s", "of it in stages, all workers", "times as fast as serial"], rows)
        + f"\n\n{part['queries']:,} facts of the atlas, a query a batch (the most there can be to schedule), two workers of one thread each on "
        "two cores. What comes before its turn is written and read again."
    )


def _kills(part: Result) -> str:
    return (
        f"Processes and Ray, two workers: {part['worker']} workers and {part['driver']} drivers were killed (SIGKILL) at random times while "
        f"{part['files']} files were made; the command was run again {part['restarts']} times. {part['equal']} of {part['files']} files equal a "
        "serial run's to the byte, and nothing was left beside them."
    )


def _gpu(part: Result) -> str:
    rows = [
        [name or "none: this process alone", f"{part[key]:.0f}"]
        for key, name in (("0", ""), ("1", "1"), ("2", "2"), ("4", "4"))
    ]
    return (
        table(["processes", "queries/s"], rows)
        + f"\n\n{part['queries']:,} believed test facts of FB15k-237, {part['model']}, slopes, 16 GiB for each process. One process keeps the GPU "
        "busy: more of them on the same one bring nothing, and one a GPU is the default. With all of its memory, one process "
        "explains the same kind of facts faster ([speed](speed.md))."
    )
