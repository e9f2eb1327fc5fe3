"""What several commands, or long ones, can be told."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from powerlink.explain_settings import Match, Noise, Split, Which

Device = Literal["auto", "cpu", "cuda"]
DeviceOption = Annotated[Device, typer.Option(help="Where to compute; auto takes a GPU if there is one.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON for machines instead of text for people.")]
ForceOption = Annotated[bool, typer.Option("--force", help="Replace what is there, also if powerlink did not make it.")]
SeedOption = Annotated[int, typer.Option(help="Everything random follows from this number.", min=0, max=2**32 - 1)]
SplitOption = Annotated[Split, typer.Option(help="Which facts of the data.")]

KINDS = "A folder made by `powerlink train`; pykeen:DIR (a pickle: trust it); or pyg:MODULE:FUNCTION\\[:FILE]."
SAME_GRAPH = f"Models, all of the same graph. {KINDS}"
ModelArgument = Annotated[str, typer.Argument(help=KINDS, show_default=False)]
ModelsArgument = Annotated[list[str], typer.Argument(help=SAME_GRAPH, show_default=False)]
MaybeModelsArgument = Annotated[list[str] | None, typer.Argument(help=SAME_GRAPH, show_default=False)]
FileArgument = Annotated[
    Path, typer.Argument(help="Explanations made by `powerlink explain --out`.", show_default=False)
]

# explain
HeadOption = Annotated[str | None, typer.Option(help="Explain one triple: its head …")]
RelationOption = Annotated[str | None, typer.Option(help="… its relation …")]
TailOption = Annotated[str | None, typer.Option(help="… and its tail.")]
FactsOption = Annotated[Split | None, typer.Option(help="Explain the facts of a split of the data.")]
QueriesOption = Annotated[
    Path | None, typer.Option(help="Explain the triples of a file: head, relation, tail; .tsv, .csv or .parquet.")
]
OnlyPredictedOption = Annotated[
    bool, typer.Option("--only-predicted", help="Only triples the model predicts: score above 0, or rank 1.")
]
LimitOption = Annotated[int | None, typer.Option(help="At most so many.", min=1)]
RankHeadsOption = Annotated[
    bool, typer.Option("--rank-heads", help="Ask (?, relation, tail) through the inverse relation, and rank heads.")
]
ResumableOption = Annotated[
    Path | None, typer.Option(help="Write JSON Lines here; run again after a kill and it goes on.")
]
ExplainerOption = Annotated[str, typer.Option(help="Who proposes the evidence: a name from `powerlink explainers`.")]
WeightsOption = Annotated[
    Path | None, typer.Option(help="Of an explainer that is fitted first: the file `powerlink fit` made.")
]
MemoryOption = Annotated[
    float | None,
    typer.Option(help="What the process (on a GPU: what lies on it) may take in all, in GiB.", min=0.001),
]
ProfileOption = Annotated[bool, typer.Option("--profile", help="Tell afterwards how long each stage took.")]

# compare and truth
FolderOption = Annotated[Path, typer.Option(help="The folder to make; run again after a kill and it goes on.")]
NamesOption = Annotated[
    str | None,
    typer.Option(help="Names with commas between; differences are to the first. Default: all that need no fitting."),
]
WhichOption = Annotated[
    Which,
    typer.Option(help="Facts the model believes (score above 0), ranks first, predicts (either), or all of them."),
]
MaxNodesOption = Annotated[
    int | None, typer.Option(help="Leave out, and count, queries with a larger computation graph.", min=1)
]
SelectionsOption = Annotated[
    str,
    typer.Option(
        help="How paths are chosen, with commas between. mask: the explainer's own order (the paper); carried: by "
        "what their facts carry together, among its own candidates; largest-drop: by the fall of the score; "
        "pooled: carried, with the candidates of slopes and low-degree added, as in explain."
    ),
]
AllWeightsOption = Annotated[
    list[Path] | None, typer.Option(help="Of explainers that are fitted first: files of `powerlink fit`.")
]
FitOption = Annotated[int | None, typer.Option(help="Fit such explainers here, on so many training facts.", min=1)]
KnownOption = Annotated[
    Path | None,
    typer.Option(
        help="What is known: a table of head, relation, tail and known entities with | between, a .jsonl file with "
        "entities, facts or paths, or a folder of typed nodes and edges with labels."
    ),
]
PlantedOption = Annotated[
    Noise | None,
    typer.Option(help="Without a model: plant graphs whose reasons are known, with so much that misleads."),
]
GraphsOption = Annotated[int, typer.Option(help="How many graphs to plant.", min=1)]
EntitiesOption = Annotated[int, typer.Option(help="How many entities a planted graph has.", min=1)]
MatchOption = Annotated[
    Match | None,
    typer.Option(
        help="When a path is right. touches: an inner entity, or a fact, is known; is: all of it is known. By "
        "default known paths must be equalled, and entities and facts touched."
    ),
]
WaysOption = Annotated[
    str | None,
    typer.Option(
        help="Names with commas between. By default what explain does, its other choice of paths, and each floor's "
        "own order."
    ),
]
SelectOption = Annotated[
    list[str] | None,
    typer.Option(
        help="How paths are chosen, as in explain: mask, carried or largest-drop; with commas, or repeated. "
        "\\[default: carried]",
        show_default=False,
    ),
]
DepthOption = Annotated[int, typer.Option(help="How many paths are looked at.", min=1)]
SkipUnknownOption = Annotated[
    bool, typer.Option("--skip-unknown", help="Leave out queries that the graph does not know, and count them.")
]
KeepOption = Annotated[
    Path | None, typer.Option(help="Keep all explanations and truth.json in this folder; a rerun goes on.")
]
