"""What an explainer must not get wrong, checked cheaply whenever one is asked."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from powerlink.errors import ExplainerError
from powerlink.evidence import EvidenceBatch
from powerlink.explain_settings import MOST_FACTS
from powerlink.explainers.protocol import AnyExplainer, EdgeScores, Explainer, Oracle, Proposal, Proposer, Wish
from powerlink.graphs.computation_graph import ComputationGraph
from powerlink.models.protocol import LinkModel


def score_faithfully(explainer: Explainer, model: LinkModel, graph: ComputationGraph, seed: int) -> EdgeScores:
    """Ask an explainer for its scores, and refuse it by name if they, or what it left of the model, are not right."""
    with _watched(explainer, model):
        scores = explainer.score_edges(model, graph, seed)
        _refuse(explainer.name, fault_of(scores, graph))
    return scores


def propose_faithfully(proposer: Proposer, oracle: Oracle, graph: ComputationGraph, wish: Wish, seed: int) -> Proposal:
    """Ask a proposer for evidence, and refuse it by name if that, or what it left of the model, is not right."""
    with _watched(proposer, oracle.model):
        proposal = proposer.propose(oracle, graph, wish, seed)
        _refuse(proposer.name, fault_of_proposal(proposal, graph))
    return proposal


def _refuse(name: str, fault: str | None) -> None:
    if fault is not None:
        raise ExplainerError(f"the explainer {name} {fault}")


@contextmanager
def _watched(explainer: AnyExplainer, model: LinkModel) -> Iterator[None]:
    """Refuse who changes the model, or draws numbers that do not follow from the seed.

    Watching every call costs; our own explainers are held to this by tests.
    """
    judged = getattr(explainer, "watched", explainer)  # one that is looked at on its way is whom we ask
    name, ours = explainer.name, type(judged).__module__.startswith("powerlink.")
    before, generator, draws = fingerprint(model), torch.get_rng_state(), _Draws()
    with nullcontext() if ours else draws:
        yield
    if fingerprint(model) != before:
        _refuse(name, "changed the model it was to explain (parameters, gradients or the training flag)")
    if draws.seen and not torch.equal(torch.get_rng_state(), generator):
        _refuse(name, "drew from torch's global generator: numbers must follow from the seed and the query alone")


class _Draws(TorchFunctionMode):
    """Notices draws from torch's global generator in this thread; those of others are not the explainer's."""

    NAMES: ClassVar = {
        "bernoulli", "bernoulli_", "cauchy_", "dropout", "exponential_", "geometric_", "log_normal_", "multinomial",
        "normal", "normal_", "poisson", "rand", "rand_like", "randint", "randint_like", "randn", "randn_like",
        "randperm", "random_", "uniform_",
    }  # fmt: skip

    def __init__(self) -> None:
        super().__init__()
        self.seen = False

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if getattr(func, "__name__", "") in self.NAMES and kwargs.get("generator") is None:
            self.seen |= kwargs.get("training", True)  # dropout of a model that is asked draws nothing
        return func(*args, **kwargs)


def fault_of(scores: Any, graph: ComputationGraph) -> str | None:
    """Say what is wrong with scores of a graph, to be read behind the explainer's name; None if nothing is."""
    values = getattr(scores, "values", None)
    if not isinstance(values, Tensor):
        return f"must return EdgeScores, not {type(scores).__name__}"
    if scores.remarks and len(scores.remarks) != graph.num_queries:
        return f"returned remarks of {len(scores.remarks)} queries, and there are {graph.num_queries}"
    faults = (_fault_of_numbers(numbers, graph.kept) for numbers in (values, scores.by_route) if numbers is not None)
    return next((fault for fault in faults if fault), None)


def fault_of_proposal(proposal: Any, graph: ComputationGraph) -> str | None:
    """Say what is wrong with a proposal, to be read behind the proposer's name; None if nothing is."""
    if not isinstance(proposal, Proposal):
        return f"must return a Proposal, not {type(proposal).__name__}"
    if proposal.remarks and len(proposal.remarks) != graph.num_queries:
        return f"returned remarks of {len(proposal.remarks)} queries, and there are {graph.num_queries}"
    if fault := _fault_of_evidence(proposal.evidence, graph):
        return f"named evidence {fault}"
    return None if proposal.mask is None else _fault_of_numbers(proposal.mask, graph.kept)


