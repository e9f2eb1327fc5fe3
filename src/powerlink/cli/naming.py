"""How a command names several things at once: models of one graph, and lists with commas."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from powerlink.cli.console import Device, pick_device
from powerlink.errors import MismatchError, SettingsError
from powerlink.models.checkpoint import load_model
from powerlink.models.subject import Subject


def listed(option: str, text: str) -> list[str]:
    """Return the names in an option's text."""
    names = [name.strip() for name in text.split(",") if name.strip()]
    if not names:
        raise SettingsError(f"{option} names nothing: expected names with commas between them")
    return names


def load_models(folders: Sequence[Path], device: Device) -> dict[str, Subject]:
    """Load the models under names that tell them apart, refusing those of another graph and the same one twice."""
    loaded = {folder: load_model(folder, pick_device(device)) for folder in dict.fromkeys(folders)}
    first, *others = loaded
    for folder in others:
        if loaded[folder].graph.fingerprint != loaded[first].graph.fingerprint:
            raise MismatchError(
                f"{first} and {folder} are models of different graphs ({loaded[first].graph.name}, "
                f"{loaded[folder].graph.name}): only models of one graph can be compared"
            )
    hashes = [subject.hash for subject in loaded.values()]
    for place, folder in enumerate(loaded):
        if (earlier := hashes.index(loaded[folder].hash)) < place:
            raise MismatchError(f"{list(loaded)[earlier]} and {folder} are the same model: name it once")
    names = [subject.name for subject in loaded.values()]
    return {
        subject.name if names.count(subject.name) == 1 else f"{subject.name} ({folder})": subject
        for folder, subject in loaded.items()
    }
