"""ConvE (Dettmers et al., 2018): head and relation as a two-dimensional image, convolved."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from powerlink.kernels.dense_product import Linear
from powerlink.models.decoders.weightless import DistMult
from powerlink.models.part import ConvESettings, PartSettings, squarest_image


class ConvE(DistMult):
    """vec(relu(conv([h; r]))) W · t."""

    Settings = ConvESettings

    def __init__(self, settings: ConvESettings, width: int) -> None:
        super().__init__()
        self.image, kernel, features = _sizes(settings, width)
        filters = settings.filters
        self.kernel = kernel
        self.interleave = settings.interleave
        self.image_norm = ScalarNorm()
        self.image_dropout = nn.Dropout(settings.input_dropout)
        self.filters = nn.Linear(kernel * kernel, filters, bias=False)  # the norm behind it has one
        self.feature_norm = nn.BatchNorm1d(filters)
        self.feature_dropout = nn.Dropout(settings.feature_dropout)  # of whole feature maps
        self.project = nn.Sequential(
            Linear(features, width), nn.Dropout(settings.hidden_dropout), nn.BatchNorm1d(width), nn.ReLU()
        )

    @classmethod
    def numbers_per_query(cls, settings: PartSettings, width: int) -> int:
        """Return about how many numbers a step that learns holds for one query: its feature maps, there and back."""
        assert isinstance(settings, ConvESettings)
        return 4 * _sizes(settings, width)[2]

    def first_scale(self, width: int, num_entities: int) -> float:
        """Return how large an untrained encoder's vectors should be."""
        return 0.1  # queries come normalised: logits of tails as large would scatter widely

    def query(self, head: Tensor, relation: Tensor) -> Tensor:
        count, (rows, columns) = head.size(0), self.image
        # One above the other, filters see both only where the two images meet; with their numbers in turn, everywhere.
        image = self.image_norm(torch.stack([head, relation], dim=2 if self.interleave else 1))
        image = self.image_dropout(image).view(count, 2 * rows, columns)
        # One channel in, hundreds out: as a product of patches and filters, with the channels last, every step after it
        # reads memory in order.
        patches = image.unfold(1, self.kernel, 1).unfold(2, self.kernel, 1)  # (n, rows, columns, kernel, kernel)
        places = patches.size(1) * patches.size(2)
        patches = patches.reshape(count, places, self.kernel**2)
        features = self._features(patches) if patches.is_cuda else self._folded_features(patches)
        out: Tensor = self.project(features.flatten(1))  # (n, places·filters) → (n, d)
        return out

    def _features(self, patches: Tensor) -> Tensor:
        """Convolve, norm and drop in turn: (n, places, kernel²) → (n, places, filters)."""
        features: Tensor = self.feature_norm(self.filters(patches.flatten(0, 1))).relu()
        features = features.view(*patches.shape[:2], -1)
        if self.training:
            features = features * self.feature_dropout(features.new_ones(features.size(0), 1, features.size(2)))
        return features

    def _folded_features(self, patches: Tensor) -> Tensor:
        """The same in one product, which saves a CPU the norm's and the dropout's passes over the features.

        Not on a GPU, where features are bf16: the one model trained that way ended lower (validation MRR 0.347 for
        0.351); why was not found out.
        """
        count, places, _ = patches.shape
        patches = torch.cat([patches, patches.new_ones(count, places, 1)], dim=2)
        filters = self._normed_filters(patches)  # (kernel² + 1, filters)
        if self.training:  # dropping feature maps is dropping filters
            kept = self.feature_dropout(filters.new_ones(count, 1, filters.size(1)))
            return torch.bmm(patches, filters * kept).relu_()
        return (patches @ filters).relu_()

    def _normed_filters(self, patches: Tensor) -> Tensor:
        """Return the filters with the batch norm behind them, which they can do themselves: (kernel² + 1, filters).

        Features are linear in the patches (n, places, kernel² + 1), whose last number is 1, so that their mean and
        variance follow from the patches' own, and to scale and shift them is to scale and shift the filters.
        """
        filters, norm = self.filters.weight.t(), self.feature_norm  # (kernel², filters)
        mean, variance = norm.running_mean, norm.running_var
        assert mean is not None
        assert variance is not None
        assert norm.momentum is not None
        if self.training:
            flat = patches.flatten(0, 1)
            count = flat.size(0)
            products = flat.t() @ flat / count
            means = products[-1, :-1]
            spread = products[:-1, :-1] - torch.outer(means, means)
            batch_mean, batch_variance = means @ filters, (filters * (spread @ filters)).sum(0).clamp(min=0.0)
            with torch.no_grad():
                mean.lerp_(batch_mean, norm.momentum)
                variance.lerp_(batch_variance * (count / max(1, count - 1)), norm.momentum)
                if norm.num_batches_tracked is not None:
                    norm.num_batches_tracked.add_(1)
            mean, variance = batch_mean, batch_variance
        scale = norm.weight * (variance + norm.eps).rsqrt()
        return torch.cat([filters * scale, (norm.bias - mean * scale).unsqueeze(0)])


def _sizes(settings: ConvESettings, width: int) -> tuple[tuple[int, int], int, int]:
    """Return the image of one vector, the filters' height and width, and how many features they make."""
    rows, columns = settings.fitted((width,)).image or squarest_image(width)
    kernel = min(settings.kernel, 2 * rows, columns)
    return (rows, columns), kernel, settings.filters * (2 * rows - kernel + 1) * (columns - kernel + 1)


class ScalarNorm(nn.Module):
    """Batch norm of one channel, with one mean and one variance for all numbers; libraries are slow at that."""

    running_mean: Tensor
    running_var: Tensor

    def __init__(self, momentum: float = 0.1, eps: float = 1e-5) -> None:
        super().__init__()
        self.momentum, self.eps = momentum, eps
        self.weight, self.bias = nn.Parameter(torch.ones(1)), nn.Parameter(torch.zeros(1))
        self.register_buffer("running_mean", torch.zeros(1))
        self.register_buffer("running_var", torch.ones(1))

    def forward(self, numbers: Tensor) -> Tensor:
        """Normalise numbers of any shape."""
        mean, variance = self.running_mean, self.running_var
        if self.training:
            variance, mean = torch.var_mean(numbers, correction=0)
            with torch.no_grad():
                self.running_mean.lerp_(mean.expand(1), self.momentum)
                unbiased = variance * (numbers.numel() / max(1, numbers.numel() - 1))
                self.running_var.lerp_(unbiased.expand(1), self.momentum)
        return (numbers - mean) * (variance + self.eps).rsqrt() * self.weight + self.bias
