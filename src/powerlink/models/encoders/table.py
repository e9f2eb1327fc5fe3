"""No encoder at all: a vector per entity and relation, which pass no messages. Most people's models are such."""

from __future__ import annotations

from typing import ClassVar

from torch import Tensor, nn

from powerlink.graphs.edges import Edges
from powerlink.models.encoders.layered import LayeredEncoder, Prepared
from powerlink.models.part import PartSettings, TableSettings


class Table(LayeredEncoder):
    """An encoder without layers: what is read of an entity is its own vector."""

    Settings: ClassVar[type[PartSettings]] = TableSettings

    default_layers: ClassVar[int] = 0

    def __init__(self, settings: TableSettings, num_entities: int, num_relations: int, widths: tuple[int, ...]) -> None:
        super().__init__(settings, num_entities, num_relations, widths)
        self.layers = nn.ModuleList()
        self._scale = 1.0
        # Products of three small numbers have no slope to speak of: where every layer's norm is missing, what is drawn
        # must not be smaller for there being many entities.
        for table in (self.entity, self.relation):
            nn.init.normal_(table, std=widths[0] ** -0.5)

    def scale_output(self, scale: float) -> None:
        """Note how large vectors should be; products learn as well from less."""
        self._scale = scale

    def size_inputs(self) -> None:
        """Draw vectors of the size asked for: for distances, which learn nothing from points that are all far apart."""
        nn.init.normal_(self.entity, std=self._scale)
        nn.init.normal_(self.relation, std=self._scale)

    def prepare(self, graph: Edges) -> Prepared:
        """Nothing is offered."""
        return Prepared(None, self.relations_by_layer())

    def forward(self, graph: Edges, edge_weight: Tensor | None, prepared: Prepared) -> Tensor:
        """Return the nodes' own vectors (n, d)."""
        return graph.rows_of(self.entity).to(self.relation.dtype)
