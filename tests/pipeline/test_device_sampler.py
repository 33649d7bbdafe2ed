import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy.stats import chisquare, hypergeom

from a3gnn.errors import UsageError
from a3gnn.graphs.edges import Edges
from a3gnn.graphs.graph import Graph
from a3gnn.pipeline import device_sampler as device_random
from a3gnn.pipeline.device_sampler import DeviceSampler
from a3gnn.sampling import random
from a3gnn.sampling.sampler import Sampler
from a3gnn.sampling.subgraph import Subgraph

HOW = settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])


def same(one: Subgraph, other: Subgraph) -> bool:
    arrays = ("n_id", "indptr", "indices")
    return one.hop_sizes == other.hop_sizes and all(
        np.array_equal(getattr(one, name), getattr(other, name)) for name in arrays
    )


@settings(deadline=None)
@given(stream=st.integers(0, 2**64 - 1), counter=st.integers(0, 2**31), bound=st.integers(1, 2**31 - 1))
def test_random_numbers_are_the_kernels(stream: int, counter: int, bound: int) -> None:
    key, at = torch.tensor(np.uint64(stream).view(np.int64)), torch.tensor(counter)
    word = device_random.fold(key, at).numpy().view(np.uint64)
    assert int(word) == int(random.fold(np.uint64(stream), np.uint64(counter)))
    assert device_random.uniform(key, at).item() == random.uniform(np.uint64(stream), counter)
    assert device_random.below(key, at, torch.tensor(bound)).item() == random.below(np.uint64(stream), counter, bound)


@HOW
@given(
    fanouts=st.lists(st.sampled_from([-1, 1, 3, 6]), max_size=3),
    bias=st.sampled_from([1.0, 2.0, 16.0]),
    share=st.sampled_from([0.0, 0.2, 0.9]),
    seed=st.integers(0, 2**63 - 1),
)
def test_samples_what_the_kernels_sample(fanouts, bias, share, seed, tiny_graph: Graph) -> None:
    draw = np.random.default_rng(seed)
    cached = draw.random(tiny_graph.num_nodes) < share
    seeds = draw.choice(tiny_graph.num_nodes, size=20, replace=False).astype(np.int32)
    arguments = (tiny_graph.edges, fanouts)
    host = Sampler(*arguments, seed=seed, bias_rate=bias, cached=cached)
    device = DeviceSampler(*arguments, seed=seed, bias_rate=bias, cached=cached)
    assert same(host.sample(seeds, 1, 2), device.sample(seeds, 1, 2))


@pytest.mark.parametrize("fanout", [2, 5])
def test_cached_picks_are_hypergeometric_without_bias(fanout: int) -> None:
    # The bias is an epsilon above 1, so that the buckets are drawn while their distribution is still hypergeometric.
    degree, num_cached, repeats = 12, 4, 20_000
    indptr = np.concatenate([np.zeros(degree, dtype=np.int64), np.arange(repeats + 1) * degree])
    indices = np.tile(np.arange(degree, dtype=np.int32), repeats)
    cached = np.arange(len(indptr) - 1) < num_cached
    sampler = DeviceSampler(Edges(indptr, indices), (fanout,), seed=3, bias_rate=1 + 1e-12, cached=cached)
    subgraph = sampler.sample(np.arange(degree, degree + repeats, dtype=np.int32), 0, 0)
    picked = (subgraph.n_id[subgraph.indices] < num_cached).reshape(repeats, fanout).sum(axis=1)
    observed = np.bincount(picked, minlength=min(fanout, num_cached) + 1)
    expected = hypergeom(degree, num_cached, fanout).pmf(np.arange(len(observed)))
    assert chisquare(observed, expected / expected.sum() * repeats).pvalue > 1e-3


@pytest.mark.parametrize(("seeds", "message"), [([1, 1], "distinct"), ([300], r"\[0, 300\)"), ([], "at least one")])
def test_wrong_seeds_are_refused(seeds: list[int], message: str, tiny_graph: Graph) -> None:
    sampler = DeviceSampler(tiny_graph.edges, (2,), seed=0)
    with pytest.raises(UsageError, match=message):
        sampler.sample(np.array(seeds, dtype=np.int32), 0, 0)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
def test_cuda_samples_what_the_kernels_sample(small_graph: Graph) -> None:
    arguments = (small_graph.edges, (5, -1, 4))
    knobs = {"seed": 2, "bias_rate": 4.0, "cached": np.arange(small_graph.num_nodes) % 3 == 0}
    host, device = Sampler(*arguments, **knobs), DeviceSampler(*arguments, **knobs, device="cuda")
    assert same(host.sample(small_graph.train_ids[:64], 0, 0), device.sample(small_graph.train_ids[:64], 0, 0))


@pytest.mark.parametrize("most", [4, 7])
def test_more_edges_than_places_are_refused_as_on_the_host(most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    indptr, indices = np.arange(0, 16, 3), np.tile(np.array([0, 1, 4], dtype=np.int32), 5)
    monkeypatch.setattr("a3gnn.sampling.hops.MAX_EDGES", most)
    sampler = DeviceSampler(Edges(indptr, indices), (2, 2), seed=0)
    with pytest.raises(UsageError, match=r"a mini-batch must have at most .* edges, got more; lower the batch size"):
        sampler.sample(np.array([2, 3], dtype=np.int32), 0, 0)
    monkeypatch.setattr("a3gnn.sampling.hops.MAX_EDGES", 10)
    assert sampler.sample(np.array([2, 3], dtype=np.int32), 0, 0).num_edges <= 10
