"""powerlink demo: from nothing to five proven explanations."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from powerlink.cli.console import console, shown, telling
from powerlink.cli.naming import opened
from powerlink.cli.options import DeviceOption
from powerlink.models.training_settings import TrainingSettings

if TYPE_CHECKING:
    import torch

    from powerlink.explanation import Explanation
    from powerlink.models.session import Session

DEMO_MODEL: dict[str, Any] = {"encoder": "compgcn", "decoder": "distmult", "widths": (100, 100, 100)}
DEMO_TRAINING = TrainingSettings(epochs=150, batch_size=256, lr=0.003)
SHOWN = 5
TRIED = 10  # not every prediction hangs on paths; a first look is at those that do


def demo(
    out: Annotated[Path, typer.Option(help="Where the model and the report go.")] = Path("demo"),
    device: DeviceOption = "auto",
) -> None:
    """Train on a small world atlas, explain five held-out predictions it ranks first, and write a report.

    Takes about a minute on a laptop, and less the second time.

    Example: powerlink demo --out demo
    """
    from powerlink.cli.train import train_with_progress
    from powerlink.models.model_settings import ModelSettings
    from powerlink.report.show import write_page
    from powerlink.report.text import print_explanations

    folder = out / "model"
    train_with_progress("atlas", folder, ModelSettings(**DEMO_MODEL), DEMO_TRAINING, device)
    session = opened(str(folder), device)
    found = _explained(session, held_out_and_ranked_first(session, TRIED))[:SHOWN]
    print_explanations(console, found)
    page = out / "report.html"
    write_page(found, page, "Five predictions about the world, explained")
    console.print(f"\nThe same with pictures: {shown(page)}", soft_wrap=True)
    console.print(
        f"Next: powerlink predict {shown(folder)} --head France --relation in_continent\n"
        f"      powerlink explain {shown(folder)} --head Kenya --relation in_continent --tail Africa",
        soft_wrap=True,  # a command that is copied must stay on its line
    )


def _explained(session: Session, queries: torch.Tensor) -> list[Explanation]:
    """Explain queries, and keep those that have paths to show."""
    from powerlink.run.explain_many import explain_many

    with telling() as told:
        return [explanation for explanation in explain_many(session, queries, told=told) if explanation.paths]


def held_out_and_ranked_first(session: Session, count: int) -> torch.Tensor:
    """Pick test facts the model ranks first, of as many relations as possible: (count, 3)."""
    import numpy as np
    import torch

    from powerlink.kernels.plain_torch import plain_torch
    from powerlink.verify.verdict import standing_of

    facts = torch.from_numpy(np.array(session.graph.test))
    with plain_torch(session.messages.device):
        standing = standing_of(session, facts.to(session.messages.device))
    first = facts[(standing.rank == 1).cpu()]
    strongest = first[standing.score.cpu()[(standing.rank == 1).cpu()].argsort(descending=True, stable=True)]
    seen: dict[int, int] = {}
    turn = []  # the how-manieth of its relation each fact is: round after round over the relations
    for relation in strongest[:, 1].tolist():
        turn.append(seen.get(relation, 0))
        seen[relation] = turn[-1] + 1
    return strongest[torch.tensor(turn).argsort(stable=True)][:count]
