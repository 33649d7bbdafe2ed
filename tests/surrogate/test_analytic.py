"""What must hold of the analytic model whatever its constants."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from a3gnn.config import TrainConfig
from a3gnn.setting import Setting
from a3gnn.task import MODELS, Task
from a3gnn_surrogate.columns import as_columns, cached_share, stored_share
from a3gnn_surrogate.physics.accuracy import is_reference
from a3gnn_surrogate.physics.analytic import analytic_metrics, expected_work
from a3gnn_surrogate.physics.stage_seconds import effective_workers, stage_seconds, train_terms
from a3gnn_surrogate.physics.volume import batch_volume


@pytest.fixture
def expect(graphs, laptop):
    def metrics(*configs, task=Task(), graph="dense", hardware=laptop):  # noqa: B008
        return analytic_metrics(as_columns(configs), Setting(task, graphs[graph], hardware))

    return metrics


def test_every_metric_is_finite_for_every_model_graph_and_machine(expect, graphs, laptop, accelerated):
    configs = (TrainConfig(), TrainConfig(batch_size=64, num_partitions=8, cache_bytes=2**20, bias_rate=16.0))
    for model in MODELS:
        for graph in graphs:
            for hardware in (laptop, accelerated):
                metrics = expect(*configs, task=Task(model=model), graph=graph, hardware=hardware)
                assert all(np.isfinite(values).all() and values.shape == (2,) for values in metrics.values())
                assert (metrics["throughput_epochs_per_s"] > 0).all()


@pytest.mark.parametrize("layers", [1, 2, 5])
def test_the_whole_graph_has_all_nodes_in_every_layer_and_is_read_once(layers, graphs, laptop):
    task, config = Task(fanouts=(3,) * layers), TrainConfig(batch_size="all")
    for graph in graphs.values():
        setting, columns = Setting(task, graph, laptop), as_columns([config, TrainConfig()])
        volume, cost = expected_work(columns, setting)
        assert [nodes[0] for nodes in volume.nodes] == [graph.num_train, *[graph.num_nodes] * layers]
        if layers > 1:
            assert volume.sampled_edges[0] == pytest.approx(graph.num_edges)
        seconds = stage_seconds(columns, volume, cost, setting)
        assert (seconds.sample[0], seconds.gather[0], volume.steps[0]) == (0, 0, 1)
        assert seconds.sample[1] > 0
        alone = expected_work(as_columns([TrainConfig()]), setting).volume
        assert np.array_equal(volume.sampled_edges[1:], alone.sampled_edges)


def test_the_whole_graph_is_not_the_default_where_both_have_all_seeds(graphs):
    for graph in graphs.values():
        few = dataclasses.replace(graph, num_train=100)
        columns = as_columns([TrainConfig(), TrainConfig(batch_size=4096), TrainConfig(batch_size="all")])
        assert is_reference(columns, few).tolist() == [True, True, False]


def test_memory_of_the_whole_graph_grows_with_its_layers(expect):
    whole = TrainConfig(batch_size="all")
    found = [expect(whole, task=Task(fanouts=(2,) * layers))["peak_host_bytes"][0] for layers in (2, 4, 8)]
    assert found[0] < found[1] < found[2]


def test_nodes_and_edges_stay_within_the_graph_and_the_fanouts(graphs):
    graph, task = graphs["dense"], Task(fanouts=(25, 10))
    volume = batch_volume(as_columns([TrainConfig(), TrainConfig(num_partitions=4)]), task, graph)
    parts = np.array([1, 4])
    assert all((now >= before).all() for before, now in zip(volume.nodes, volume.nodes[1:], strict=False))
    assert (volume.input_nodes <= graph.num_nodes / parts).all()
    assert (volume.edges[0] <= volume.seeds * 25).all()
    assert (volume.edges[1] <= volume.nodes[1] * 10).all()


def test_the_volume_of_a_configurations_fanouts_is_that_of_a_task_with_them(graphs):
    """Row by row, whatever the other rows sample; a task's -1 too."""
    task = Task(fanouts=(25, -1, 10))
    base = TrainConfig(cache_bytes=10**7, bias_rate=4.0)
    configs = [
        base,
        base.replace(seed_fanout=3),
        base.replace(deep_fanout=2),
        base.replace(seed_fanout=5, deep_fanout=5),
    ]
    for graph in graphs.values():
        together = batch_volume(as_columns(configs), task, graph)
        for i, config in enumerate(configs):
            alone = batch_volume(as_columns([base]), Task(fanouts=config.fanouts(task)), graph)
            for name in ("nodes", "edges"):
                pairs = zip(getattr(together, name), getattr(alone, name), strict=True)
                assert all(one[i] == pytest.approx(other[0]) for one, other in pairs)
            assert together.hit_rate[i] == pytest.approx(alone.hit_rate[0])


