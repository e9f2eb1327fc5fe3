"""A frozen reference: one training step as it is first written, to measure the product's against.

Every edge gathers its own message, `index_add` adds messages up, autograd goes back through both. TransE subtracts
every tail from every query and adds up what is left, ConvE is a convolution of images by the library's own, and the
labels of the 1-to-all loss are a matrix. The numbers are those of the product's models, whose parameters it uses.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from powerlink.graphs.message_graph import MessageGraph
from powerlink.models.decoders import ConvE, TransE
from powerlink.models.encoders import RGCN, WGCN, CompGCN
from powerlink.models.encoders.compgcn import CompGCNLayer
from powerlink.models.encoders.rgcn import RGCNLayer
from powerlink.models.encoders.wgcn import WGCNLayer
from powerlink.models.link_model import EncoderDecoder
from powerlink.models.protocol import Embeddings
from powerlink.models.ranking import KnownTails


def encode(model: EncoderDecoder, graph: MessageGraph) -> Embeddings:
    """What `model.encode` computes without dropout between the layers."""
    encoder = model.encoder
    nodes, relations = encoder.entity, encoder.relation
    for layer in encoder.layers:
        if isinstance(encoder, CompGCN):
            nodes, relations = _compgcn(layer, nodes, relations, graph)
        elif isinstance(encoder, WGCN):
            nodes = _wgcn(layer, nodes, graph)
        elif isinstance(encoder, RGCN):
            nodes = _rgcn(layer, nodes, graph)
    return Embeddings(model.output_dropout(nodes), relations, model.bias)


def score_tails(model: EncoderDecoder, embeddings: Embeddings, head: Tensor, relation: Tensor) -> Tensor:
    """What `model.score_tails` computes: the logits of all tails for each (head, relation)."""
    decoder, tails = model.decoder, embeddings.entity
    vectors = embeddings.entity[head], embeddings.relation[relation]
    if isinstance(decoder, TransE):
        query = vectors[0] + vectors[1]
        # a few rows at a time, since no machine holds the differences of all of them twice
        rows = [decoder.margin - (some.unsqueeze(1) - tails).abs().sum(2) for some in query.split(16)]
        return torch.cat(rows)
    query = _convolved(decoder, *vectors) if isinstance(decoder, ConvE) else vectors[0] * vectors[1]
    logits = query @ tails.t()
    return logits if embeddings.bias is None else logits + embeddings.bias


def _convolved(decoder: ConvE, head: Tensor, relation: Tensor) -> Tensor:
    rows, columns = decoder.image
    image = torch.stack([head, relation], dim=2 if decoder.interleave else 1).view(-1, 1, 2 * rows, columns)
    norm = decoder.image_norm
    image = functional.batch_norm(
        image, norm.running_mean, norm.running_var, norm.weight, norm.bias, True, norm.momentum, norm.eps
    )
    image = decoder.image_dropout(image)
    kernel = decoder.filters.weight.view(-1, 1, decoder.kernel, decoder.kernel)
    features, norm = functional.conv2d(image, kernel), decoder.feature_norm
    features = functional.batch_norm(
        features, norm.running_mean, norm.running_var, norm.weight, norm.bias, True, norm.momentum or 0.0, norm.eps
    )
    features = functional.dropout2d(features.relu(), decoder.feature_dropout.p)
    # the product's weights expect the channels last
    first, *rest = decoder.project
    projected = functional.linear(features.permute(0, 2, 3, 1).flatten(1), first.weight, first.bias)
    for module in rest:
        projected = module(projected)
    return projected


def step(
    model: EncoderDecoder, graph: MessageGraph, targets: KnownTails, batch: Tensor, optimizer: torch.optim.Optimizer
) -> Tensor:
    """One step on a batch of (head, relation) pairs, label smoothing 0.1."""
    head, relation = targets.pairs[batch].unbind(1)
    logits = score_tails(model, encode(model, graph), head, relation)
    labels = torch.zeros(logits.shape)  # on the host, then carried over
    for row, pair in enumerate(batch.tolist()):
        labels[row, targets.tail[targets.row[pair] : targets.row[pair + 1]].cpu()] = 1.0
    labels = (0.9 * labels + 1 / logits.size(1)).to(logits.device)
    loss = functional.binary_cross_entropy_with_logits(logits, labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss.detach()


def _compgcn(layer: CompGCNLayer, nodes: Tensor, relations: Tensor, graph: MessageGraph) -> tuple[Tensor, Tensor]:
    messages = nodes[graph.source] * relations[graph.relation] * graph.norm.unsqueeze(1)
    out = (nodes * layer.self_relation) @ layer.self_loop
    inverse = graph.relation >= graph.num_relations
    for direction, chosen in enumerate((~inverse, inverse)):
        received = torch.zeros_like(nodes).index_add(0, graph.target[chosen], messages[chosen])
        out = out + received @ layer.direction[direction]
    return torch.tanh(layer.norm(out / 3)), relations @ layer.relation_map


def _wgcn(layer: WGCNLayer, nodes: Tensor, graph: MessageGraph) -> Tensor:
    count = graph.num_relations
    twin = torch.where(graph.relation < count, graph.relation + count, graph.relation - count)
    scale = layer.relation_weight[graph.relation] + layer.relation_weight[twin]
    if layer.degree_norm:
        scale = scale * graph.norm
    mapped = nodes @ layer.linear
    received = torch.zeros_like(mapped).index_add(0, graph.target, mapped[graph.source] * scale.unsqueeze(1))
    return torch.tanh(layer.norm(received + mapped if layer.self_loop else received))


def _rgcn(layer: RGCNLayer, nodes: Tensor, graph: MessageGraph) -> Tensor:
    out = nodes @ layer.self_loop + layer.bias
    for relation in range(2 * graph.num_relations):
        chosen = (graph.relation == relation).nonzero().squeeze(1)
        sources = nodes[graph.source[chosen]].unflatten(1, (layer.blocks.size(1), -1))
        messages = torch.einsum("ebi,bio->ebo", sources, layer.blocks[relation]).flatten(1)
        out = out.index_add(0, graph.target[chosen], messages * graph.norm[chosen].unsqueeze(1))
    return torch.tanh(out)
