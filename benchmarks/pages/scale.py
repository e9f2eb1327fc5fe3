"""The page of scale.py, opening.py and memory_ceiling.py: large graphs, and what a billion facts would take."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from pages.markdown import Result, origin, saved_as, table

BILLION = 1_000_000_000
HOURLY = 3.0  # dollars for an H200, a price to replace by yours


def saved(folder: Path) -> dict[str, Result]:
    """Read what is there, by name."""
    names = ("scale_cuda", "scale_cpu", "scale_cpu_equal", "opening")
    found = {name: saved_as(folder, f"{name}.json") for name in names}
    return {name: results[0] for name, results in found.items() if results}


def text(results: dict[str, Result]) -> str:
    titles = {
        "scale_cuda": "On a GPU",
        "scale_cpu": "On a CPU",
        "scale_cpu_equal": "On a CPU, with steps of equal size",
    }
    parts = [_sizes(results[name], title) for name, title in titles.items() if name in results]
    return f"""# Large graphs

How to train and explain on them: [resume and scale](../how-to/resume-and-scale.md). Graphs are generated, with
something to learn in them: nodes lie on a ring of clusters and relations lead so far around it.

An epoch grows as its facts do where its steps draw neighbourhoods of equal size. Steps of 16,384 pairs do not: around the 49,152 entities of the
smallest graph they draw 135,262 edges, around 249,856 entities 331,082, because what is around fewer entities is shared by more of a step.

{chr(10).join(parts)}
{_opening(results["opening"])}
{_billion(results)}
"""


def _sizes(result: Result, title: str) -> str:
    own = result["settings"]
    rows = []
    for size in result["sizes"]:
        build, train, explain = size["build"], size["train"], size["explain"]
        device = max(part.get("peak device GiB", 0.0) for part in (train, explain))
        rows.append(
            [
                f"{build['facts']:,}",
                f"{build['entities']:,}",
                f"{build['seconds']:.1f}",
                f"{train['epoch seconds']:.0f}",
                f"{train['epoch seconds told beforehand']:.0f}",
                f"{train['test']['mrr']:.3f}",
                f"{explain['open seconds']:.1f}",
                f"{explain['explain seconds']:.1f}",
                f"{max(part['peak resident GiB'] for part in (build, train, explain)):.1f}",
                f"{device:.1f}" if device else "",
            ]
        )
    head = ["facts", "entities", "build s", "epoch s", "told before", "test MRR", "open s", "explain 100 s"]
    slopes = result["slopes"]
    steps = [f"{size['train']['edges of a step']:,}" for size in result["sizes"] if "edges of a step" in size["train"]]
    drawn = f" A step of {own['batch_size']:,} pairs draws {' and '.join(steps)} edges." if steps else ""
    return f"""## {title}

{origin(result)}

{table([*head, "memory GiB", "on the GPU"], rows)}

{own["encoder"]}-{own["decoder"]}, {own["layers"]} layers of width {own["dim"]}, one epoch on {own["neighbours"]} drawn neighbours and {own["negatives"]}
drawn tails. MRR is filtered, among all entities, of facts drawn from the test split: one epoch is no trained model, and a random one
has about {_chance(result):.5f}. Time against facts, as a power: an epoch {slopes["train: epoch seconds"]:.2f}, building
{slopes["build: seconds"]:.2f}, explaining {slopes["explain: explain seconds"]:.2f} (1 is in proportion, 0 is not at all).{drawn}
"""


def _chance(result: Result) -> float:
    """The mean of 1/rank of a random order of the largest graph's entities."""
    entities = result["sizes"][-1]["build"]["entities"]
    return sum(1 / rank for rank in range(1, entities + 1)) / entities


def _opening(result: Result) -> str:
    now, before = result["now"], result["before"]
    rows = [
        [what, f"{before['start'][what]['clock']:.2f}", f"{took['clock']:.2f}"] for what, took in now["start"].items()
    ]
    rows += [[what, "ended by the system", told] for what, told in _openings(now)]
    return f"""## Opening

Made by `python benchmarks/opening.py`, {result["machine"]}, {result["date"]}: {result["facts"]:,} facts, {result["entities"]:,} entities,
{result["relations"]} relations; the model is {result["model"]}. {result.get("note", "")}

{table(["", "before, s", "now, s"], rows)}

The first opening checks everything and writes what opening computes beside the model ({now["GiB on disk"]["mapped"]:.2f} GiB); later ones map
it into memory. They share it: of {now["openings"][-1]["resident GiB at the end"]:.2f} GiB resident, {now["openings"][-1]["of it this process's alone"]:.2f} are a process's own.
"""


