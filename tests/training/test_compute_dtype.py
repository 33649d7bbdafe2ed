"""Training in bfloat16: its numbers against float64, what it rounds, what it must not cast, and which bits hold."""

from __future__ import annotations

import copy
import dataclasses
import math
from itertools import islice

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.profiler import ProfilerActivity, profile

from a3gnn.apply.train import train
from a3gnn.config import TrainConfig
from a3gnn.features import row_kernels
from a3gnn.features.row_table import AGGREGATORS, input_width
from a3gnn.kernels import dropout, sums
from a3gnn.models.layers import aggregation, edge_attention, gat, layer, product
from a3gnn.models.layers.activation import Dropout
from a3gnn.models.layers.aggregation import aggregated
from a3gnn.models.layers.gat import GATLayer
from a3gnn.models.model import build_model
from a3gnn.task import Task
from a3gnn.training.trainer import Trainer, TrainerOptions

MODELS = ["sage", "gcn", "gin", "gat"]
CONFIG = TrainConfig(batch_size=128, compute_dtype="bfloat16")
#: Half a unit in the last of bfloat16's 8 bits.
ROUNDING = 2.0**-9


def error(found: Tensor, exact: Tensor) -> float:
    return float((found.detach().double() - exact.detach()).norm() / exact.detach().norm())


def step(model: nn.Module, x: Tensor, blocks: list, **options) -> tuple[Tensor, dict[str, Tensor]]:
    """Returns logits and gradients."""
    logits = model(x, blocks, seed=0, **options)
    torch.sin(torch.arange(logits.numel(), dtype=logits.dtype)).view_as(logits).mul(logits).sum().backward()
    return logits.detach(), {name: weight.grad for name, weight in model.named_parameters()}


def away_from_zero(model: nn.Module) -> nn.Module:
    """Returns `model` with biases for which no activation is near zero, where rounding would gate other gradients."""
    for name, weight in model.named_parameters():
        if name.endswith("bias") and not name.endswith("lins.0.bias"):  # which a batch norm takes back
            weight.data[:] = torch.tensor([3.0, -3.0]).repeat(len(weight))[: len(weight)]
    return model


@pytest.mark.parametrize("widths", [(40, 96, 7), (96, 24, 2)], ids=["widens", "narrows"])
@pytest.mark.parametrize("model", [*MODELS, "gatv2", "transformer"])
def test_numbers_are_those_of_float64_within_bfloat16(model, widths, make_block, monkeypatch):
    inputs, hidden, classes = widths
    task = Task(model=model, hidden_channels=hidden, fanouts=(9, 9, 9), dropout=0.0, heads=4)
    blocks = [make_block(*sizes, num_edges=12 * sizes[0]) for sizes in ((120, 500), (50, 120), (20, 50))]
    blocks = [dataclasses.replace(b, in_degrees=blocks[0].in_degrees[: b.num_src]) for b in blocks]
    single = away_from_zero(build_model(task, inputs, classes).train())
    double, narrow = copy.deepcopy(single).double(), copy.deepcopy(single)
    x = torch.randn(500, inputs, generator=torch.Generator().manual_seed(1)).bfloat16()
    wide = [dataclasses.replace(b, in_degrees=b.in_degrees.double()) for b in blocks]
    with monkeypatch.context() as patch:  # compiled kernels take no float64
        for module in (layer, gat, edge_attention, aggregation):
            patch.setattr(module, "relu_dropout", lambda rows, dropout: rows.relu())
        exact, exact_by = step(double, x.double(), wide, dtype=torch.float64)
    by_single = step(single, x.float(), blocks)
    found, found_by = step(narrow, x, blocks, dtype=torch.bfloat16)

    assert found.dtype == torch.float32
    assert error(by_single[0], exact) < 1e-5  # what is compared is the same
    assert 1e-4 < error(found, exact) < 8 * ROUNDING
    # Terms cancel in what is small beside the rest: attention's map of destinations, and a bias before a batch norm.
    small = 0.1 * max(one.norm() for one in exact_by.values())
    for name, gradient in found_by.items():
        assert gradient.dtype == torch.float32
        off = (gradient.double() - exact_by[name]).norm() / max(exact_by[name].norm(), small)
        assert off < (48 if model == "gin" else 16) * ROUNDING, name  # batch norm takes off what is large


