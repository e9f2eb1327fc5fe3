"""powerlink truth: do the paths shown hold what is known to be the reason?"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from powerlink.cli.console import console, errors, kept_in, pick_device, print_json, shown, telling
from powerlink.cli.derived_flags import taken, with_flags
from powerlink.cli.naming import check_there, listed, open_models
from powerlink.cli.options import (
    AllWeightsOption,
    DepthOption,
    DeviceOption,
    EntitiesOption,
    GraphsOption,
    JsonOption,
    KeepOption,
    KnownOption,
    LimitOption,
    MatchOption,
    MaybeModelsArgument,
    OnlyPredictedOption,
    PlantedOption,
    SeedOption,
    SelectOption,
    SkipUnknownOption,
    SplitOption,
    WaysOption,
)
from powerlink.errors import DataError, SettingsError
from powerlink.explain_settings import DEPTH, ExplainSettings, Noise
from powerlink.report.wording import harmless
from powerlink.run.workforce import Workforce
from powerlink.settings import settings_of

if TYPE_CHECKING:
    from powerlink.models.session import Session
    from powerlink.run.truth import Task, Trial, Way
    from powerlink.verify.first_right import TruthTable

SHARED = ("min_length", "max_length", "hops", "hub_limit", "core", "candidates", "also_consider")


@with_flags(
    {"Explanation (as in explain)": ExplainSettings, "Workers": Workforce}, only=(*SHARED, *settings_of(Workforce))
)
def truth(
    given: dict[str, Any],
    models: MaybeModelsArgument = None,
    known: KnownOption = None,
    planted: PlantedOption = None,
    graphs: GraphsOption = 3,
    entities: EntitiesOption = 60,
    split: SplitOption = "test",
    match: MatchOption = None,
    explainers: WaysOption = None,
    select: SelectOption = None,
    weights: AllWeightsOption = None,
    paths: DepthOption = DEPTH,
    only_predicted: OnlyPredictedOption = False,
    limit: LimitOption = None,
    skip_unknown: SkipUnknownOption = False,
    out: KeepOption = None,
    seed: SeedOption = 0,
    device: DeviceOption = "auto",
    json: JsonOption = False,
) -> None:
    """Hold explanations against known reasons: how early does a right path come? The floors stand beside.

    Example: powerlink truth --planted plain

    Example: powerlink truth models/atlas --known reasons.tsv --out truth
    """
    _check(models, known, planted, only_predicted or skip_unknown or split != "test")
    workforce = taken(given, Workforce)
    from powerlink.run.truth import Trial

    trial = Trial(_ways(explainers, select), ExplainSettings(paths=paths, **given), match, seed, weights or [], out)
    if models and known:
        tasks = list(_tasks(open_models(models, device), known, split, only_predicted, limit, skip_unknown))
    else:
        tasks = list(_planted(planted or "plain", graphs, entities, seed, limit))
    with kept_in(out), telling() as told, workforce.hire(pick_device(device)) as executor:
        tables = trial.run(tasks, told, executor)
    asked = {"known": known and known.name, "planted": planted, "only_predicted": only_predicted, "limit": limit}
    _tell(trial, tables, asked, json)


def _ways(explainers: str | None, select: list[str] | None) -> list[Way]:
    from powerlink.run.truth import find_ways

    names = (("--explainers", explainers), ("--select", ",".join(select) if select is not None else None))
    return find_ways(*(None if text is None else listed(option, text) for option, text in names))


def _check(models: list[str] | None, known: Path | None, planted: Noise | None, of_known: bool) -> None:
    if bool(models) == (planted is not None) or (known is None) == (planted is None):
        raise SettingsError("say what to hold against what: models and --known, or --planted alone")
    if planted is not None and of_known:
        raise SettingsError("--only-predicted, --skip-unknown and --split go with --known, not with --planted")
    check_there(*models or ())


def _planted(planted: Noise, graphs: int, entities: int, seed: int, limit: int | None) -> Iterator[Task]:
    from powerlink.kg.planted import NOISE, plant
    from powerlink.run.truth import Task

    grown = replace(NOISE[planted], entities=entities)
    for task in (Task.planted(plant(seed + i, grown)) for i in range(graphs)):
        yield Task.of(task.session, task.known, task.queries[:limit])


def _tasks(
    sessions: dict[str, Session], known: Path, split: Any, only_predicted: bool, limit: int | None, skip_unknown: bool
) -> Iterator[Task]:
    from powerlink.kg.known_files import read_known_reasons
    from powerlink.run.progress import adding_up
    from powerlink.run.queries import choose_queries
    from powerlink.run.truth import Task

    graph = next(iter(sessions.values())).graph
    reasons = read_known_reasons(known, graph, split=split, skip_unknown=skip_unknown)
    for note in reasons.notes:
        errors.print(f"note: {harmless(note)}", style="dim", soft_wrap=True)
    for label, session in sessions.items():
        queries = reasons.queries
        if only_predicted:
            with telling() as told:
                asked = adding_up(told, "asking the model", len(queries))
                queries = choose_queries(session, queries, "predicted", limit=limit, told=asked).queries
        if not len(queries):
            raise DataError(f"{label} predicts none of the queries of {known}: leave out --only-predicted")
        yield Task.of(session, reasons, queries[:limit], label)


def _tell(trial: Trial, tables: list[TruthTable], asked: dict[str, Any], json: bool) -> None:
    """Print the tables and write the file; planted graphs are all of a kind, so of them the last table tells it all."""
    from powerlink.report.truth import as_plain, render_truth, write_truth

    settings, out = trial.settings, trial.folder
    made_with = {**asked, "match": trial.match, "paths": settings.paths, "seed": trial.seed}
    made_with |= {name: getattr(settings, name) for name in SHARED}
    if out:
        write_truth(tables, out, made_with)
    if json:
        print_json(as_plain(tables, made_with))
        return
    for table in tables[-1:] if asked["planted"] else tables:
        console.print(render_truth(table, settings.paths))
        console.print()
    if out:
        console.print(f"truth.json and all explanations in {shown(out)}", soft_wrap=True)
