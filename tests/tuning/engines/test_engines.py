"""The engines: which trials they choose after a few trials by formulas."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable

import numpy as np
import pytest

from a3gnn.config import TrainConfig
from a3gnn.errors import UsageError
from a3gnn.measurement import Failure, FailureKind
from a3gnn.objectives import MIN_GAIN, Priority
from a3gnn.profiling.request import PARTITIONING
from a3gnn.tuning.beliefs.beliefs import Beliefs
from a3gnn.tuning.beliefs.expectations import fit_surrogate
from a3gnn.tuning.engines.engine import make_engine
from a3gnn.tuning.engines.improvement import PROPOSALS, first_row, goals, log_gain, log_value
from a3gnn.tuning.engines.samplers import TpeEngine
from a3gnn.tuning.study.history import History
from a3gnn.tuning.study.study import ENGINES, Study
from a3gnn.tuning.study.trial import Trial
from tests.tuning.formulas import Formulas
from tests.tuning.histories import MiB, made, measured


@pytest.mark.parametrize("engine", ENGINES)
def test_every_engine_proposes_new_distinct_configurations_of_the_space(tried: History, engine: str) -> None:
    beliefs = Beliefs(tried, fit_surrogate(tried))
    proposals = make_engine(engine, seed=1).propose(beliefs, 3)
    rows = [tried.row(one.config.canonical()) for one in proposals]
    assert 1 <= len(rows) <= 3
    assert all(row is not None for row in rows)
    assert len({row.tobytes() for row in rows} - beliefs.tried) == len(rows)
    assert {one.reason for one in proposals} <= {"best", "front"}


@pytest.mark.parametrize("engine", ENGINES)
def test_the_same_trials_and_seed_have_the_same_proposals(tried: History, engine: str) -> None:
    first, second = (make_engine(engine, 3).propose(Beliefs(tried, fit_surrogate(tried)), 2) for _ in range(2))
    assert first == second


def test_an_unknown_engine_is_refused() -> None:
    with pytest.raises(UsageError, match="engine must be one of"):
        make_engine("eii", 0)


def test_expected_improvement_takes_the_best_of_all_by_value(tried: History) -> None:
    """Against every configuration of the space, valued by hand."""
    beliefs = Beliefs(tried, fit_surrogate(tried))
    (proposal,) = make_engine("ei", 0).propose(beliefs, 1)
    every = tried.space.enumerate()
    allowed = every[beliefs.learns_anew(every)]
    value = log_value(beliefs.of(allowed), beliefs.best())
    wanted = tried.space.decode(allowed[value.argmax()])
    assert proposal.reason == "best"
    assert proposal.config.canonical() == wanted.canonical()


def test_the_first_trial_for_time_learns_with_another_number_format_and_first_layer(tried: History) -> None:
    def first(priority: str = "time", **fixed: object) -> TrainConfig | None:
        options = {"priority": Priority.parse(priority), "fixed": tuple(fixed.items())}
        study = Study.of(dataclasses.replace(tried.study.request, **options), tried.study.setting)
        history = History(study, (dataclasses.replace(tried.trials[0], reason="default"),))
        beliefs = Beliefs(history, fit_surrogate(history))
        row = first_row(beliefs, 0)
        if row is None:
            return None
        config = beliefs.space.decode(row).canonical()
        (proposal,) = make_engine("ei", 0).propose(beliefs, 1)
        assert proposal.config.canonical().learning_key() == config.learning_key()
        least = float(beliefs.of(beliefs.space.sample(64, 0)).mean.min())
        best = beliefs.best()
        usual = TrainConfig(
            batch_size=config.batch_size,
            input_aggregation=config.input_aggregation,
            compute_dtype=config.compute_dtype,
        ).canonical()
        values = log_value(
            beliefs.of(np.stack([beliefs.space.encode(one) for one in (config, usual)])),
            least if best is None else best,
        )
        assert values[0] >= values[1]
        return config

    def learns(found: TrainConfig | None, wanted: TrainConfig) -> bool:
        return found is not None and found.learning_key() == wanted.canonical().learning_key()

    dtype = tried.space.knob("compute_dtype").values[-1]  # not every machine has bfloat16
    assert learns(first(compute_dtype=dtype), TrainConfig(input_aggregation="full", compute_dtype=dtype))
    wanted = TrainConfig(input_aggregation="full")
    assert learns(first(compute_dtype="float32"), wanted)
    assert learns(first(compute_dtype="float32", batch_size=512), wanted.replace(batch_size=512))
    assert first("throughput") is None
    assert first(input_aggregation="sampled", compute_dtype="float32") is None


def test_only_the_first_trial_is_given(tried: History) -> None:
    assert first_row(Beliefs(tried, fit_surrogate(tried)), 0) is None


def test_new_learning_keys_are_told_from_the_best_trials_and_others(tried: History) -> None:
    beliefs = Beliefs(tried, fit_surrogate(tried))
    best = beliefs.ranked[0].trial.measurement.config
    every = tried.space.enumerate()
    keys = {trial.measurement.config.learning_key() for trial in tried.trials}
    anew, again = beliefs.learns_anew(every), beliefs.learns_as_best(every)
    for row, is_new, is_alike in list(zip(every, anew, again, strict=True))[::7]:
        config = tried.space.decode(row)
        assert is_new == (config.learning_key() not in keys)
        tried_before = row.tobytes() in beliefs.tried
        assert is_alike == (config.learning_key() == best.learning_key() and not tried_before)
    assert anew.any()
    assert again.any()
    assert not (anew & again).any()


def test_a_batch_has_distinct_learning_keys(tried: History) -> None:
    proposals = make_engine("ei", 0).propose(Beliefs(tried, fit_surrogate(tried)), 4)
    assert len({one.config.learning_key() for one in proposals}) == len(proposals) > 1


def test_a_trial_that_takes_longer_than_what_is_left_is_not_proposed(tried: History) -> None:
    beliefs = Beliefs(tried, fit_surrogate(tried))
    (usual,) = make_engine("ei", 0).propose(beliefs, 1)
    row = tried.row(usual.config.canonical())
    assert row is not None
    seconds = float(beliefs.of(row[None]).seconds[0])
    assert make_engine("ei", 0).propose(beliefs, 1, seconds + 1e-6) == [usual]
    others = make_engine("ei", 0).propose(beliefs, 1, seconds / 2)
    assert usual not in others
    assert make_engine("ei", 0).propose(beliefs, 1, 1e-6) == []


def test_goals_are_the_priority_then_the_ends_of_the_front(tried: History) -> None:
    found = list(goals(Beliefs(tried, fit_surrogate(tried))))
    own = tried.objectives.priority
    assert [one.reason for one in found] == ["best", "best", "front", "front"]  # accuracy is a limit alone
    ends = [Priority(1, 0, 0, time=True), Priority(0, 1, 0, time=True)]
    assert [one.priority for one in found] == [own, own, *ends]
    request = dataclasses.replace(tried.study.request, priority=Priority.parse("balanced"))
    balanced = dataclasses.replace(tried, study=dataclasses.replace(tried.study, request=request))
    assert len(list(goals(Beliefs(balanced, fit_surrogate(balanced))))) == 5


def test_without_a_gain_nothing_is_proposed(history: History, formulas: Callable[..., Formulas]) -> None:
    space = history.study.space
    for name in ("parallel_mode", "feature_tier", "cache_policy", "resources", "partitioner"):
        space = space.fix(name, getattr(TrainConfig(), name))
    history = dataclasses.replace(history, study=dataclasses.replace(history.study, space=space))
    for row in space.enumerate():
        history = history.with_trial(made(history, space.decode(row), formulas))
    beliefs = Beliefs(history, fit_surrogate(history))
    for engine in ENGINES:
        assert make_engine(engine, 0).propose(beliefs, 4) == []


def test_what_is_proposed_for_the_priority_is_expected_to_gain(tried: History) -> None:
    beliefs = Beliefs(tried, fit_surrogate(tried))
    proposals = make_engine("ei", 0).propose(beliefs, 4)
    rows = np.stack([tried.row(one.config.canonical()) for one in proposals])
    gains = np.exp(log_gain(beliefs.of(rows), beliefs.best()))
    assert (gains >= math.log2(1 + MIN_GAIN)).all()


def test_before_anything_is_eligible_probable_configurations_are_tried(tried: History) -> None:
    """Under a limit that no trial kept and few configurations probably keep, one of these is tried."""
    every = tried.space.enumerate()
    least = min(one.metrics.peak_host_bytes for one in tried.measured())
    request = dataclasses.replace(tried.study.request, memory_limit=least - 2**20)
    tight = dataclasses.replace(tried, study=dataclasses.replace(tried.study, request=request))
    beliefs = Beliefs(tight, fit_surrogate(tight))
    assert beliefs.best() is None
    (proposal,) = make_engine("ei", 0).propose(beliefs, 1)
    row = tight.row(proposal.config.canonical())
    assert row is not None
    probability = beliefs.of(every).probability
    assert beliefs.of(row[None]).probability[0] >= np.quantile(probability, 0.75)


@pytest.mark.parametrize("engine", ["ei", "tpe"])
def test_partitions_that_could_not_be_made_are_not_proposed(tried: History, engine: str) -> None:
    config = TrainConfig(num_partitions=2, partitioner="metis")
    failure = Failure(FailureKind.OUT_OF_MEMORY, f"{PARTITIONING}: passed the limit", 0, 1.0)
    longer = tried.with_trial(Trial("best", {}, measured(tried, config, failure)))
    assert longer.space.unmade_parts == (("metis", 2),)
    for one in make_engine(engine, 0).propose(Beliefs(longer, fit_surrogate(longer)), 4):
        assert one.config.num_partitions == 1 or one.config.partitioner != "metis"


def test_the_policy_adds_starts_and_loses_none(tried: History) -> None:
    beliefs = Beliefs(tried, fit_surrogate(tried))
    plain, policy = (make_engine(name, 5).starts(beliefs) for name in ("ei", "ppo"))
    np.testing.assert_array_equal(policy[: len(plain)], plain)
    rows = policy[len(plain) :]
    assert 1 < len(rows) <= PROPOSALS
    np.testing.assert_array_equal(rows, tried.space.canonical(rows))
    values = {}
    for name in ("ei", "ppo"):
        (proposal,) = make_engine(name, 5).propose(beliefs, 1)
        row = tried.row(proposal.config.canonical())
        values[name] = float(log_value(beliefs.of(row[None]), beliefs.best())[0])
    assert values["ppo"] >= values["ei"]


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("limit", [None, 400 * MiB])
def test_a_failed_trial_ends_no_engine(tried: History, engine: str, limit: int | None) -> None:
    """Optuna's Gaussian process needs the same constraints of all trials, failed ones among them."""
    request = dataclasses.replace(tried.study.request, memory_limit=limit)
    history = dataclasses.replace(tried, study=dataclasses.replace(tried.study, request=request))
    failure = Failure(FailureKind.CRASHED, "by formula", 0, 1.0)
    history = history.with_trial(Trial("best", {}, measured(history, TrainConfig(num_partitions=8), failure)))
    proposals = make_engine(engine, 0).propose(Beliefs(history, fit_surrogate(history)), 1)
    assert len(proposals) == 1


