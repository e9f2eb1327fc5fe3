"""How a command names several things at once: models of one graph, and lists with commas."""

from __future__ import annotations

from collections.abc import Sequence

from powerlink.cli.console import pick_device
from powerlink.cli.options import Device
from powerlink.errors import MismatchError, SettingsError
from powerlink.models.subject import Subject
from powerlink.sources import open_model


def listed(option: str, text: str) -> list[str]:
    """Return the names in an option's text."""
    names = [name.strip() for name in text.split(",") if name.strip()]
    if not names:
        raise SettingsError(f"{option} names nothing: expected names with commas between them")
    return names


def open_models(sources: Sequence[str], device: Device) -> dict[str, Subject]:
    """Open the models under names that tell them apart, refusing those of another graph and the same one twice."""
    loaded = {source: open_model(source, pick_device(device)) for source in dict.fromkeys(sources)}
    first, *others = loaded
    for source in others:
        if loaded[source].graph.fingerprint != loaded[first].graph.fingerprint:
            raise MismatchError(
                f"{first} and {source} are models of different graphs ({loaded[first].graph.name}, "
                f"{loaded[source].graph.name}): only models of one graph can be compared"
            )
    hashes = [subject.hash for subject in loaded.values()]
    for place, source in enumerate(loaded):
        if (earlier := hashes.index(loaded[source].hash)) < place:
            raise MismatchError(f"{list(loaded)[earlier]} and {source} are the same model: name it once")
    names = [subject.name for subject in loaded.values()]
    return {
        subject.name if names.count(subject.name) == 1 else f"{subject.name} ({source})": subject
        for source, subject in loaded.items()
    }
