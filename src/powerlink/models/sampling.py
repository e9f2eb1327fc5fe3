"""Some of a large graph's edges, drawn anew for every training step: what it costs follows from what is drawn."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from powerlink.graphs.edges import expand_ranges
from powerlink.graphs.focus import EdgesByLevel
from powerlink.graphs.message_graph import MessageGraph
from powerlink.kernels.keyed_random import keyed_uniform_at, keys_of


@dataclass(frozen=True, eq=False)
class Drawn:
    """Some places of some rows: from each row at most so many, evenly spread, no place twice."""

    owner: Tensor  # (n,) which of the rows
    place: Tensor  # (n,) ascending in each row
    stands_for: Tensor  # (n,) how many places of its row, itself among them; 1 where all of a row are taken


def draw(row: Tensor, index: Tensor, most: int, keys: Tensor) -> Drawn:
    """Draw at most `most` places of the rows `index` of a pointer; each row's draw depends on its key alone.

    A row is cut into as many runs as places are drawn, equally long to one place, and each run gives one. A sum over
    what is drawn, times what it stands for, is then on average the sum over the row.
    """
    begin, size = row[index], row[index + 1] - row[index]
    taken = size.clamp(max=most)
    owner, number = expand_ranges(torch.zeros_like(taken), taken)
    taken, size = taken[owner], size[owner]
    first = number * size // taken
    length = (number + 1) * size // taken - first
    step = (keyed_uniform_at(keys[owner], number).double() * length).long()
    return Drawn(owner, begin[owner] + first + step, length)


@dataclass(frozen=True, eq=False, kw_only=True)
class SampledGraph(EdgesByLevel):
    """A drawn part of a graph around wanted nodes, to be passed once, with `weight` for its edges' weights.

    A parameter's rows are read as leaves, kept in `read`: their slopes are no larger than what was read.
    """

    weight: Tensor  # (num_edges,) how many edges of its target each stands for
    read: dict[nn.Parameter, Tensor] = field(default_factory=dict)  # rows (num_nodes, ·) by table

    def rows_of(self, table: Tensor) -> Tensor:
        if not isinstance(table, nn.Parameter):
            return super().rows_of(table)
        if table not in self.read:
            self.read[table] = table.detach().index_select(0, self.entity).requires_grad_(table.requires_grad)
        return self.read[table]


class Sampler:
    """Draws neighbourhoods in a graph: of each node at most `most` incoming edges, up to `layers` hops away."""

    def __init__(self, graph: MessageGraph, layers: int, most: int) -> None:
        self.graph, self.layers, self.most = graph, layers, most
        self._place = torch.full_like(graph.entity, -1)  # of an entity in the graph being drawn, −1 outside of it

    def __call__(self, wanted: Tensor, key: int) -> SampledGraph:
        """Draw around distinct wanted entities (n,), which become the graph's first nodes.

        What is drawn for a node depends on the key and the node alone. Exact where no node has more than `most` edges,
        for every model of that many layers in which a node reads only its incoming edges.
        """
        graph, place = self.graph, self._place
        levels, drawn, ends = [wanted], list[Drawn](), [wanted.numel()]
        place[wanted] = torch.arange(wanted.numel(), device=wanted.device)
        for _ in range(self.layers):
            nodes = levels[-1]
            drawn.append(draw(graph.row, nodes, self.most, keys_of(key, nodes)))
            source = graph.source[drawn[-1].place]
            met = source[place[source] < 0].unique()
            place[met] = torch.arange(ends[-1], ends[-1] + met.numel(), device=met.device)
            levels.append(met)
            ends.append(ends[-1] + met.numel())
        nothing = wanted[:0]  # a model without layers hears nobody
        entity, edge = torch.cat(levels), torch.cat([nothing, *(some.place for some in drawn)])
        source = place[graph.source[edge]]
        place[entity] = -1
        starts = [0, *ends]
        counts = torch.tensor([some.place.numel() for some in drawn]).cumsum(0)
        return SampledGraph(
            num_relations=graph.num_relations,
            entity=entity,
            source=source,
            target=torch.cat([nothing, *(some.owner + start for some, start in zip(drawn, starts, strict=False))]),
            relation=graph.relation[edge],
            norm=graph.norm[edge],
            nodes_within=tuple(ends),
            edges_within=tuple(counts.tolist()),
            weight=torch.cat([nothing, *(some.stands_for for some in drawn)]).to(graph.norm.dtype),
            level=torch.repeat_interleave(
                torch.arange(len(levels), device=edge.device),
                torch.tensor([len(n) for n in levels], device=edge.device),
            ),
        )
