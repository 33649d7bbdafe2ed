import traceback

import numpy as np
import pytest
import torch

from a3gnn.config import CACHE_POLICIES, PARALLEL_MODES, CachePolicy, Partitioner, TrainConfig
from a3gnn.errors import DeviceError, UsageError
from a3gnn.features.host_store import DenseHostStore
from a3gnn.features.row_table import Aggregator
from a3gnn.graphs.graph import Graph
from a3gnn.graphs.partition import partition
from a3gnn.pipeline.pipeline import Pipeline, PipelineOptions
from tests.pipeline.batches import content
from tests.threads.begun import begun_from_here

FANOUTS = (5, 4)


@pytest.fixture(autouse=True)
def no_thread_is_left():
    begun = begun_from_here()
    yield
    assert not begun()


def epoch_content(
    graph: Graph, config: TrainConfig, epoch: int = 1, start: int = 0, aggregator: Aggregator | None = None
) -> list[tuple]:
    with Pipeline(graph, config, FANOUTS, PipelineOptions(seed=7, aggregator=aggregator)) as pipeline:
        return [content(batch) for batch in pipeline.epoch(epoch, start)]


def config_of(graph: Graph, **knobs) -> TrainConfig:
    cache_bytes = graph.features.nbytes // 3 + 4 * graph.num_nodes
    return TrainConfig(**{"batch_size": 64, "bias_rate": 4.0, "cache_bytes": cache_bytes, **knobs})


@pytest.mark.parametrize("base", [{}, {"num_partitions": 3}, {"num_partitions": 2, "feature_tier": "disk"}], ids=str)
def test_batches_are_bit_identical_in_every_mode(base: dict, small_graph: Graph) -> None:
    expected = epoch_content(small_graph, config_of(small_graph, **base))
    assert len(expected) > 5
    assert sum(hits for _, _, hits, *_ in expected) > 0
    for mode in ("mode1", "mode2"):
        for workers in (1, 2, 3, 4):
            config = config_of(small_graph, parallel_mode=mode, num_workers=workers, **base)
            assert epoch_content(small_graph, config) == expected


@pytest.mark.parametrize("policy", CACHE_POLICIES)
def test_a_cache_policy_changes_no_batch(policy: CachePolicy, small_graph: Graph) -> None:
    expected = [(*one[:2], *one[3:]) for one in epoch_content(small_graph, config_of(small_graph, bias_rate=1.0))]
    for mode in PARALLEL_MODES:
        for tier in ("ram", "disk"):
            config = config_of(
                small_graph, bias_rate=1.0, cache_policy=policy, parallel_mode=mode, num_workers=3, feature_tier=tier
            )
            assert [(*one[:2], *one[3:]) for one in epoch_content(small_graph, config)] == expected


@pytest.mark.parametrize("base", [{}, {"num_partitions": 3, "partitioner": "blocks"}], ids=str)
def test_seeds_by_proximity_come_in_the_same_batches_in_every_mode(base: dict, small_graph: Graph) -> None:
    expected = epoch_content(small_graph, config_of(small_graph, seed_order="proximity", **base))
    assert expected != epoch_content(small_graph, config_of(small_graph, **base))
    for mode in ("mode1", "mode2"):
        config = config_of(small_graph, seed_order="proximity", parallel_mode=mode, num_workers=3, **base)
        assert epoch_content(small_graph, config) == expected
        assert epoch_content(small_graph, config, start=3) == expected[3:]


def test_seeds_that_keep_their_order_have_no_proximity(small_graph: Graph) -> None:
    with pytest.raises(UsageError, match="shuffle=False"):
        Pipeline(
            small_graph, config_of(small_graph, seed_order="proximity"), FANOUTS, PipelineOptions(seed=7, shuffle=False)
        )


@pytest.mark.parametrize("partitioner", ["random", "blocks"])
def test_parts_of_any_partitioner_are_trained_one_by_one(partitioner: Partitioner, small_graph: Graph) -> None:
    config = config_of(small_graph, num_partitions=4, partitioner=partitioner)
    batches = epoch_content(small_graph, config)
    assert sum(hop_sizes[0] for _, _, _, hop_sizes, *_ in batches) == len(small_graph.train_ids)
    assert batches != epoch_content(small_graph, config.replace(partitioner="metis"))


@pytest.mark.parametrize("aggregator", ["mean", "sum", "gcn"])
def test_aggregated_batches_are_bit_identical_in_every_mode(aggregator: Aggregator, small_graph: Graph) -> None:
    expected = epoch_content(small_graph, config_of(small_graph), aggregator=aggregator)
    assert expected != epoch_content(small_graph, config_of(small_graph))
    for mode in ("mode1", "mode2"):
        for tier in ("ram", "disk"):
            config = config_of(small_graph, parallel_mode=mode, num_workers=3, feature_tier=tier)
            assert epoch_content(small_graph, config, aggregator=aggregator) == expected


