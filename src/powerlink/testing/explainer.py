"""The contract of an explainer, as sentences about what it broke."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import is_dataclass
from typing import Any, get_args

import torch

from powerlink.errors import ExplainerError
from powerlink.explainers.contract import fault_of, fingerprint
from powerlink.explainers.protocol import EdgeScores, Explainer
from powerlink.graphs.computation_graph import ComputationGraph
from powerlink.models.subject import Subject
from powerlink.paths.propose import Cost
from powerlink.testing.link_model import state_of
from powerlink.testing.small_world import MODELS, WORLD_QUERIES, graph_of, small_subject

SEED = 5
TOLERANCE = 1e-4  # sums over another batch round differently, and a learner amplifies it


def check_explainer(explainer: Explainer) -> None:
    """Hold an explainer to its contract; raise an ExplainerError that lists every promise it broke."""
    broken = broken_promises(explainer)
    if broken:
        raise ExplainerError("\n".join(broken))


def broken_promises(explainer: Explainer) -> list[str]:
    """Return a sentence for every promise an explainer breaks on small models; none if it keeps its contract.

    | promise | meaning |
    |---|---|
    | a frozen dataclass | with `name` and `cost` |
    | scores | one per edge, finite, in (0, 1] on kept edges and 0 on pruned ones, without a gradient |
    | by itself | a query's scores are the same alone, in any batch and in any order |
    | by the seed | the same seed gives the same scores, also where gradients are switched off |
    | no trace | the model's parameters, buffers, flags and gradients, and torch's generator, are as they were |
    | every query | also without a path, without a kept edge, and with none at all |
    """
    if faults := list(_form(explainer)):
        return [f"{getattr(explainer, 'name', type(explainer).__name__)} {fault}" for fault in faults]
    subjects = [small_subject(encoder, decoder) for encoder, decoder in MODELS]
    return [
        f"{explainer.name} {fault} (with {subject.name})"
        for subject in subjects
        for fault in _behaviour(explainer, subject)
    ]


def _form(explainer: Any) -> Iterator[str]:
    """Check what can be seen without asking it anything."""
    if not is_dataclass(explainer) or not getattr(explainer, "__dataclass_params__").frozen:  # noqa: B009
        yield "must be a frozen dataclass"
    if not isinstance(getattr(explainer, "name", None), str) or not explainer.name:
        yield "must have a name"
    if getattr(explainer, "cost", None) not in get_args(Cost):
        yield f"must have a cost: {' or '.join(get_args(Cost))}"
    if not callable(getattr(explainer, "score_edges", None)):
        yield "must have a method score_edges"


def _behaviour(explainer: Explainer, subject: Subject) -> Iterator[str]:
    """Check what it does; if its very first answer is wrong, nothing more."""
    graph = graph_of(subject, WORLD_QUERIES)
    first, faults = _asked(explainer, subject, graph)
    yield from faults
    if faults:
        return
    if not torch.equal(first.values, explainer.score_edges(subject.settled, graph, SEED).values):
        yield "gave other scores when asked again with the same seed"
    with torch.no_grad():
        if not torch.equal(first.values, explainer.score_edges(subject.settled, graph, SEED).values):
            yield "gave other scores where gradients are switched off"
    yield from _by_itself(explainer, subject, graph, first)
    for what, kept in (
        ("where one query kept no edge", graph.kept & (graph.query_of_edge != 1)),
        ("where no edge was kept", torch.zeros_like(graph.kept)),
        ("where nothing was pruned", torch.ones_like(graph.kept)),
    ):
        yield from (f"{fault}, {what}" for fault in _asked(explainer, subject, graph.pruned_to(kept))[1])


def _asked(explainer: Explainer, subject: Subject, graph: ComputationGraph) -> tuple[EdgeScores, list[str]]:
    """Ask once, and say what is wrong with the scores or with what was left behind."""
    model = subject.settled
    before, generator, state = fingerprint(model), torch.get_rng_state(), state_of(model)
    scores = explainer.score_edges(model, graph, SEED)
    fault = fault_of(scores, graph)
    faults = [] if fault is None else [fault]
    touched = any(not torch.equal(now, state[name]) for name, now in state_of(model).items())
    if touched or fingerprint(model) != before:
        faults.append("changed the model (parameters, buffers, gradients or the training flag)")
    if not torch.equal(torch.get_rng_state(), generator):
        faults.append("drew from torch's global generator")
    return scores, faults


def _by_itself(explainer: Explainer, subject: Subject, graph: ComputationGraph, together: EdgeScores) -> Iterator[str]:
    """Compare each query's scores in the batch with those alone and in the batch turned around."""
    backwards = graph_of(subject, graph.queries.flip(0))
    turned = explainer.score_edges(subject.settled, backwards, SEED).values
    for q in range(graph.num_queries):
        own = together.values[graph.query_of_edge == q]
        other = turned[backwards.query_of_edge == graph.num_queries - 1 - q]
        alone = explainer.score_edges(subject.settled, graph_of(subject, graph.queries[q : q + 1]), SEED)
        if not torch.allclose(own, alone.values, rtol=0, atol=TOLERANCE):
            yield "scores a query differently alone than in a batch"
            return
        if not torch.allclose(own, other, rtol=0, atol=TOLERANCE):
            yield "scores a query differently when its batch is in another order"
            return
        if tuple(together.remarks[q : q + 1]) != tuple(alone.remarks):
            yield "makes other remarks on a query alone than in a batch"
            return
