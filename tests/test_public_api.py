"""The public names, and the three lines of Python that the command line is equal to."""

from __future__ import annotations

import powerlink

PUBLIC = [
    "KnowledgeGraph",
    "load_graph",
    "ModelSettings",
    "TrainingSettings",
    "train",
    "open_model",
    "load_model",
    "Session",
    "LinkModel",
    "Embeddings",
    "rank",
    "predict",
    "explain",
    "explain_many",
    "ExplainSettings",
    "compare",
    "CompareSettings",
    "Workforce",
    "Slopes",
    "PowerLink",
    "PowerLinkPlus",
    "Gradient",
    "Random",
    "make_explainer",
    "fit_explainer",
    "Explanation",
    "Status",
    "evaluate",
    "read_explanations",
    "write_explanations",
    "show",
    "write_page",
    "save_figure",
]


def test_the_public_names_are_these_and_no_others():
    assert powerlink.__all__ == PUBLIC
    assert all(getattr(powerlink, name).__doc__ for name in PUBLIC)


def test_every_public_name_says_where_it_comes_from():
    for name in PUBLIC:
        assert getattr(powerlink, name).__module__.startswith("powerlink."), name


def test_the_package_is_used_in_a_few_lines(tmp_path, capsys):
    graph = powerlink.load_graph("atlas")
    shape, training = powerlink.ModelSettings(widths=(10, 10)), powerlink.TrainingSettings(epochs=1)
    powerlink.train(graph, tmp_path / "atlas", model=shape, training=training)
    model = powerlink.load_model(tmp_path / "atlas")
    powerlink.show(powerlink.explain(model, "France", "in_continent", "Europe", explainer=powerlink.PowerLink(steps=2)))
    assert capsys.readouterr().out.startswith("France ─in_continent→ Europe\nscore ")
    best = powerlink.predict(model, head="France", relation="in_continent", top=2)
    assert len(best) == 2
    found = powerlink.explain_many(model, [("France", "in_continent", "Europe"), ("Kenya", "in_continent", "Africa")])
    assert [e.query.head for e in found] == ["France", "Kenya"]
    powerlink.write_page(found, tmp_path / "page.html")
    assert (tmp_path / "page.html").stat().st_size > 1000
    assert 0 < powerlink.rank(model, "test").mrr < 1
    assert powerlink.evaluate(found, 0).figures


def test_a_session_is_still_found_under_its_old_name():
    assert powerlink.Subject is powerlink.Session
