"""Encoders as PyG's users write them: one of every supported layer, drawn or with reasons set by hand."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch_geometric.nn import FastRGCNConv, GATv2Conv, MessagePassing, RGATConv, RGCNConv, TransformerConv


class CompGCNStyle(MessagePassing):
    """A user's own layer: messages are node times relation, by direction, over the square root of degrees."""

    def __init__(self, width: int, num_types: int) -> None:
        super().__init__(aggr="add")
        self.num_types = num_types
        self.by_direction = nn.ModuleList(nn.Linear(width, width, bias=False) for _ in range(2))
        self.relation_map = nn.Linear(width, width, bias=False)

    def forward(self, x: Tensor, edge_index: Tensor, edge_type: Tensor, relations: Tensor) -> tuple[Tensor, Tensor]:
        out = torch.zeros_like(x)
        for direction, linear in enumerate(self.by_direction):
            chosen = (edge_type >= self.num_types // 2) == bool(direction)
            part = edge_index[:, chosen]
            degree = torch.bincount(part[1], minlength=x.size(0)).to(x.dtype).clamp(min=1).rsqrt()
            norm = degree[part[0]] * degree[part[1]]
            out = out + linear(self.propagate(part, x=x, relation=relations[edge_type[chosen]], norm=norm))
        return out, self.relation_map(relations)

    def message(self, x_j: Tensor, relation: Tensor, norm: Tensor) -> Tensor:
        return x_j * relation * norm.unsqueeze(1)


Make = Callable[[int, int], MessagePassing]  # width, number of edge types
LAYERS: dict[str, Make] = {
    "rgcn": lambda width, types: RGCNConv(width, width, types),
    "rgcn-bases": lambda width, types: RGCNConv(width, width, types, num_bases=2),
    "rgcn-blocks": lambda width, types: RGCNConv(width, width, types, num_blocks=2),
    "rgcn-sum": lambda width, types: RGCNConv(width, width, types, aggr="sum"),
    "fast-rgcn": lambda width, types: FastRGCNConv(width, width, types),
    "rgat": lambda width, types: RGATConv(width, width, types),
    "rgat-within": lambda width, types: RGATConv(width, width, types, attention_mechanism="within-relation"),
    "transformer": lambda width, types: TransformerConv(width, width // 2, heads=2, edge_dim=width),
    "gatv2": lambda width, types: GATv2Conv(width, width // 2, heads=2, edge_dim=width),
    "compgcn": CompGCNStyle,
}
WITH_FEATURES = TransformerConv | GATv2Conv


class Encoder(nn.Module):
    """Some layers of one kind over a table of its own, with tanh between them and dropout that must be off."""

    def __init__(self, make: Make, entities: int, width: int, types: int, layers: int) -> None:
        super().__init__()
        self.node_emb = nn.Parameter(torch.empty(entities, width))
        self.rel_emb = nn.Embedding(types, width)
        self.convs = nn.ModuleList(make(width, types) for _ in range(layers))
        nn.init.normal_(self.node_emb, std=0.3)

    def forward(self, edge_index: Tensor, edge_type: Tensor) -> Tensor | tuple[Tensor, Tensor]:
        x, relations = self.node_emb, self.rel_emb.weight
        for conv in self.convs:
            x = nn.functional.dropout(x, 0.3, self.training)
            if isinstance(conv, CompGCNStyle):
                out, relations = conv(x, edge_index, edge_type, relations)
            else:
                out = conv(x, edge_index, self.rel_emb(edge_type) if isinstance(conv, WITH_FEATURES) else edge_type)
            x = torch.tanh(x + out)
        return (x, relations) if isinstance(self.convs[0], CompGCNStyle) else x


def draw_encoder(name: str, entities: int, types: int, *, width: int = 8, layers: int = 2, seed: int = 0) -> Encoder:
    """An untrained float64 encoder in which nothing is trivial."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        encoder = Encoder(LAYERS[name], entities, width, types, layers).double()
        with torch.no_grad():
            for parameter in encoder.parameters():
                # RGATConv leaves one of its parameters uninitialised
                parameter.nan_to_num_(0.0).clamp_(-1.0, 1.0).add_(0.2 * torch.randn_like(parameter))
    return encoder.eval()


# Known reasoning: z = [own code, codes of those from whom a walk `first`, `second` leads here]


class Reasoner(nn.Module):
    """Two layers that pass codes on along one relation each: the score is the strength of walks first, then second."""

    def __init__(self, name: str, codes: int, types: int, hops: tuple[int, int]) -> None:
        super().__init__()
        self.codes, self.types = codes, types
        self.register_buffer("table", torch.cat([torch.eye(codes), torch.zeros(codes, codes + 1)], 1))
        self.register_buffer("features", torch.eye(types))
        own, passed = slice(0, codes), slice(codes, 2 * codes)
        self.layers = nn.ModuleList(
            _layer(name, 2 * codes + 1, types, hop, source, passed)
            for hop, source in zip(hops, (own, passed), strict=True)
        )

    def forward(self, edge_index: Tensor, edge_type: Tensor) -> Tensor:
        x = self.table
        for layer in self.layers:
            kind = self.features[edge_type] if isinstance(layer, WITH_FEATURES) else edge_type
            if isinstance(layer, CompGCNStyle):
                received, _ = layer(x, edge_index, edge_type, layer.relations)
            else:
                received = layer(x, edge_index, kind)
            own = torch.cat([x[:, : self.codes], torch.zeros_like(x[:, self.codes :])], dim=1)
            x = own + torch.relu(received)
        return x

    def decode(self, head: Tensor, relation: Tensor, tail: Tensor) -> Tensor:
        return 60 * (head[:, : self.codes] * tail[:, self.codes : 2 * self.codes]).sum(1) - 0.5


def _layer(name: str, width: int, types: int, hop: int, source: slice, target: slice) -> MessagePassing:
    """A layer that moves one block of a vector into another along one relation, and nothing else."""
    move = torch.zeros(width, width)  # row: input
    move[source, target] = torch.eye(target.stop - target.start)
    only = torch.zeros(types)
    only[hop] = 1.0
    makes: dict[str, Callable[[], MessagePassing]] = {
        "rgcn": lambda: RGCNConv(width, width, types, root_weight=False),
        "rgcn-bases": lambda: RGCNConv(width, width, types, num_bases=1, root_weight=False),
        "rgcn-blocks": lambda: RGCNConv(width, width, types, num_blocks=1, root_weight=False),
        "rgcn-sum": lambda: RGCNConv(width, width, types, aggr="sum", root_weight=False),
        "fast-rgcn": lambda: FastRGCNConv(width, width, types, root_weight=False),
        "rgat": lambda: RGATConv(width, width, types),
        "rgat-within": lambda: RGATConv(width, width, types, attention_mechanism="within-relation"),
        "transformer": lambda: TransformerConv(width, width, edge_dim=types, root_weight=False),
        "gatv2": lambda: GATv2Conv(width, width, edge_dim=types, fill_value=0.0, bias=False),
        "compgcn": lambda: CompGCNStyle(width, types),
    }
    layer = makes[name]()
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.zero_()
        if name == "rgcn-bases":
            layer.weight.copy_(move.unsqueeze(0))
            layer.comp.copy_(only.unsqueeze(1))
        elif name in ("rgcn", "rgcn-blocks", "rgcn-sum", "fast-rgcn", "rgat", "rgat-within"):
            layer.weight.copy_((only.view(types, 1, 1) * move).view(layer.weight.shape))
        elif name == "transformer":  # attention picks the relation; where there is none, the message is far below zero
            layer.lin_value.weight.copy_(move.t())
            layer.lin_query.bias[-1] = 10.0 * width**0.5
            layer.lin_edge.weight.copy_((only - 1).unsqueeze(0).expand(width, -1) * 4)
        elif name == "gatv2":  # attention picks the relation, else the self-loop
            layer.lin_l.weight.copy_(move.t())
            layer.att[..., -1] = 1.0
            layer.lin_edge.weight[-1] = 30 * only - 100 * (1 - only)
        else:
            layer.by_direction[0].weight.copy_(move.t())
            layer.relations = only.unsqueeze(1).expand(-1, width)
    return layer
