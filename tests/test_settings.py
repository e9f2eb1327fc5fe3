"""A setting says what it may be, and whoever breaks that is told so in a sentence."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from powerlink.errors import SettingsError
from powerlink.models.encoders import RGCN
from powerlink.models.link_model import ModelSettings
from powerlink.models.link_training import LinkTrainingSettings
from powerlink.models.training import TrainingSettings
from powerlink.settings import check_settings, setting, settings_of


@pytest.mark.parametrize(
    ("kind", "given", "said"),
    [
        (TrainingSettings, {"epochs": -3}, "epochs must be at least 1, not -3"),
        (TrainingSettings, {"batch_size": 0}, "batch_size must be at least 2, not 0"),
        (TrainingSettings, {"lr": 0.0}, "lr must be above 0, not 0.0"),
        (TrainingSettings, {"lr": float("nan")}, "lr must be a finite number, not nan"),
        (TrainingSettings, {"lr": "fast"}, "lr must be a finite number, not 'fast'"),
        (TrainingSettings, {"label_smoothing": 1.5}, "label_smoothing must be at most 1, not 1.5"),
        (TrainingSettings, {"schedule": "two-cycle"}, "schedule must be constant or one-cycle, not 'two-cycle'"),
        (TrainingSettings, {"patience": True}, "patience must be a finite number, not True"),
        (LinkTrainingSettings, {"epochs": -1}, "epochs must be at least 1, not -1"),
        (ModelSettings, {"output_dropout": 2.0}, "output_dropout must be at most 1, not 2.0"),
        (ModelSettings, {"decoder": "conve", "filters": 0}, "filters must be at least 1, not 0"),
        (RGCN.Settings, {"blocks": 0}, "blocks must be at least 1, not 0"),
        (ModelSettings, {"blocks": 5}, "compgcn-distmult has no setting 'blocks'; rgcn has it"),
        (ModelSettings, {"margin": 5}, "compgcn-distmult has no setting 'margin'; transe and rotate have it"),
        (ModelSettings, {"vibes": 5}, "compgcn-distmult has no setting 'vibes'"),
        (
            ModelSettings,
            {"decoder": "rotate", "widths": (8, 7)},
            "a complex vector's halves are real and imaginary: its width must be even, not 7",
        ),
        (
            ModelSettings,
            {"encoder": "rgcn", "widths": (7, 7), "blocks": 5},
            "RGCN's widths (7, 7) must divide by its number of blocks, 5",
        ),
    ],
)
def test_a_value_that_cannot_be_is_refused_in_a_sentence(kind, given, said):
    with pytest.raises(SettingsError) as refused:
        kind(**given)
    assert str(refused.value) == said


def test_a_default_of_none_stays_and_fields_that_are_no_settings_are_not_looked_at():
    @dataclass(frozen=True)
    class Mixed:
        free: int | None = setting(None, "where there is a bound, None is the default's alone", least=1)
        own: int = -5

    check_settings(Mixed())
    check_settings(Mixed(free=1))
    with pytest.raises(SettingsError, match="free must be at least 1, not 0"):
        check_settings(Mixed(free=0))
    assert list(settings_of(Mixed)) == ["free"]
    assert "evaluate_every" in settings_of(TrainingSettings)
