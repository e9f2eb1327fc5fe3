"""Where many queries come from."""

from __future__ import annotations

import gzip

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

from builders import knowledge_graph, random_rows, settings_of
from powerlink.errors import DataError
from powerlink.graphs.computation_graph import extract
from powerlink.kg.knowledge_graph import KnowledgeGraph
from powerlink.models.link_model import build_model
from powerlink.models.session import Session
from powerlink.run.queries import choose_queries, read_queries
from powerlink.verify.verdict import standing_of

GRAPH = KnowledgeGraph.from_names("g", {"train": [("a b", "r", "c\td"), ("c\td", "r", 'e,"f"\u2028')]})
ROWS = [("a b", "r", "c\td"), ("c\td", "r", 'e,"f"\u2028')]


def test_queries_are_read_from_every_kind_of_table(tmp_path):
    expected = [list(GRAPH.triple(*row)) for row in ROWS]
    (tmp_path / "q.csv").write_text('head,relation,tail\na b,r,"c\td"\n"c\td",r,"e,""f""\u2028"\n', encoding="utf-8")
    columns = dict(zip(("head", "relation", "tail"), zip(*ROWS, strict=True), strict=True))
    pq.write_table(pa.table(columns), tmp_path / "q.parquet")
    for name in ("q.csv", "q.parquet"):
        assert read_queries(GRAPH, tmp_path / name).tolist() == expected
    (tmp_path / "q.tsv.gz").write_bytes(gzip.compress('a b\tr\te,"f"\u2028\n'.encode()))
    assert read_queries(GRAPH, tmp_path / "q.tsv.gz").tolist() == [list(GRAPH.triple("a b", "r", 'e,"f"\u2028'))]


def test_repeated_queries_and_line_ends_of_windows_are_read(tmp_path):
    (tmp_path / "q").write_bytes("\ufeffa b\tr\ta b\r\na b\tr\ta b\r\n\r\n".encode())
    assert read_queries(GRAPH, tmp_path / "q").shape == (2, 3)


def test_an_unknown_name_is_told_with_its_place(tmp_path):
    (tmp_path / "q.tsv").write_text("a b\tr\ta b\na c\tr\ta b\n")
    with pytest.raises(DataError, match=r"q\.tsv, triple 2: there is no entity named 'a c'; did you mean 'a b'"):
        read_queries(GRAPH, tmp_path / "q.tsv")


N, R = 14, 3


def session():
    model = build_model(settings_of("compgcn", "distmult", 1), N, R, 0).eval()
    return Session.of(knowledge_graph(random_rows(3, N, R, 45), N, R), model, "cpu", name="m", hash="h")


def test_of_no_queries_none_are_predicted():
    assert choose_queries(session(), torch.empty(0, 3, dtype=torch.long), "predicted").queries.shape == (0, 3)


@pytest.mark.parametrize("which", ["believed", "first", "predicted", "all"])
@pytest.mark.parametrize("limit", [None, 1, 5, 100])
@pytest.mark.parametrize("capped", [False, True])
@pytest.mark.parametrize("chunk", [3, 256])
def test_what_is_left_out_is_counted_up_to_the_last_one_taken(which, limit, capped, chunk):
    asked = session()
    queries = torch.tensor([(h, r, t) for h in range(N) for r in range(R) for t in range(4)])
    standing = standing_of(asked, queries)
    believed, first = standing.score > 0, standing.rank == 1
    wanted = {"believed": believed, "first": first, "predicted": believed | first, "all": standing.rank > 0}
    wanted = wanted[which].tolist()
    nodes = [extract(asked.messages, query.unsqueeze(0), 1).num_nodes for query in queries]
    most = sorted(nodes)[len(nodes) // 2] if capped else None
    taken, doubted, large, looked_at = [], 0, 0, 0
    for query, is_wanted, size in zip(queries.tolist(), wanted, nodes, strict=True):
        if limit is not None and len(taken) == limit:
            break
        looked_at += 1
        if not is_wanted:
            doubted += 1
        elif most is not None and size > most:
            large += 1
        else:
            taken.append(query)
    found = choose_queries(asked, queries, which, limit=limit, max_nodes=most, chunk=chunk)
    assert found.queries.tolist() == taken
    assert (found.looked_at, found.not_wanted, found.too_large) == (looked_at, doubted, large)
    assert large or not capped or limit is not None or which != "all", "some graphs are too large"
