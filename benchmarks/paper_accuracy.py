"""The paper's own accuracy of its eighteen models (its table "Metrics of the KGC models"), and what cannot be right."""

from __future__ import annotations

from dataclasses import dataclass

ROUNDING = 0.0005  # of figures with three decimals


@dataclass(frozen=True)
class Figures:
    """Filtered test accuracy as printed."""

    mrr: float
    hits_1: float
    hits_3: float
    hits_10: float

    @property
    def least_mrr(self) -> float:
        """The smallest MRR these hits allow: ranks at the far end of each range."""
        one, three, ten = self.hits_1, self.hits_3, self.hits_10
        return one + (three - one) / 3 + (ten - three) / 10

    @property
    def most_mrr(self) -> float:
        """The largest MRR these hits allow: ranks 1, 2, 4 and 11."""
        one, three, ten = self.hits_1, self.hits_3, self.hits_10
        return one + (three - one) / 2 + (ten - three) / 4 + (1 - ten) / 11

    @property
    def possible(self) -> bool:
        """Whether some ranks have these figures, each rounded to three decimals."""
        return self.least_mrr - 2 * ROUNDING <= self.mrr <= self.most_mrr + 2 * ROUNDING


PAPER = {
    "fb15k-237/compgcn-conve": Figures(0.352, 0.261, 0.385, 0.536),
    "fb15k-237/compgcn-distmult": Figures(0.343, 0.252, 0.376, 0.524),
    "fb15k-237/compgcn-transe": Figures(0.230, 0.246, 0.368, 0.510),
    "fb15k-237/rgcn-conve": Figures(0.430, 0.376, 0.461, 0.524),
    "fb15k-237/rgcn-distmult": Figures(0.380, 0.327, 0.414, 0.471),
    "fb15k-237/rgcn-transe": Figures(0.210, 0.132, 0.228, 0.474),
    "fb15k-237/wgcn-conve": Figures(0.319, 0.235, 0.349, 0.487),
    "fb15k-237/wgcn-distmult": Figures(0.272, 0.200, 0.295, 0.415),
    "fb15k-237/wgcn-transe": Figures(0.288, 0.213, 0.315, 0.434),
    "wn18rr/compgcn-conve": Figures(0.431, 0.395, 0.439, 0.515),
    "wn18rr/compgcn-distmult": Figures(0.431, 0.395, 0.439, 0.515),
    "wn18rr/compgcn-transe": Figures(0.206, 0.126, 0.276, 0.507),
    "wn18rr/rgcn-conve": Figures(0.464, 0.389, 0.472, 0.533),
    "wn18rr/rgcn-distmult": Figures(0.331, 0.311, 0.348, 0.402),
    "wn18rr/rgcn-transe": Figures(0.182, 0.132, 0.203, 0.396),
    "wn18rr/wgcn-conve": Figures(0.449, 0.413, 0.467, 0.521),
    "wn18rr/wgcn-distmult": Figures(0.320, 0.283, 0.337, 0.383),
    "wn18rr/wgcn-transe": Figures(0.118, 0.032, 0.165, 0.284),
}


def identical() -> list[tuple[str, str]]:
    """Return the pairs of models whose printed figures are all the same."""
    names = list(PAPER)
    return [(a, b) for i, a in enumerate(names) for b in names[i + 1 :] if PAPER[a] == PAPER[b]]
