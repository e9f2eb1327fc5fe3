"""PowerLinkExplainer: paths for PyG's Explainer, as a mask over its edges."""

from __future__ import annotations

import logging
from typing import Any, Literal, get_args

import torch
from torch import Tensor, nn
from torch_geometric.explain import Explanation
from torch_geometric.explain.algorithm import ExplainerAlgorithm
from torch_geometric.explain.config import MaskType, ModelMode, ModelReturnType, ModelTaskLevel

from powerlink.adapters.layer_runner import Normaliser
from powerlink.adapters.weighted_layers import check_flow, layers_of
from powerlink.errors import ModelError, SettingsError
from powerlink.explainers.learned.power_link import PowerLink
from powerlink.explainers.proposals import Proposing
from powerlink.explainers.protocol import Explainer, Wish
from powerlink.graphs.computation_graph import extract
from powerlink.memory import Room
from powerlink.pipeline import ExplainSettings, find_evidence, prune_for
from powerlink.pyg_explainer.pairing import PairedEdges, pair_up
from powerlink.pyg_explainer.whole_model import LABELS, WholeModel
from powerlink.verify.oracle import Removal

EdgeMask = Literal["paths", "scores"]


class PowerLinkExplainer(ExplainerAlgorithm):  # type: ignore[misc]
    """Explains edge-level predictions by the paths that carry them.

    The model is called as `model(x, edge_index, edge_label_index=…, …)`. `mask`: "paths", one on the edges of the
    paths that are shown, zero elsewhere; "scores", the explainer's own score of every edge it looked at. The result
    also has `paths`: for each explained label a list of paths, best first, each a list of columns of `edge_index`.
    """

    def __init__(
        self,
        explainer: Explainer | None = None,
        settings: ExplainSettings | None = None,
        *,
        mask: EdgeMask = "paths",
        normaliser: Normaliser = "recomputed",
        seed: int = 0,
    ) -> None:
        super().__init__()
        if mask not in get_args(EdgeMask):
            raise SettingsError(f"mask must be paths or scores, not {mask!r}")
        self.explainer, self.settings = explainer or PowerLink(), settings or ExplainSettings()
        self.mask, self.normaliser, self.seed = mask, normaliser, seed

    def supports(self) -> bool:
        """Tell whether the Explainer's settings can be served, and log which cannot."""
        config, model = self.explainer_config, self.model_config
        name = type(self).__name__
        for wrong, what in (
            (model.task_level != ModelTaskLevel.edge, f"task_level='edge', not {model.task_level.value!r}"),
            (config.node_mask_type is not None, "node_mask_type=None: it explains by edges"),
            (config.edge_mask_type != MaskType.object, "edge_mask_type='object'"),
            (model.mode == ModelMode.multiclass_classification, "mode='binary_classification' or 'regression'"),
        ):
            if wrong:
                logging.error(f"'{name}' needs {what}")
                return False
        return True

    def forward(
        self,
        model: nn.Module,
        x: Tensor,
        edge_index: Tensor,
        *,
        target: Tensor,
        index: int | Tensor | None = None,
        **kwargs: Any,
    ) -> Explanation:
        """Explain the labels `index` of `edge_label_index`, or all of them, together as one mask."""
        _check_inputs(model, x, edge_index, kwargs)
        edges = pair_up(edge_index, kwargs.get("edge_type"), x.size(0))
        labels = range(kwargs[LABELS].size(1)) if index is None else torch.as_tensor(index).view(-1).tolist()
        mask, paths = torch.zeros(edge_index.size(1), device=edge_index.device), []
        for label in labels:
            negative = self.model_config.mode == ModelMode.binary_classification and int(target.view(-1)[label]) == 0
            link_model = WholeModel(
                model,
                x,
                edges,
                kwargs,
                label=label,
                sign=-1.0 if negative else 1.0,
                probabilities=self.model_config.return_type == ModelReturnType.probs,
                normaliser=self.normaliser,
            )
            own, found = self._explain(link_model, edges, _query(kwargs, label, edges))
            mask = torch.maximum(mask, own)
            paths.append(found)
        return Explanation(edge_mask=mask, paths=paths)

    def _explain(self, model: WholeModel, edges: PairedEdges, query: Tensor) -> tuple[Tensor, list[list[int]]]:
        """Return one label's mask over the columns of edge_index, and its paths as columns."""
        messages = edges.messages
        mask = torch.zeros(edges.num_columns, device=messages.device)
        graph = prune_for(extract(messages, query, self.settings.hops or model.num_layers), self.settings)
        if int(graph.head) == int(graph.tail) or not graph.num_edges:
            return mask, []
        hidden = model.hidden
        graph = graph.with_features(hidden, _relation_codes(2 * messages.num_relations, hidden))
        oracle = Removal(model, graph, Room.of(graph.device))
        proposing = Proposing(oracle, graph, Wish.of(self.settings), self.seed)
        found, choice = find_evidence(proposing, oracle, self.explainer, self.settings)
        paths = [path[path >= 0] for path in choice.edges_of(found.candidates.evidence)[0] if (path >= 0).any()]
        column = edges.column[graph.edge]
        there = column >= 0
        if self.mask == "paths":
            for path in paths:
                both = torch.cat([path, graph.reverse[path]])
                mask[column[both[there[both]]]] = 1.0
        elif found.mask is not None:
            mask[column[there]] = found.mask.detach()[there].to(mask.dtype)
        # of a hop's two directions the one walked, where it is there
        return mask, [torch.where(there[path], column[path], column[graph.reverse[path]]).tolist() for path in paths]


def _query(inputs: dict[str, Any], label: int, edges: PairedEdges) -> Tensor:
    """The label as head, relation, tail; without a type of its own, the first relation is asked about."""
    head, tail = inputs[LABELS][:, label].tolist()
    kinds = [v for k, v in inputs.items() if "label" in k and k.endswith("type") and isinstance(v, Tensor)]
    relation = int(kinds[0].view(-1)[label]) if kinds else 0
    known = 2 * edges.messages.num_relations
    return torch.tensor([[head, relation if relation < known else 0, tail]], device=edges.messages.device)


def _relation_codes(count: int, rows: Tensor) -> Tensor:
    """Fixed vectors to tell relations apart by, as long as the nodes' on average."""
    drawn = torch.randn(count, rows.size(1), generator=torch.Generator().manual_seed(0))
    length = rows.norm(dim=1).mean().clamp(min=1e-6)
    codes: Tensor = torch.nn.functional.normalize(drawn).to(rows) * length
    return codes


def _check_inputs(model: nn.Module, x: Any, edge_index: Any, inputs: dict[str, Any]) -> None:
    if not isinstance(x, Tensor) or not isinstance(edge_index, Tensor):
        raise ModelError("PowerLinkExplainer takes x and edge_index as tensors: explain HeteroData with from_pyg")
    labels = inputs.get(LABELS)
    if not isinstance(labels, Tensor) or labels.dim() != 2 or labels.size(0) != 2:
        raise ModelError(f"say which edges to explain: the model must take {LABELS}, (2, n) of head and tail nodes")
    if not layers_of(model):
        raise ModelError(f"{type(model).__name__} has no MessagePassing layer, so there are no messages to weigh")
    check_flow(model)
