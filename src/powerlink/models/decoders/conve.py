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
        self.kernel = kernel
        self.image_norm = nn.BatchNorm1d(1)
        self.image_dropout = nn.Dropout(input_dropout)
        self.filters = nn.Linear(kernel * kernel, filters)
        self.feature_norm = nn.BatchNorm1d(filters)
        self.feature_dropout = nn.Dropout(feature_dropout)  # of whole feature maps
        self.project = nn.Sequential(
            nn.Linear(features, width), nn.Dropout(hidden_dropout), nn.BatchNorm1d(width), nn.ReLU()
        )

    def query(self, head: Tensor, relation: Tensor) -> Tensor:
        """Return what is matched with tails: (n, d)."""
        count, (rows, columns) = head.size(0), self.image
        image = self.image_norm(torch.stack([head, relation], dim=1).view(count, 1, -1))
        image = self.image_dropout(image).view(count, 1, 2 * rows, columns)
        # One channel in, hundreds out: as a product of patches and filters, with the channels last, every step after it
        # reads memory in order.
        patches = nn.functional.unfold(image, self.kernel).transpose(1, 2)  # (n, places, kernel²)
        features = self.filters(patches).flatten(0, 1)  # (n·places, filters)
        features = self.feature_norm(features).relu().view(count, -1, self.filters.out_features)
        if self.training:
            features = features * self.feature_dropout(features.new_ones(count, 1, features.size(2)))
        out: Tensor = self.project(features.flatten(1))
        return out


def squarest_image(width: int) -> tuple[int, int]:
    """Fold a vector into the most nearly square image, taller side last."""
    rows = next(r for r in range(math.isqrt(width), 0, -1) if width % r == 0)
    return rows, width // rows
