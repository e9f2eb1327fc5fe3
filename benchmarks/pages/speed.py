"""The page of speed, and its plots, from the saved results of explain.py."""

from __future__ import annotations

import json
from pathlib import Path

from pages.markdown import Result, table

DEVICES = {"cpu": "CPU", "cuda": "GPU"}


def saved(folder: Path) -> dict[str, Result]:
    """Read the results by name, those of the engine before this one as `before_…`."""
    found = {path.stem: json.loads(path.read_text("utf-8")) for path in sorted((folder / "speed").glob("*.json"))}
    for name, file in (("before_cpu", "explain.json"), ("before_cuda", "explain_h200.json")):
        if (folder / file).is_file():
            found[name] = json.loads((folder / file).read_text("utf-8"))
    return found


def text(results: dict[str, Result]) -> str:
    """Write the page."""
    parts = [
        "# Where the time goes\n\nA WGCN-ConvE of the paper's width on FB15k-237, two hops: trained where the command names a model, "
        "else untrained.\nNone is refused for its size, except where the paper's protocol says so. The default beside learned masks, on the same facts, on a CPU and\n"
        "on an H200: [power-link-plus](power-link-plus.md#what-an-explanation-takes)."
    ]
    titles = {
        "paper": "The paper's protocol",
        "default": "The same facts as `explain` takes them",
        "any": "Facts of any size, as `explain` takes them",
        "proof": "The default before (power-link, largest drop)",
        "any_before": "The default before, any size",
        "before": "Before the batched engine, any size",
    }
    for part, title in titles.items():
        parts += [_explained(title, results[key]) for device in DEVICES if (key := f"{part}_{device}") in results]
    for write, part in ((_step, "step"), (_equal, "equal"), (_growth, "growth"), (_generated, "generated")):
        parts += [write(results[key]) for device in DEVICES if (key := f"{part}_{device}") in results]
    parts.append(FLOORS)
    return "\n\n".join(parts) + "\n"


FLOORS = """## What keeps a stage above its byte floor

The floor is the time in which the memory alone could move what a stage must at least read and write, as counted in
`benchmarks/explain.py`.

* *score edges*: three products with a 64 × 64 matrix for every edge and step, and a fourth to have the hidden layer again on the
  way back instead of keeping it. In float32 these are arithmetic, not memory; with
  `torch.set_float32_matmul_precision("high")` they are taken in bf16, each number as the sum of two: half the work.
* *extract and prune*, *search paths*, *judge*, *choose paths*: a few hundred small kernels for each batch and some waits for a
  size that only the GPU knows. The data would pass in milliseconds; starting the kernels takes longer than running them. More
  queries in a batch cost next to nothing there.
* On a CPU all of it is arithmetic and gathers of one or two cores; the floor is far below."""


def _origin(result: Result) -> str:
    threads = f", {result['threads']} thread{'s' if result['threads'] > 1 else ''}" if "threads" in result else ""
    torch = result["versions"]["torch"]
    return f"Made by `{result['command']}`, {result['machine']}{threads}, {result['date']} (torch {torch})."


def _explained(title: str, result: Result) -> str:
    memory = f"Peak memory {result['peak resident GiB']} GiB resident"
    if "peak device GiB" in result:
        memory += f", {result['peak device GiB']} GiB on the device"
    speed = ""
    if "GB moved per second" in result:
        speed = (
            f" The mask's learning passes {result['million edges learned per second']} million edges a second and moves "
            f"{result['GB moved per second']} GB/s;\na plain copy moves {result['GB copied per second']} GB/s."
        )
    statuses = ", ".join(f"{count} {status}" for status, count in result["statuses"].items())
    if result.get("seconds to warm up"):
        speed += f"\nBefore, kernels were compiled and a first batch explained in {result['seconds to warm up']} s."
    rows = [[stage, f"{seconds:.2f}", *_floor(stage, seconds, result)] for stage, seconds in result["stages"].items()]
    return f"""## {title}: {result["machine"]}

{_origin(result)}

{result["queries"]} random test facts: {statuses}.
Computation graphs of {result["nodes"]["mean"]:,.0f} nodes and {result["edges"]["mean"]:,.0f} edges on average ({result["edges"]["most"]:,} at most), of which
pruning keeps {result["edges kept"]["mean"]:,.0f}. {result["seconds"]} s in all, median {result["median seconds per query"]} s a query.
{memory}.{speed}

{table(["stage", "seconds", "byte floor", "times the floor"], rows)}"""


def _floor(stage: str, seconds: float, result: Result) -> list[str]:
    """Return the seconds in which the memory could move what a stage must at least move, and how far it is from it."""
    least = result.get("least GB", {}).get(stage)
    if not least:
        return ["–", "–"]
    floor = least / result["GB copied per second"]
    return [f"{floor:.3f}", f"{seconds / floor:.1f}"]


def _step(result: Result) -> str:
    rows = [
        [
            f"{s['edges kept']:,}",
            f"{1000 * s['seconds']:.0f}",
            f"{1000 * s['plain seconds']:.0f}",
            f"{s['plain seconds'] / s['seconds']:.1f}",
        ]
        for s in result["steps"]
    ]
    return f"""## A step beside the plain reference: {result["machine"]}

{_origin(result)}

The reference (`benchmarks/plain_mask.py`) concatenates six vectors per edge and leaves the rest to autograd; in float64 both
learn the same mask to 1e-6 (tested). Steps taken in turn, medians; the median ratio is {result["median ratio"]}.

{table(["edges kept", "ms", "plain ms", "times faster"], rows)}"""


