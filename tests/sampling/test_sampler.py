import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numba.core.dispatcher import Dispatcher

from a3gnn.errors import UsageError
from a3gnn.graphs.edges import Edges
from a3gnn.sampling import sample_kernels as kernels
from a3gnn.sampling.sampler import Sampler, warm_up
from a3gnn.sampling.subgraph import Subgraph

HOW = settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])


def same(one: Subgraph, other: Subgraph) -> bool:
    arrays = ("n_id", "indptr", "indices")
    return one.hop_sizes == other.hop_sizes and all(
        np.array_equal(getattr(one, name), getattr(other, name)) for name in arrays
    )


@HOW
@given(
    nodes=st.integers(1, 40),
    most=st.integers(0, 40),
    fanouts=st.lists(st.sampled_from([-1, 1, 2, 3, 7]), min_size=1, max_size=3),
    bias=st.sampled_from([1.0, 2.0, 16.0]),
    seed=st.integers(0, 2**63 - 1),
)
def test_a_subgraph_is_what_fanouts_and_graph_allow(nodes, most, fanouts, bias, seed, random_graph) -> None:
    indptr, indices = random_graph(nodes, most, seed % 1000)
    draw = np.random.default_rng(seed)
    seeds = draw.choice(nodes, size=draw.integers(1, nodes + 1), replace=False).astype(np.int32)
    cached = draw.random(nodes) < 0.4
    sampler = Sampler(Edges(indptr, indices), fanouts, seed=seed, bias_rate=bias, cached=cached)
    subgraph = sampler.sample(seeds, epoch=1, batch=2)

    assert np.array_equal(subgraph.n_id[: len(seeds)], seeds)
    assert len(np.unique(subgraph.n_id)) == subgraph.num_nodes
    assert subgraph.hop_sizes[0] == len(seeds)
    assert subgraph.hop_sizes[-1] == subgraph.num_nodes
    assert list(subgraph.hop_sizes) == sorted(subgraph.hop_sizes)
    assert len(subgraph.indptr) == subgraph.hop_sizes[-2] + 1
    for hop, fanout in enumerate(fanouts):
        first = subgraph.hop_sizes[hop - 1] if hop else 0
        for row in range(first, subgraph.hop_sizes[hop]):
            node = subgraph.n_id[row]
            within = indices[indptr[node] : indptr[node + 1]]
            picked = subgraph.n_id[subgraph.indices[subgraph.indptr[row] : subgraph.indptr[row + 1]]]
            assert len(picked) == (len(within) if fanout == -1 else min(len(within), fanout))
            assert len(np.unique(picked)) == len(picked)
            assert np.isin(picked, within).all()
    discovered = np.zeros(subgraph.num_nodes, dtype=bool)
    discovered[: len(seeds)] = True
    discovered[subgraph.indices] = True
    assert discovered.all()


def test_blocks_are_prefixes_that_share_memory(random_graph: Callable) -> None:
    indptr, indices = random_graph(500, 30, 1)
    subgraph = Sampler(Edges(indptr, indices), (4, 3, 2), seed=0).sample(np.arange(20, dtype=np.int32), 0, 0)
    blocks = [subgraph.block(layer) for layer in range(3)]
    assert blocks[0].num_src == subgraph.num_nodes
    assert blocks[-1].num_dst == 20
    for inner, outer in pairwise(blocks):
        assert inner.num_dst == outer.num_src
    for block in blocks:
        assert np.shares_memory(block.indices, subgraph.indices)
        assert len(block.indptr) == block.num_dst + 1
        assert len(block.indices) == block.indptr[-1]
        assert block.indices.max() < block.num_src
    with pytest.raises(IndexError, match=r"layer must be in \[0, 3\), got 3"):
        subgraph.block(3)


def test_any_thread_and_order_give_the_same_batch(random_graph: Callable) -> None:
    indptr, indices = random_graph(2000, 60, 2)
    cached = np.arange(2000) % 3 == 0
    make = lambda: Sampler(Edges(indptr, indices), (5, 4), seed=8, bias_rate=3.0, cached=cached)  # noqa: E731
    seeds = np.arange(2000, dtype=np.int32).reshape(40, 50)
    here, there = make(), make()
    expected = [here.sample(seeds[i], 3, i) for i in range(40)]
    with ThreadPoolExecutor(4) as threads:
        found = list(threads.map(lambda i: there.sample(seeds[i], 3, i), reversed(range(40))))
    assert all(same(one, other) for one, other in zip(expected, reversed(found), strict=True))


def test_another_process_gives_the_same_batch() -> None:
    code = (
        "import numpy as np, hashlib\n"
        "from a3gnn.graphs.edges import Edges\n"
        "from a3gnn.sampling.sampler import Sampler\n"
        "edges = Edges(np.arange(0, 4040, 40), np.arange(4000, dtype=np.int32) % 100)\n"
        "sampler = Sampler(edges, (5, 5), seed=3,\n"
        "    bias_rate=2.0, cached=np.arange(100) < 30)\n"
        "subgraph = sampler.sample(np.arange(10, dtype=np.int32), 1, 2)\n"
        "digest = hashlib.sha256(subgraph.n_id.tobytes() + subgraph.indices.tobytes()).hexdigest()\n"
    )
    here: dict[str, str] = {}
    exec(code, here)  # the very code that the other process runs
    there = subprocess.run([sys.executable, "-c", code + "print(digest)"], capture_output=True, text=True, check=True)
    assert there.stdout.strip() == here["digest"]


