"""Is this a LinkModel? Every mistake we know of, found by asking the model and told in a sentence."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor, nn

from powerlink.graphs.computation_graph import ComputationGraph, extract
from powerlink.graphs.edges import Edges
from powerlink.graphs.message_graph import MessageGraph
from powerlink.graphs.what_if import Removals
from powerlink.kg.knowledge_graph import KnowledgeGraph
from powerlink.models.protocol import Embeddings, LinkModel, abilities_of, logits_by_weight
from powerlink.models.ranking import score_tails_of
from powerlink.models.session import undisturbed
from powerlink.verify.counterfactual import scores_without

TOLERANCE = 1e-4  # relative: single precision over a few layers


def check_link_model(model: Any, graph: KnowledgeGraph, device: torch.device | str = "cpu") -> list[str]:
    """Return what is wrong with a model, a sentence each; an empty list means that it can be explained on this graph.

    Checks that depend on a broken one are left out, so mend what is told and ask again.
    """
    messages = MessageGraph.of(graph, device)
    if not messages.num_edges:
        return ["the graph has no training facts, so there is nothing to pass messages over and nothing to check"]
    inspection = _Inspection(model, messages)
    before = state_of(model)
    seed = torch.get_rng_state()
    with undisturbed(model), torch.no_grad():
        of_messages = (inspection.constancy, inspection.reach)
        stages = (inspection.stand_ins,) if abilities_of(model).retrainable else of_messages
        for stage in (inspection.members, inspection.shapes, *stages):
            try:
                problems = list(stage())
            except Exception as error:
                problems = [f"asking the model raised {type(error).__name__}: {error}"]
            if problems:
                return problems
    problems = [
        f"asking the model changed its {name}: encode and score must leave parameters and buffers as they are"
        for name, value in state_of(model).items()
        if name not in before or not torch.equal(before[name], value)
    ]
    if not torch.equal(seed, torch.get_rng_state()):
        problems.append("asking the model drew random numbers: draw none in eval mode, or fork the generator")
    return problems


@dataclass(frozen=True, eq=False)
class _Inspection:
    """A model under question and the graphs it is asked on."""

    model: LinkModel
    graph: MessageGraph

    def members(self) -> Iterator[str]:
        """num_layers, encode and score are there."""
        layers = getattr(self.model, "num_layers", None)
        least = 0 if abilities_of(self.model).retrainable else 1
        if not isinstance(layers, int) or layers < least:
            yield f"num_layers must be how many hops a message can travel, a whole number from {least}, not {layers!r}"
        for signature in ("encode(graph, edge_weight=None)", "score(embeddings, triples)"):
            if not callable(getattr(self.model, signature.partition("(")[0], None)):
                yield f"the model has no method {signature}"

    def shapes(self) -> Iterator[str]:
        """Encode returns rows for nodes and relations, and score a number per triple."""
        found: Any = self.model.encode(self.graph)
        if not isinstance(found, Embeddings):
            yield f"encode must return powerlink.Embeddings(entity, relation), not {type(found).__name__}"
            return
        for graph in (self.graph, self._two_copies[0]):
            alike = abilities_of(self.model).retrainable is None  # else nobody reads both vectors side by side
            if wrong := list(_wrong_shapes(self.model.encode(graph), graph, alike)):
                yield from wrong
                return
        if not bool(found.entity.isfinite().all()):
            yield "encode gives NaN or infinite numbers on the whole graph"
        logits: Any = self.model.score(found, self._triples)
        if not isinstance(logits, Tensor) or logits.shape != (len(self._triples),):
            shape = tuple(logits.shape) if isinstance(logits, Tensor) else type(logits).__name__
            yield f"score must return one logit per triple, ({len(self._triples)},) here, not {shape}"
        elif not logits.is_floating_point():
            yield f"score must return floating-point logits, not {logits.dtype}"

    def stand_ins(self) -> Iterator[str]:
        """Of a model that passes no messages: its own rows, stood in for themselves, say what it says."""
        own, found = abilities_of(self.model).retrainable, self.model.encode(self.graph)
        assert own is not None
        head, relation, tail = self._triples.unbind(1)
        there = own.stood_in(own.rows())
        logits = self.model.score(found, self._triples)
        if not _same(self.model.score(there, self._triples), logits):
            yield "stand-ins with the entities' own rows are scored otherwise than the entities"
            return
        queries, place = own.queries(there, head, relation), torch.arange(head.numel(), device=head.device)
        if not _same(queries.match(there, place, tail), logits):
            yield "queries.match and score disagree about the same triple"
        if not _same(queries.match_all(there).gather(1, tail.unsqueeze(1)).squeeze(1), logits):
            yield "queries.match_all and score disagree about the same triple"
        yield from self._tails()

    def constancy(self) -> Iterator[str]:
        """The same question gets the same answer, about the graph that is given."""
        plain = self.model.encode(self.graph).entity
        if not torch.equal(plain, self.model.encode(self.graph).entity):
            yield (
                "the same graph gets different vectors each time, also in eval mode: dropout or sampling is left on "
                "(give functional dropout training=self.training)"
            )
            return
        empty = self.model.encode(_subgraph(self.graph, torch.zeros_like(self.graph.source, dtype=torch.bool))).entity
        if _same(plain, empty):
            yield (
                "encode gives the same vectors without any edges: the graph is baked into the model, or it passes no "
                "messages; pass messages over graph.source and graph.target"
            )
            return
        copies, node = self._two_copies
        if not _same(self.model.encode(copies).entity, plain[node]):
            yield (
                "a node that stands for the same entity with the same edges gets another vector when nodes are "
                "numbered otherwise: index parameters by graph.entity and the graph's tensors by node, and let a node "
                "read only its incoming edges"
            )

    def reach(self) -> Iterator[str]:
        """Edge weights multiply every message, differentiably, as far as num_layers says."""
        graph, ones = self.graph, torch.ones(self.graph.num_edges, device=self.graph.device)
        plain = self.model.encode(graph).entity
        if not _same(plain, self.model.encode(graph, ones).entity):
            yield "edge weights of one change the vectors: weight one must be the model as it is"
        kept = torch.arange(graph.num_edges, device=graph.device) % 2 == 0
        masked, deleted = self.model.encode(graph, ones * kept).entity, self.model.encode(_subgraph(graph, kept)).entity
        nothing = self.model.encode(graph, 0 * ones).entity
        empty = self.model.encode(_subgraph(graph, kept & ~kept)).entity
        if _same(plain, nothing):
            yield "encode ignores edge_weight: multiply every message by the weight of its edge"
            return
        if not _same(nothing, empty) or not _same(masked, deleted):
            yield (
                "an edge of weight zero is not the graph without that edge: multiply every message, in every layer, by "
                "the weight of its edge"
            )
        yield from self._gradient(ones)
        part = extract(graph, self._triples, self.model.num_layers)
        cut = self.model.score(self.model.encode(part), part.triples)
        if not _same(cut, self.model.score(self.model.encode(graph), self._triples)):
            yield (
                f"within num_layers = {self.model.num_layers} hops of head and tail the score is another than on the "
                "whole graph: messages travel further than num_layers says, or something is normalised over all nodes"
            )
        yield from self._tails()
        yield from self._prepared()
        yield from self._differences(part)

    def _gradient(self, ones: Tensor) -> Iterator[str]:
        with torch.enable_grad():
            weight = ones.clone().requires_grad_()
            score = self.model.score(self.model.encode(self.graph, weight), self._triples).sum()
            gradient = torch.autograd.grad(score, weight, allow_unused=True)[0] if score.requires_grad else None
        if gradient is None or not bool(gradient.isfinite().all()):
            what = "has no gradient" if gradient is None else "has a gradient that is NaN or infinite"
            yield f"the score {what} by edge_weight: leave out no_grad, detach, rounding and numpy on the way to it"

    def _tails(self) -> Iterator[str]:
        score_tails = abilities_of(self.model).score_tails
        if score_tails is None:
            return
        found = self.model.encode(self.graph)
        head, relation = self._triples[:, 0], self._triples[:, 1]
        tails = score_tails(found, head, relation)
        if tails.shape != (head.numel(), self.graph.num_nodes):
            yield f"score_tails must return {(head.numel(), self.graph.num_nodes)}, not {tuple(tails.shape)}"
        elif not _same(tails.gather(1, self._triples[:, 2:]).squeeze(1), self.model.score(found, self._triples)):
            yield "score_tails and score disagree about the same triple"
        elif not _same(tails, score_tails_of(self.model, found, found, head, relation)):
            yield "score_tails_of and score_tails disagree about the same triple"

    def _prepared(self) -> Iterator[str]:
        weight = torch.linspace(0, 1, self.graph.num_edges, device=self.graph.device)
        prepared = logits_by_weight(self.model, self.graph, self._triples)(weight)
        if not _same(prepared, self.model.score(self.model.encode(self.graph, weight), self._triples)):
            yield "prepare_logits and score disagree about the same triple"

    def _differences(self, graph: ComputationGraph) -> Iterator[str]:
        """A fact is taken out as a difference of sums where a model says that it adds up messages."""
        into_head = (graph.target[graph.kept_edges.index] == graph.head[graph.kept_edges.query]).nonzero().squeeze(1)
        if not into_head.numel():
            return
        edge = graph.kept_edges.index[into_head[:1]]
        scenario = graph.kept_edges.query[into_head[:1]]
        removals = Removals.of(graph, 1, torch.zeros_like(edge), edge)
        without = scores_without(self.model, graph, scenario, removals)
        left = torch.arange(graph.num_edges, device=graph.device) != edge
        weight = left.to(graph.norm.dtype)
        if not _same(without, self.model.score(self.model.encode(graph, weight), graph.triples[scenario])):
            yield (
                "a score without a fact is another than told: a model that says adds_messages must add its messages up "
                "by kernels.message_sum and read nothing else from its edges; else leave it out"
            )

    @cached_property
    def _triples(self) -> Tensor:
        """Questions that are not facts of the graph, both ways round, so that nothing of the graph is left out."""
        graph, size = self.graph, self.graph.num_nodes
        generator = torch.Generator().manual_seed(0)
        drawn = torch.stack(
            [torch.randint(high, (64,), generator=generator) for high in (size, 2 * graph.num_relations, size)], dim=1
        ).to(graph.device)
        number = (drawn[:, 2] * size + drawn[:, 0]) * (2 * graph.num_relations) + drawn[:, 1]
        facts = (graph.target * size + graph.source) * (2 * graph.num_relations) + graph.relation
        return drawn[~torch.isin(number, facts)][:8]

    @cached_property
    def _two_copies(self) -> tuple[Edges, Tensor]:
        """The graph twice over, its nodes shuffled, and the node of the graph behind each."""
        graph, size = self.graph, self.graph.num_nodes
        node = torch.randperm(2 * size, generator=torch.Generator().manual_seed(1)).to(graph.device)
        place = node.argsort()
        target, order = torch.cat([place[graph.target], place[graph.target + size]]).sort(stable=True)
        return (
            Edges(
                num_relations=graph.num_relations,
                entity=node % size,
                source=torch.cat([place[graph.source], place[graph.source + size]])[order],
                target=target,
                relation=graph.relation.repeat(2)[order],
                norm=graph.norm.repeat(2)[order],
            ),
            node % size,
        )


def _wrong_shapes(found: Embeddings, graph: Edges, alike: bool) -> Iterator[str]:
    for name, rows, count, meaning in (
        ("entity", found.entity, graph.num_nodes, "a row per node of the graph it is given"),
        ("relation", found.relation, 2 * graph.num_relations, "a row per relation and per inverse"),
    ):
        if rows.dim() != 2 or rows.size(0) != count:
            yield f"embeddings.{name} must have {meaning}, ({count}, d) here, not {tuple(rows.shape)}"
    if alike and found.entity.shape[1:] != found.relation.shape[1:]:
        yield (
            f"embeddings.entity and embeddings.relation must be equally wide, not {tuple(found.entity.shape)} and "
            f"{tuple(found.relation.shape)}: fill up the narrower one with zeros"
        )
    if found.bias is not None and found.bias.shape != (graph.num_nodes,):
        yield f"embeddings.bias must be ({graph.num_nodes},) here, not {tuple(found.bias.shape)}"


def _subgraph(graph: Edges, kept: Tensor) -> Edges:
    """The same nodes with some of the edges."""
    return Edges(
        num_relations=graph.num_relations,
        entity=graph.entity,
        source=graph.source[kept],
        target=graph.target[kept],
        relation=graph.relation[kept],
        norm=graph.norm[kept],
    )


def _same(one: Tensor, other: Tensor) -> bool:
    if not one.numel():
        return True
    scale = max(float(part.detach().abs().max()) for part in (one, other))
    return bool(torch.allclose(one, other.to(one.dtype), rtol=0, atol=TOLERANCE * scale))


def state_of(model: Any) -> dict[str, Tensor]:
    """Return a copy of a torch model's parameters and buffers."""
    state = model.state_dict() if isinstance(model, nn.Module) else {}
    return {name: value.clone() for name, value in state.items()}
