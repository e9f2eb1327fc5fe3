"""What an explainer must not get wrong, checked cheaply whenever one is asked."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from powerlink.errors import ExplainerError
from powerlink.evidence import MOST_FACTS, EvidenceBatch
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
    name, ours = explainer.name, type(explainer).__module__.startswith("powerlink.")
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
    query, edges, there = evidence.query, evidence.edges, evidence.edges >= 0
    if edges.size(1) > MOST_FACTS:
        return f"of {edges.size(1)} facts; {MOST_FACTS} are the most that can be judged"
    if not query.numel():
        return None
    if bool((query.diff() < 0).any()) or not 0 <= int(query[0]) <= int(query[-1]) < graph.num_queries:
        return "that is not sorted by query"
    if not there.any(1).all() or bool((there[:, 1:] & ~there[:, :-1]).any()) or int(edges.max()) >= graph.num_edges:
        return "without facts, or with edges that are not in the graph"
    theirs = graph.query_of_edge[edges.clamp(min=0)] != query.unsqueeze(1)
    return "of another query's edges" if bool((there & theirs).any()) else None


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