def test_fewer_neighbors_are_faster_and_smaller_and_need_more_epochs(expect):
    """Both fanouts together do not need so many more that they would lose accuracy in the same time."""
    configs = [TrainConfig(), TrainConfig(deep_fanout=5), TrainConfig(seed_fanout=5, deep_fanout=5)]
    found = expect(*configs)
    assert (np.diff(found["throughput_epochs_per_s"]) > 0).all()
    assert (np.diff(found["peak_host_bytes"]) < 0).all()
    assert (np.diff(found["epochs_to_accuracy"]) > 0).all()
    assert found["accuracy_drop"][2] < 0 == found["accuracy_drop"][0]


def test_a_fanout_of_all_takes_every_edge_of_a_batch_that_holds_every_node(graphs):
    graph = dataclasses.replace(graphs["road"], num_train=graphs["road"].num_nodes)
    columns = as_columns([TrainConfig(batch_size=graph.num_nodes)])
    volume = batch_volume(columns, Task(fanouts=(-1,)), graph)
    assert volume.sampled_edges[0] == pytest.approx(graph.num_edges, rel=1e-6)
    assert volume.input_nodes[0] == pytest.approx(graph.num_nodes, rel=1e-6)


@pytest.mark.parametrize("model", ["sage", "gcn", "gin"])
@pytest.mark.parametrize("name", ["dense", "words"])
def test_a_table_saves_a_hop_and_takes_its_own_bytes(name, model, graphs, laptop):
    graph, task = graphs[name], Task(model=model)
    columns = as_columns([TrainConfig(input_aggregation=value) for value in ("sampled", "full")])
    setting = Setting(task, graph, laptop)
    volume, cost = expected_work(columns, setting)
    assert volume.nodes[-1][1] == volume.nodes[-2][1] == volume.nodes[-2][0] < volume.nodes[-1][0]
    assert (volume.edges[-1][1], volume.edges[0][1]) == (0, volume.edges[0][0])
    seconds = stage_seconds(columns, volume, cost, setting)
    assert seconds.sample[1] < seconds.sample[0]
    if not graph.sparse_features:
        assert cost.gemm_flops[1] == cost.gemm_flops[0]
        assert cost.spmm_bytes[1] == cost.spmm_bytes[0]  # the input layer's is part of the gather
        assert cost.input_bytes[1] == cost.input_bytes[0]
    tiers = as_columns([TrainConfig(input_aggregation="full", feature_tier=tier) for tier in ("ram", "disk")])
    ram, disk = analytic_metrics(tiers, setting)["peak_host_bytes"]
    assert ram - disk == pytest.approx(graph.table_bytes(model))