def _fault_of_evidence(evidence: EvidenceBatch, graph: ComputationGraph) -> str | None:
    """Say the first thing that is wrong; each is looked at where those before it are right."""
    query, edges = evidence.query, evidence.edges
    columns = (query, evidence.cost, evidence.is_path)
    if edges.dim() != 2 or edges.is_floating_point() or any(c.shape != edges.shape[:1] for c in columns):
        return "whose query, edges, cost and is_path do not go together"
    if edges.size(1) > MOST_FACTS:
        return f"of {edges.size(1)} facts; {MOST_FACTS} are the most that can be judged"
    if not query.numel():
        return None
    there = edges >= 0
    gaps = ~there[:, :1].any(1) | (there[:, 1:] & ~there[:, :-1]).any(1)
    if bool(gaps.any()) or int(edges.max()) >= graph.num_edges:
        return "without facts, or with edges that are not in the graph"
    edge, outside = edges.clamp(min=0), (query < 0) | (query >= graph.num_queries)
    faults = {
        "with a cost that is not finite": ~evidence.cost.isfinite(),
        "that is not sorted by query": outside | (query.diff(prepend=query[:1]) < 0),
        "of another query's edges": there & (graph.query_of_edge[edge] != query.unsqueeze(1)),
        "with edges that it was not to use (pruned, or barred)": there & ~graph.kept[edge],
    }
    found = next((fault for fault, where in faults.items() if bool(where.any())), None)
    astray = "that it calls a path and that does not lead from head to tail"
    paths = evidence.is_path
    return found or (astray if _goes_astray(query[paths], edges[paths], graph) else None)


def _goes_astray(query: Tensor, edges: Tensor, graph: ComputationGraph) -> bool:
    """Tell whether any path (n, most) does not lead from its query's head to its tail."""
    there, edge = edges >= 0, edges.clamp(min=0)
    source, target = graph.source[edge], graph.target[edge]
    last = (there.sum(1) - 1).clamp(min=0).unsqueeze(1)
    ends = (source[:, 0] == graph.head[query]) & (target.gather(1, last).squeeze(1) == graph.tail[query])
    joined = (~there[:, 1:] | (source[:, 1:] == target[:, :-1])).all(1)
    return not bool((ends & joined).all())


def _fault_of_numbers(values: Tensor, kept: Tensor) -> str | None:
    if values.shape != kept.shape:
        return f"returned scores of shape {tuple(values.shape)}, and the graph has {kept.numel()} edges"
    if values.requires_grad:
        return "returned scores with a gradient: detach them"
    if not values.isfinite().all():
        return "returned scores that are not finite"
    inside, outside = values[kept], values[~kept]
    if not ((inside > 0) & (inside <= 1)).all():
        return f"returned scores from {inside.min().item():g} to {inside.max().item():g}; kept edges need (0, 1]"
    return "gave pruned edges a score other than 0" if outside.any() else None


def fingerprint(model: LinkModel) -> list[Any]:
    """Tell whether a torch model was touched: flags, gradients, and every number's place, version and sum."""
    if not isinstance(model, nn.Module):
        return []  # nothing is known of its insides
    tensors = [*model.parameters(), *model.buffers()]
    gradients = [t.grad for t in tensors]
    return [
        [module.training for module in model.modules()],
        [(t.data_ptr(), t._version, t.requires_grad) for t in tensors],
        [None if g is None else (g.data_ptr(), g._version) for g in gradients],
        # what is written through `.data` leaves the version as it was, but not the sum of the bits
        torch.stack([_sum_of_bits(t.detach()) for t in tensors]).tolist() if tensors else [],
    ]


def _sum_of_bits(numbers: Tensor) -> Tensor:
    """Add up a tensor's memory as whole numbers: at the memory's speed, and NaN is a number like any other."""
    flat = numbers.contiguous().view(-1)
    first, size = flat.storage_offset() * flat.element_size(), flat.numel() * flat.element_size()
    whole = torch.int64 if first % 8 == size % 8 == 0 else torch.uint8
    return flat.view(whole).sum()
