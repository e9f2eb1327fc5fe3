"""powerlink explainers: who can propose evidence."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from powerlink.cli.console import console, print_json, shown
from powerlink.cli.options import JsonOption
from powerlink.errors import ExplainerError
from powerlink.settings import settings_of

if TYPE_CHECKING:
    from powerlink.explainers.catalog import Recipe

NameArgument = Annotated[str | None, typer.Argument(help="Show this one's settings.", show_default=False)]


def explainers(name: NameArgument = None, json: JsonOption = False) -> None:
    """List the explainers, what they propose and what they need, or the settings of one.

    One that needs messages weighs them, so it cannot explain a model that passes none.

    Example: powerlink explainers power-link
    """
    if name is None:
        rows = list(_lines())
        if json:
            print_json([dict(zip(("name", "is", "proposes", "needs"), row, strict=True)) for row in rows])
            return
        console.print(_table(rows))
        console.print("\nSettings of one: powerlink explainers NAME", soft_wrap=True)
        return
    from powerlink.explainers.catalog import find_recipe

    recipe = find_recipe(name)
    if json:
        told = {"name": name, "is": recipe.line, "proposes": recipe.proposes, "needs": recipe.needs}
        print_json({**told, "settings": _settings(recipe)})
        return
    console.print(f"{shown(name)}: {shown(recipe.line)}", soft_wrap=True)
    needs = f"; needs {recipe.needs}" if recipe.needs else ""
    console.print(f"proposes {recipe.proposes}{needs}", soft_wrap=True)
    _print_settings(recipe.kind, "--set name=value of `powerlink explain`", recipe.fixed)
    if recipe.fitting:
        _print_settings(recipe.fitting, "--set name=value of `powerlink fit`", {})


def _lines() -> Iterator[tuple[str, str, str, str]]:
    """Tell every explainer in a line; one of another package that cannot be loaded says why."""
    from powerlink.explainers.catalog import EXPLAINERS, find_recipe, registered_elsewhere

    for name in (*EXPLAINERS, *registered_elsewhere()):
        try:
            recipe = find_recipe(name)
            yield name, recipe.line, recipe.proposes, recipe.needs
        except ExplainerError as error:
            yield name, str(error), "", ""


def _settings(recipe: Recipe) -> dict[str, Any]:
    return {
        name: {"default": recipe.fixed.get(name, field.default), "means": field.metadata["help"]}
        for name, field in settings_of(recipe.kind).items()
    }


def _print_settings(kind: type, where: str, fixed: Any) -> None:
    settings = settings_of(kind)
    if not settings:
        console.print("It has no settings.")
        return
    console.print(f"\n{where}", soft_wrap=True)
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("setting", "default", "meaning"):
        table.add_column(column)
    for name, field in settings.items():
        default = f"{fixed[name]} (fixed)" if name in fixed else str(field.default)
        table.add_row(name, default, field.metadata["help"])
    console.print(table)


def _table(rows: Any) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("name", "what it is", "proposes", "needs"):
        table.add_column(column, no_wrap=column == "name")
    for row in rows:
        table.add_row(*(shown(cell) if cell else "" for cell in row))
    return table
