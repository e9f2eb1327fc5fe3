"""The contract of an explainer, as sentences about what it broke."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, is_dataclass
from typing import Any, get_args

import torch
from torch import Tensor

from powerlink.errors import ExplainerError
from powerlink.explainers.contract import fault_of, fault_of_proposal, fingerprint
from powerlink.explainers.protocol import AnyExplainer, Proposer, Remarks, Wish
from powerlink.graphs.computation_graph import ComputationGraph
from powerlink.models.session import Session
from powerlink.paths.propose import Cost
from powerlink.testing.link_model import state_of
from powerlink.testing.small_world import MODELS, PRUNING, WORLD_QUERIES, graph_of, small_session
from powerlink.verify.oracle import Removal

SEED = 5
PLAINLY = {"scores": "scores", "evidence": "names evidence of"}  # what an explainer does that differs
TOLERANCE = 1e-4  # sums over another batch round differently, and a learner amplifies it


@dataclass(frozen=True, eq=False)
class Said:
    """What an explainer or a proposer says of a batch."""

    graph: ComputationGraph
    values: Tensor | None  # (num_edges,) scores, or a proposer's mask
    remarks: Remarks
    evidence: list[list[tuple[bool, tuple[int, ...]]]]  # of each query, whether it is a path, and message edges

    def of(self, query: int) -> Said:
        """Return what is said of one query."""
        values = None if self.values is None else self.values[self.graph.query_of_edge == query]
        return Said(self.graph, values, self.remarks[query : query + 1], self.evidence[query : query + 1])

    def differs(self, other: Said | None, tolerance: float = 0.0) -> str | None:
        """Say what is not the same in another answer, None if all is; no answer at all is another one."""
        if other is None or (self.values is None) != (other.values is None):
            return "scores"
        mine, others = self.values, other.values
        if mine is not None and others is not None and not torch.allclose(mine, others, rtol=0, atol=tolerance):
            return "scores"
        return "evidence" if self.evidence != other.evidence else None


def check_explainer(explainer: AnyExplainer) -> None:
    """Hold an explainer or a proposer to its contract; raise an ExplainerError that lists every promise it broke."""
    broken = broken_promises(explainer)
    if broken:
        raise ExplainerError("\n".join(broken))


def broken_promises(explainer: AnyExplainer) -> list[str]:
    """Return a sentence for every promise an explainer breaks on small models; none if it keeps its contract.

    | promise | meaning |
    |---|---|
    | a frozen dataclass | with `name` and `cost`; a proposer needs no `cost` |
    | scores | one per edge, finite, in (0, 1] on kept edges and 0 on pruned ones, without a gradient; so is a mask |
    | evidence | of a proposer: kept edges of its own query, sorted by query, and paths lead from head to tail |
    | by itself | what is said of a query is the same alone, in any batch and in any order |
    | by the seed | the same seed says the same, also where gradients are switched off |
    | no trace | the model's parameters, buffers, flags and gradients, and torch's generator, are as they were |
    | every query | also without a path, without a kept edge, and with none at all |
    """
    if faults := list(_form(explainer)):
        return [f"{getattr(explainer, 'name', type(explainer).__name__)} {fault}" for fault in faults]
    sessions = [small_session(encoder, decoder) for encoder, decoder in MODELS]
    return [
        f"{explainer.name} {fault} (with {session.name})"
        for session in sessions
        for fault in _behaviour(explainer, session)
    ]


def _form(explainer: Any) -> Iterator[str]:
    """Check what can be seen without asking it anything."""
    if not is_dataclass(explainer) or not getattr(explainer, "__dataclass_params__").frozen:  # noqa: B009
        yield "must be a frozen dataclass"
    if not isinstance(getattr(explainer, "name", None), str) or not explainer.name:
        yield "must have a name"
    if callable(getattr(explainer, "propose", None)):
        return
    if getattr(explainer, "cost", None) not in get_args(Cost):
        yield f"must have a cost: {' or '.join(get_args(Cost))}"
    if not callable(getattr(explainer, "score_edges", None)):
        yield "must have a method score_edges, or propose"


def _behaviour(explainer: AnyExplainer, session: Session) -> Iterator[str]:
    """Check what it does; if its very first answer is wrong, nothing more."""
    graph = graph_of(session, WORLD_QUERIES)
    first, faults = _asked(explainer, session, graph)
    yield from faults
    if first is None or faults:
        return
    if what := first.differs(_say(explainer, session, graph)[0]):
        yield f"gave other {what} when asked again with the same seed"
    with torch.no_grad():
        if what := first.differs(_say(explainer, session, graph)[0]):
            yield f"gave other {what} where gradients are switched off"
    yield from _by_itself(explainer, session, graph, first)
    for what, kept in (
        ("where one query kept no edge", graph.kept & (graph.query_of_edge != 1)),
        ("where no edge was kept", torch.zeros_like(graph.kept)),
        ("where nothing was pruned", torch.ones_like(graph.kept)),
    ):
        yield from (f"{fault}, {what}" for fault in _asked(explainer, session, graph.pruned_to(kept))[1])


def _say(explainer: AnyExplainer, session: Session, graph: ComputationGraph) -> tuple[Said | None, str | None]:
    """Ask once; also say what is wrong with the answer, which then is none."""
    evidence: list[list[tuple[bool, tuple[int, ...]]]] = [[] for _ in range(graph.num_queries)]
    if not isinstance(explainer, Proposer):
        scores = explainer.score_edges(session.settled, graph, SEED)
        fault = fault_of(scores, graph)
        return (None, fault) if fault else (Said(graph, scores.values, scores.remarks, evidence), None)
    proposal = explainer.propose(Removal.of(session, graph), graph, Wish.of(PRUNING), SEED)
    if fault := fault_of_proposal(proposal, graph):
        return None, fault
    named = proposal.evidence
    for query, is_path, edges in zip(named.query.tolist(), named.is_path.tolist(), named.edges, strict=True):
        evidence[query].append((is_path, tuple(graph.edge[edges[edges >= 0]].tolist())))
    return Said(graph, proposal.mask, proposal.remarks, evidence), None


def _asked(explainer: AnyExplainer, session: Session, graph: ComputationGraph) -> tuple[Said | None, list[str]]:
    """Ask once, and say what is wrong with the answer or with what was left behind."""
    model = session.settled
    before, generator, state = fingerprint(model), torch.get_rng_state(), state_of(model)
    said, fault = _say(explainer, session, graph)
    faults = [] if fault is None else [fault]
    touched = any(not torch.equal(now, state[name]) for name, now in state_of(model).items())
    if touched or fingerprint(model) != before:
        faults.append("changed the model (parameters, buffers, gradients or the training flag)")
    if not torch.equal(torch.get_rng_state(), generator):
        faults.append("drew from torch's global generator")
    return said, faults


def _by_itself(explainer: AnyExplainer, session: Session, graph: ComputationGraph, together: Said) -> Iterator[str]:
    """Compare what is said of each query in the batch with that alone and in the batch turned around."""
    turned, _ = _say(explainer, session, graph_of(session, graph.queries.flip(0)))
    for q in range(graph.num_queries):
        own = together.of(q)
        alone, _ = _say(explainer, session, graph_of(session, graph.queries[q : q + 1]))
        if what := own.differs(alone, TOLERANCE):
            yield f"{PLAINLY[what]} a query differently alone than in a batch"
            return
        if what := own.differs(turned and turned.of(graph.num_queries - 1 - q), TOLERANCE):
            yield f"{PLAINLY[what]} a query differently when its batch is in another order"
            return
        if alone is None or tuple(own.remarks) != tuple(alone.remarks):
            yield "makes other remarks on a query alone than in a batch"
            return
