"""The figure: the same drawing in matplotlib, with no global state and no warnings."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
from matplotlib._pylab_helpers import Gcf
from matplotlib.backends.backend_agg import FigureCanvasAgg

from powerlink.errors import OutputError, SettingsError
from powerlink.explanation import Explanation, Query, Status
from powerlink.report.drawing import lay_out
from powerlink.report.figure import draw, save_figure


def words(explanation: Explanation) -> list[str]:
    (axes,) = draw(explanation).axes
    return [text.get_text() for text in axes.texts]


def test_the_figure_shows_what_the_drawing_holds(france: Explanation) -> None:
    found = words(france)
    assert found[:2] == ["France ─located_in→ Europe", "score 7.31 (probability 62.5 %), rank 1 among tails"]
    drawing = lay_out(france)
    lines = [line for edge in drawing.edges for line in edge.lines]
    lines += [line for node in drawing.nodes for line in node.lines]
    assert found[2:-4] == lines
    assert found[-4:] == [
        "Width: the score's fall without that fact alone,",
        "0  to",
        "2.09",
        "Arrows point the way the facts do. Dashed: not seen by the model.",
    ]
    assert Gcf.figs == {}


def test_text_stays_inside_the_figure(france: Explanation) -> None:
    figure = draw(replace(france, status=Status.FAINT, remarks=("a long doubt " * 20,)))
    renderer = FigureCanvasAgg(figure).get_renderer()
    for text in figure.axes[0].texts:
        box = text.get_window_extent(renderer)
        assert box.x0 >= 0
        assert box.x1 <= figure.bbox.width
        assert box.y0 >= 0
        assert box.y1 <= figure.bbox.height


def test_a_figure_without_paths_says_why(no_path: Explanation) -> None:
    assert "score −1.20, rank 532 among heads; no path" in words(no_path)
    assert "not finite" in words(Explanation(Query("A", "r", "B"), Status.NOT_FINITE, None, None))


def test_a_figure_says_what_casts_doubt_on_it(france: Explanation, no_path: Explanation) -> None:
    doubted = replace(france, status=Status.FAINT, remarks=("the mask is 1 nearly everywhere",))
    found = words(doubted)
    above = " ".join(found[2 : found.index(lay_out(france).edges[0].lines[0])])
    assert Status.FAINT.meaning in above
    assert "The mask is 1 nearly everywhere." in above
    assert not any("Width" in text for text in words(no_path))


def test_dollars_are_dollars() -> None:
    name = "$x$ and $\\frac{1}{0}$"
    explanation = Explanation(Query(name, "r", "B"), Status.NO_PATH, None, None)
    figure = draw(explanation)
    assert not any(text.get_parse_math() for text in figure.axes[0].texts)
    assert words(explanation)[0] == f"{name} ─r→ B"


def test_hostile_names_are_drawn_without_warnings(hostile: Explanation, tmp_path: Path) -> None:
    for suffix in ("png", "svg", "pdf"):
        save_figure(hostile, tmp_path / f"figure.{suffix}")


@pytest.mark.parametrize(("suffix", "start"), [("png", b"\x89PNG"), ("svg", b"<?xml"), ("PDF", b"%PDF")])
def test_files_by_suffix_are_the_same_every_time(
    france: Explanation, tmp_path: Path, suffix: str, start: bytes
) -> None:
    for name in ("one", "two"):
        save_figure(france, tmp_path / f"{name}.{suffix}")
    one, two = ((tmp_path / f"{name}.{suffix}").read_bytes() for name in ("one", "two"))
    assert one.startswith(start)
    assert one == two


def test_files_that_cannot_be(france: Explanation, tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=re.escape("saved as .png, .svg, .pdf, not .gif")):
        save_figure(france, tmp_path / "figure.gif")
    with pytest.raises(SettingsError, match="without suffix"):
        save_figure(france, tmp_path / "figure")
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(OutputError, match="cannot be written"):
        save_figure(france, tmp_path / "file" / "figure.png")


def test_missing_folders_are_made(france: Explanation, tmp_path: Path) -> None:
    save_figure(france, tmp_path / "new" / "figure.svg")
    assert (tmp_path / "new" / "figure.svg").stat().st_size > 1000
