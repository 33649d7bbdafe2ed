import dataclasses
import json
import math
import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from a3gnn.config import CACHE_POLICIES, KNOBS, PARTITIONERS, RESOURCES, TrainConfig
from a3gnn.errors import ConfigError, UsageError
from a3gnn.graphs.graph import Graph
from a3gnn.hardware import Hardware
from a3gnn.knobs import Knob
from a3gnn.setting import Setting
from a3gnn.space import SearchSpace
from a3gnn.task import Task


def _independent(space: SearchSpace) -> list[str]:
    """Returns the knobs that are never idle, and whose value makes no other one idle."""
    values = {knob.name: knob.values for knob in space.knobs}
    found = {knob.name: knob.idle.varied(values) for knob in space.knobs}
    tied = {name for names in found.values() for name in names}
    return [name for name, names in found.items() if not names and name not in tied]


def _only_tied(space: SearchSpace) -> SearchSpace:
    """Returns the space with every independent knob fixed, so that its grid can be listed."""
    for name in _independent(space):
        space = space.fix(name, space.knob(name).values[0])
    return space


@pytest.fixture
def space() -> SearchSpace:
    """All choices, and few numbers of each knob, so that the rows can be enumerated."""
    knobs = {knob.name: knob for knob in KNOBS}
    knobs["batch_size"] = dataclasses.replace(knobs["batch_size"], values=(64, 128, 256, 512, 1024))
    for name in ("seed_fanout", "deep_fanout", "learning_rate_scale"):
        knobs[name] = dataclasses.replace(knobs[name], values=(knobs[name].default,))
    knobs["cache_bytes"] = dataclasses.replace(knobs["cache_bytes"], values=(0, 1000, 5000))
    knobs["resources"] = dataclasses.replace(knobs["resources"], values=RESOURCES)
    return SearchSpace(tuple(knobs.values()))


def test_the_table_has_every_knob_of_the_configuration() -> None:
    fields = {f.name for f in dataclasses.fields(TrainConfig)} - {"schema_version", "searched"}
    assert {knob.name for knob in KNOBS} == fields


def test_encode_and_decode_are_a_round_trip(space: SearchSpace) -> None:
    for row in space.enumerate()[::251]:
        config = space.decode(row)
        assert space.encode(config).tolist() == row.tolist()
        assert json.loads(json.dumps(config.to_dict())) == config.to_dict()
    with pytest.raises(ConfigError, match=r"batch_size must be one of \[64"):
        space.encode(TrainConfig(batch_size=65))
    with pytest.raises(ConfigError, match="index below"):
        space.decode(space.nvec)


def test_columns_are_what_decode_gives(space: SearchSpace) -> None:
    rows = space.sample(50, seed=1)
    columns = space.columns(rows)
    for i, row in enumerate(rows):
        assert {name: values[i] for name, values in columns.items()} == {
            knob.name: knob.coded(getattr(space.decode(row), knob.name)) for knob in space.knobs
        }


def test_a_space_with_the_whole_graph_has_its_few_configurations_besides_the_others(space: SearchSpace) -> None:
    # Two values of each knob at most, so that the grid can be listed.
    space = dataclasses.replace(space, knobs=tuple(_first(one, 2) for one in space.knobs))
    for name in ("num_workers", "seed_order", "resources", "trainers", "adapt", "sampling_device", "feature_dtype"):
        space = space.fix(name, space.knob(name).values[0])
    mixed = space.offer("batch_size", "all")
    only = space.fix("batch_size", "all")
    assert (only.num_distinct, mixed.num_distinct) == (2, space.num_distinct + 2)  # two types of products
    grid = np.indices(tuple(mixed.nvec)).reshape(len(mixed.knobs), -1).T
    distinct = {mixed.decode(row).canonical() for row in grid}
    assert {mixed.decode(row) for row in mixed.enumerate()} == distinct
    assert len(mixed.enumerate()) == mixed.num_distinct
    sampled = mixed.sample(300, seed=0)
    for row in [*sampled, *mixed.neighbors(sampled[0])]:
        assert mixed.encode(mixed.decode(row).canonical()).tolist() == row.tolist()
    assert SearchSpace.from_dict(json.loads(json.dumps(mixed.to_dict()))).to_dict() == mixed.to_dict()
    assert mixed.to_dict()["batch_size"] == [64, 128, "all"]
    with pytest.raises(ConfigError, match="got all: fix it to all instead"):
        space.restrict("batch_size", 64, "all")


def _first(knob: Knob, count: int) -> Knob:
    return dataclasses.replace(knob, values=knob.values[:count])


def test_enumerate_holds_one_row_for_each_configuration_that_runs_differently(space: SearchSpace) -> None:
    space = _only_tied(space)
    grid = np.indices(tuple(space.nvec)).reshape(len(space.knobs), -1).T
    distinct = {space.decode(row).canonical() for row in grid}
    assert {space.decode(row) for row in space.enumerate()} == distinct
    assert len(space.enumerate()) == len(distinct) == space.num_distinct


