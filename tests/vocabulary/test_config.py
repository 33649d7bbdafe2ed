import json
from pathlib import Path

import pytest
from hypothesis import given

from a3gnn.config import DYNAMIC_POLICIES, KNOBS, TrainConfig
from a3gnn.errors import ConfigError, ExitCode
from a3gnn.task import MODELS, Task
from tests.vocabulary.random_configs import configs

README = Path(__file__).parents[2] / "README.md"


@given(configs)
def test_round_trip_through_json(config: TrainConfig) -> None:
    assert TrainConfig.from_dict(json.loads(json.dumps(config.to_dict()))) == config


@given(configs)
def test_canonical_is_idempotent_and_keeps_what_is_learned(config: TrainConfig) -> None:
    same = config.canonical()
    assert same.canonical() == same
    assert same.key() == config.key()
    assert same.learning_key() == config.learning_key()


def test_canonical_drops_what_does_not_matter() -> None:
    assert TrainConfig(num_workers=4).canonical() == TrainConfig()
    assert TrainConfig(bias_rate=8).canonical() == TrainConfig()
    assert TrainConfig(bias_rate=8, cache_bytes=1000).canonical().bias_rate == 8
    assert TrainConfig(num_workers=4, parallel_mode="mode2").canonical().num_workers == 4
    assert TrainConfig(cache_policy="fifo", partitioner="blocks", resources="auto").canonical() == TrainConfig()
    assert TrainConfig(partitioner="blocks", num_partitions=2).canonical().partitioner == "blocks"


def test_only_a_static_cache_is_sampled_towards() -> None:
    for policy in DYNAMIC_POLICIES:
        assert TrainConfig(cache_bytes=1000, bias_rate=8, cache_policy=policy).canonical().bias_rate == 1
    assert TrainConfig(cache_bytes=1000, bias_rate=8, cache_policy="access").canonical().bias_rate == 8


def test_keys_that_were_stored_before_a_field_came_still_name_their_configuration() -> None:
    before = {"batch_size": 64, "num_partitions": 4, "bias_rate": 4.0, "sampling_device": "cpu", "num_workers": 3}
    before |= {"cache_bytes": 1000, "parallel_mode": "mode2", "feature_tier": "disk", "schema_version": 1}
    assert TrainConfig.from_dict(before).key() == "0f0ce7e0518e1d70"
    assert TrainConfig().key() == "8a64b327bb54f8e8"
    assert TrainConfig.from_dict(before | {"seed_order": "proximity"}).key() != TrainConfig.from_dict(before).key()