def _openings(now: Result) -> Iterator[tuple[str, str]]:
    first, *later = [one for one in now["openings"] if one["threads"] == 2]
    yield "opening the first time", f"{first['open']['clock']:.1f}"
    yield "opening later", _spread([one["open"]["clock"] for one in later])
    yield "the first explanation after that", _spread([one["first explanation"]["clock"] for one in later])
    yield "the second one", _spread([one["second explanation"]["clock"] for one in later])


def _spread(seconds: list[float]) -> str:
    return " · ".join(f"{one:.2f}" for one in seconds)


def _billion(results: dict[str, Result]) -> str:
    gpu, opening = results["scale_cuda"], results["opening"]
    largest = gpu["sizes"][-1]
    facts, entities = largest["build"]["facts"], largest["build"]["entities"]
    times, many = BILLION / facts, BILLION / facts * entities
    train, explain = largest["train"], largest["explain"]
    mapped = opening["now"]["GiB on disk"]["mapped"] / opening["facts"] * BILLION
    built = opening["now"]["openings"][0]["peak GiB"] / opening["facts"] * BILLION
    rate = 100 / explain["explain seconds"]
    hours = 1e6 / rate / 3600
    width = gpu["settings"]["dim"]
    keys = many**2 * 2 * 50
    return f"""## A billion facts: a plan

Nothing here was run. It is the largest row above times {times:.0f}, with as many facts an entity: {many:,.0f} entities.

| what | measured at {facts:,} facts | follows for a billion |
|---|---:|---:|
| an epoch on one H200 | {train["epoch seconds"]:.0f} s | {train["epoch seconds"] * times / 60:.0f} min |
| device memory in training | {train["peak device GiB"]:.1f} GiB | {train["peak device GiB"] * times:.0f} GiB |
| device memory in explaining | {explain["peak device GiB"]:.1f} GiB | {explain["peak device GiB"] * times:.0f} GiB |
| what opening maps, on disk | {opening["now"]["GiB on disk"]["mapped"]:.2f} GiB (at {opening["facts"]:,}) | {mapped:.0f} GiB |
| memory of the first opening | {opening["now"]["openings"][0]["peak GiB"]:.1f} GiB (at {opening["facts"]:,}) | {built:.0f} GiB |
| explanations a second, of {explain["edges, mean"]:,} edges each | {rate:.0f} | the same, but for ranking among {many / entities:.0f} times as many |

**What would break first**, in this order:

1. *The GPU's memory.* The message graph's columns are 64-bit integers and lie on the device whole. Tables of {many:,.0f} rows of {width} numbers with Adam's two
   moments are {many * width * 12 / 2**30:.0f} GiB and fit; the columns do not. They would have to stay on the host, mapped, and only drawn neighbourhoods cross.
2. *Building.* The message graph is sorted in memory. {built:.0f} GiB are a rented machine, not a laptop; a sort in runs on the disk would do.
3. *Ranks among all entities.* {many * 4 / 2**30:.1f} GiB of logits for every query: ranks would be estimated on drawn tails, and said to be.
4. *Numbers of pairs.* Edges are sorted by (target · N + source) · 2R + relation, which is {keys:.1e} here with 50 relations and must stay below
   9.2e+18: {keys / 2**63:.0%} of it.

**A hundred million within 24 GiB** was tried once and not reached: `python benchmarks/opening.py --facts 100000000 --entities 5000000` on a machine of 24 GiB, 2026-11-20,
was ended by the system at 23 GB while the graph was drawn and its folder written, before any opening: facts in 64 bits stand in memory three times there
(drawn, put in order, and read back to be checked). Sorting them into a message graph takes less since: one column of keys is sorted, and the others are read off it.

What would not break: explaining looks at a neighbourhood, whatever lies around it, and workers share one mapped model.

**Cost.** A million explanations like the ones above take one H200 {hours:.1f} hours by the measured rate, {hours * HOURLY:.0f} dollars at {HOURLY:.0f} dollars an hour
(a price to replace by yours). They are independent, so ten GPUs take a tenth of the time for the same money.
"""
