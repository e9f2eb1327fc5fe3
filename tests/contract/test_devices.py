"""An explanation does not depend on where it was computed."""

from __future__ import annotations

import pytest
import torch

import powerlink
from powerlink.explainers.catalog import EXPLAINERS
from powerlink.models.link_model import DECODERS, ENCODERS, ModelSettings, build_model

needs_cuda = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")


def explain_on(device, model, graph, explainer, select):
    subject = powerlink.Subject.of(graph, model.to(device), device)
    queries = torch.from_numpy(graph.test[:6].copy())
    settings = powerlink.ExplainSettings(select=select)
    return powerlink.explain_many(subject, queries, explainer=explainer, settings=settings)


@needs_cuda
@pytest.mark.parametrize("select", ["proof", "mask"])
@pytest.mark.parametrize("decoder", DECODERS)
@pytest.mark.parametrize("encoder", ENCODERS)
def test_a_gpu_tells_the_same_story_as_a_cpu(encoder, decoder, select):
    graph = powerlink.load_graph("atlas")
    model = build_model(
        ModelSettings(encoder=encoder, decoder=decoder, widths=(40, 40, 40)), graph.num_entities, graph.num_relations
    )
    for recipe in EXPLAINERS.values():
        if recipe.fitting:
            continue  # it would have to be fitted to each of these models
        on_cpu = explain_on("cpu", model, graph, recipe.make(), select)
        on_gpu = explain_on("cuda", model, graph, recipe.make(), select)
        for one, other in zip(on_cpu, on_gpu, strict=True):
            assert one.query == other.query
            assert one.status == other.status
            assert one.score == pytest.approx(other.score, abs=1e-4)
            assert one.rank == other.rank
            assert len(one.paths) == len(other.paths)
            for path, twin in zip(one.paths[:1], other.paths[:1], strict=True):
                assert path.score_without == pytest.approx(twin.score_without, abs=1e-4)


@needs_cuda
def test_training_runs_on_a_gpu(tmp_path):
    graph = powerlink.load_graph("atlas")
    settings = powerlink.TrainingSettings(epochs=4, evaluate_every=2)
    subject = powerlink.train(graph, tmp_path, training=settings, device="cuda")
    assert powerlink.rank(subject).mrr > 0.01