def test_an_aggregated_batch_says_so(small_graph: Graph) -> None:
    with Pipeline(small_graph, config_of(small_graph), FANOUTS, PipelineOptions(seed=7, aggregator="mean")) as pipeline:
        batch = next(pipeline.epoch(0))
        block = batch.subgraph.block(0)
        assert batch.aggregator == "mean"
        assert batch.x.shape == (block.num_dst, 2 * small_graph.num_features)
        own = small_graph.features.array[batch.subgraph.n_id[: block.num_dst]]
        assert np.array_equal(batch.x[:, small_graph.num_features :].numpy(), own)


def test_sparse_features_are_left_as_they_are(sparse_graph: Graph) -> None:
    with Pipeline(
        sparse_graph, TrainConfig(batch_size=20), FANOUTS, PipelineOptions(seed=7, aggregator="mean")
    ) as pipeline:
        batch = next(pipeline.epoch(0))
    assert batch.aggregator is None
    assert batch.x.shape == (batch.subgraph.num_nodes, sparse_graph.num_features)


@pytest.mark.parametrize("overlapped", [True, False])
def test_batches_are_the_same_whether_workers_overlap_or_alternate(overlapped: bool, small_graph: Graph) -> None:
    expected = epoch_content(small_graph, config_of(small_graph))
    for mode in ("mode1", "mode2"):
        config = config_of(small_graph, parallel_mode=mode, num_workers=3)
        with Pipeline(small_graph, config, FANOUTS, PipelineOptions(seed=7)) as pipeline:
            pipeline._overlap.overlapped = overlapped
            assert [content(batch) for batch in pipeline.epoch(1)] == expected
            # Left early, twice at once: nobody waits for the other.
            one, other = pipeline.epoch(0), pipeline.epoch(0)
            assert content(next(one)) == content(next(other))


@pytest.mark.parametrize("mode", PARALLEL_MODES)
def test_sparse_features_flow_too(mode: str, sparse_graph: Graph) -> None:
    plain = epoch_content(sparse_graph, TrainConfig(batch_size=20))
    config = TrainConfig(batch_size=20, parallel_mode=mode, num_workers=2, feature_tier="disk")
    assert epoch_content(sparse_graph, config) == plain


@pytest.mark.parametrize("mode", PARALLEL_MODES)
def test_an_epoch_can_be_entered_anywhere(mode: str, small_graph: Graph) -> None:
    config = config_of(small_graph, parallel_mode=mode, num_workers=2, num_partitions=3)
    whole = epoch_content(small_graph, config)
    assert epoch_content(small_graph, config, start=4) == whole[4:]
    assert epoch_content(small_graph, config, start=len(whole)) == []


def test_a_batch_holds_its_nodes_features_and_labels(small_graph: Graph) -> None:
    seeds = []
    with Pipeline(small_graph, config_of(small_graph), FANOUTS, PipelineOptions(seed=0)) as pipeline:
        batches = pipeline.epoch(0)
        for batch in batches:
            n_id = batch.subgraph.n_id
            assert np.array_equal(batch.x.numpy(), small_graph.features.array[n_id])
            assert np.array_equal(batch.y.numpy(), small_graph.labels[n_id[: batch.num_seeds]])
            assert [block.num_dst for block in batch.blocks] == list(batch.subgraph.hop_sizes[-2::-1])
            assert batch.blocks[0].num_src == len(batch.x)
            assert min(batch.seconds.sample, batch.seconds.gather) > 0
            assert batch.nbytes == sum(t.nbytes for t in (batch.x, batch.y, batch.indptr, batch.indices)) + n_id.nbytes
            seeds.append(n_id[: batch.num_seeds])
    assert np.array_equal(np.sort(np.concatenate(seeds)), small_graph.train_ids)
    assert len(seeds) == pipeline.num_batches


def test_partitioned_batches_stay_in_their_part(small_graph: Graph) -> None:
    graph = small_graph.on_disk()
    parts = partition(graph, 3)
    with Pipeline(graph, config_of(graph, num_partitions=3), FANOUTS, PipelineOptions(seed=0)) as pipeline:
        for batch in pipeline.epoch(0):
            assert len(np.unique(parts[batch.subgraph.n_id])) == 1


