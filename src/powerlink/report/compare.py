"""A comparison of explainers as JSON, as Markdown and as one self-contained page."""

from __future__ import annotations

import math
from dataclasses import asdict
from typing import Any

from powerlink.verify.comparison import ModelComparison


def as_plain(compared: ModelComparison) -> dict[str, Any]:
    """Return a comparison as what JSON has; a number that is not there is null, and examples stay on the page."""
    plain = {name: value for name, value in asdict(compared).items() if name != "examples"}
    for rows in plain["tables"].values():
        for row in rows:
            for difference in row["differences"]:
                difference["significant"] = difference["low"] > 0 or difference["high"] < 0
    return dict(_finite(plain))


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
