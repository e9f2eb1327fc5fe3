"""The contract of an explainer, as sentences about what it broke."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import is_dataclass
from typing import Any, get_args

import torch
from torch import Tensor, nn

from powerlink.errors import ExplainerError
from powerlink.explainers.contract import fault_of, fingerprint
from powerlink.explainers.protocol import EdgeScores, Explainer
from powerlink.graphs.computation_graph import ComputationGraph
from powerlink.models.subject import Subject
from powerlink.paths.propose import Cost
from powerlink.testing.small_world import MODELS, graph_of, queries_of_small_world, small_subject

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
    told = [f"{getattr(explainer, 'name', type(explainer).__name__)} {fault}" for fault in _form(explainer)]
    if told:
        return told
    for encoder, decoder in MODELS:
        subject = small_subject(encoder, decoder)
        for fault in _behaviour(explainer, subject):
            told.append(f"{explainer.name} {fault} (with {subject.name})")
    return told


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
    """Check what it does; what is wrong with its very first answer is all that is told."""
    queries = queries_of_small_world()
    graph = graph_of(subject, queries)
    first, faults = _asked(explainer, subject, graph)
    yield from faults
    if first is None or faults:
        return
    again = explainer.score_edges(subject.settled, graph, SEED).values
    if not torch.equal(first.values, again):
        yield "gave other scores when asked again with the same seed"
    with torch.no_grad():
        if not torch.equal(explainer.score_edges(subject.settled, graph, SEED).values, first.values):
            yield "gave other scores where gradients are switched off"
    yield from _by_itself(explainer, subject, graph, first)
    for what, hard in _hard_graphs(graph):
        _, faults = _asked(explainer, subject, hard)
        yield from (f"{fault}, {what}" for fault in faults)


def _asked(explainer: Explainer, subject: Subject, graph: ComputationGraph) -> tuple[EdgeScores | None, list[str]]:
    """Ask once, and tell what is wrong with the scores or with what was left behind."""
    model = subject.settled
    before, generator = fingerprint(model), torch.get_rng_state()
    numbers = _numbers(model)
    scores = explainer.score_edges(model, graph, SEED)
    faults = []
    fault = fault_of(scores, graph)
    if fault is not None:
        faults.append(fault)
    touched = any(not torch.equal(now, numbers[name]) for name, now in _numbers(model).items())
    if touched or fingerprint(model) != before:
        faults.append("changed the model (parameters, buffers, gradients or the training flag)")
    if not torch.equal(torch.get_rng_state(), generator):
        faults.append("drew from torch's global generator")
    return (scores if fault is None else None), faults


def _by_itself(explainer: Explainer, subject: Subject, graph: ComputationGraph, together: EdgeScores) -> Iterator[str]:
    """Compare each query's scores in the batch with those alone and in the batch turned around."""
    count = graph.num_queries
    backwards = graph_of(subject, graph.queries.flip(0))
    turned = explainer.score_edges(subject.settled, backwards, SEED)
    for q in range(count):
        own = _of_query(together.values, graph, q)
        lone = graph_of(subject, graph.queries[q : q + 1])
        alone = explainer.score_edges(subject.settled, lone, SEED)
        if not torch.allclose(own, alone.values, rtol=0, atol=TOLERANCE):
            yield "scores a query differently alone than in a batch"
            return
        if not torch.allclose(own, _of_query(turned.values, backwards, count - 1 - q), rtol=0, atol=TOLERANCE):
            yield "scores a query differently when its batch is in another order"
            return
        if tuple(together.remarks[q : q + 1]) != tuple(alone.remarks):
            yield "makes other remarks on a query alone than in a batch"
            return


def _hard_graphs(graph: ComputationGraph) -> Iterator[tuple[str, ComputationGraph]]:
    """Give the graphs that are easily forgotten."""
    yield "where one query kept no edge", graph.pruned_to(graph.kept & (graph.query_of_edge != 1))
    yield "where no edge was kept", graph.pruned_to(torch.zeros_like(graph.kept))
    yield "where nothing was pruned", graph.pruned_to(torch.ones_like(graph.kept))


def _of_query(values: Tensor, graph: ComputationGraph, query: int) -> Tensor:
    return values[graph.query_of_edge == query]


def _numbers(model: Any) -> dict[str, Tensor]:
    if not isinstance(model, nn.Module):
        return {}
    return {name: tensor.detach().clone() for name, tensor in model.state_dict().items()}
