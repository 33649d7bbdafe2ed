from __future__ import annotations

import dataclasses
import json

import pytest

from a3gnn.apply.train import train
from a3gnn.config import TrainConfig
from a3gnn.errors import ConfigError
from a3gnn.learning_curve import CurveEnd, LearningCurve
from a3gnn.loader.loader import Loader
from a3gnn.measurement import Failure, FailureKind
from a3gnn.training.tuned import TunedConfig


def test_write_and_read_are_a_round_trip(write_tuned):
    path = write_tuned(default=Failure(FailureKind.OUT_OF_MEMORY, "too large", 5, 4.0), seeds={"tune": 3})
    tuned = TunedConfig.read(path)
    assert tuned.config == TrainConfig(batch_size=256)
    assert isinstance(tuned.default, Failure)
    assert TunedConfig.read(path.parent) == tuned
    tuned.write(path.parent / "again.json")
    assert (path.parent / "again.json").read_text() == path.read_text()


def test_the_file_has_the_keys_that_people_rely_on(write_tuned):
    fields = json.loads(write_tuned().read_text())
    assert {"schema_version", "config", "task", "graph", "hardware", "limits", "predicted", "measured"} <= set(fields)
    assert list(fields)[:6] == ["schema_version", "config", "task", "graph", "hardware", "limits"]
    assert fields["graph"]["spec"]
    assert fields["hardware"]["fingerprint"]
    assert fields["default"] is None


def test_it_tells_how_long_the_choice_was_trained(write_tuned, make_metrics):
    measured = dataclasses.replace(
        make_metrics(25.0, 300 * 2**20, 0.7),
        batches_per_epoch=4,
        setup_seconds=0.5,
        curve=LearningCurve((10, 20, 30), (0.5, 0.6, 0.7), CurveEnd.BUDGET),
    )
    path = write_tuned(measured=measured)
    fields = json.loads(path.read_text())
    assert fields["trained"] == {"batches": 30, "seconds": 0.5 + 30 / (25 * 4)}
    assert TunedConfig.read(path).trained == (30, 0.8)
    del fields["trained"]  # as in a file of an earlier version
    path.write_text(json.dumps(fields))
    assert TunedConfig.read(path).trained == (30, 0.8)
    assert TunedConfig.read(write_tuned(measured=None)).trained is None
    assert TunedConfig.read(write_tuned(measured=dataclasses.replace(measured, curve=None))).trained is None


def test_a_file_from_before_the_wait_policy_was_recorded_is_read(write_tuned):
    path = write_tuned(wait_policy="PASSIVE")
    assert TunedConfig.read(path).wait_policy == "PASSIVE"
    fields = json.loads(path.read_text())
    del fields["wait_policy"]
    path.write_text(json.dumps(fields))
    assert TunedConfig.read(path).wait_policy is None


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "can't read .*; a3gnn tune --out DIR writes one"),
        ("{", "is not JSON"),
        ("[1]", "holds something else"),
        ('{"schema_version": 99}', "must have schema version 1, got 99; tune again"),
        ('{"schema_version": 1}', r"a field is missing or has the wrong type \('graph'\)"),
    ],
)
def test_other_files_are_refused(content, message, tmp_path):
    path = tmp_path / "tuned.json"
    if content is not None:
        path.write_text(content)
    with pytest.raises(ConfigError, match=message):
        TunedConfig.read(path)


def test_a_field_that_breaks_its_law_is_named_with_the_file(write_tuned):
    path = write_tuned()
    fields = json.loads(path.read_text())
    fields["config"]["batch_size"] = -5
    path.write_text(json.dumps(fields))
    with pytest.raises(ConfigError, match=r"tuned\.json: batch_size must be an integer >= 1, got -5"):
        TunedConfig.read(path)


def test_the_object_serves_where_its_file_does(write_tuned, tmp_path):
    path = write_tuned()
    tuned = TunedConfig.read(path)
    by_file, by_object = (train(given, epochs=1, out=tmp_path / str(i)) for i, given in enumerate((path, tuned)))
    assert by_file.val_accuracy == by_object.val_accuracy
    assert (by_file.config, by_file.task) == (by_object.config, by_object.task) == (tuned.config, tuned.setting.task)
    assert Loader(tuned.spec, [10, 5], config=tuned).batch_size == tuned.config.batch_size
