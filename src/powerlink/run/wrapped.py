"""An explainer around another: it answers as the other does, and something is noted on the way."""

from __future__ import annotations

from powerlink.explainers.protocol import Explainer, LooksEverywhere
from powerlink.paths.propose import Cost


class Wrapped:
    """Has the name, the cost and the reach of the explainer it is around."""

    def __init__(self, explainer: Explainer) -> None:
        self._explainer = explainer
        if isinstance(explainer, LooksEverywhere):
            self.looks_everywhere = True

    @property
    def name(self) -> str:
        return self._explainer.name

    @property
    def cost(self) -> Cost:
        return self._explainer.cost
