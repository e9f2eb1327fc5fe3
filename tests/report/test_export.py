"""Explanations in other tools say the same as in ours."""

from __future__ import annotations

import pytest
import torch
from variants import as_older

from builders import knowledge_graph
from powerlink.errors import MismatchError, SettingsError
from powerlink.explanation import Explanation, Query, Status
from powerlink.kg.knowledge_graph import KnowledgeGraph
from powerlink.report import export


def facts_of(explanation: Explanation) -> set[tuple[str, str, str]]:
    return {(f.head, f.relation, f.tail) for path in explanation.paths for f in path.facts}


def test_networkx_has_every_fact_once_in_its_stored_direction(france):
    graph = france.to_networkx()
    assert {(h, key, t) for h, t, key in graph.edges(keys=True)} == facts_of(france)
    assert graph.nodes["France"]["role"] == "head"
    assert graph.nodes["Europe"]["role"] == "tail"
    assert graph.nodes["Spain"]["role"] == "between"
    shared = graph.edges["Western Europe", "Europe", "part_of"]
    assert shared["paths"] == [1, 3]
    assert shared["worth"] == 1.0
    falls = [france.score - path.score_without for path in france.paths]
    assert graph.edges["France", "Spain", "borders"]["worth"] == pytest.approx(falls[1] / max(falls))
    assert graph.graph["score"] == france.score
    assert {(h, k, t): e for h, t, k, e in graph.edges(keys=True, data="effect")} == {
        (f.head, f.relation, f.tail): f.effect for path in france.paths for f in path.facts
    }
    assert graph.graph["together"] == [path.together for path in france.paths]
    assert graph.graph["witnesses"] == [1, 12, 1, 1, 1]
    assert graph.graph["deletion"] == list(france.deletion)


def test_a_data_frame_has_a_row_per_hop(france):
    frame = france.to_dataframe()
    assert len(frame) == sum(len(path.facts) for path in france.paths)
    assert list(frame.columns) == export.COLUMNS
    first = frame.iloc[0]
    assert (first["path"], first["hop"], first["head"], first["tail"]) == (1, 1, "France", "Western Europe")
    assert frame.groupby("path")["score_without"].first().tolist() == [path.score_without for path in france.paths]
    assert frame["effect"].tolist() == [fact.effect for path in france.paths for fact in path.facts]
    assert frame.groupby("path")["together"].first().tolist() == [path.together for path in france.paths]
    assert frame.groupby("path")["witnesses"].first().tolist() == [1, 12, 1, 1, 1]
    assert frame["inverse"].tolist() == [fact.inverse for path in france.paths for fact in path.facts]


def test_older_explanations_have_no_effects(france):
    older = as_older(france)
    assert {effect for *_, effect in older.to_networkx().edges(data="effect")} == {None}
    assert older.to_dataframe()[["effect", "together"]].isna().all(axis=None)


def test_pyg_gets_the_paths_with_names(france):
    made = france.to_pyg()
    assert made.validate()
    named = {
        (made.node_names[h], made.relation_names[r], made.node_names[t])
        for (h, t), r in zip(made.edge_index.t().tolist(), made.edge_type.tolist(), strict=True)
    }
    assert named == facts_of(france)
    assert made.node_names[:2] == ["France", "Europe"]
    assert made.edge_mask.max() == 1
    assert made.edge_mask.min() > 0


def test_pyg_gets_a_mask_over_the_graph(france):
    others = [("Peru", "borders", "Chile"), ("France", "borders", "Italy")]
    graph = KnowledgeGraph.from_names("some", {"train": [*sorted(facts_of(france)), *others]})
    made = france.to_pyg(graph)
    assert made.edge_mask.numel() == len(graph.train)
    assert int((made.edge_mask > 0).sum()) == len(facts_of(france))
    assert torch.equal(made.edge_index, torch.from_numpy(graph.train[:, [0, 2]].copy()).t())
    smaller = KnowledgeGraph.from_names("less", {"train": sorted(facts_of(france))[1:] + others})
    with pytest.raises(MismatchError, match="is not in this graph"):
        france.to_pyg(smaller)


def test_no_path_is_an_empty_graph():
    nothing = Explanation(Query("e0", "r0", "e1"), Status.NO_PATH, 1.0, 1.0)
    assert nothing.to_networkx().number_of_edges() == 0
    assert nothing.to_networkx().number_of_nodes() == 2
    assert nothing.to_dataframe().empty
    assert nothing.to_pyg().edge_index.shape == (2, 0)
    assert nothing.to_pyg(knowledge_graph([(0, 0, 1)], 2, 1)).edge_mask.tolist() == [0.0]


def test_a_missing_package_is_named(france, monkeypatch):
    def missing(name, *rest):
        raise ImportError(name)

    monkeypatch.setattr(export, "import_module", missing)
    with pytest.raises(SettingsError, match="pandas is not installed: python -m pip install pandas"):
        france.to_dataframe()
