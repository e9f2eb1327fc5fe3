"""How fast models of PyG's relational layers are explained, on a drawn graph of CoDEx-S's size: 33,000 facts.

Degrees are as uneven as in a real graph. Encoders are untrained (an untrained model costs the same), two layers wide
100, DistMult on top; queries are asked one by one, at defaults, as `explain` takes them. Seconds are the process's own,
user and system: on one thread and a machine of its own, those that pass. The paper's own figures are not measured.

    OMP_NUM_THREADS=1 python benchmarks/pyg_layers.py [--layers fast-rgcn,gatv2] [--queries 10]
"""

from __future__ import annotations

import argparse
import resource
import statistics
import time
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch_geometric.nn import FastRGCNConv, GATv2Conv, MessagePassing, RGATConv, RGCNConv

from powerlink import Session
from powerlink.adapters import from_pyg
from powerlink.kg.knowledge_graph import KnowledgeGraph, Names
from powerlink.run.explain_many import run_batches
from powerlink.run.job import ExplainJob
from powerlink.stage_clock import timed

ENTITIES, RELATIONS, FACTS, WIDTH = 2_034, 42, 33_000, 100
Make = Callable[[int, int], MessagePassing]  # width, number of edge types
LAYERS: dict[str, Make] = {
    "fast-rgcn": lambda width, types: FastRGCNConv(width, width, types),
    "rgcn": lambda width, types: RGCNConv(width, width, types),
    "gatv2": lambda width, types: GATv2Conv(width, width // 4, heads=4, edge_dim=width),
    "rgat": lambda width, types: RGATConv(width, width, types),
}


class Encoder(nn.Module):
    """Two layers of one kind over a table of its own."""

    def __init__(self, make: Make, types: int) -> None:
        super().__init__()
        self.node_emb = nn.Parameter(torch.randn(ENTITIES, WIDTH))
        self.rel_emb = nn.Embedding(types, WIDTH)
        self.convs = nn.ModuleList(make(WIDTH, types) for _ in range(2))

    def forward(self, edge_index: Tensor, edge_type: Tensor) -> Tensor:
        x: Tensor = self.node_emb
        for conv in self.convs:
            kind = self.rel_emb(edge_type) if isinstance(conv, GATv2Conv) else edge_type
            x = torch.tanh(conv(x, edge_index, kind))
        return x


def drawn_graph(seed: int = 0) -> KnowledgeGraph:
    """Draw facts with entities and relations as uneven as a power law makes them; the last hundred are for tests."""
    generator = torch.Generator().manual_seed(seed)

    def draw(size: int, power: float) -> Tensor:
        share = torch.arange(1, size + 1).double().pow(-power)
        return torch.multinomial(share, 3 * FACTS, replacement=True, generator=generator)

    head, relation, tail = draw(ENTITIES, 0.5), draw(RELATIONS, 1.0), draw(ENTITIES, 0.75)
    tail = torch.randperm(ENTITIES, generator=generator)[tail]  # who is often a tail need not often be a head
    rows = torch.stack([head, relation, tail], 1)[head != tail].unique(dim=0)
    rows = rows[torch.randperm(len(rows), generator=generator)[:FACTS]].numpy()
    entities = Names("entity", tuple(f"e{i}" for i in range(ENTITIES)))
    relations = Names("relation", tuple(f"r{i}" for i in range(RELATIONS)))
    return KnowledgeGraph("drawn", entities, relations, rows[:-100], rows[:0], rows[-100:])


def session_of(name: str, graph: KnowledgeGraph) -> Session:
    torch.manual_seed(0)
    encoder = Encoder(LAYERS[name], 2 * RELATIONS).eval()
    head, relation, tail = torch.from_numpy(graph.train.copy()).unbind(1)
    edge_index = torch.stack([torch.cat([head, tail]), torch.cat([tail, head])])
    edge_type = torch.cat([relation, relation + RELATIONS])
    begin = time.process_time()
    with torch.no_grad():
        encoder(edge_index, edge_type)
    own = time.process_time() - begin
    begin = time.process_time()
    session = from_pyg(encoder, "distmult", graph, nodes="node_emb", relations=encoder.rel_emb)
    print(f"{name}: own forward {own:.2f} s, from_pyg {time.process_time() - begin:.2f} s", flush=True)
    return session


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--layers", default=",".join(LAYERS), help=f"names with commas: {', '.join(LAYERS)}")
    parser.add_argument("--queries", type=int, default=10)
    arguments = parser.parse_args()
    graph = drawn_graph()
    degree = torch.from_numpy(graph.train[:, [0, 2]].copy()).flatten().bincount()
    print(f"{len(graph.train):,} facts, degrees: median {int(degree.median())}, most {int(degree.max())}")
    for name in arguments.layers.split(","):
        session = session_of(name, graph)
        queries = torch.from_numpy(graph.test[: arguments.queries].copy())
        seconds = []
        with timed() as spent:
            for query in queries.split(1):
                begin = time.process_time()
                explained = run_batches(session, query, ExplainJob())
                assert sum(len(result.explanations) for result in explained) == 1
                seconds.append(time.process_time() - begin)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
        print(
            f"  {statistics.mean(seconds):.2f} s an explanation (median {statistics.median(seconds):.2f}, most "
            f"{max(seconds):.2f}), peak {peak:.2f} GiB resident"
        )
        total = sum(part.clock for part in spent.values())
        stages = sorted(((part.clock, stage) for stage, part in spent.items()), reverse=True)
        print("  " + ", ".join(f"{stage} {part / total:.0%}" for part, stage in stages[:4]), flush=True)


if __name__ == "__main__":
    main()
