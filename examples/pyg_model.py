"""Explain a PyG model: two RGCNConv layers and a DistMult decoder, trained here in a few seconds.

python examples/pyg_model.py
"""

import torch
from torch import Tensor, nn
from torch_geometric.nn import RGCNConv

import powerlink
from powerlink.adapters import DistMult, from_pyg


class Encoder(nn.Module):
    """As in PyG's own examples: a table of node vectors and two relational layers."""

    def __init__(self, num_nodes: int, num_types: int, width: int) -> None:
        super().__init__()
        self.node_emb = nn.Parameter(0.1 * torch.randn(num_nodes, width))
        self.conv1 = RGCNConv(width, width, num_types, num_blocks=4)
        self.conv2 = RGCNConv(width, width, num_types, num_blocks=4)

    def forward(self, edge_index: Tensor, edge_type: Tensor) -> Tensor:
        """Node vectors (num_nodes, width)."""
        x = self.conv1(self.node_emb, edge_index, edge_type).relu()
        x = nn.functional.dropout(x, 0.2, training=self.training)
        return self.conv2(x, edge_index, edge_type)


torch.manual_seed(0)
graph = powerlink.load_graph("atlas")
N, R = graph.num_entities, graph.num_relations
head, relation, tail = torch.from_numpy(graph.train.copy()).unbind(1)
edge_index = torch.stack([torch.cat([head, tail]), torch.cat([tail, head])])  # every fact, and its inverse …
edge_type = torch.cat([relation, relation + R])  # … as type r + R

encoder, decoder, rel_emb = Encoder(N, 2 * R, 32), DistMult(), nn.Embedding(R, 32)
optimizer = torch.optim.Adam([*encoder.parameters(), *rel_emb.parameters()], lr=0.02)
for _ in range(60):
    z = encoder(edge_index, edge_type)
    wrong = torch.randint(N, (4 * len(tail),))
    right = decoder(z[head], rel_emb(relation), z[tail])
    others = decoder(z[head.repeat(4)], rel_emb(relation.repeat(4)), z[wrong])
    loss = nn.functional.softplus(-right).mean() + nn.functional.softplus(others).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

session = from_pyg(encoder, decoder, graph, nodes="node_emb", relations=rel_emb)
print(session.name, "MRR", round(powerlink.rank(session).mrr, 2))
best = max(graph.test.tolist(), key=lambda fact: session.settled.score(session.whole, torch.tensor([fact])).item())
powerlink.show(powerlink.explain_many(session, torch.tensor([best])))
