"""The surrogate's columns and the correction over knobs."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from a3gnn.config import KNOBS, TrainConfig
from a3gnn.errors import UsageError
from a3gnn.setting import Setting
from a3gnn.task import MODELS, Task
from a3gnn_surrogate.columns import UNVARIED, as_columns, fanouts
from a3gnn_surrogate.features import FEATURE_NAMES, PLAIN_FEATURES, POINT_NAMES, feature_matrix, knob_points
from a3gnn_surrogate.local import LocalCorrection, VarianceComponents, rbf_kernel
from a3gnn_surrogate.physics.analytic import analytic_metrics
from a3gnn_surrogate.rows import ACCURACY_DROP, EPOCHS, OUTPUTS, RELEVANT, THROUGHPUT


def features(config, task, graph, hardware):
    columns, setting = as_columns([config]), Setting(task, graph, hardware)
    row = feature_matrix(columns, setting, analytic_metrics(columns, setting))[0]
    return dict(zip(FEATURE_NAMES, row.tolist(), strict=True))


def test_names_are_unique_and_the_analytic_model_comes_last(graphs, laptop, accelerated):
    assert len(set(FEATURE_NAMES)) == len(FEATURE_NAMES)
    assert FEATURE_NAMES[: len(PLAIN_FEATURES)] == PLAIN_FEATURES
    for graph in graphs.values():
        for hardware in (laptop, accelerated):
            assert np.isfinite(list(features(TrainConfig(), Task(), graph, hardware).values())).all()


def test_each_name_holds_what_it_says(graphs, laptop):
    graph = graphs["dense"]
    config = TrainConfig(batch_size=256, parallel_mode="mode2", num_workers=4, cache_bytes=graph.feature_bytes // 2)
    row = features(config, Task(model="gin", hidden_channels=64), graph, laptop)
    assert row["knob_batch_size"] == 8
    assert row["knob_parallel_mode"] == 2
    assert row["knob_cache_share"] == pytest.approx(0.5, abs=0.01)
    assert row["graph_homophily"] == pytest.approx(graph.homophily)
    assert row["graph_edge_mass_0.1"] == pytest.approx(graph.cached_edge_mass[2])
    assert row["hardware_random_reads_per_s"] == pytest.approx(np.log(laptop.profile.random_reads_per_s))
    assert row["task_model"] == MODELS.index("gin")
    assert row["task_hidden_channels"] == 6


def test_every_knob_moves_a_feature(graphs, laptop):
    graph = graphs["dense"]
    base = TrainConfig(parallel_mode="mode1", num_workers=2, cache_bytes=10**6, bias_rate=2.0, num_partitions=4)
    others: dict[str, object] = {"cache_bytes": 10**7, "parallel_mode": "mode2"}
    for knob in (knob for knob in KNOBS if knob.name not in UNVARIED):
        others.setdefault(knob.name, next(v for v in reversed(knob.values) if v != getattr(base, knob.name)))
    start = features(base, Task(), graph, laptop)
    for name, value in others.items():
        assert features(base.replace(**{name: value}), Task(), graph, laptop)[f"knob_{name}"] != start[f"knob_{name}"]


def test_knobs_that_no_profile_varies_are_no_columns_and_move_what_is_predicted_of_them(graphs, laptop):
    one = features(TrainConfig(), Task(), graphs["dense"], laptop)
    two = features(TrainConfig(trainers=2, prefetch_depth=1), Task(), graphs["dense"], laptop)
    assert not {f"knob_{name}" for name in UNVARIED} & set(FEATURE_NAMES)
    assert {name for name in one if name.startswith("knob_") and one[name] != two[name]} == set()
    assert two["analytic_train_seconds"] > one["analytic_train_seconds"]
    assert two["analytic_input_nodes_per_batch"] > one["analytic_input_nodes_per_batch"]


def test_columns_of_different_lengths_are_refused():
    columns = as_columns([TrainConfig(), TrainConfig(batch_size=64)])
    with pytest.raises(UsageError, match="the same length"):
        as_columns(columns | {"batch_size": np.array([64])})


def test_a_correction_matches_its_rows_and_falls_to_the_mean_of_the_setting(graphs, laptop):
    columns = as_columns([TrainConfig(), TrainConfig(batch_size=64, num_partitions=8, feature_tier="disk")])
    points = knob_points(columns, Setting(Task(), graphs["dense"], laptop))
    variances = [
        VarianceComponents(between_settings=1.0, within_setting=0.5, noise=1e-6),
        VarianceComponents(between_settings=1e-9, within_setting=0.5, noise=1e-6),
    ]
    one = LocalCorrection.fit(points[:1], np.array([[0.6, 0.6]]), variances)
    at, away = one.predict(points).mean
    assert at == pytest.approx([0.6, 0.6], abs=1e-3)
    assert 0.4 < away[0] < 0.6  # 0.4 = 0.6 * 1.0 / (1.0 + 0.5), where points have nothing in common
    assert 0.0 < away[1] < away[0]


def test_a_correction_leaves_out_what_was_not_measured(graphs, laptop):
    setting = Setting(Task(), graphs["dense"], laptop)
    points = knob_points(as_columns([TrainConfig(), TrainConfig(batch_size=64)]), setting)
    residuals = np.array([[0.5, np.nan], [np.nan, np.nan]])
    correction = LocalCorrection.fit(points, residuals, [VarianceComponents(1.0, 0.1, 1e-6)] * 2)
    assert correction.predict(points).mean[0] == pytest.approx([0.5, 0.0], abs=1e-3)


def test_a_row_tells_all_of_what_its_own_inputs_decide(graphs, laptop):
    """What is learned does not depend on workers: two configurations that differ in these alone lose alike."""
    configs = [TrainConfig(), TrainConfig(parallel_mode="mode1", num_workers=4), TrainConfig(batch_size=64)]
    points = knob_points(as_columns(configs), Setting(Task(), graphs["dense"], laptop))
    residuals = np.tile([[0.5]], (1, len(OUTPUTS)))
    variances = [VarianceComponents(0.1, 1.0, 0.01)] * len(OUTPUTS)
    found = LocalCorrection.fit(points[:1], residuals, variances, RELEVANT).predict(points)
    for output in (ACCURACY_DROP, EPOCHS):
        assert found.mean[1, output] == found.mean[0, output]
        assert found.deviation[1, output] == found.deviation[0, output]
        assert found.mean[2, output] < found.mean[0, output]
        assert found.deviation[2, output] > found.deviation[0, output]
    assert found.mean[1, THROUGHPUT] < found.mean[0, THROUGHPUT]
    assert found.deviation[1, THROUGHPUT] > found.deviation[0, THROUGHPUT]


def test_outputs_of_different_inputs_are_corrected_as_each_by_itself():
    random = np.random.default_rng(0)
    points, residuals, at = random.normal(size=(8, 3)), random.normal(size=(8, 2)), random.normal(size=(5, 3))
    residuals[[2, 3], 1] = np.nan
    relevant = np.array([[True, True, True], [True, False, True]])
    variances = [VarianceComponents(0.5, 0.3, 0.01), VarianceComponents(0.2, 0.4, 0.02)]
    both = LocalCorrection.fit(points, residuals, variances, relevant)
    for same in (both, LocalCorrection.from_dict(both.to_dict())):
        found = same.predict(at)
        for j, inputs in enumerate(relevant):
            alone = LocalCorrection.fit(points[:, inputs], residuals[:, [j]], [variances[j]]).predict(at[:, inputs])
            np.testing.assert_allclose(found.mean[:, j], alone.mean[:, 0])
            np.testing.assert_allclose(found.deviation[:, j], alone.deviation[:, 0])


def test_a_correction_survives_json(graphs, laptop):
    points = knob_points(as_columns([TrainConfig()]), Setting(Task(), graphs["dense"], laptop))
    correction = LocalCorrection.fit(points, np.array([[0.5]]), [VarianceComponents(1.0, 0.1, 0.01)])
    same = LocalCorrection.from_dict(correction.to_dict())
    np.testing.assert_array_equal(same.predict(points).mean, correction.predict(points).mean)
    np.testing.assert_array_equal(same.predict(points).deviation, correction.predict(points).deviation)


def test_the_deviation_is_that_of_the_covariance_matrix():
    """The shared eigenvectors against the textbook's formula, for outputs that different rows have."""
    random = np.random.default_rng(0)
    rows, at = random.normal(size=(12, 4)), random.normal(size=(7, 4))
    residuals = random.normal(size=(12, 3))
    residuals[[1, 5], 1] = np.nan
    variances = [
        VarianceComponents(0.5, 0.3, 0.01),
        VarianceComponents(0.1, 0.4, 0.1),
        VarianceComponents(0.0, 0.2, 0.05),
    ]
    found = LocalCorrection.fit(rows, residuals, variances).predict(at)
    for j, v in enumerate(variances):
        own = rows[np.isfinite(residuals[:, j])]
        covariance = v.between_settings + v.within_setting * rbf_kernel(own, own) + v.noise * np.eye(len(own))
        shared = v.between_settings + v.within_setting * rbf_kernel(at, own)
        explained = np.einsum("ij,ij->i", shared, np.linalg.solve(covariance, shared.T).T)
        variance = v.between_settings + v.within_setting + v.noise - explained
        # A level that may be anything leaves the distance of the residuals from their own one.
        level = 1e6
        anywhere = covariance - v.between_settings + level
        own_residuals = residuals[np.isfinite(residuals[:, j]), j]
        distance = own_residuals @ np.linalg.solve(anywhere, own_residuals)
        scatter = (6 + distance) / (6 + len(own) - 1)
        np.testing.assert_allclose(found.deviation[:, j], np.sqrt(variance * scatter), rtol=1e-4)