@pytest.mark.parametrize("mode", PARALLEL_MODES)
def test_features_come_from_few_buffers_that_are_reused(mode: str, small_graph: Graph) -> None:
    config = config_of(small_graph, batch_size=16, parallel_mode=mode, num_workers=2)
    with Pipeline(small_graph, config, FANOUTS, PipelineOptions(seed=0)) as pipeline:
        for _ in pipeline.epoch(0):
            pass
        places = [batch.x.data_ptr() for batch in pipeline.epoch(1)]
    assert len(places) > 20
    assert len(set(places)) <= len(places) // 2


@pytest.fixture
def store_that_breaks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reads fail from the fifth on."""
    read, calls = DenseHostStore.read, []

    def read_or_break(self, ids, out=None):
        calls.append(1)
        if len(calls) > 4:
            raise OSError("the disk is gone")
        return read(self, ids, out)

    monkeypatch.setattr(DenseHostStore, "read", read_or_break)


@pytest.mark.parametrize("mode", PARALLEL_MODES)
@pytest.mark.usefixtures("store_that_breaks")
def test_a_failing_store_reaches_the_caller_with_its_traceback(mode: str, small_graph: Graph) -> None:
    config = config_of(small_graph, parallel_mode=mode, num_workers=3)
    with Pipeline(small_graph, config, FANOUTS, PipelineOptions(seed=0)) as pipeline:
        with pytest.raises(OSError, match="the disk is gone") as caught:
            list(pipeline.epoch(0))
        assert "read_or_break" in "".join(traceback.format_tb(caught.tb))


@pytest.mark.parametrize("mode", PARALLEL_MODES)
def test_leaving_an_epoch_early_ends_its_threads(mode: str, small_graph: Graph) -> None:
    config = config_of(small_graph, parallel_mode=mode, num_workers=3)
    begun = begun_from_here()
    with Pipeline(small_graph, config, FANOUTS, PipelineOptions(seed=0)) as pipeline:
        for _ in pipeline.epoch(0):
            break
        assert not begun()
        held = pipeline.epoch(0)
        next(held)
    assert not begun()
    assert list(held) == []


@pytest.mark.parametrize("mode", PARALLEL_MODES)
def test_an_interrupt_in_the_training_step_ends_the_threads(mode: str, small_graph: Graph) -> None:
    config = config_of(small_graph, parallel_mode=mode, num_workers=3)

    def train(pipeline: Pipeline) -> None:
        for batch in pipeline.epoch(0):
            if batch.index == 2:
                raise KeyboardInterrupt

    with Pipeline(small_graph, config, FANOUTS, PipelineOptions(seed=0)) as pipeline:
        begun = begun_from_here()
        with pytest.raises(KeyboardInterrupt):
            train(pipeline)
        assert not begun()


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device")
def test_devices_that_are_not_there_are_refused(small_graph: Graph) -> None:
    with pytest.raises(DeviceError, match="sampling_device is cuda, but torch finds no CUDA device"):
        Pipeline(small_graph, TrainConfig(sampling_device="cuda"), FANOUTS, PipelineOptions(seed=0))
    with pytest.raises(DeviceError, match="device is cuda"):
        Pipeline(small_graph, TrainConfig(), FANOUTS, PipelineOptions(seed=0, device="cuda"))


def test_negative_places_are_refused(small_graph: Graph) -> None:
    with (
        Pipeline(small_graph, TrainConfig(), FANOUTS, PipelineOptions(seed=0)) as pipeline,
        pytest.raises(UsageError, match="must be >= 0, got 0 and -1"),
    ):
        pipeline.epoch(0, start=-1)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
@pytest.mark.parametrize("mode", PARALLEL_MODES)
@pytest.mark.parametrize("sampling_device", ["cpu", "cuda"])
def test_batches_on_cuda_are_those_of_the_cpu(mode: str, sampling_device: str, small_graph: Graph) -> None:
    expected = epoch_content(small_graph, config_of(small_graph))
    config = config_of(small_graph, parallel_mode=mode, num_workers=2, sampling_device=sampling_device)
    with Pipeline(small_graph, config, FANOUTS, PipelineOptions(seed=7, device="cuda")) as pipeline:
        found = [content(batch.to("cpu")) for batch in pipeline.epoch(1)]
    assert found == expected


@pytest.mark.parametrize("policy", ["fifo", "clock"])
def test_a_dynamic_cache_is_not_sampled_towards(policy, small_graph):
    """docs/design/engine.md: a draw would depend on what was read before, and so on the order of the workers."""
    found = []
    for bias_rate in (1.0, 16.0):
        config = TrainConfig(batch_size=64, cache_bytes=60_000, cache_policy=policy, bias_rate=bias_rate)
        with Pipeline(small_graph, config, FANOUTS, PipelineOptions(seed=7)) as pipeline:
            found.append([batch.subgraph.n_id.tolist() for batch in pipeline.epoch(0)])
    assert found[0] == found[1]