def test_a_cache_of_equal_bytes_holds_half_of_a_mean_tables_rows(graphs):
    graph = graphs["dense"]
    config = TrainConfig(cache_bytes=graph.feature_bytes // 4 + 4 * graph.num_nodes)
    columns = as_columns([config, config.replace(input_aggregation="full")])
    assert cached_share(columns, Task(model="sage"), graph) == pytest.approx([0.25, 0.125], rel=1e-3)
    assert cached_share(columns, Task(model="gcn"), graph) == pytest.approx([0.25, 0.25], rel=1e-3)


def test_bias_raises_the_hit_rate_and_shrinks_the_batch(graphs):
    graph = graphs["dense"]
    configs = [TrainConfig(cache_bytes=graph.feature_bytes // 10, bias_rate=bias) for bias in (1.0, 2.0, 4.0, 16.0)]
    volume = batch_volume(as_columns(configs), Task(), graph)
    assert (np.diff(volume.hit_rate) > 0).all()
    assert (np.diff(volume.input_nodes) < 0).all()


def test_more_workers_take_more_memory_in_the_parallel_modes(expect):
    for mode in ("mode1", "mode2"):
        peak = expect(*(TrainConfig(parallel_mode=mode, num_workers=n) for n in (1, 2, 4, 8)))["peak_host_bytes"]
        assert (np.diff(peak) > 0).all()
    first, second = expect(
        TrainConfig(parallel_mode="mode1", num_workers=4), TrainConfig(parallel_mode="mode2", num_workers=4)
    )["peak_host_bytes"]
    assert first > second


def test_disk_takes_the_features_out_of_memory_and_time_for_them(expect, graphs):
    metrics = expect(TrainConfig(feature_tier="ram"), TrainConfig(feature_tier="disk"))
    ram, disk = metrics["peak_host_bytes"]
    assert ram - disk == pytest.approx(graphs["dense"].feature_bytes)
    assert metrics["throughput_epochs_per_s"][0] > metrics["throughput_epochs_per_s"][1]


def test_the_cache_takes_its_bytes_where_the_fastest_memory_is(expect, accelerated):
    configs = TrainConfig(feature_tier="disk"), TrainConfig(feature_tier="disk", cache_bytes=2**20)
    on_host = expect(*configs)["peak_host_bytes"]
    assert 0.9 * 2**20 < np.diff(on_host)[0] < 1.0001 * 2**20
    on_device = expect(*configs, hardware=accelerated)["peak_device_bytes"]
    assert 0.9 * 2**20 < np.diff(on_device)[0] < 1.0001 * 2**20


def test_a_device_is_needed_for_device_memory(expect, accelerated):
    assert expect(TrainConfig())["peak_device_bytes"][0] == 0
    assert expect(TrainConfig(), hardware=accelerated)["peak_device_bytes"][0] > accelerated.profile.idle_device_bytes


def test_the_default_loses_no_accuracy_and_bias_and_parts_do(expect, graphs):
    cache = graphs["dense"].feature_bytes // 10
    configs = TrainConfig(), TrainConfig(cache_bytes=cache, bias_rate=8.0), TrainConfig(num_partitions=8)
    default, biased, parts = expect(*configs)["accuracy_drop"]
    assert default == 0
    assert biased > 0
    assert parts > 0


def test_modes_overlap_what_the_paper_says_they_overlap(expect, graphs, accelerated):
    modes = ("sequential", "mode1", "mode2")
    whole = expect(*(TrainConfig(parallel_mode=mode) for mode in modes), hardware=accelerated)
    parts = np.array([whole[f"{stage}_seconds"] for stage in ("sample", "gather", "transfer", "train")])
    sequential, mode1, mode2 = whole["batch_seconds"]
    assert sequential == pytest.approx(parts[:, 0].sum())
    assert parts[1, 0] < parts[1, 1]  # a worker of mode 1 gathers on one thread
    assert max(parts[3, 1], parts[:3, 1].sum()) <= mode1 < parts[:, 1].sum()
    assert parts[1:, 2].sum() <= mode2 < sequential


def test_without_a_device_overlap_never_loses(expect):
    modes = ("sequential", "mode1", "mode2")
    configs = [TrainConfig(parallel_mode=mode, num_workers=workers) for mode in modes for workers in (1, 4)]
    sequential, _, *overlapped = expect(*configs)["batch_seconds"]
    assert max(overlapped) <= sequential


def test_a_mini_batch_carries_sums_where_the_input_layer_takes_sums(expect, graphs):
    one, eight = (TrainConfig(parallel_mode="mode1", num_workers=workers) for workers in (1, 8))
    grown = {}
    for model in ("gcn", "sage", "gat"):
        peaks = expect(one, eight, task=Task(model=model))["peak_host_bytes"]
        grown[model] = peaks[1] - peaks[0]
    assert grown["gcn"] < grown["sage"] < grown["gat"]


def test_workers_help_less_and_less_and_never_beyond_the_cores(laptop):
    workers = effective_workers(np.array([1, 2, 4, 64]), laptop)
    assert workers[0] == 1
    assert workers[1] == pytest.approx(2 * laptop.profile.thread_efficiency)
    assert workers.max() <= laptop.num_cores


def test_without_a_device_overlap_gains_no_more_than_the_idle_cores(expect, laptop):
    metrics = expect(TrainConfig(parallel_mode="mode1", num_workers=4))
    work = sum(metrics[f"{stage}_seconds"][0] for stage in ("sample", "gather", "transfer")) / laptop.num_cores
    assert metrics["batch_seconds"][0] >= work + metrics["train_seconds"][0]


def test_parts_of_a_better_partitioner_keep_more_edges(graphs):
    configs = [TrainConfig(num_partitions=4, partitioner=name) for name in ("random", "blocks", "metis")]
    kept = batch_volume(as_columns(configs), Task(), graphs["dense"]).kept_edges
    assert kept[0] == pytest.approx(0.25)
    assert (np.diff(kept) > 0).all()


def test_whole_components_are_packed_into_parts(graphs):
    islands = dataclasses.replace(graphs["dense"], largest_component=0.05)
    configs = [TrainConfig(num_partitions=4, partitioner="blocks")]
    one, many = (batch_volume(as_columns(configs), Task(), graph).kept_edges for graph in (graphs["dense"], islands))
    assert one < many
    assert many > 0.9


def test_dynamic_policies_hit_more_the_larger_they_are_and_all_where_everything_fits(graphs):
    graph = graphs["dense"]
    whole = graph.feature_bytes + 4 * graph.num_nodes
    for policy in ("fifo", "clock"):
        configs = [TrainConfig(cache_bytes=int(share * whole), cache_policy=policy) for share in (0.1, 0.3, 0.6, 1.0)]
        rates = batch_volume(as_columns(configs), Task(), graph).hit_rate
        assert (np.diff(rates) > 0).all()
        assert rates[-1] == pytest.approx(1.0, abs=0.01)


def test_policies_rank_as_theory_has_it(graphs):
    graph = graphs["dense"]
    policies = ("fifo", "clock", "degree")
    configs = [TrainConfig(batch_size=64, cache_bytes=graph.feature_bytes // 5, cache_policy=name) for name in policies]
    fifo, clock, degree = batch_volume(as_columns(configs), Task(), graph).hit_rate
    assert 0 < fifo < clock < degree


def test_proximity_helps_a_dynamic_cache_and_no_static_one(graphs):
    graph = graphs["dense"]
    for policy, helps in (("fifo", True), ("degree", False)):
        base = TrainConfig(batch_size=64, cache_bytes=graph.feature_bytes // 5, cache_policy=policy)
        random, near = batch_volume(as_columns([base, base.replace(seed_order="proximity")]), Task(), graph).hit_rate
        assert (near > 1.01 * random) == helps
        assert near > 0.999 * random


@pytest.mark.parametrize("model", MODELS)
def test_rows_of_float16_take_half_the_bytes_in_every_tier_and_cache(model, graphs, laptop):
    for graph in graphs.values():
        some = graph.feature_bytes // 3 + 4 * graph.num_nodes
        configs = [TrainConfig(cache_bytes=some), TrainConfig(feature_tier="disk")]
        halved = [config.replace(feature_dtype="float16") for config in configs]
        setting, columns = Setting(Task(model=model), graph, laptop), as_columns([*configs, *halved])
        shares = stored_share(columns, setting.task, graph)
        assert shares.tolist() == [1, 1, shares[2], shares[2]]
        assert shares[2] == pytest.approx(0.75 if graph.sparse_features else 0.5, abs=0.05)
        found = analytic_metrics(columns, setting)
        saved = found["peak_host_bytes"][0] - found["peak_host_bytes"][2]
        assert saved == pytest.approx((1 - shares[2]) * graph.feature_bytes, rel=0.01)
        assert (found["gather_seconds"][2:] < found["gather_seconds"][:2]).all()
        assert found["cache_hit_rate"][2] > found["cache_hit_rate"][0]


@pytest.mark.parametrize("model", MODELS)
def test_bfloat16_takes_half_the_memory_of_activations_and_multiplies_at_its_own_speed(model, graphs, laptop):
    faster = dataclasses.replace(laptop.profile, bf16_gemm_flops_per_s=4 * laptop.profile.gemm_flops_per_s)
    columns = as_columns([TrainConfig(), TrainConfig(compute_dtype="bfloat16")])
    for name, graph in graphs.items():
        volume, cost = expected_work(columns, Setting(Task(model=model), graph, laptop))
        assert volume.input_nodes[0] == volume.input_nodes[1]
        assert cost.gemm_flops[0] == cost.gemm_flops[1]
        shares = (cost.activation_bytes[1] / cost.activation_bytes[0], cost.input_bytes[1] / cost.input_bytes[0])
        if graph.sparse_features:
            assert shares[0] < 1, name
            assert shares[1] == 1
        else:
            of_pairs = model in ("gatv2", "transformer")  # whose rows of edges stay float32
            assert 0.5 < shares[0] < 1 if of_pairs else shares[0] == 0.5
            assert shares[1] == 0.5
        known, unknown = (
            train_terms(cost, dataclasses.replace(laptop, profile=profile))[:, 0]
            for profile in (faster, laptop.profile)
        )
        assert known[0] == 4 * known[1] == unknown[1]
