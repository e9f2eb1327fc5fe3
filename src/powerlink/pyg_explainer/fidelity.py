"""Fidelity as PyG defines it, with masks that reach every layer.

PyG's own `fidelity` sets a mask on each layer and expects one propagation over all edges; a layer that propagates once
per relation, such as RGCNConv, fails there with a bare assertion.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch_geometric.explain import Explainer, Explanation
from torch_geometric.explain.config import ExplanationType, ModelMode

from powerlink.adapters.weighted_layers import Pass, run_detached
from powerlink.errors import SettingsError
from powerlink.models.session import undisturbed


def fidelity(explainer: Explainer, explanation: Explanation) -> tuple[float, float]:
    """Return fid+ and fid−, as torch_geometric.explain.metric.fidelity does: without, and with only, what is masked."""
    if explainer.model_config.mode == ModelMode.regression:
        raise SettingsError("fidelity compares predicted classes: there are none in regression")
    kept = explanation.edge_mask
    predictions = [_predict(explainer, explanation, weight) for weight in (torch.ones_like(kept), 1 - kept, kept)]
    index, target = explanation.get("index"), explanation.target
    if index is not None:
        predictions, target = [part[index] for part in predictions], target[index]
    whole, without, alone = (part == target for part in predictions)
    if explainer.explanation_type == ExplanationType.model:
        return float(1 - without.float().mean()), float(1 - alone.float().mean())
    return float((whole ^ without).float().mean()), float((whole ^ alone).float().mean())


@torch.no_grad()
def _predict(explainer: Explainer, explanation: Explanation, weight: Tensor) -> Tensor:
    arguments = {name: explanation[name] for name in explanation._model_args}
    with (
        undisturbed(explainer.model),
        Pass(explainer.model, explanation.edge_index, weight).weighing() as edge_index,
    ):
        out = run_detached(explainer.model, {}, explanation.x, edge_index, **arguments)
    classes: Tensor = explainer.get_target(out)
    return classes
