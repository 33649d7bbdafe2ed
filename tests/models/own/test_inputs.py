"""Mini-batches in PyG's forms, what a pass over them costs, and evaluation by each of its three ways."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch

from a3gnn.config import TrainConfig
from a3gnn.evaluation import own_evaluator as evaluation_plan
from a3gnn.evaluation.evaluate import validated
from a3gnn.evaluation.own_evaluator import EvaluationPlan, EvaluationPlans, OwnEvaluator
from a3gnn.graphs.graph import Graph
from a3gnn.models.own.factory import Factory
from a3gnn.models.own.inputs import Extent, extent_of, of_batch, of_graph, of_subgraph
from a3gnn.models.own.user_model import UserModel
from a3gnn.pipeline.pipeline import Pipeline, PipelineOptions
from a3gnn.sampling.sampler import Sampler
from a3gnn.training.describe import by_kernels, counted
from a3gnn.training.trainer import Trainer, TrainerOptions

CPU = torch.device("cpu")
FORMS = ["Edges", "Layers"]


def model_of(task, graph) -> UserModel:
    factory = Factory.of(task.model)
    model = UserModel.of(factory.name, factory.build(graph.num_features, graph.num_classes, task.seed))
    model.module.eval()
    return model


def evaluator_of(graph, task, budget: int) -> OwnEvaluator:
    model = model_of(task, graph)
    return OwnEvaluator(graph, task, model, device=CPU, budget_bytes=budget, on_chunk=lambda: None)


def outputs_of(graph, task, budget: int) -> tuple[EvaluationPlan, np.ndarray, torch.Tensor]:
    evaluator = evaluator_of(graph, task, budget)
    parts = list(evaluator.outputs(evaluator.plan))
    return evaluator.plan, np.concatenate([ids for ids, _ in parts]), torch.cat([out for _, out in parts])


def extents_of(graph, task, plan: EvaluationPlan) -> list[Extent]:
    sampler = Sampler(graph.edges, plan.fanouts, seed=0)
    return [extent_of(sampler.sample(some, 0, 0), task.own.takes) for some in plan.batches]


def whole_bytes(graph, task) -> float:
    times = 1 if task.own.takes == "edge_index" else task.num_layers
    return task.own.cost.bytes(times * graph.num_nodes, times * graph.num_edges)


@pytest.mark.parametrize("spec", ["small_graph", "sparse_graph"])
def test_both_forms_give_the_seeds_the_same(spec, own_task, request) -> None:
    graph = request.getfixturevalue(spec)
    found = []
    for name in FORMS:
        task = own_task(graph, name)
        with (
            Pipeline(graph, TrainConfig(batch_size=64), task.fanouts, PipelineOptions(seed=0)) as pipeline,
            torch.no_grad(),
        ):
            batch = next(iter(pipeline.epoch(0)))
            inputs = of_batch(batch, task.own.takes)
            found.append(model_of(task, graph).outputs(*inputs, batch.num_seeds, graph.num_classes))
            again = of_subgraph(graph, batch.subgraph, task.own.takes, CPU)
            assert torch.equal(again.x, inputs.x)
    torch.testing.assert_close(*found)


@pytest.mark.parametrize("features", ["features=32", "features=200,density=0.1"], ids=["dense", "sparse"])
@pytest.mark.parametrize("fanouts", [(-1, -1), (-1,)], ids=len)
def test_a_table_of_means_is_what_all_in_neighbors_give(features, fanouts, own_task, tmp_path) -> None:
    graph = Graph.load(f"synthetic:nodes=300,degree=2,classes=4,{features}").save(tmp_path / "graph")
    name = "Layers" if len(fanouts) == 2 else "One"
    task = own_task(graph, name, fanouts=fanouts)
    found = []
    for way in ("sampled", "full"):
        config = TrainConfig(batch_size=50, input_aggregation=way)
        with Trainer(graph, config, task, TrainerOptions(scratch=tmp_path)) as trainer, torch.no_grad():
            trainer.model.eval()
            batch = next(iter(trainer._pipeline.epoch(0)))
            inputs = of_batch(batch, task.own.takes)
            found.append(trainer.model(*inputs)[: batch.num_seeds])
    torch.testing.assert_close(*found, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", FORMS)
def test_what_one_mini_batch_costs_tells_of_others(name, own_task, small_graph) -> None:
    task = own_task(small_graph, name, fanouts=(10, 10))
    model, times = model_of(task, small_graph), 1 if name == "Edges" else 2
    extent = Extent(times * small_graph.num_nodes, times * small_graph.num_edges)
    inputs = of_graph(small_graph, task.own.takes, 2, CPU)
    whole = counted(model, inputs, extent, small_graph.num_nodes, small_graph.num_classes)
    whole = by_kernels(whole) if name == "Edges" else whole
    predicted, found = (one.bytes(*extent) for one in (task.own.cost, whole))
    assert 0.7 < predicted / found < 1.4
    products = 2 * 2 * small_graph.num_nodes * 32 * (small_graph.num_features + small_graph.num_classes)
    assert whole.node_flops * extent.nodes + whole.edge_flops * extent.edges == pytest.approx(products, rel=0.01)
    reads = 4 * (small_graph.num_features + 32) / times  # of two layers
    assert whole.edge_reads == pytest.approx(task.own.cost.edge_reads, rel=0.01)
    assert whole.edge_reads == pytest.approx(reads, rel=0.01 if name == "Layers" else 0.15)
    assert whole.parameters == sum(one.numel() for one in model.module.parameters())


@pytest.mark.parametrize("name", FORMS)
def test_a_pass_takes_no_more_than_was_predicted(name, own_task, small_graph) -> None:
    """The bound that memory is planned by: what is written includes all that is alive at once."""
    task = own_task(small_graph, name)
    inputs = of_graph(small_graph, task.own.takes, 2, CPU)
    alive = 4 * small_graph.num_nodes * (small_graph.num_features + 2 * 32)
    assert whole_bytes(small_graph, task) > alive + inputs.x.nbytes


@pytest.mark.parametrize("spec", ["small_graph", "sparse_graph"])
@pytest.mark.parametrize("name", FORMS)
def test_the_whole_graph_and_full_mini_batches_agree(name, spec, own_task, request, monkeypatch) -> None:
    graph = request.getfixturevalue(spec)
    task = own_task(graph, name)
    whole_plan, ids, whole = outputs_of(graph, task, 10 * 2**30)
    assert whole_plan.text == "the whole graph at once"
    monkeypatch.setattr(evaluation_plan, "_MOST_REPEATED", 1000)
    once = evaluator_of(graph, task, int(whole_bytes(graph, task)) - 1).plan
    assert once.text == "all in-neighbors, in one mini-batch"
    budget = int(0.95 * task.own.cost.bytes(*extents_of(graph, task, once)[0]))
    full_plan, same, full = outputs_of(graph, task, budget)
    assert full_plan.text == f"all in-neighbors, in {len(full_plan.batches)} mini-batches"
    assert len(full_plan.batches) > 1
    assert (ids == same).all()
    assert (ids == validated(graph, task)).all()
    torch.testing.assert_close(whole, full, rtol=1e-4, atol=1e-5)
    extents = extents_of(graph, task, full_plan)
    assert max(task.own.cost.bytes(*one) for one in extents) <= budget
    assert sum(task.own.cost.moved(*one) for one in extents) == pytest.approx(full_plan.cost)


@pytest.mark.parametrize("name", FORMS)
def test_a_fixed_sample_is_the_last_resort_and_says_so(name, own_task, small_graph) -> None:
    task = own_task(small_graph, name, fanouts=(4, -1))
    one, _, first = outputs_of(small_graph, task, 1000)
    assert (one.kind, one.fanouts) == ("sampled", (4, 25))
    assert one.text.startswith("a fixed sample of 4, 25 in-neighbors per node, because the whole graph may take")
    assert {len(some) for some in one.batches} == {1}  # no smaller mini-batch can be
    _, _, again = outputs_of(small_graph, task, 1000)
    assert torch.equal(first, again)
    other = dataclasses.replace(task, seed=task.seed + 1)
    assert not torch.equal(outputs_of(small_graph, other, 1000)[2], first)
    whole = outputs_of(small_graph, task, 2**40)[2]
    assert not torch.allclose(whole, first, atol=1e-3)


def test_samples_keep_the_budget_where_they_can(own_task, small_graph, monkeypatch) -> None:
    task = own_task(small_graph)
    monkeypatch.setattr(evaluation_plan, "_MOST_REPEATED", 0)
    budget = round(0.1 * whole_bytes(small_graph, task))
    plan = evaluator_of(small_graph, task, budget).plan
    assert plan.kind == "sampled"
    assert 1 < len(plan.batches[0]) < len(validated(small_graph, task))
    assert (np.concatenate(plan.batches) == validated(small_graph, task)).all()
    assert 0.3 * budget < plan.pass_bytes <= budget


def test_what_differs_between_validation_and_test_is_said(own_task, small_graph, monkeypatch) -> None:
    task = own_task(small_graph)
    monkeypatch.setattr(evaluation_plan, "_MOST_REPEATED", 1000)
    plans = EvaluationPlans.of(small_graph, task, int(0.8 * whole_bytes(small_graph, task)))
    assert {plan.kind for plan in plans} == {"full"}
    assert plans.text == plans.validation.text
    evaluated = np.concatenate(plans.test.batches)
    assert (evaluated == np.sort(small_graph.test_ids)).all()
    cut = 1.5 * plans.validation.cost / whole_bytes(small_graph, task)
    assert plans.test.cost > 1.5 * plans.validation.cost
    monkeypatch.setattr(evaluation_plan, "_MOST_REPEATED", cut)
    evaluator = evaluator_of(small_graph, task, int(0.8 * whole_bytes(small_graph, task)))
    assert evaluator.text.startswith(f"{plans.validation.text}; for test nodes from a fixed sample of 10, 5 in-neigh")
    found = EvaluationPlans.of(small_graph, task, int(0.8 * whole_bytes(small_graph, task)))
    assert (found.sampled, plans.sampled) == ("test", "none")


def test_too_much_work_is_sampled_too(own_task, small_graph, monkeypatch) -> None:
    task = own_task(small_graph)
    monkeypatch.setattr(evaluation_plan, "_MOST_REPEATED", 1)
    assert evaluator_of(small_graph, task, int(0.8 * whole_bytes(small_graph, task))).plan.kind == "sampled"


def test_evaluation_ends_where_it_is_asked_to(own_task, small_graph) -> None:
    task = own_task(small_graph)

    def stop() -> None:
        raise KeyboardInterrupt

    for budget in (1000, 2**40):
        model = model_of(task, small_graph)
        model.module.train()
        evaluator = OwnEvaluator(small_graph, task, model, device=CPU, budget_bytes=budget, on_chunk=stop)
        with pytest.raises(KeyboardInterrupt):
            evaluator.validate()
        assert model.module.training
