"""ConvE's folded batch norm against the library's own convolution and norm."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from powerlink.models.decoders import ConvE

WIDTH, IMAGE, FILTERS, KERNEL = 24, (4, 6), 5, 3


class PlainConvE(nn.Module):
    """The same decoder as it is usually written, with the weights of another."""

    def __init__(self, other: ConvE) -> None:
        super().__init__()
        self.interleave = other.interleave
        self.image_norm = nn.BatchNorm2d(1)
        self.convolution = nn.Conv2d(1, FILTERS, KERNEL, bias=False)
        self.feature_norm = nn.BatchNorm2d(FILTERS)
        self.project = nn.Sequential(nn.Linear(other.project[0].in_features, WIDTH), nn.BatchNorm1d(WIDTH), nn.ReLU())
        self.double()
        with torch.no_grad():
            self.image_norm.load_state_dict(other.image_norm.state_dict() | {"num_batches_tracked": torch.tensor(0)})
            self.convolution.weight.copy_(other.filters.weight.view(FILTERS, 1, KERNEL, KERNEL))
            self.feature_norm.load_state_dict(other.feature_norm.state_dict())
            self.project[0].load_state_dict(other.project[0].state_dict())
            self.project[1].load_state_dict(other.project[2].state_dict())

    def forward(self, head: Tensor, relation: Tensor) -> Tensor:
        image = torch.stack([head, relation], dim=2 if self.interleave else 1)
        image = self.image_norm(image.view(-1, 1, 2 * IMAGE[0], IMAGE[1]))
        features = self.feature_norm(self.convolution(image)).relu()
        projected: Tensor = self.project(features.permute(0, 2, 3, 1).flatten(1))
        return projected


def conve(interleave: bool, feature_dropout: float = 0.0) -> ConvE:
    torch.manual_seed(0)
    settings = ConvE.Settings(
        filters=FILTERS,
        kernel=KERNEL,
        image=IMAGE,
        interleave=interleave,
        input_dropout=0.0,
        feature_dropout=feature_dropout,
        hidden_dropout=0.0,
    )
    decoder = ConvE(settings, WIDTH).double()
    with torch.no_grad():  # a norm that does nothing would prove nothing
        decoder.feature_norm.weight.uniform_(0.5, 2.0)
        decoder.feature_norm.bias.uniform_(-1.0, 1.0)
    return decoder


def vectors(count: int, mean: float = 0.3) -> tuple[Tensor, Tensor]:
    torch.manual_seed(1)
    head, relation = (mean + torch.randn(count, WIDTH, dtype=torch.float64) for _ in range(2))
    return head.requires_grad_(), relation.requires_grad_()


@pytest.mark.parametrize("interleave", [False, True])
def test_queries_their_slopes_and_the_running_norms_are_the_librarys(interleave):
    ours = conve(interleave)
    plain, given = PlainConvE(ours), vectors(7)
    slope = torch.randn(7, WIDTH, dtype=torch.float64, generator=torch.Generator().manual_seed(2))
    for _ in range(2):  # the second step reads what the first left in the running norms, if it should not
        found, expected = ours.query(*given), plain(*given)
        torch.testing.assert_close(found, expected, rtol=1e-10, atol=1e-12)
        learned = [ours.filters.weight, ours.feature_norm.weight, ours.feature_norm.bias, ours.project[0].weight]
        same = [plain.convolution.weight, plain.feature_norm.weight, plain.feature_norm.bias, plain.project[0].weight]
        one = torch.autograd.grad(found, [*given, *learned], slope)
        other = torch.autograd.grad(expected, [*given, *same], slope)
        for a, b in zip(one, other, strict=True):
            assert b.abs().max() > 0
            torch.testing.assert_close(a, b.view_as(a), rtol=1e-8, atol=1e-10)
    for name in ("running_mean", "running_var", "num_batches_tracked"):
        torch.testing.assert_close(getattr(ours.feature_norm, name), getattr(plain.feature_norm, name))
    ours.eval()
    plain.eval()
    torch.testing.assert_close(ours.query(*given), plain(*given), rtol=1e-10, atol=1e-12)


def test_both_ways_to_the_features_are_one():
    """A GPU takes the other way; here both can be walked."""
    decoder = conve(True)
    patches = torch.randn(6, 28, KERNEL**2, dtype=torch.float64, generator=torch.Generator().manual_seed(3))
    for training in (True, False):
        decoder.train(training)
        torch.testing.assert_close(decoder._features(patches), decoder._folded_features(patches))


def test_dropped_feature_maps_are_zero_everywhere_and_the_others_scaled():
    decoder, given = conve(True, feature_dropout=0.5), vectors(40)
    decoder.project = nn.Identity()  # so that queries are the features themselves
    dropped = decoder.query(*given).view(40, -1, FILTERS)
    decoder.feature_dropout.p = 0.0
    whole = decoder.query(*given).view(40, -1, FILTERS)
    alive = (dropped != 0).any(1)  # (n, filters)
    assert 0.3 < alive.double().mean() < 0.7
    torch.testing.assert_close(dropped, 2 * whole * alive.unsqueeze(1))
