"""Where models come from: a folder of ours, or SCHEME:REST for those of other tools. Every command takes each."""

from __future__ import annotations

import importlib
import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path

import torch

from powerlink.errors import ModelError, PowerlinkError, UnknownNameError
from powerlink.kg.remote_folder import fetched_folder
from powerlink.memory import ran_out_of_memory
from powerlink.models.checkpoint import load_model, read_settings
from powerlink.models.description import read_description, scheme_of
from powerlink.models.session import Session

GROUP = "powerlink.models"  # the entry-point group in which other packages register a scheme
Opening = Callable[[str, torch.device | str], Session]  # what is behind the scheme, and where to compute


def open_model(source: str | Path, device: torch.device | str = "cpu") -> Session:
    """Open a model: a folder made by `powerlink train`, `pykeen:DIR`, `pyg:MODULE:FUNCTION[:FILE]`, or another.

    A folder may lie elsewhere: `s3://…`, `gs://…`, and whatever pyarrow's or fsspec's file systems know.
    """
    scheme, rest = scheme_of(source)
    if scheme is None:
        return load_model(source, device)
    if rest.startswith("//"):
        return replace(load_model(fetched_folder(str(source)), device), source=str(source))
    opening = _opening(scheme)
    try:
        opened = opening(rest, device)
    except Exception as error:  # whatever a stranger's code may raise
        if isinstance(error, PowerlinkError) or ran_out_of_memory(error):
            raise
        raise ModelError(f"{source} cannot be opened ({type(error).__name__}: {error})") from error
    if not isinstance(opened, Session):
        raise ModelError(
            f"{source} gave a {type(opened).__name__}, not what from_pyg, from_pykeen or Session.of return"
        )
    return replace(opened, source=str(source))


@dataclass(frozen=True)
class Identity:
    """Which model it is."""

    name: str
    graph: str  # its name
    fingerprint: str  # of the graph
    hash: str


def identity_of(source: str | Path) -> Identity:
    """Tell which model a source holds; one of ours is not loaded for that."""
    if scheme_of(source)[0] is None:
        description = read_description(Path(source))
        settings, _ = read_settings(Path(source), description)
        graph = description["graph"]
        return Identity(settings.name, graph["name"], graph["fingerprint"], description["weights"])
    opened = open_model(source)
    return Identity(opened.name, opened.graph.name, opened.graph.fingerprint, opened.hash)


def _opening(scheme: str) -> Opening:
    registered = _registered()
    if scheme in OURS:
        return OURS[scheme]
    if scheme not in registered:
        raise UnknownNameError("kind of model", scheme, [*OURS, *registered])
    try:
        found: Opening = registered[scheme].load()
    except Exception as error:  # whatever a stranger's import may raise
        raise ModelError(
            f"models of the kind {scheme} ({registered[scheme].value}) cannot be opened: {error}"
        ) from error
    return found


@cache
def _registered() -> dict[str, EntryPoint]:
    return {point.name: point for point in entry_points(group=GROUP)}


def _open_pykeen(folder: str, device: torch.device | str) -> Session:
    """A folder that PyKEEN's result.save_to_directory wrote; its model is a pickle: open only what you trust."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of what PyKEEN imports: nobody here can mend it
        from powerlink.adapters.pykeen import load_pykeen  # noqa: PLC0415 - PyKEEN takes seconds to import

        return load_pykeen(folder, device)


def _open_pyg(named: str, device: torch.device | str) -> Session:
    """A factory, MODULE:FUNCTION[:FILE]: called with the file, if there is one, it returns what from_pyg does."""
    module, _, rest = named.partition(":")
    function, _, file = rest.partition(":")
    if not module or not function:
        raise ModelError(f"pyg:{named} must be pyg:MODULE:FUNCTION or pyg:MODULE:FUNCTION:FILE")
    if "" not in sys.path:
        sys.path.insert(0, "")  # the module may lie where the command is run
    try:
        factory = getattr(importlib.import_module(module), function)
    except (ImportError, AttributeError) as error:
        raise ModelError(f"pyg:{named} cannot be found: {error}") from error
    with torch.device(device):
        made: Session = factory(file) if file else factory()
    return made


OURS: dict[str, Opening] = {"pykeen": _open_pykeen, "pyg": _open_pyg}