@pytest.mark.parametrize("dropout", [None, Dropout.of(0.0), Dropout.of(0.5, 7)], ids=["none", "relu", "dropped"])
@pytest.mark.parametrize("aggregator", AGGREGATORS)
def test_hidden_sums_are_those_of_float32_rounded_once(aggregator, dropout, make_block):
    block, results = make_block(20, 90, num_edges=400), []
    rows = torch.randn(90, 11).bfloat16()
    cotangent = torch.randn(20, input_width(aggregator, 11)).bfloat16()
    for dtype in (torch.bfloat16, torch.float32):
        x = rows.to(dtype).requires_grad_()
        out = aggregated(aggregator, block, x * 1.0, dropout)
        results.append((out, *torch.autograd.grad(out, x, cotangent.to(dtype))))
    for found, expected in zip(*results, strict=True):
        assert found.dtype == torch.bfloat16
        assert torch.equal(found, expected.bfloat16())


@pytest.mark.parametrize("rows", [1, 7, 8, 64, 131, 2049])
@pytest.mark.parametrize("least", [0, 3, 6])
def test_products_are_whole_whatever_their_windows(least, rows, monkeypatch):
    monkeypatch.setattr(product, "_LEAST_BITS", least)
    x, weight, bias = torch.randn(rows, 40).bfloat16(), torch.randn(24, 40), torch.randn(24)
    x, weight, bias = (one.requires_grad_() for one in (x, weight, bias))
    out = product.product(x, weight, bias)
    cotangent = torch.randn(rows, 24).bfloat16()
    found = (out, *torch.autograd.grad(out, (x, weight, bias), cotangent))
    x64, weight64, g64 = x.double(), weight.bfloat16().double(), cotangent.double()
    exact = (x64 @ weight64.t() + bias.double(), g64 @ weight64, g64.t() @ x64, g64.sum(0))
    assert [one.dtype for one in found] == [torch.bfloat16, torch.bfloat16, torch.float32, torch.float32]
    for one, other in zip(found, exact, strict=True):
        assert error(one, other) < 2 * ROUNDING


def test_attention_of_either_order_agrees(make_block, monkeypatch):
    torch.manual_seed(0)
    block, outs = make_block(20, 90, num_edges=400), []
    for concat in (True, False):
        attention = GATLayer(11, 12, heads=3, concat=concat, dropout=0.0)
        x = torch.randn(90, 11).bfloat16().requires_grad_()
        for first in (True, False):
            monkeypatch.setattr(attention, "_attends_first", lambda _, first=first: first)
            out = attention(block, x * 1.0, Dropout.of(0.0))
            outs.append((out, *torch.autograd.grad(out.float().square().sum(), [x, *attention.parameters()])))
        for one, other in zip(*outs[-2:], strict=True):
            assert one.dtype == other.dtype
            assert error(one, other.double()) < 8 * ROUNDING


@pytest.mark.parametrize("model", MODELS)
def test_no_gathered_matrix_is_cast_or_copied(model, small_graph):
    task = Task(model=model, hidden_channels=64, fanouts=(10, 5), heads=2)
    with Trainer(small_graph, CONFIG, task) as trainer:
        batches = trainer._pipeline.epoch(0)
        list(islice(batches, 2))
        batch = next(batches)
        assert batch.x.dtype == torch.bfloat16
        with profile(activities=[ProfilerActivity.CPU], record_shapes=True) as found:
            trainer._train(batch)
    # GAT's scores, a column per head, are widened.
    shapes = [
        event.input_shapes[0]
        for event in found.events()
        if event.name in ("aten::_to_copy", "aten::copy_", "aten::cat")
    ]
    assert any(shapes)
    assert [shape for shape in shapes if len(shape) == 2 and shape[0] >= len(batch.x) and shape[1] > task.heads] == []


