"""powerlink inside PyG's Explainer: a relational link predictor, explained, scored and exported.

python examples/pyg_explainer.py
"""

import torch
from torch import Tensor, nn
from torch_geometric.explain import Explainer
from torch_geometric.nn import RGCNConv

import powerlink
from powerlink.pyg_explainer import PowerLinkExplainer, fidelity


class LinkPredictor(nn.Module):
    """Two RGCNConv layers; an edge's logit is the product of its ends, weighted by what is asked."""

    def __init__(self, num_types: int, width: int) -> None:
        super().__init__()
        self.conv1 = RGCNConv(width, width, num_types, num_blocks=4)
        self.conv2 = RGCNConv(width, width, num_types, num_blocks=4)
        self.asked = nn.Embedding(num_types, width)

    def forward(
        self, x: Tensor, edge_index: Tensor, edge_type: Tensor, edge_label_index: Tensor, edge_label_type: Tensor
    ) -> Tensor:
        """Logits of the edges in question, one per column of edge_label_index."""
        z = self.conv2(self.conv1(x, edge_index, edge_type).relu(), edge_index, edge_type)
        head, tail = z[edge_label_index]
        return (head * self.asked(edge_label_type) * tail).sum(-1)


torch.manual_seed(0)
graph = powerlink.load_graph("atlas")
head, relation, tail = torch.from_numpy(graph.train.copy()).unbind(1)
edge_index = torch.stack([torch.cat([head, tail]), torch.cat([tail, head])])
edge_type = torch.cat([relation, relation + graph.num_relations])
x = nn.Parameter(torch.randn(graph.num_entities, 32))
model = LinkPredictor(2 * graph.num_relations, 32)
optimizer = torch.optim.Adam([x, *model.parameters()], lr=0.01)
for _ in range(40):
    wrong = torch.randint(graph.num_entities, (len(tail),))
    ends = torch.stack([head.repeat(2), torch.cat([tail, wrong])])
    logits = model(x, edge_index, edge_type, ends, relation.repeat(2))
    loss = nn.functional.binary_cross_entropy_with_logits(logits, (torch.arange(len(logits)) < len(tail)).float())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

config = {"mode": "binary_classification", "task_level": "edge", "return_type": "raw"}
explainer = Explainer(model.eval(), PowerLinkExplainer(), "model", config, edge_mask_type="object")
h, r, t = graph.triple("Kenya", "in_continent", "Africa")
labels = {"edge_label_index": torch.tensor([[h], [t]]), "edge_label_type": torch.tensor([r])}
explanation = explainer(x.detach(), edge_index, edge_type=edge_type, **labels)
for path in explanation.paths[0]:
    print(" → ".join(graph.entities[int(edge_index[0, edge])] for edge in path), "→", graph.entities[t])
print(int(explanation.edge_mask.sum()), "edges; fid+ and fid−:", fidelity(explainer, explanation))
