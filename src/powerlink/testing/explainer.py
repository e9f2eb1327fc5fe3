"""The contract of an explainer, as sentences about what it broke."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, is_dataclass
from typing import Any, get_args

import torch
from torch import Tensor

from powerlink.errors import ExplainerError
from powerlink.explainers.contract import fault_of, fault_of_proposal, fingerprint
from powerlink.explainers.protocol import AnyExplainer, EdgeScores, Explainer, Proposal, Proposer, Wish
from powerlink.graphs.computation_graph import ComputationGraph
from powerlink.models.session import Session
from powerlink.paths.propose import Cost
from powerlink.testing.link_model import state_of
from powerlink.testing.small_world import MODELS, PRUNING, WORLD_QUERIES, graph_of, small_session
from powerlink.verify.oracle import Removal

SEED = 5
TOLERANCE = 1e-4  # sums over another batch round differently, and a learner amplifies it


def check_explainer(explainer: AnyExplainer) -> None:
    """Hold an explainer to its contract; raise an ExplainerError that lists every promise it broke."""
    broken = broken_promises(explainer)
    if broken:
        raise ExplainerError("\n".join(broken))


def broken_promises(explainer: AnyExplainer) -> list[str]:
    """Return a sentence for every promise an explainer breaks on small models; none if it keeps its contract.

    | promise | meaning |
    |---|---|
    | a frozen dataclass | with `name`, and with `cost` if it scores edges |
    | scores | one per edge, finite, in (0, 1] on kept edges and 0 on pruned ones, without a gradient |
    | evidence, of a proposer | of kept edges of its own query, a path from head to tail, ten facts at most |
    | by itself | what is said of a query is the same alone, in any batch and in any order |
    | by the seed | the same seed gives the same, also where gradients are switched off |
    | no trace | the model's parameters, buffers, flags and gradients, and torch's generator, are as they were |
    | every query | also without a path, without a kept edge, and with none at all |
    """
    if faults := list(_form(explainer)):
        return [f"{getattr(explainer, 'name', type(explainer).__name__)} {fault}" for fault in faults]
    sessions = [small_session(encoder, decoder) for encoder, decoder in MODELS]
    return [
        f"{explainer.name} {fault} (with {session.name})"
        for session in sessions
        for answers in _kinds_of_answers(explainer)
        for fault in _behaviour(answers, session)
    ]


def _form(explainer: Any) -> Iterator[str]:
    """Check what can be seen without asking it anything."""
    if not is_dataclass(explainer) or not getattr(explainer, "__dataclass_params__").frozen:  # noqa: B009
        yield "must be a frozen dataclass"
    if not isinstance(getattr(explainer, "name", None), str) or not explainer.name:
        yield "must have a name"
    scores, proposes = (callable(getattr(explainer, method, None)) for method in ("score_edges", "propose"))
    if (scores or not proposes) and getattr(explainer, "cost", None) not in get_args(Cost):
        yield f"must have a cost: {' or '.join(get_args(Cost))}"
    if not scores and not proposes:
        yield "must have a method score_edges, or propose"


@dataclass(frozen=True)
class _Answers:
    """What an explainer is asked for, and how its answers are looked at."""

    called: str
    ask: Callable[[Session, ComputationGraph], Any]
    fault: Callable[[Any, ComputationGraph], str | None]
    numbers: Callable[[Any, ComputationGraph, int], list[Tensor]]  # what it says of one query, wherever that lies


def _kinds_of_answers(explainer: Any) -> Iterator[_Answers]:
    """Return what it can be asked for: scores, evidence, or both."""
    if callable(getattr(explainer, "score_edges", None)):
        yield _Answers("scores", _asking_scores(explainer), fault_of, _scores_of)
    if callable(getattr(explainer, "propose", None)):
        yield _Answers("evidence", _asking_evidence(explainer), fault_of_proposal, _evidence_of)


def _asking_scores(explainer: Explainer) -> Callable[[Session, ComputationGraph], Any]:
    return lambda session, graph: explainer.score_edges(session.settled, graph, SEED)


def _asking_evidence(proposer: Proposer) -> Callable[[Session, ComputationGraph], Any]:
    wish = Wish.of(PRUNING)
    return lambda session, graph: proposer.propose(Removal.of(session, graph), graph, wish, SEED)


def _scores_of(scores: EdgeScores, graph: ComputationGraph, query: int) -> list[Tensor]:
    return [scores.values[graph.query_of_edge == query]]


def _evidence_of(proposal: Proposal, graph: ComputationGraph, query: int) -> list[Tensor]:
    found = proposal.evidence.select((proposal.evidence.query == query).nonzero().squeeze(1))
    # edges by their place among the query's own; trailing padding is as wide as the batch's largest piece
    own = torch.where(found.edges >= 0, found.edges - graph.edge_row[query], -1)
    own = own[:, : int(found.size.max()) if found.count else 0]
    mask = [] if proposal.mask is None else [proposal.mask[graph.query_of_edge == query]]
    return [own, found.is_path, found.cost, *mask]


def _behaviour(answers: _Answers, session: Session) -> Iterator[str]:
    """Check what it does; if its very first answer is wrong, nothing more."""
    graph = graph_of(session, WORLD_QUERIES)
    first, faults = _asked(answers, session, graph)
    yield from faults
    if faults:
        return
    if not _same(answers, first, answers.ask(session, graph), graph):
        yield f"gave other {answers.called} when asked again with the same seed"
    with torch.no_grad():
        if not _same(answers, first, answers.ask(session, graph), graph):
            yield f"gave other {answers.called} where gradients are switched off"
    yield from _by_itself(answers, session, graph, first)
    for what, kept in (
        ("where one query kept no edge", graph.kept & (graph.query_of_edge != 1)),
        ("where no edge was kept", torch.zeros_like(graph.kept)),
        ("where nothing was pruned", torch.ones_like(graph.kept)),
    ):
        yield from (f"{fault}, {what}" for fault in _asked(answers, session, graph.pruned_to(kept))[1])


def _asked(answers: _Answers, session: Session, graph: ComputationGraph) -> tuple[Any, list[str]]:
    """Ask once, and say what is wrong with the answer or with what was left behind."""
    model = session.settled
    before, generator, state = fingerprint(model), torch.get_rng_state(), state_of(model)
    answer = answers.ask(session, graph)
    fault = answers.fault(answer, graph)
    faults = [] if fault is None else [fault]
    touched = any(not torch.equal(now, state[name]) for name, now in state_of(model).items())
    if touched or fingerprint(model) != before:
        faults.append("changed the model (parameters, buffers, gradients or the training flag)")
    if not torch.equal(torch.get_rng_state(), generator):
        faults.append("drew from torch's global generator")
    return answer, faults


def _same(answers: _Answers, one: Any, other: Any, graph: ComputationGraph) -> bool:
    """Tell whether two answers about a batch are the same to the last bit."""
    return all(
        _alike(answers.numbers(one, graph, q), answers.numbers(other, graph, q)) for q in range(graph.num_queries)
    )


def _by_itself(answers: _Answers, session: Session, graph: ComputationGraph, together: Any) -> Iterator[str]:
    """Compare what is said of each query in the batch with that alone and in the batch turned around."""
    backwards = graph_of(session, graph.queries.flip(0))
    turned = answers.ask(session, backwards)
    for q in range(graph.num_queries):
        own = answers.numbers(together, graph, q)
        other = answers.numbers(turned, backwards, graph.num_queries - 1 - q)
        single = graph_of(session, graph.queries[q : q + 1])
        alone = answers.ask(session, single)
        if not _alike(own, answers.numbers(alone, single, 0), TOLERANCE):
            yield f"gives a query other {answers.called} alone than in a batch"
            return
        if not _alike(own, other, TOLERANCE):
            yield f"gives a query other {answers.called} when its batch is in another order"
            return
        if tuple(together.remarks[q : q + 1]) != tuple(alone.remarks):
            yield "makes other remarks on a query alone than in a batch"
            return


def _alike(one: list[Tensor], other: list[Tensor], within: float = 0.0) -> bool:
    """Tell whether what is said of a query is the same, within a tolerance."""
    return len(one) == len(other) and all(
        a.shape == b.shape and torch.allclose(a.double(), b.double(), rtol=within, atol=within)
        for a, b in zip(one, other, strict=True)
    )
