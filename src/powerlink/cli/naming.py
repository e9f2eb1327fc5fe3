"""How commands name models, and several things at once: models of one graph, and lists with commas."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from powerlink.cli.console import pick_device
from powerlink.cli.options import Device
from powerlink.errors import MismatchError, SettingsError
from powerlink.models.description import read_description, scheme_of

if TYPE_CHECKING:
    from powerlink.models.session import Session


def check_there(*sources: str) -> None:
    """Refuse a folder that holds no model, before anything is loaded that takes a while."""
    for source in sources:
        if scheme_of(source)[0] is None:
            read_description(Path(source))


def opened(source: str, device: Device, memory: int | None = None) -> Session:
    """Open a model where a wish says, if it fits into so many bytes of `memory`."""
    check_there(source)
    from powerlink.run.ceiling import allocator_bound, check_opening
    from powerlink.sources import open_model

    check_opening(Path(source), on := pick_device(device), memory)
    with allocator_bound(on, memory):
        return open_model(source, on)


def listed(option: str, text: str) -> list[str]:
    """Return the names in an option's text."""
    names = [name.strip() for name in text.split(",") if name.strip()]
    if not names:
        raise SettingsError(f"{option} names nothing: expected names with commas between them")
    return names


def open_models(sources: Sequence[str], device: Device) -> dict[str, Session]:
    """Open the models under names that tell them apart, refusing those of another graph and the same one twice."""
    check_there(*sources)
    loaded = {source: opened(source, device) for source in dict.fromkeys(sources)}
    first, *others = loaded
    for source in others:
        if loaded[source].graph.fingerprint != loaded[first].graph.fingerprint:
            raise MismatchError(
                f"{first} and {source} are models of different graphs ({loaded[first].graph.name}, "
                f"{loaded[source].graph.name}): only models of one graph can be compared"
            )
    hashes = [session.hash for session in loaded.values()]
    for place, source in enumerate(loaded):
        if (earlier := hashes.index(loaded[source].hash)) < place:
            raise MismatchError(f"{list(loaded)[earlier]} and {source} are the same model: name it once")
    names = [session.name for session in loaded.values()]
    return {
        session.name if names.count(session.name) == 1 else f"{session.name} ({source})": session
        for source, session in loaded.items()
    }