@pytest.mark.parametrize("times", [0.2, 1.0, 5.0])
def test_a_setting_that_varies_otherwise_than_all_is_found_out(times):
    """Rows drawn with a multiple of the deviation that is assumed: the more there are, the more they are believed."""
    random, v = np.random.default_rng(1), VarianceComponents(1.0, 0.3, 0.03)
    points = random.uniform(-1.5, 1.5, size=(60, 3))
    within = v.within_setting * rbf_kernel(points, points) + v.noise * np.eye(60)
    drawn = 7.0 + times * random.multivariate_normal(np.zeros(60), within)
    found = [LocalCorrection.fit(points[:m], drawn[:m, None], [v]).scatter[0] for m in (1, 6, 60)]
    assert found[0] == 1
    expected = [np.sqrt((6 + (m - 1) * times**2) / (6 + m - 1)) for m in (6, 60)]
    np.testing.assert_allclose(found[1:], expected, rtol=0.35)
    assert abs(np.log(found[2] / times)) < 0.6


def test_the_deviation_falls_near_the_rows_and_is_the_whole_without_any():
    v = VarianceComponents(0.5, 0.3, 0.01)
    points = np.array([[0.0], [0.5], [3.0], [20.0]])
    correction = LocalCorrection.fit(points[:1], np.array([[0.2, np.nan]]), [v, v])
    known, unknown = correction.predict(points).deviation.T
    assert (np.diff(known) > 0).all()
    assert known[0] == pytest.approx(np.sqrt(2 * 0.01), rel=0.02)  # the row's noise, and the next measurement's
    assert known[-1] == pytest.approx(v.deviation_given_one)
    np.testing.assert_allclose(unknown, v.deviation)