def test_millions_are_counted_sampled_and_have_neighbors_without_a_grid(space: SearchSpace) -> None:
    for name, most in (("batch_size", 2**16), ("num_workers", 2**7), ("num_partitions", 2**7), ("bias_rate", 2.0**7)):
        space = space.restrict(name, 1, most)
    left = space.without_parts("metis", 4)
    tracemalloc.start()
    assert space.size > 3_000_000
    cache_and_bias, parts = 1 + 2 * (2 * 8 + 1), 1 + 7 * 2
    # One trainer, by where neighbors are sampled; two, by mode and workers; two whose stages are ahead by a depth.
    modes_and_workers = 2 * (1 + 2 * 8 * 2) + (1 + 2 * 8) + 1
    free = math.prod(len(space.knob(name).values) for name in _independent(space))
    assert space.num_distinct == free * parts * cache_and_bias * modes_and_workers
    rows = left.sample(1000, seed=0)
    assert all(left.can_make(left.decode(row)) for row in left.neighbors(rows[0]))
    np.testing.assert_array_equal(left.canonical(rows), rows)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < space.size  # a grid takes several bytes per configuration


def test_neighbors_differ_in_one_knob_by_a_step(space: SearchSpace) -> None:
    row = space.encode(
        TrainConfig(batch_size=256, cache_bytes=1000, bias_rate=4.0, parallel_mode="mode1", num_workers=2)
    )
    around = {tuple(r) for r in space.neighbors(row)}
    assert tuple(space.encode(TrainConfig(256, 1, 4.0, "cpu", 1, 1000, "sequential"))) in around
    assert tuple(space.encode(TrainConfig(128, 1, 4.0, "cpu", 2, 1000, "mode1"))) in around
    assert tuple(space.encode(TrainConfig(1024, 1, 4.0, "cpu", 2, 1000, "mode1"))) not in around


def test_sample_is_decided_by_its_seed(space: SearchSpace) -> None:
    assert (space.sample(20, 3) == space.sample(20, 3)).all()
    assert (space.sample(20, 3) != space.sample(20, 4)).any()


def test_fix_and_restrict(space: SearchSpace) -> None:
    assert space.fix("batch_size", "100").knob("batch_size").values == (100,)
    assert space.fix("parallel_mode", "mode2").knob("parallel_mode").values == ("mode2",)
    assert space.restrict("batch_size", 64, 4096).knob("batch_size").values == (64, 128, 256, 512, 1024, 2048, 4096)
    assert space.restrict("bias_rate", "1", "16").knob("bias_rate").values == (1.0, 2.0, 4.0, 8.0, 16.0)
    assert space.restrict("cache_bytes", 0, 2000).knob("cache_bytes").values == (0, 1000, 2000)
    with pytest.raises(ConfigError, match="LOW <= HIGH"):
        space.restrict("batch_size", 10, 5)
    with pytest.raises(ConfigError, match="has no range"):
        space.restrict("parallel_mode", "a", "b")
    with pytest.raises(ConfigError, match="must be a whole number"):
        space.fix("batch_size", "many")
    with pytest.raises(ConfigError, match="parallel_mode must be one of"):
        space.fix("parallel_mode", "mode7")
    with pytest.raises(UsageError, match="did you mean 'batch_size'"):
        space.fix("batchsize", 3)


def test_round_trip_through_json(space: SearchSpace) -> None:
    assert SearchSpace.from_dict(json.loads(json.dumps(space.to_dict()))) == space


def test_a_knob_without_values_is_refused() -> None:
    with pytest.raises(ConfigError, match="at least one"):
        SearchSpace((dataclasses.replace(KNOBS[0], values=()),))


_EVERYTHING = {
    "cache_bytes": (0, 1000, 5000),
    "cache_policy": CACHE_POLICIES,
    "partitioner": PARTITIONERS,
    "resources": RESOURCES,
}


@st.composite
def spaces(draw: st.DrawFn) -> SearchSpace:
    """Any part of the table: knobs that are fixed, cut, or whole, in any order; some partitions that can't be made."""
    knobs = {
        k.name: draw(st.lists(st.sampled_from(_EVERYTHING.get(k.name, k.values)), min_size=1, unique=True))
        for k in KNOBS
    }
    unmade = draw(st.lists(st.tuples(st.sampled_from(PARTITIONERS), st.sampled_from((2, 4, 8))), max_size=2))
    return dataclasses.replace(SearchSpace.from_dict(knobs), unmade_parts=tuple(unmade))


@given(space=spaces(), data=st.data())
def test_idle_knobs_never_matter_whatever_is_fixed(space: SearchSpace, data: st.DataObject) -> None:
    row = np.array([data.draw(st.integers(0, size - 1)) for size in space.nvec])
    canonical = space.canonical(row[None])[0]
    assert space.canonical(canonical[None])[0].tolist() == canonical.tolist()
    assert space.encode(space.decode(canonical).canonical()).tolist() == canonical.tolist()
    if not space.unmade_parts:
        assert space.encode(space.decode(row).canonical()).tolist() == canonical.tolist()
        assert space.decode(canonical).canonical() == space.decode(row).canonical()


