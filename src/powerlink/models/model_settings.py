"""All that decides a model's shape. The parts themselves, which load torch, are looked up when one is made."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from powerlink.errors import SettingsError
from powerlink.models.part import PartSettings
from powerlink.settings import check_settings, setting, settings_of

ENCODER, DECODER = "compgcn", "distmult"  # unless said otherwise


@dataclass(frozen=True, init=False)
class ModelSettings:
    """All that decides a model's shape; saved beside its weights."""

    encoder: PartSettings
    decoder: PartSettings
    widths: tuple[int, ...]  # input, then each layer's output
    output_dropout: float = setting(0.2, "dropout on what the encoder returns", least=0, most=1)

    def __init__(
        self,
        *,
        encoder: PartSettings | str = ENCODER,
        decoder: PartSettings | str = DECODER,
        widths: Sequence[int] = (100, 100, 100),
        output_dropout: float = 0.2,
        **own: Any,
    ) -> None:
        """Take parts by their settings or by name, and beside them, as `own`, single settings of either."""
        from powerlink.models.catalog import find_decoder, find_encoder

        parts: dict[str, PartSettings] = {
            "encoder": find_encoder(encoder).Settings() if isinstance(encoder, str) else encoder,
            "decoder": find_decoder(decoder).Settings() if isinstance(decoder, str) else decoder,
        }
        if strange := own.keys() - _settings_of(*map(type, parts.values())):
            pair, name = "-".join(part.name for part in parts.values()), min(strange)
            raise SettingsError(f"{pair} has no setting {name!r}{_who_has(name)}")
        widths = tuple(widths)
        if not widths or min(widths) < 1:
            raise SettingsError(f"a model needs positive widths, not {widths}")
        for place, part in parts.items():
            theirs = {name: value for name, value in own.items() if name in settings_of(type(part))}
            object.__setattr__(self, place, replace(part, **theirs).fitted(widths))
        object.__setattr__(self, "widths", widths)
        object.__setattr__(self, "output_dropout", output_dropout)
        check_settings(self)

    @classmethod
    def described(cls, told: Mapping[str, Any]) -> ModelSettings:
        """Rebuild settings from what `asdict` made of them, or from the flat form of before, which told all parts'."""
        from powerlink.models.catalog import find_decoder, find_encoder, settings_by_part

        told = _with_tuples(told)
        if isinstance(told["encoder"], str):
            told = {"interleave": False} | told  # as ConvE was before it was a setting
            own = _settings_of(find_encoder(told["encoder"]).Settings, find_decoder(told["decoder"]).Settings)
            strange = _settings_of(*settings_by_part().values()) - own
            return cls(**{name: value for name, value in told.items() if name not in strange})
        encoder, decoder = _with_tuples(told.pop("encoder")), _with_tuples(told.pop("decoder"))
        return cls(
            encoder=find_encoder(encoder.pop("name")).Settings(**encoder),
            decoder=find_decoder(decoder.pop("name")).Settings(**decoder),
            **told,
        )

    @property
    def name(self) -> str:
        return f"{self.encoder.name}-{self.decoder.name}"

    def flat(self) -> dict[str, Any]:
        """Return all settings by name, the parts' own beside the model's."""
        own = asdict(self.encoder) | asdict(self.decoder)
        del own["name"]
        return {**vars(self), "encoder": self.encoder.name, "decoder": self.decoder.name, **own}


def _with_tuples(told: Mapping[str, Any]) -> dict[str, Any]:
    return {name: tuple(value) if isinstance(value, list) else value for name, value in told.items()}


def _settings_of(*kinds: type[PartSettings]) -> set[str]:
    return {name for kind in kinds for name in settings_of(kind)}


def _who_has(name: str) -> str:
    """Return the parts that do have a setting, to be added to a refusal; nothing where none has."""
    from powerlink.models.catalog import settings_by_part

    having = [part for part, kind in settings_by_part().items() if name in settings_of(kind)]
    return f"; {' and '.join(having)} {'has' if len(having) == 1 else 'have'} it" if having else ""