@given(
    own=st.lists(st.tuples(st.none() | st.integers(1, 99), st.none() | st.integers(1, 99)), min_size=1),
    task=st.lists(st.integers(1, 99) | st.just(-1), min_size=1, max_size=4),
)
def test_the_fanouts_of_columns_are_those_of_their_configurations(
    own: list[tuple[int | None, int | None]], task: list[int]
) -> None:
    configs, wanted = [TrainConfig(seed_fanout=one, deep_fanout=deep) for one, deep in own], Task(fanouts=tuple(task))
    found = np.stack(fanouts(as_columns(configs), wanted), axis=1)
    expected = [[np.inf if fanout < 0 else fanout for fanout in config.fanouts(wanted)] for config in configs]
    assert found.tolist() == expected


def test_fanouts_are_features_as_they_are_sampled_and_points_beside_the_default(graphs, laptop):
    task, graph = Task(fanouts=(25, -1, 4)), graphs["dense"]
    row = features(TrainConfig(seed_fanout=5), task, graph, laptop)
    assert row["knob_seed_fanout"] == pytest.approx(np.log2(5))
    assert row["knob_deep_fanout"] == pytest.approx((np.log2(100) + 2) / 2)
    columns = as_columns([TrainConfig(), TrainConfig(seed_fanout=5), TrainConfig(deep_fanout=2)])
    points = dict(zip(POINT_NAMES, knob_points(columns, Setting(task, graph, laptop)).T, strict=True))
    assert points["seed_fanout"] == pytest.approx([0, np.log2(5 / 25) / 2, 0])
    assert points["deep_fanout"] == pytest.approx([0, 0, (1 - (np.log2(100) + 2) / 2) / 2])
