"""powerlink explain: why does the model believe it?"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import torch
import typer
from torch import Tensor

from powerlink.cli.console import (
    Device,
    DeviceOption,
    JsonOption,
    SeedOption,
    StoppedError,
    console,
    errors,
    explaining,
    pick_device,
    print_line,
    shown,
)
from powerlink.cli.derived_flags import with_flags
from powerlink.cli.own_settings import SetOption, read_settings
from powerlink.errors import DataError, SettingsError
from powerlink.explainers.catalog import find_recipe
from powerlink.explainers.learned.power_link import PowerLink
from powerlink.explainers.protocol import Explainer
from powerlink.explanation import Explanation
from powerlink.kg.knowledge_graph import Split
from powerlink.models.checkpoint import load_model
from powerlink.models.subject import Subject
from powerlink.pipeline import DEFAULT_EXPLAINER, ExplainSettings
from powerlink.report.schema import to_json
from powerlink.report.text import print_explanations, render_summary
from powerlink.report.wording import counted
from powerlink.run.explain_many import Told, explain_many
from powerlink.run.queries import distinct, read_queries
from powerlink.settings import settings_of
from powerlink.stage_clock import Seconds, timed

ExplainerOption = Annotated[str, typer.Option(help="Who proposes the paths: a name from `powerlink explainers`.")]
Triple = tuple[str | None, str | None, str | None]
# Other explainers take those of these flags that they have a setting for, and everything else through --set.
PANELS = {"Explanation": ExplainSettings, "Explainer (settings of power-link; others take those they have)": PowerLink}


@with_flags(PANELS)
def explain(
    given: dict[str, Any],
    model: Annotated[
        Path | None, typer.Argument(help="A model folder made by `powerlink train`.", show_default=False)
    ] = None,
    pykeen: Annotated[
        Path | None,
        typer.Option(help="Explain a saved PyKEEN result instead; its model is a pickle: only one you trust."),
    ] = None,
    head: Annotated[str | None, typer.Option(help="Explain one triple: its head …")] = None,
    relation: Annotated[str | None, typer.Option(help="… its relation …")] = None,
    tail: Annotated[str | None, typer.Option(help="… and its tail.")] = None,
    split: Annotated[Split | None, typer.Option(help="Explain the facts of a split of the data.")] = None,
    queries: Annotated[
        Path | None, typer.Option(help="Explain the triples of a file: head, relation, tail; .tsv, .csv or .parquet.")
    ] = None,
    only_predicted: Annotated[
        bool, typer.Option("--only-predicted", help="Only triples the model predicts: score above 0, or rank 1.")
    ] = False,
    limit: Annotated[int | None, typer.Option(help="Explain at most so many.", min=1)] = None,
    rank_heads: Annotated[
        bool, typer.Option("--rank-heads", help="Ask (?, relation, tail) through the inverse relation, and rank heads.")
    ] = False,
    out: Annotated[
        Path | None, typer.Option(help="Write JSON Lines here; run again after a kill and it goes on.")
    ] = None,
    explainer: ExplainerOption = DEFAULT_EXPLAINER.name,
    weights: Annotated[
        Path | None, typer.Option(help="Of an explainer that is fitted first: the file `powerlink fit` made.")
    ] = None,
    own: SetOption = None,
    seed: SeedOption = 0,
    device: DeviceOption = "auto",
    memory: Annotated[
        float | None,
        typer.Option(help="What a batch of queries may take, in GiB; by default 2, or half of a GPU's.", min=0.001),
    ] = None,
    profile: Annotated[bool, typer.Option("--profile", help="Tell afterwards how long each stage took.")] = False,
    json: JsonOption = False,
) -> None:
    """Explain predictions by the paths that carry them, each proven on the model.

    One triple:  powerlink explain models/atlas --head France --relation in_continent --tail Europe

    Many:  powerlink explain models/atlas --split test --limit 50 --out explanations.jsonl

    Another explainer:  … --explainer gnn-explainer --set entropy_weight=0.5
    """
    triple = (head, relation, tail)
    _check_source(triple, split, queries)
    settings, maker = _settings(explainer, given | ({"weights": str(weights)} if weights else {}), own or [])
    subject = _subject(model, pykeen, device)
    with _stopping(out), timed() if profile else nullcontext() as seconds, explaining() as told:
        start = time.perf_counter()
        found = explain_many(
            subject,
            distinct(_facts(subject, triple, split, queries)),
            explainer=maker,
            settings=settings,
            seed=seed,
            rank_heads=rank_heads,
            which="predicted" if only_predicted else "all",
            limit=limit,
            out=out,
            memory=None if memory is None else int(memory * 2**30),
            told=_noting(told, out),
        )
    if only_predicted and not found:
        errors.print("the model predicts none of these triples: nothing to explain")
    _print(found, out, json)
    if seconds is not None:
        _print_profile(seconds, len(found), time.perf_counter() - start)


@contextmanager
def _stopping(out: Path | None) -> Iterator[None]:
    """Say what is safe when Ctrl-C is pressed."""
    try:
        yield
    except KeyboardInterrupt:
        kept = f"what was explained is safe in {out}; run the same command again to go on"
        raise StoppedError(kept if out else "nothing was written; with --out a rerun would go on") from None


def _noting(told: Told, out: Path | None) -> Told:
    """Tell as well how many explanations were there already."""
    first = True

    def heard(what: str, done: int, of: int) -> None:
        nonlocal first
        if first and what == "explaining" and done and out:
            errors.print(f"{done:,} of {of:,} are already in {shown(out)}", soft_wrap=True)
        first = first and what != "explaining"
        told(what, done, of)

    return heard


def _print_profile(seconds: Seconds, explained: int, total: float) -> None:
    """Tell how long each stage took, the longest first."""
    errors.print(f"{counted(explained, 'explanation')} in {total:.1f} s")
    for stage, took in sorted(seconds.items(), key=lambda item: -item[1].clock):
        errors.print(f"  {took.clock:9.2f} s  {took.clock / max(total, 1e-9):4.0%}  {stage}")


def _subject(model: Path | None, pykeen: Path | None, device: Device) -> Subject:
    """Load the one model that was named."""
    if (model is None) == (pykeen is None):
        raise SettingsError(
            "say which model to explain: a folder made by `powerlink train`, or --pykeen and its folder"
        )
    if model is not None:
        return load_model(model, pick_device(device))
    from powerlink.adapters.pykeen import load_pykeen  # noqa: PLC0415 - PyKEEN takes seconds to import

    assert pykeen is not None
    return load_pykeen(pykeen, pick_device(device))


def _settings(explainer: str, given: dict[str, Any], own: list[str]) -> tuple[ExplainSettings, Explainer]:
    """Sort the given flags into those of every explanation and those of the explainer, and add what --set says."""
    recipe = find_recipe(explainer)
    common = settings_of(ExplainSettings)
    theirs = {name: value for name, value in given.items() if name not in common}
    for name, value in read_settings(recipe.name, recipe.kind, own).items():
        if name in theirs:
            raise SettingsError(f"{name} is set twice: by --{name.replace('_', '-')} and by --set")
        theirs[name] = value
    return ExplainSettings(**{n: v for n, v in given.items() if n in common}), recipe.make(theirs)


def _check_source(triple: Triple, split: Split | None, file: Path | None) -> None:
    """Refuse a command that does not say what to explain, or says it twice."""
    sources = [any(part is not None for part in triple), split is not None, file is not None]
    if sum(sources) != 1:
        raise SettingsError("say what to explain by one of: --head/--relation/--tail, --split, or --queries")
    if sources[0] and None in triple:
        raise SettingsError("a triple needs all three: --head, --relation and --tail")


def _facts(subject: Subject, triple: Triple, split: Split | None, file: Path | None) -> Tensor:
    """Collect the facts to explain from the one source that was given."""
    if file is not None:
        return read_queries(subject.graph, file)
    if split is None:
        head, relation, tail = (part or "" for part in triple)
        return torch.tensor([subject.graph.triple(head, relation, tail)])
    if not len(subject.graph.facts(split)):
        raise DataError(f"the model's graph has no {split} facts to explain")
    return torch.from_numpy(np.array(subject.graph.facts(split)))


def _print(found: list[Explanation], out: Path | None, json: bool) -> None:
    if json:
        for explanation in found:
            print_line(to_json(explanation))
        return
    if out is None:
        print_explanations(console, found)
    if out is not None or len(found) > 1:
        console.print(render_summary(found))
    if out is not None:
        console.print(f"{counted(len(found), 'explanation')} in {shown(out)}", soft_wrap=True)