def test_where_the_only_learning_key_failed_others_of_it_are_tried(
    history: History, formulas: Callable[..., Formulas]
) -> None:
    space = history.study.space.fix("num_partitions", 1).fix("partitioner", "blocks")
    history = dataclasses.replace(history, study=dataclasses.replace(history.study, space=space))
    failure = Failure(FailureKind.OUT_OF_MEMORY, "passed the limit", 0, 1.0)
    failed = history.with_trial(Trial("default", {}, measured(history, TrainConfig(), failure)))
    beliefs = Beliefs(failed, fit_surrogate(failed))
    assert not beliefs.learns_anew(space.enumerate()).any()
    (proposal,) = make_engine("ei", 0).propose(beliefs, 1)
    assert proposal.config.canonical() != TrainConfig().canonical()


def test_a_trial_that_takes_no_time_is_not_repeated(tried: History) -> None:
    """As in a replay of stored trials, which take no seconds."""
    quick = [
        dataclasses.replace(one, measurement=dataclasses.replace(one.measurement, seconds=0.0)) for one in tried.trials
    ]
    history = dataclasses.replace(tried, trials=tuple(quick))
    beliefs = Beliefs(history, fit_surrogate(history))
    proposals = make_engine("ei", 0).propose(beliefs, 8)
    assert not {history.row(one.config.canonical()).tobytes() for one in proposals} & beliefs.tried


def test_a_sampler_alone_gets_no_beliefs(tried: History) -> None:
    class Counting(TpeEngine):
        def sampler(self, trials: int, seed: int):
            counts.append(trials)
            return super().sampler(trials, seed)

    counts: list[int] = []
    beliefs = Beliefs(tried, fit_surrogate(tried))
    Counting(0).propose(beliefs, 1)
    Counting(0, with_beliefs=False).propose(beliefs, 1)
    assert counts[1] == len(tried.trials)
    assert counts[0] > len(tried.trials) + 32
