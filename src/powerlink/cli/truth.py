"""powerlink truth: do the paths shown hold what is known to be the reason?"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from powerlink.cli.console import (
    DeviceOption,
    JsonOption,
    SeedOption,
    StoppedError,
    console,
    counting,
    errors,
    print_json,
    progress,
    shown,
)
from powerlink.cli.derived_flags import with_flags
from powerlink.cli.naming import listed, load_models
from powerlink.cli.rank import SplitOption
from powerlink.errors import DataError, SettingsError
from powerlink.kg.known_files import read_known_reasons
from powerlink.kg.planted import NOISE, Noise, plant
from powerlink.models.subject import Subject
from powerlink.pipeline import ExplainSettings
from powerlink.report.truth import as_plain, render_truth, write_truth
from powerlink.report.wording import harmless
from powerlink.run.claim import claimed
from powerlink.run.queries import choose_queries
from powerlink.run.truth import DEPTH, Task, Trial, find_ways
from powerlink.verify.first_right import Match

SHARED = ("min_length", "max_length", "hops", "hub_limit", "core", "candidates", "also_consider")


@with_flags({"Explanation (as in explain)": ExplainSettings}, only=SHARED)
def truth(
    given: dict[str, Any],
    models: Annotated[
        list[Path] | None, typer.Argument(help="Model folders, all of the same graph.", show_default=False)
    ] = None,
    known: Annotated[
        Path | None,
        typer.Option(
            help="What is known: a table of head, relation, tail and known entities with | between, a .jsonl file with "
            "entities, facts or paths, or a folder of typed nodes and edges with labels."
        ),
    ] = None,
    planted: Annotated[
        Noise | None,
        typer.Option(help="Without a model: plant graphs whose reasons are known, with so much that misleads."),
    ] = None,
    graphs: Annotated[int, typer.Option(help="How many graphs to plant.", min=1)] = 3,
    entities: Annotated[int, typer.Option(help="How many entities a planted graph has.", min=1)] = 60,
    split: SplitOption = "test",
    match: Annotated[
        Match | None,
        typer.Option(
            help="When a path is right. touches: an inner entity, or a fact, is known; is: all of it is known. By "
            "default known paths must be equalled, and entities and facts touched."
        ),
    ] = None,
    explainers: Annotated[
        str | None,
        typer.Option(
            help="Names with commas between. By default what explain does, its other choice of paths, and each floor's "
            "own order."
        ),
    ] = None,
    select: Annotated[
        list[str] | None,
        typer.Option(
            help="How paths are chosen, as in explain: mask, carried or largest-drop; with commas, or repeated. "
            "[default: carried]".replace("[", "\\["),
            show_default=False,
        ),
    ] = None,
    weights: Annotated[
        list[Path] | None, typer.Option(help="Of explainers that are fitted first: files of `powerlink fit`.")
    ] = None,
    paths: Annotated[int, typer.Option(help="How many paths are looked at.", min=1)] = DEPTH,
    only_predicted: Annotated[
        bool, typer.Option("--only-predicted", help="Only triples the model predicts: score above 0, or rank 1.")
    ] = False,
    limit: Annotated[int | None, typer.Option(help="At most so many queries of each model.", min=1)] = None,
    skip_unknown: Annotated[
        bool, typer.Option("--skip-unknown", help="Leave out queries that the graph does not know, and count them.")
    ] = False,
    out: Annotated[
        Path | None, typer.Option(help="Keep all explanations and truth.json in this folder; a rerun goes on.")
    ] = None,
    seed: SeedOption = 0,
    device: DeviceOption = "auto",
    json: JsonOption = False,
) -> None:
    """Hold explanations against known reasons: how early does a right path come? The floors stand beside.

    Example: powerlink truth --planted plain

    Example: powerlink truth models/atlas --known reasons.tsv --out truth
    """
    if bool(models) == (planted is not None) or (known is None) == (planted is None):
        raise SettingsError("say what to hold against what: models and --known, or --planted alone")
    if planted is not None and (only_predicted or skip_unknown or split != "test"):
        raise SettingsError("--only-predicted, --skip-unknown and --split go with --known, not with --planted")
    ways = find_ways(
        None if explainers is None else listed("--explainers", explainers),
        None if select is None else listed("--select", ",".join(select)),
    )
    settings = ExplainSettings(paths=paths, **given)
    trial = Trial(ways, settings, match, seed, weights or [], out)
    if planted is not None:
        grown = replace(NOISE[planted], entities=entities)
        tasks = [Task.planted(plant(seed + i, grown)) for i in range(graphs)]
        tasks = [Task.of(task.subject, task.known, task.queries[:limit]) for task in tasks]
    else:
        assert models is not None
        assert known is not None
        subjects = load_models(models, device)
        tasks = list(_tasks(subjects, known, split, only_predicted, limit, skip_unknown))
    with claimed(out, folder=True) if out else nullcontext(), progress() as bar:
        bars = bar.add_task("", total=len(ways) * sum(len(task.queries) for task in tasks))

        def told(what: str, more: int) -> None:
            bar.update(bars, advance=more, description=harmless(what))

        try:
            tables = trial.run(tasks, told)
        except KeyboardInterrupt:
            kept = f"what was explained is safe in {out}; run the same command again to go on"
            raise StoppedError(kept if out else "nothing was written; with --out a rerun would go on") from None
        made_with = {
            "known": None if known is None else known.name,
            "planted": planted,
            "match": match,
            "only_predicted": only_predicted,
            "limit": limit,
            "paths": paths,
            "seed": seed,
            **{name: getattr(settings, name) for name in SHARED},
        }
        if out:
            write_truth(tables, out, made_with)
    if json:
        print_json(as_plain(tables, made_with))
        return
    for table in tables[-1:] if planted else tables:  # planted graphs are all of a kind
        console.print(render_truth(table, paths))
        console.print()
    if out:
        console.print(f"truth.json and all explanations in {shown(out)}", soft_wrap=True)


def _tasks(
    subjects: dict[str, Subject], known: Path, split: Any, only_predicted: bool, limit: int | None, skip_unknown: bool
) -> Iterator[Task]:
    graph = next(iter(subjects.values())).graph
    reasons = read_known_reasons(known, graph, split=split, skip_unknown=skip_unknown)
    for note in reasons.notes:
        errors.print(f"note: {harmless(note)}", style="dim", soft_wrap=True)
    for label, subject in subjects.items():
        queries = reasons.queries
        if only_predicted:
            with counting("asking the model", len(queries)) as asked:
                queries = choose_queries(subject, queries, "predicted", limit=limit, told=asked).queries
        if not len(queries):
            raise DataError(f"{label} predicts none of the queries of {known}: leave out --only-predicted")
        yield Task.of(subject, reasons, queries[:limit], label)
