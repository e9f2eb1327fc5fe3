"""What a training will need, said before its first step; and, where nothing was said, the way it takes."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch

from powerlink.errors import DeviceError
from powerlink.kg.knowledge_graph import KnowledgeGraph
from powerlink.memory import free_memory
from powerlink.models.catalog import find_decoder
from powerlink.models.link_model import NUMBERS_AT_ONCE, ModelSettings
from powerlink.models.ranking import LOGITS_AT_ONCE
from powerlink.models.training import TrainingSettings

NEIGHBOURS, NEGATIVES = 10, 1024  # of a node and of a step, where a graph is too large for all of them
LONGEST_EPOCH = 3600  # seconds by the rates below; what would take longer on all of the graph is sampled

# Measured on a 2-core CPU and, roughly, on an H200: they decide between ways and promise nothing.
SECONDS_PER_NUMBER = {"cpu": 1e-8, "cuda": 1e-10}  # of an edge's message, there and back
SECONDS_PER_LOGIT = {"cpu": 3e-8, "cuda": 3e-10}

# bytes
PER_FACT = 200  # its two edges in the message graph, and what is known of it, while both are built
PER_ENTITY = 300  # its name
PER_LOGIT = 28  # of a step: itself, its slope, and what the loss makes of it
PER_EDGE = 150  # of a step: how kernels arrange it
VECTORS_PER_EDGE, VECTORS_PER_NODE = 3, 12  # of a step, in every layer
COPIES = 7  # of the weights: slopes, Adam's two moments, and the state as it is saved
SHARE = 0.9  # of what is free that a plan may take


@dataclass(frozen=True)
class TrainingPlan:
    """How a model will be trained, and what that takes."""

    settings: TrainingSettings  # nothing is left to be chosen
    memory: int  # bytes, at most
    free: int  # bytes
    place: str  # e.g. "memory" or "GPU memory"
    why: str = ""  # only a part of the graph is looked at in a step; nothing where all of it is, or where it was said
    epoch_seconds: float | None = None  # by the first steps; None before them

    def __str__(self) -> str:
        return f"needs about {_gib(self.memory)} of {_gib(self.free)} of free {self.place}"

    @property
    def way(self) -> str:
        """What a step looks at."""
        settings = self.settings
        heard = f"at most {settings.neighbours:,} neighbours a node" if settings.neighbours else "all neighbours"
        against = f"{settings.negatives:,} drawn tails" if settings.negatives else "all tails"
        return f"{heard} and {against} a step, {settings.pairs_per_step:,} pairs at a time"


def plan_training(
    model: ModelSettings, graph: KnowledgeGraph, settings: TrainingSettings, device: torch.device | str = "cpu"
) -> TrainingPlan:
    """Choose what the settings leave open: all of the graph in every step where that fits, else drawn parts of it.

    A training that does not fit either way is refused, before anything is made for it.
    """
    device = torch.device(device)
    on_cuda = device.type == "cuda"
    place = "GPU memory" if on_cuda else "memory"
    free = free_memory(device)
    chosen = whole = settled(settings)
    why = ""
    if not whole.sampled:
        needs, seconds = (
            memory_needed(model, graph, whole, on_cuda=on_cuda),
            _epoch_seconds(model, graph, whole, device.type),
        )
        if needs > SHARE * free:
            why = f"all of the graph in every step would need about {_gib(needs)}, and {_gib(free)} of {place} are free"
        elif seconds > LONGEST_EPOCH:
            why = f"with all of the graph in every step an epoch would take about {seconds / 3600:,.0f} h"
        chosen = _filled(settings, NEIGHBOURS, NEGATIVES) if why else whole
        why = "" if chosen == whole else why
    needs = memory_needed(model, graph, chosen, on_cuda=on_cuda)
    if needs > SHARE * free:
        mend = "a smaller --dim or --batch-size"
        if not (chosen.neighbours and chosen.negatives):
            mend = f"--neighbours {NEIGHBOURS} --negatives {NEGATIVES}, or {mend}"
        raise DeviceError(
            f"this training needs about {_gib(needs)}, and {_gib(free)} of {place} are free: choose {mend}"
        )
    return TrainingPlan(chosen, needs, free, place, why)


def memory_needed(
    model: ModelSettings, graph: KnowledgeGraph, settings: TrainingSettings, *, on_cuda: bool = False
) -> int:
    """Return about how many bytes a training takes at its highest, from the shapes alone."""
    entities, edges, widths = graph.num_entities, 2 * len(graph.train), model.widths
    held = PER_FACT * len(graph.all_facts) + PER_ENTITY * entities
    weights = 4 * (entities * (widths[0] + 1) + 2 * graph.num_relations * sum(widths))
    batch = settings.pairs_per_step
    nodes = [entities] * len(widths)
    heard = [edges] * (len(widths) - 1)
    if settings.sampled:
        most = settings.neighbours or edges
        nodes = [min(3 * batch + (settings.negatives or entities), entities)]
        for depth in range(len(heard)):
            heard[depth] = min(nodes[-1] * most, edges)
            nodes.append(min(nodes[-1] + heard[depth], entities))
        heard = heard[::-1]
    step = sum(
        heard[depth] * (PER_EDGE + VECTORS_PER_EDGE * 4 * max(widths[depth : depth + 2])) for depth in range(len(heard))
    )
    step += sum(VECTORS_PER_NODE * 4 * max(widths) * count for count in nodes[1:])
    step += 4 * batch * find_decoder(model.decoder.name).numbers_per_query(model.decoder, widths[-1])
    step += PER_LOGIT * batch * min(settings.negatives or entities, entities)
    rows = 1 if on_cuda else 3  # a CPU makes the messages that a GPU makes on the way
    whole = rows * 4 * min(edges * max(widths), NUMBERS_AT_ONCE[on_cuda]) + 4 * 4 * entities * max(widths)
    ranking = PER_LOGIT * min(512 * entities, LOGITS_AT_ONCE[on_cuda])
    # what steps of ever other sizes leave behind is of no use to an evaluation, whose pieces are larger
    working = step + whole + ranking if settings.sampled else max(step, whole + ranking)
    return int(held + (1 + COPIES) * weights + working)


def settled(settings: TrainingSettings) -> TrainingSettings:
    """Return settings with nothing left open: all of the graph in every step, unless a part of it was asked for."""
    return _filled(settings, *((NEIGHBOURS, NEGATIVES) if settings.sampled else (0, 0)))


def _filled(settings: TrainingSettings, neighbours: int, negatives: int) -> TrainingSettings:
    filled = replace(
        settings,
        neighbours=neighbours if settings.neighbours is None else settings.neighbours,
        negatives=negatives if settings.negatives is None else settings.negatives,
    )
    return replace(filled, batch_size=filled.pairs_per_step)


def _epoch_seconds(model: ModelSettings, graph: KnowledgeGraph, settings: TrainingSettings, kind: str) -> float:
    """Return about how long an epoch of all of the graph takes."""
    edges, batch = 2 * len(graph.train), settings.pairs_per_step
    step = SECONDS_PER_NUMBER.get(kind, 1e-8) * edges * sum(model.widths[:-1])
    step += SECONDS_PER_LOGIT.get(kind, 3e-8) * batch * graph.num_entities
    return step * edges / batch  # there are at most as many pairs as edges


def _gib(count: float) -> str:
    return f"{count / 2**30:.1f} GiB"