@given(space=spaces())
@settings(max_examples=20, deadline=None)
def test_the_distinct_rows_are_those_of_the_whole_grid_in_order(space: SearchSpace) -> None:
    space = _only_tied(space)
    grid = np.indices(tuple(space.nvec)).reshape(len(space.knobs), -1).T
    np.testing.assert_array_equal(space.enumerate(), np.unique(space.canonical(grid), axis=0))
    assert space.num_distinct == len(space.enumerate())


@pytest.mark.parametrize(
    ("name", "value", "config"),
    [
        ("num_workers", 4, TrainConfig(parallel_mode="sequential")),
        ("resources", "auto", TrainConfig(parallel_mode="sequential")),
        ("bias_rate", 4.0, TrainConfig(cache_bytes=0)),
        ("bias_rate", 4.0, TrainConfig(cache_bytes=1000, cache_policy="fifo")),
        ("cache_policy", "fifo", TrainConfig(cache_bytes=0)),
        ("partitioner", "blocks", TrainConfig(num_partitions=1)),
    ],
)
def test_a_fixed_knob_hides_nothing_where_it_is_idle(
    space: SearchSpace, name: str, value: object, config: TrainConfig
) -> None:
    fixed = space.fix(name, value)
    assert fixed.decode(fixed.encode(config.canonical())).canonical() == config.canonical()


@pytest.mark.parametrize("unmade", [(("metis", 2),), (("metis", 4),), (("metis", 8), ("blocks", 4))])
def test_only_partitions_that_can_not_be_made_are_left_out(
    space: SearchSpace, unmade: tuple[tuple[str, int], ...]
) -> None:
    space = space.fix("batch_size", 64).fix("feature_tier", "ram").fix("seed_order", "random").fix("bias_rate", 1)
    space = space.fix("compute_dtype", "float32")
    left = dataclasses.replace(space, unmade_parts=unmade)
    kept = {space.decode(row) for row in space.enumerate() if left.can_make(space.decode(row))}
    assert {left.decode(row) for row in left.enumerate()} == kept
    assert 0 < len(kept) < len(space.enumerate())
    assert {left.decode(row) for row in left.sample(500, seed=0)} <= kept
    for row in left.enumerate()[::50]:
        assert {left.decode(near) for near in left.neighbors(row)} <= kept


def test_where_no_partitioner_is_left_there_is_one_part(space: SearchSpace) -> None:
    metis = space.fix("partitioner", "metis").without_parts("metis", 2)
    assert set(metis.columns(metis.enumerate())["num_partitions"]) == {1}
    stuck = metis.fix("num_partitions", 4)
    assert not any(stuck.can_make(stuck.decode(row)) for row in stuck.enumerate()[::7])


@pytest.mark.parametrize(
    ("name", "value"),
    [("batch_size", 2.5), ("batch_size", True), ("batch_size", "64.5"), ("bias_rate", True), ("num_workers", None)],
)
def test_a_knob_takes_only_numbers_of_its_kind(space: SearchSpace, name: str, value: object) -> None:
    with pytest.raises(ConfigError, match=f"{name} must be a (whole )?number, got {value!r}"):
        space.fix(name, value)


@pytest.mark.parametrize(
    ("speeds", "devices", "sparse", "tried"),
    [
        ({"gemm_flops_per_s": 1e11, "bf16_gemm_flops_per_s": 1.31e11}, 0, False, True),
        ({"gemm_flops_per_s": 1e11, "bf16_gemm_flops_per_s": 1.29e11}, 0, False, False),
        ({"gemm_flops_per_s": 1e11}, 0, False, False),  # probed before it was measured
        ({"gemm_flops_per_s": 1e11, "bf16_gemm_flops_per_s": 2e11}, 0, True, False),
        ({"bf16_gemm_flops_per_s": 1e12, "device_gemm_flops_per_s": 1e13}, 1, False, False),
        ({"device_gemm_flops_per_s": 1e13, "device_bf16_gemm_flops_per_s": 2e13}, 1, False, True),
    ],
)
def test_bfloat16_is_tried_where_rows_are_dense_and_products_faster(
    speeds: dict, devices: int, sparse: bool, tried: bool, tiny_graph: Graph, sparse_graph: Graph, hardware: Hardware
) -> None:
    profile = dataclasses.replace(hardware.profile, **speeds)
    machine = dataclasses.replace(hardware, profile=profile, num_devices=devices)
    graph = (sparse_graph if sparse else tiny_graph).characteristics()
    values = SearchSpace.of(Setting(Task(), graph, machine)).knob("compute_dtype").values
    assert values == (("float32", "bfloat16") if tried else ("float32",))


def test_a_size_may_be_text_with_a_unit() -> None:
    cache = SearchSpace(KNOBS).knob("cache_bytes")
    assert [cache.parse(value) for value in ("64MiB", "64M", "64MB", "0", 0, "1000")] == [
        *(64 << 20, 64 << 20, 64 * 10**6),
        *(0, 0, 1000),
    ]
    with pytest.raises(ConfigError, match="cache_bytes must be a whole number, got 'lots'"):
        cache.parse("lots")
