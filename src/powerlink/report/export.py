"""An explanation for other tools: networkx, pandas and PyG."""

from __future__ import annotations

import contextlib
from dataclasses import astuple, fields
from importlib import import_module
from typing import TYPE_CHECKING, Any

from powerlink.errors import MismatchError, SettingsError, UnknownNameError
from powerlink.explanation import Explanation, Fact
from powerlink.kg.knowledge_graph import KnowledgeGraph
from powerlink.report.measures import fall_of

if TYPE_CHECKING:
    import networkx
    import pandas
    from torch_geometric.explain import Explanation as PyGExplanation

Triple = tuple[str, str, str]

COLUMNS = [
    *("path", "hop", *(field.name for field in fields(Fact))),
    *("path_score", "together", "witnesses", "score", "score_without", "rank", "rank_without", "proposed_by"),
]


def to_networkx(explanation: Explanation) -> networkx.MultiDiGraph:
    """Return the facts of all paths as a graph: stored directions, relations as keys, each fact's worth and effect."""
    graph = _optional("networkx").MultiDiGraph(
        head=explanation.query.head,
        relation=explanation.query.relation,
        tail=explanation.query.tail,
        status=explanation.status.value,
        score=explanation.score,
        together=[path.together for path in explanation.evidence],
        witnesses=[path.witnesses for path in explanation.evidence],
        deletion=list(explanation.deletion),
        remarks=list(explanation.remarks),
    )
    graph.add_node(explanation.query.head, role="head")
    graph.add_node(explanation.query.tail, role="tail")
    effects = {_triple(fact): fact.effect for path in explanation.evidence for fact in path.facts}
    for (head, relation, tail), (numbers, worth) in _facts(explanation).items():
        for name in (head, tail):
            if name not in graph:
                graph.add_node(name, role="between")
        effect = effects[head, relation, tail]
        graph.add_edge(head, tail, key=relation, relation=relation, paths=numbers, worth=worth, effect=effect)
    return graph


def to_dataframe(explanation: Explanation) -> pandas.DataFrame:
    """Return a row per hop of every path, with what the model says without that fact and without that path."""
    rows = []
    for number, path in enumerate(explanation.evidence, start=1):
        whole = (path.score, path.together, path.witnesses, explanation.score, path.score_without)
        ranks = (explanation.rank, path.rank_without)
        for hop, fact in enumerate(path.facts, start=1):
            rows.append((number, hop, *astuple(fact), *whole, *ranks, path.proposed_by))
    return _optional("pandas").DataFrame(rows, columns=COLUMNS)


def to_pyg(explanation: Explanation, graph: KnowledgeGraph | None = None) -> PyGExplanation:
    """Return edges with a mask, for PyG's plots and metrics; a fact's mask is its worth.

    Without a graph, nodes and edges are those of the paths, and `node_names` and `relation_names` name them. With the
    graph, nodes are its entities and edges its training facts, in order.
    """
    torch, pyg = _optional("torch"), _optional("torch_geometric.explain")
    worth = {fact: value for fact, (_, value) in _facts(explanation).items()}
    if graph is None:
        ends = [explanation.query.head, explanation.query.tail, *(n for h, _, t in worth for n in (h, t))]
        nodes, kinds = list(dict.fromkeys(ends)), list(dict.fromkeys(r for _, r, _ in worth))
        entity, relation = {n: i for i, n in enumerate(nodes)}, {r: i for i, r in enumerate(kinds)}
        rows = [(entity[h], relation[r], entity[t]) for h, r, t in worth]
        mask = list(worth.values())
    else:
        nodes, kinds = list(graph.entities.shown), list(graph.relations.shown)
        rows = list(map(tuple, graph.train.tolist()))
        place = {row: i for i, row in enumerate(rows)}
        mask = [0.0] * len(rows)
        for fact, value in worth.items():
            mask[_place_of(fact, graph, place)] = value
    head, kind, tail = torch.tensor(rows, dtype=torch.long).reshape(-1, 3).unbind(1)
    return pyg.Explanation(
        edge_index=torch.stack([head, tail]),
        edge_type=kind,
        edge_mask=torch.tensor(mask, dtype=torch.float),
        num_nodes=len(nodes),
        node_names=nodes,
        relation_names=kinds,
    )


def _facts(explanation: Explanation) -> dict[Triple, tuple[list[int], float]]:
    """List every fact once, with the numbers of its paths and its worth.

    A fact is worth what the best of its paths is: the fall of the score without it, as a share of the largest such
    fall. No fact of a path is worth nothing, so that none is taken for an edge outside all paths.
    """
    falls = [max(fall_of(explanation, path), 0.0) for path in explanation.evidence]
    largest = max(falls, default=0.0)
    found: dict[Triple, tuple[list[int], float]] = {}
    for number, (path, fall) in enumerate(zip(explanation.evidence, falls, strict=True), start=1):
        worth = max(fall / largest, 1e-3) if largest else 1.0
        for key in map(_triple, path.facts):
            numbers, best = found.get(key, ([], 0.0))
            found[key] = ([*numbers, number], max(best, worth))
    return found


def _place_of(fact: Triple, graph: KnowledgeGraph, place: dict[tuple[int, int, int], int]) -> int:
    with contextlib.suppress(UnknownNameError):
        row = graph.triple(*fact)
        if row in place:
            return place[row]
    raise MismatchError(f"the fact {' '.join(fact)} is not in this graph: give the one that was explained")


def _triple(fact: Fact) -> Triple:
    return fact.head, fact.relation, fact.tail


def _optional(name: str) -> Any:
    try:
        return import_module(name)
    except ImportError:
        package = name.split(".", maxsplit=1)[0]
        raise SettingsError(f"{package} is not installed: python -m pip install {package}") from None