def test_after_warm_up_sampling_compiles_nothing(random_graph: Callable) -> None:
    warm_up()
    compiled = {kernel: len(kernel.signatures) for kernel in vars(kernels).values() if isinstance(kernel, Dispatcher)}
    indptr, indices = random_graph(100, 20, 0)
    seeds, cached = np.arange(9, dtype=np.int32), np.arange(100) < 30
    for bias in (1.0, 4.0):
        Sampler(Edges(indptr, indices), (3, 2), seed=0, bias_rate=bias, cached=cached).sample(seeds, 0, 0)
    assert {kernel: len(kernel.signatures) for kernel in compiled} == compiled


def test_epoch_batch_and_seed_each_change_the_draw(random_graph: Callable) -> None:
    indptr, indices = random_graph(300, 100, 3)
    seeds = np.arange(30, dtype=np.int32)
    sample = lambda seed, epoch, batch: Sampler(Edges(indptr, indices), (3,), seed=seed).sample(seeds, epoch, batch)  # noqa: E731
    first = sample(0, 0, 0)
    assert same(first, sample(0, 0, 0))
    assert not any(same(first, other) for other in (sample(1, 0, 0), sample(0, 1, 0), sample(0, 0, 1)))


def test_without_bias_the_cache_does_not_matter(random_graph: Callable) -> None:
    indptr, indices = random_graph(300, 100, 4)
    seeds, cached = np.arange(30, dtype=np.int32), np.arange(300) < 100
    plain = Sampler(Edges(indptr, indices), (5, 5), seed=1)
    for other in (
        Sampler(Edges(indptr, indices), (5, 5), seed=1, bias_rate=1.0, cached=cached),
        Sampler(Edges(indptr, indices), (5, 5), seed=1, bias_rate=4.0, cached=np.zeros(300, dtype=bool)),
    ):
        assert same(plain.sample(seeds, 0, 0), other.sample(seeds, 0, 0))


def test_no_mask_is_a_mask_of_none(random_graph: Callable) -> None:
    indptr, indices = random_graph(300, 100, 4)
    nobody, seeds = np.zeros(300, dtype=bool), np.arange(30, dtype=np.int32)
    # Where a kernel looked into a mask that is not there, it would find what these leave in memory.
    noise = [np.ones(2**k, dtype=bool) for k in range(16)]
    del noise
    without, none = (
        Sampler(Edges(indptr, indices), (5, 5), seed=1, bias_rate=8.0, cached=cached) for cached in (None, nobody)
    )
    assert same(without.sample(seeds, 0, 0), none.sample(seeds, 0, 0))


def test_bias_needs_fewer_distinct_nodes_and_more_cached_ones(random_graph: Callable) -> None:
    indptr, indices = random_graph(3000, 100, 5)
    seeds, cached = np.arange(100, dtype=np.int32), np.arange(3000) < 600
    found = [
        Sampler(Edges(indptr, indices), (10, 5), seed=1, bias_rate=bias, cached=cached).sample(seeds, 0, 0).n_id
        for bias in (1.0, 4.0, 16.0)
    ]
    sizes, shares = [len(ids) for ids in found], [cached[ids].mean() for ids in found]
    assert sizes == sorted(sizes, reverse=True)
    assert shares == sorted(shares)


def test_a_refused_call_leaves_the_sampler_fit(random_graph: Callable) -> None:
    indptr, indices = random_graph(100, 20, 6)
    sampler = Sampler(Edges(indptr, indices), (5,), seed=1)
    expected = sampler.sample(np.arange(10, dtype=np.int32), 0, 0)
    with pytest.raises(UsageError, match="distinct"):
        sampler.sample(np.array([1, 2, 1], dtype=np.int32), 0, 0)
    assert same(expected, sampler.sample(np.arange(10, dtype=np.int32), 0, 0))


def test_without_fanouts_seeds_stay_alone() -> None:
    indptr, indices = np.array([0, 1, 2], dtype=np.int64), np.array([1, 0], dtype=np.int32)
    found = Sampler(Edges(indptr, indices), (), seed=1).sample(np.array([1, 0], dtype=np.int32), 0, 0)
    assert (found.n_id.tolist(), found.hop_sizes, found.num_layers, found.num_edges) == ([1, 0], (2,), 0, 0)


@pytest.mark.parametrize(
    ("seeds", "message"),
    [([], "at least one node"), ([0, 4], r"\[0, 4\), got ids from 0 to 4"), ([-1], "got ids from -1 to -1")],
)
def test_seeds_out_of_range_are_refused(seeds: list[int], message: str) -> None:
    sampler = Sampler(Edges(np.zeros(5, dtype=np.int64), np.empty(0, dtype=np.int32)), (5,), seed=1)
    with pytest.raises(UsageError, match=message):
        sampler.sample(np.array(seeds, dtype=np.int32), 0, 0)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"fanouts": (0,)}, "fanouts must be positive"),
        ({"fanouts": (2.7,)}, r"fanouts must be positive integers .*got \(2.7,\)"),
        ({"fanouts": (True,)}, r"fanouts must be positive integers .*got \(True,\)"),
        ({"seed": -1}, r"seed must be an integer in \[0, 2\*\*64\), got -1"),
        ({"seed": "a"}, r"seed must be an integer in .*got 'a'"),
        ({"bias_rate": 0.5}, "bias_rate must be finite and >= 1, got 0.5"),
        ({"bias_rate": 2.0, "cached": np.ones(3, dtype=bool)}, "one bool per node"),
    ],
)
def test_arguments_out_of_range_are_refused(arguments: dict, message: str) -> None:
    known = {"fanouts": (5,), "seed": 1} | arguments
    with pytest.raises(UsageError, match=message):
        Sampler(Edges(np.zeros(5, dtype=np.int64), np.empty(0, dtype=np.int32)), **known)