def test_tasks_of_built_in_models_keep_the_keys_that_were_stored_before_others_came() -> None:
    assert Task().key() == "414a7692fba7d10d"
    assert Task(model="gat", fanouts=(4, 3), hidden_channels=64, seed=3).key() == "92a4b810af1abf23"
    assert "own" not in Task().to_dict()


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"model": "saeg"}, "must be .*your own package.module:function, got .*did you mean 'sage'"),
        ({"model": "my.models:make it"}, "model must be one of"),
        ({"model": "my.models:make", "heads": 2}, "heads must be left out .* its factory decides that"),
        ({"model": "my.models:make", "dropout": 0.1}, "dropout must be left out"),
    ],
)
def test_what_is_no_task_says_why(fields: dict, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        Task(**fields)


def test_a_task_may_change_its_model() -> None:
    task = Task(hidden_channels=64, dropout=0.1, fanouts=(5, 5), seed=3, learning_rate=0.1)
    own = task.with_model("my.models:make")
    assert own == Task(model="my.models:make", fanouts=(5, 5), seed=3, learning_rate=0.1)
    assert own.is_own
    assert own.with_model("gcn") == Task(model="gcn", fanouts=(5, 5), seed=3, learning_rate=0.1)
    assert task.with_model("gcn").hidden_channels == 64


def test_the_docstring_tells_of_every_knob() -> None:
    text = " ".join((TrainConfig.__doc__ or "").split())
    assert all(f"{knob.name}: {knob.help}" in text for knob in KNOBS)


def test_what_several_trainers_have_is_idle_of_one() -> None:
    one = TrainConfig(parallel_mode="mode1", num_workers=2, resources="auto", sampling_device="cuda")
    assert one.replace(prefetch_depth=2, adapt="on").canonical() == one
    two = one.replace(trainers=2)
    assert two.canonical() == two.replace(resources="free", sampling_device="cpu")
    ahead = two.replace(prefetch_depth=1).canonical()
    assert (ahead.parallel_mode, ahead.num_workers, ahead.prefetch_depth) == ("sequential", 1, 1)


def test_trainers_change_sums_and_depths_nothing() -> None:
    two = TrainConfig(trainers=2)
    assert dict(two.learning_key()) == dict(TrainConfig().learning_key()) | {"trainers": 2}
    assert two.replace(prefetch_depth=3).learning_key() == two.learning_key()
    assert two.replace(adapt="on").learning_key() != two.learning_key()
    assert two.replace(prefetch_depth=3).key() != two.key()
    assert not {"trainers", "prefetch_depth", "adapt"} & set(dict(TrainConfig().learning_key()))


def test_learning_key_ignores_when_and_whence_a_batch_comes() -> None:
    one = TrainConfig(cache_bytes=5000, parallel_mode="mode1", num_workers=3, feature_tier="disk")
    assert one.learning_key() == TrainConfig().learning_key()
    biased = one.replace(bias_rate=4.0)
    assert biased.learning_key() != one.learning_key()
    assert biased.learning_key() != biased.replace(cache_bytes=9000).learning_key()
    assert biased.learning_key() != biased.replace(cache_policy="access").learning_key()
    assert one.replace(cache_policy="clock").learning_key() == one.learning_key()
    assert one.replace(resources="auto").learning_key() != one.learning_key()
    assert one.replace(seed_order="proximity").learning_key() != one.learning_key()
    narrow = one.replace(compute_dtype="bfloat16")
    assert narrow.learning_key() != one.learning_key()
    assert narrow.replace(num_workers=2, feature_tier="ram").learning_key() == narrow.learning_key()
    assert (
        one.replace(num_partitions=2).learning_key()
        != one.replace(num_partitions=2, partitioner="blocks").learning_key()
    )


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"cache_bytes": -5}, ["cache_bytes must be an integer >= 0", "-5", "0 turns the cache off"]),
        ({"batch_size": 0}, ["batch_size", ">= 1", "0"]),
        ({"batch_size": True}, ["batch_size", "True"]),
        ({"batch_size": 10.0}, ["batch_size", "10.0"]),
        ({"bias_rate": 0.5}, ["bias_rate", ">= 1", "0.5"]),
        ({"bias_rate": float("inf")}, ["bias_rate", "finite"]),
        ({"learning_rate_scale": 0.0}, ["learning_rate_scale must be finite and > 0, got 0.0; 1 is the task's"]),
        ({"parallel_mode": "mode3"}, ["mode1", "mode2", "sequential", "mode3", "did you mean"]),
        ({"cache_policy": "clack"}, ["cache_policy", "did you mean", "clock"]),
        ({"seed_order": "bfs"}, ["seed_order", "proximity", "random", "bfs"]),
        ({"schema_version": 99}, ["schema_version", "99", "tune again"]),
    ],
)
def test_refusals_state_rule_value_and_remedy(fields: dict, words: list[str]) -> None:
    with pytest.raises(ConfigError) as caught:
        TrainConfig(**fields)
    assert all(word in str(caught.value) for word in words)
    assert caught.value.exit_code == ExitCode.USAGE


def test_unknown_fields_are_refused_with_the_nearest() -> None:
    with pytest.raises(ConfigError, match="did you mean 'batch_size'"):
        TrainConfig.from_dict({"batchsize": 3})
    with pytest.raises(ConfigError, match="did you mean 'num_workers'"):
        TrainConfig().replace(num_worker=3)


@pytest.mark.parametrize("model", MODELS)
def test_task_round_trip(model: str) -> None:
    task = Task(model=model, fanouts=(15, 10, 5), seed=7)
    assert Task.from_dict(json.loads(json.dumps(task.to_dict()))) == task
    assert task.num_layers == 3


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"fanouts": ()}, "one per layer"),
        ({"fanouts": (10, 0)}, "positive integers"),
        ({"dropout": 1.0}, r"\[0, 1\)"),
        ({"model": "gat", "hidden_channels": 30, "heads": 4}, "multiple of heads"),
        ({"learning_rate": 0}, "learning_rate must be positive"),
        ({"seed": -1}, "seed"),
    ],
)
def test_a_task_out_of_range_is_refused(fields: dict, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        Task(**fields)


def test_fanouts_are_the_tasks_where_the_configuration_has_none() -> None:
    task = Task(fanouts=(25, -1, 5))
    assert TrainConfig().fanouts(task) == (25, -1, 5)
    assert TrainConfig(seed_fanout=3).fanouts(task) == (3, -1, 5)
    assert TrainConfig(deep_fanout=2).fanouts(task) == (25, 2, 2)
    assert TrainConfig(seed_fanout=40, deep_fanout=7).fanouts(task) == (40, 7, 7)
    assert TrainConfig(seed_fanout=3, deep_fanout=2).fanouts(Task(fanouts=(10,))) == (3,)


@pytest.mark.parametrize("knob", ["seed_fanout", "deep_fanout"])
def test_fanouts_decide_what_is_learnt(knob: str) -> None:
    config = TrainConfig(**{knob: 5})
    assert config.learning_key() != TrainConfig().learning_key()
    assert config.key() != TrainConfig().key()
    for wrong in (0, -1, 2.5, True):
        with pytest.raises(ConfigError, match=f"{knob} must be an integer >= 1, got {wrong}; None takes the task's"):
            TrainConfig(**{knob: wrong})
