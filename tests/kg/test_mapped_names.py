"""Names that are mapped into memory are the names that were written."""

from __future__ import annotations

import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from powerlink.errors import UnknownNameError
from powerlink.kg.knowledge_graph import Names
from powerlink.kg.mapped_names import map_names, write_names

TEXT = st.text(st.characters(codec="utf-8"), max_size=6)
NAMES = st.lists(TEXT, min_size=1, unique=True).flatmap(
    lambda ids: st.tuples(st.just(tuple(ids)), st.dictionaries(st.sampled_from(ids), TEXT))
)


def mapped(names, folder):
    write_names(names, folder / "names.arrow")
    return map_names(names.kind, folder / "names.arrow")


@given(NAMES)
def test_every_name_is_shown_and_found_as_before(tmp_path_factory, given_names):
    plain = Names("entity", *given_names)
    names = mapped(plain, tmp_path_factory.mktemp("names"))
    assert (len(names), names.ids, names.labels) == (len(plain), plain.ids, plain.labels)
    assert tuple(names.shown) == tuple(plain.shown)
    for i in range(len(plain)):
        assert names[i] == plain[i]
    for text in {*plain.ids, *plain.shown, *plain.labels.values(), "nobody", ""}:
        assert names.find(text) == plain.find(text)


def test_parts_of_them_are_read_as_of_a_tuple(tmp_path):
    names = mapped(Names("entity", ("c", "a", "b")), tmp_path)
    assert (names.ids[1], names.ids[-1], names.ids[:2], names.ids[::-1]) == ("a", "b", ("c", "a"), ("b", "a", "c"))
    assert (list(names.ids), "a" in names.ids, names.ids == ("c", "a")) == (["c", "a", "b"], True, False)
    with pytest.raises(IndexError):
        names.ids[3]
    assert pickle.loads(pickle.dumps(names)).index("b") == 2


def test_a_name_that_is_not_there_is_told_with_the_closest_ones(tmp_path):
    names = mapped(Names("entity", tuple(f"place {i}" for i in range(5000)), {"place 7": "Oslo"}), tmp_path)
    assert names.index("Oslo") == names.index("place 7") == 7
    with pytest.raises(UnknownNameError, match="did you mean 'Oslo'"):
        names.index("Osla")
    with pytest.raises(UnknownNameError, match="did you mean 'place 4000"):
        names.index("place 4000x")
    with pytest.raises(UnknownNameError, match="Oslo"):
        names.index("slo")
