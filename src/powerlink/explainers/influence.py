"""What a model that passes no messages would have learned without each fact, to first order: no fit at all.

An entity's row z lies where the slopes of its facts' losses cancel out. Without one of them it moves by H⁻¹·∇loss,
where H is how the loss curves (Koh and Liang, 2017); CRIAGE (Pezeshkpour et al., 2019) reads H off the entity's own
facts, and so do we: H = Σ σ′(p)·∇p·∇pᵀ over both questions of each fact, with logits p. A fact that is gone becomes a
wrong answer, so its loss loses the slope 1·∇p.
"""

from __future__ import annotations

import torch
from torch import Tensor

from powerlink.graphs.computation_graph import ComputationGraph
from powerlink.graphs.edges import expand_rows, row_pointer
from powerlink.graphs.message_graph import inverse_relation
from powerlink.models.protocol import LinkModel, Retrainable
from powerlink.questions import asked, asking_of

DAMPING = 1.0  # times the mean curvature, in every direction: facts do not span them all
ENDS_AT_ONCE = 64


def influence(model: LinkModel, own: Retrainable, graph: ComputationGraph) -> Tensor:
    """Return the fall of each question's number without each of its ends' facts, in both directions: (num_edges,)."""
    whole = own.rows()
    rows = whole[graph.entity].requires_grad_()
    with torch.enable_grad():
        (pull,) = torch.autograd.grad(asked(model, own.stood_in(rows), asking_of(graph)).sum(), rows)
    falls = graph.norm.new_zeros(graph.num_edges)
    for ends in graph.ends.flatten().unique().split(ENDS_AT_ONCE):
        place, edge = expand_rows(graph.row, ends)
        falls[edge] += _falls(own, whole, graph, ends, place, edge, pull[ends]).to(falls.dtype)
    return falls + falls[graph.reverse]


def _falls(
    own: Retrainable, whole: Tensor, graph: ComputationGraph, ends: Tensor, place: Tensor, edge: Tensor, pull: Tensor
) -> Tensor:
    """Return the fall for edges (n,) into some ends, place (n,) among them; pull (ends, k) is the number's slope."""
    relation, other = graph.relation[edge], whole[graph.entity[graph.source[edge]]]
    rows = whole[graph.entity[ends]][place].requires_grad_()  # a copy for every fact, so that their slopes stay apart
    each = torch.arange(edge.numel(), device=edge.device)
    with torch.enable_grad():
        z, others = own.stood_in(rows), own.stood_in(other)
        out = own.queries(z, each, inverse_relation(relation, graph.num_relations)).match(others, each, each)
        into = own.queries(others, each, relation).match(z, each, each)
        slopes = [torch.autograd.grad(logit.sum(), rows, retain_graph=True)[0] for logit in (out, into)]
    curve = [(p.sigmoid() * (-p).sigmoid()).detach() for p in (out, into)]
    size = rows.size(1)
    hessian = rows.new_zeros(ends.numel(), size, size)
    row = row_pointer(place, ends.numel()).tolist()
    for end in range(ends.numel()):  # a product each: facts of one end lie side by side
        here = slice(row[end], row[end + 1])
        for slope, weight in zip(slopes, curve, strict=True):
            hessian[end] += (slope[here] * weight[here].unsqueeze(1)).t() @ slope[here]
    mean = hessian.diagonal(dim1=1, dim2=2).mean(1).clamp(min=torch.finfo(rows.dtype).tiny)
    hessian += (DAMPING * mean)[:, None, None] * torch.eye(size, dtype=rows.dtype, device=rows.device)
    direction = torch.linalg.solve(hessian.detach(), pull.unsqueeze(2)).squeeze(2)  # (ends, k)
    fall: Tensor = (direction[place] * (slopes[0] + slopes[1])).sum(1).detach()
    return fall
