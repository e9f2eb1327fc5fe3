"""ConvE (Dettmers et al., 2018): head and relation as a two-dimensional image, convolved."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from powerlink.errors import SettingsError
from powerlink.models.decoders.distmult import DistMult


class ConvE(DistMult):
    """vec(relu(conv([h; r]))) W · t."""

    def __init__(
        self,
        width: int,
        *,
        filters: int,
        kernel: int,
        image: tuple[int, int] | None,
        input_dropout: float,
        feature_dropout: float,
        hidden_dropout: float,
    ) -> None:
        super().__init__()
        self.image = image or squarest_image(width)
        rows, columns = self.image
        if rows * columns != width:
            raise SettingsError(f"ConvE's image {rows}×{columns} does not hold vectors of width {width}")
        kernel = min(kernel, 2 * rows, columns)
        features = filters * (2 * rows - kernel + 1) * (columns - kernel + 1)
        self.convolve = nn.Sequential(
            nn.BatchNorm2d(1),
            nn.Dropout(input_dropout),
            nn.Conv2d(1, filters, kernel),
            nn.BatchNorm2d(filters),
            nn.ReLU(),
            nn.Dropout2d(feature_dropout),
        )
        self.project = nn.Sequential(
            nn.Linear(features, width), nn.Dropout(hidden_dropout), nn.BatchNorm1d(width), nn.ReLU()
        )

    def query(self, head: Tensor, relation: Tensor) -> Tensor:
        """Return what is matched with tails: (n, d)."""
        image = torch.stack([head, relation], dim=1).view(-1, 1, 2 * self.image[0], self.image[1])
        out: Tensor = self.project(self.convolve(image).flatten(1))
        return out


def squarest_image(width: int) -> tuple[int, int]:
    """Fold a vector into the most nearly square image, taller side last."""
    rows = next(r for r in range(math.isqrt(width), 0, -1) if width % r == 0)
    return rows, width // rows
