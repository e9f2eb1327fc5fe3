"""The encoders and decoders by name: ours, and those that other packages register."""

from __future__ import annotations

from importlib.metadata import EntryPoint, entry_points
from typing import TypeVar

from powerlink.errors import ModelError, SettingsError
from powerlink.models.decoders import ComplEx, ConvE, DistMult, RotatE, TransE
from powerlink.models.decoders.decoder import Decoder
from powerlink.models.encoders import RGCN, WGCN, CompGCN, Table
from powerlink.models.encoders.layered import LayeredEncoder
from powerlink.models.part import PartSettings

Part = TypeVar("Part", LayeredEncoder, Decoder)

ENCODERS: dict[str, type[LayeredEncoder]] = {kind.Settings.name: kind for kind in (RGCN, WGCN, CompGCN, Table)}
DECODERS: dict[str, type[Decoder]] = {kind.Settings.name: kind for kind in (TransE, DistMult, ConvE, ComplEx, RotatE)}


def settings_by_part() -> dict[str, type[PartSettings]]:
    """Return what may be set of each of our encoders and decoders."""
    kinds = {name: kind.Settings for name, kind in ENCODERS.items()}
    return {**kinds, **{name: kind.Settings for name, kind in DECODERS.items()}}


def find_encoder(name: str) -> type[LayeredEncoder]:
    """Find an encoder by name, here or in the entry-point group `powerlink.encoders`."""
    return _find("encoder", name, ENCODERS, LayeredEncoder)


def find_decoder(name: str) -> type[Decoder]:
    """Find a decoder by name, here or in the entry-point group `powerlink.decoders`."""
    return _find("decoder", name, DECODERS, Decoder)


def _find(what: str, name: str, known: dict[str, type[Part]], kind: type[Part]) -> type[Part]:
    if name in known:
        return known[name]
    registered: dict[str, EntryPoint] = {point.name: point for point in entry_points(group=f"powerlink.{what}s")}
    if name not in registered:
        listed = ", ".join(map(repr, [*known, *registered]))
        raise SettingsError(f"there is no {what} {name!r}; there are {listed}")
    origin = f"the {what} {name} ({registered[name].value})"
    try:
        found = registered[name].load()
    except Exception as error:  # whatever a stranger's import may raise
        raise ModelError(f"{origin} cannot be loaded: {error}") from error
    if not (isinstance(found, type) and issubclass(found, kind) and found.Settings.name == name):
        raise ModelError(f"{origin} must be a {kind.__name__} whose Settings have the name {name!r}")
    return found
