"""Command-line flags made from dataclass fields: a setting exists once, in the class it belongs to."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import MISSING, Field
from typing import Annotated, Any, TypeVar, get_type_hints

import typer

from powerlink.errors import SettingsError
from powerlink.settings import fault_of, settings_of

Settings = TypeVar("Settings")

NO_DEFAULT = {
    "hops": "the model's layers",
    "cost": "the explainer's own",
    "blocks": "as many, up to 5, as divide them",
    "image": "the squarest",
    "workers": "one a core, or one a GPU",
    "gpus_per_worker": "1 where there are any",
    "ray": "one that is begun here",
    "batch_size": "256; 4096 of drawn neighbours",
    "neighbours": "all, or 10 where that does not fit",
    "negatives": "all, or 1024 where that does not fit",
    "ranked_facts": "all, or as many as take a minute or two",
}


def with_flags(
    panels: Mapping[str, type], only: Collection[str] | None = None
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command a flag for every setting of some dataclasses, or for `only` some, under panels in its help.

    The command receives those that were given as `given: dict[str, Any]`. A flag it has itself stays its own, and a
    setting of several classes is one flag.
    """

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        own = inspect.signature(command, eval_str=True).parameters
        fields: dict[str, Field[Any]] = {}
        derived: dict[str, inspect.Parameter] = {}
        for kind in panels.values():
            for name, field in settings_of(kind).items():
                if name not in own and name not in fields and (only is None or name in only):
                    having = ", ".join(panel for panel, other in panels.items() if name in settings_of(other))
                    fields[name], derived[name] = field, _parameter(kind, field, having)

        def run(**arguments: Any) -> None:
            given = {name: arguments.pop(name) for name in derived}
            given = {name: value for name, value in given.items() if value is not None}
            for name, value in given.items():
                fault = fault_of(value, fields[name].metadata)
                if isinstance(value, float) and not math.isfinite(value):
                    fault = "a finite number"
                if fault:
                    raise SettingsError(f"--{name.replace('_', '-')} must be {fault}, not {value}")
            command(**arguments, given=given)

        kept = [p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for name, p in own.items() if name != "given"]
        run.__signature__ = inspect.Signature([*kept, *derived.values()])  # type: ignore[attr-defined]
        run.__annotations__ = {p.name: p.annotation for p in [*kept, *derived.values()]}
        run.__doc__ = command.__doc__
        run.__name__ = command.__name__
        return run

    return decorate


def taken(given: dict[str, Any], kind: type[Settings]) -> Settings:
    """Take the settings of a class out of those that were given, and make it of them."""
    return kind(**{name: given.pop(name) for name in settings_of(kind) if name in given})


def _parameter(kind: type, field: Field[Any], panel: str) -> inspect.Parameter:
    hint = get_type_hints(kind)[field.name]
    default = NO_DEFAULT.get(field.name) if field.default is None else field.default
    assert field.default is not MISSING, "a setting has a default"
    option = typer.Option(
        help=f"{field.metadata['help']} [default: {default}]".replace("[", "\\["), rich_help_panel=panel
    )
    return inspect.Parameter(
        field.name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=Annotated[hint | None, option]
    )