@pytest.mark.parametrize("model", MODELS)
def test_models_learn_as_in_float32(model, small_folder_graph, tmp_path):
    task = Task(model=model, hidden_channels=32, fanouts=(10, 5), learning_rate=0.01, heads=2)
    losses, accuracies = {}, {}
    for dtype in ("float32", "bfloat16"):
        with Trainer(
            small_folder_graph, CONFIG.replace(compute_dtype=dtype), task, TrainerOptions(scratch=tmp_path)
        ) as trainer:
            losses[dtype] = [np.mean([one.loss for one in trainer.steps(epoch)]) for epoch in range(8)]
            accuracies[dtype] = trainer.validate()
            assert all(weight.dtype == torch.float32 for weight in trainer.model.parameters())
    assert losses["bfloat16"] != losses["float32"]
    assert math.isclose(losses["bfloat16"][0], losses["float32"][0], rel_tol=0.02)
    assert losses["bfloat16"][-1] < losses["bfloat16"][0]
    assert abs(accuracies["bfloat16"] - accuracies["float32"]) < 0.08


@pytest.mark.parametrize("model", ["sage", "gcn"])
def test_sparse_features_are_read_as_float32_and_hidden_layers_narrow_them(model, sparse_graph, tmp_path):
    task = Task(model=model, hidden_channels=32, fanouts=(10, 5), learning_rate=0.01)
    with Trainer(sparse_graph, CONFIG.replace(batch_size=32), task, TrainerOptions(scratch=tmp_path)) as trainer:
        assert next(trainer._pipeline.epoch(0)).x.dtype == torch.float32
        losses = [np.mean([one.loss for one in trainer.steps(epoch)]) for epoch in range(6)]
    assert losses[-1] < losses[0] * 0.9


@pytest.mark.parametrize("model", MODELS)
def test_modes_tiers_and_caches_train_bit_identically(model, small_folder_graph, tmp_path):
    task = Task(model=model, hidden_channels=32, fanouts=(10, 5), heads=2)
    caching = {"cache_bytes": 30_000, "cache_policy": "clock"}
    others = [
        {"parallel_mode": "mode1", "num_workers": 2, **caching},
        {"parallel_mode": "mode2", "num_workers": 3, "feature_tier": "disk"},
    ]
    states = []
    for changes in ({}, *others):
        with Trainer(small_folder_graph, CONFIG.replace(**changes), task, TrainerOptions(scratch=tmp_path)) as trainer:
            for epoch in range(2):
                list(trainer.steps(epoch))
            states.append(trainer.model.state_dict())
    for other in states[1:]:
        assert all(torch.equal(states[0][name], other[name]) for name in other)


def test_a_run_that_was_cut_goes_on_bit_identically_and_only_in_its_dtype(small_folder_graph, task, tmp_path):
    whole, halves = (
        train(CONFIG, small_folder_graph, task=task, epochs=2, out=tmp_path / "whole"),
        tmp_path / "halves",
    )
    train(CONFIG, small_folder_graph, task=task, epochs=1, out=halves)
    with pytest.raises(Exception, match="compute_dtype was 'bfloat16'"):
        train(CONFIG.replace(compute_dtype="float32"), small_folder_graph, task=task, epochs=2, out=halves, resume=True)
    second = train(CONFIG, small_folder_graph, task=task, epochs=2, out=halves, resume=True)
    assert (second.val_accuracy, second.test_accuracy) == (whole.val_accuracy, whole.test_accuracy)
    states = [torch.load(out / "model.pt", weights_only=True) for out in (tmp_path / "whole", halves)]
    assert all(torch.equal(states[0][name], states[1][name]) for name in states[0])


@pytest.mark.parametrize("model", ["sage", "gcn", "gin"])
def test_a_mini_batch_of_any_size_compiles_nothing_more(model, small_graph):
    warmed = (sums.collect, dropout.rectify, dropout.gate, row_kernels.mean_rows, row_kernels.weigh_rows)
    task = Task(model=model, hidden_channels=256, fanouts=(3, 2))
    with Trainer(small_graph, CONFIG, task) as trainer:
        list(islice(trainer.steps(0), 1))
    known = [list(kernel.signatures) for kernel in warmed]
    for hidden in (8, 256):
        task = dataclasses.replace(task, hidden_channels=hidden)
        with Trainer(small_graph, CONFIG.replace(batch_size=199), task) as trainer:
            list(trainer.steps(0))
    assert [list(kernel.signatures) for kernel in warmed] == known