def _equal(result: Result) -> str:
    precisions = {
        "highest": "float32 (`highest`)",
        "high": "three bf16 products for each of the scorer's (`high`)",
        "medium": "one bf16 product for each of the scorer's (`medium`)",
        "plain": "the reference itself, in float32",
    }
    measures = ("same order", "same paths", "no dearer than 1e-6")

    def rows(shares: Result) -> str:
        return table(
            ["products", *measures],
            [[precisions[name], *(f"{told[measure]:.0%}" for measure in measures)] for name, told in shares.items()],
        )

    text = f"""## The same paths as the reference: {result["machine"]}

{_origin(result)}

After 50 steps from the same weights, the five best paths under the mask beside the reference's: the share of {result["queries"]} queries
where they are the same in the same order; the same in any order; and where each costs, under the reference's own mask, no more than
its fellow there, to a millionth.

{rows(result["first five paths"])}"""
    if "beside float64" not in result:
        text += "\n\nMeasured while masks were still float32, and not again since."
    if exact := result.get("beside float64"):
        text += f"""

Masks are float64 here, taken from the logits of either: many end so close to 1 that float32 would hold them for equal, and rounding
would choose among paths of one cost. Beside the reference in float64; the last row is the reference's own rounding:

{rows(exact)}"""
    return text


def _growth(result: Result) -> str:
    lines = result["lines"]
    rows = [
        [
            f"against {name}",
            f"{1e6 * lines[key]['slope'] / 10:.3f}",
            f"{1000 * lines[key]['start'] / 10:.1f}",
            f"{lines[key]['residual']:.3f}",
        ]
        for name, key in (("the edges of one query", "edges"), ("the edges of all queries of a batch", "queries"))
    ]
    memory = ""
    if "bytes" in lines:
        memory = (
            "\n\nA single query takes about the same time on a GPU whatever its edges (most likely that of starting and recording its steps),"
            "\nso the line through single queries says nothing. A batch grows with its edges."
            f"\n\nPeak device memory grows by {lines['bytes']['slope']:,.0f} bytes with an edge of a batch."
        )
    return f"""## Time against edges and queries: {result["machine"]}

{_origin(result)}

A line fitted to the time of a step. The residual is its root mean square, as a share of the times' standard deviation.

{table(["a step", "µs per edge", "ms at no edges", "residual"], rows)}{memory}

![Time against edges, queries and the graph's size](speed.png)"""


GROWING = ("rank the prediction", "judge")  # ranks among all entities grow with them by their definition


def _generated(result: Result) -> str:
    rows = []
    for graph in result["graphs"]:
        seconds = graph["seconds per query"]
        stages = [f"{seconds[stage]:.3f}" for stage in ("extract and prune", "score edges", "search paths")]
        if all(stage in seconds for stage in GROWING):
            stages += [f"{sum(seconds[stage] for stage in GROWING):.3f}", f"{sum(seconds.values()):.3f}"]
        else:
            stages += ["–", "–"]  # not measured
        rows.append(
            [
                graph.get("graph", "generated"),
                *(f"{graph[size]:,.0f}" for size in ("facts", "entities", "edges kept")),
                *stages,
                *(f"{graph[number]:.1f}" for number in ("seconds to build", "peak resident GiB")),
            ]
        )
    head = ["graph", "facts", "entities", "edges kept", "s: extract, prune", "s: learn", "s: search", "s: rank, judge"]
    return f"""## Time against the graph's size: {result["machine"]}

{_origin(result)}

Queries of one form on the dataset and on generated graphs (`benchmarks/generated_graph.py`) whose neighbourhoods are about as
large; seconds per query. Ranks among all entities grow with the entities by their definition.

{table([*head, "s in all", "s to build", "GiB resident"], rows)}"""


def draw(results: dict[str, Result], path: Path) -> None:
    """Plot time, and memory where it was measured, against edges, queries and the graph's size."""
    import matplotlib.pyplot as plt  # noqa: PLC0415 - only to draw

    figure, axes = plt.subplots(1, 4, figsize=(15, 3.4), layout="constrained")
    for device, label in DEVICES.items():
        if grown := results.get(f"growth_{device}"):
            edges, queries = grown["by edges"], grown["by queries"]
            axes[0].plot([p["edges kept"] for p in edges], [p["seconds"] / 10 for p in edges], "o-", label=label)
            axes[1].plot([p["queries"] for p in queries], [p["seconds"] / 10 for p in queries], "o-", label=label)
            if "bytes" in edges[0]:
                axes[2].plot([p["edges kept"] for p in edges], [p["bytes"] / 2**20 for p in edges], "o-", label=label)
        if made := results.get(f"generated_{device}"):
            seconds = [sum(g["seconds per query"].values()) for g in made["graphs"]]
            axes[3].plot([g["facts"] for g in made["graphs"]], seconds, "o-", label=label)
    titles = ("edges of a query", "queries in a batch", "edges of a query", "facts of the graph")
    heights = ("s a step", "s a step", "MiB on the device", "s a query")
    for axis, across, up in zip(axes, titles, heights, strict=True):
        axis.set(xlabel=across, ylabel=up, ylim=(0, None))
        axis.spines[["top", "right"]].set_visible(False)
        if axis.lines:
            axis.legend(frameon=False)
        else:
            axis.text(0.5, 0.5, "not measured yet", transform=axis.transAxes, ha="center")
    if axes[3].lines:
        axes[3].set_xscale("log")
    figure.savefig(path, dpi=110)
    plt.close(figure)
