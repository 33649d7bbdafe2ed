"""Saving and loading: the same answers, no pickles, and clear refusals."""

from __future__ import annotations

import json

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

from a3gnn.config import TrainConfig
from a3gnn.errors import StoreError, UsageError
from a3gnn_surrogate.surrogate import Surrogate


@pytest.fixture(scope="module")
def fitted(corpus):
    return Surrogate(seed=5).fit(corpus[:120], target=corpus[0].setting.graph.fingerprint)


@pytest.fixture
def saved(fitted, tmp_path):
    return fitted.save(tmp_path / "surrogate")


def answers(surrogate, row):
    p = surrogate.predict([TrainConfig(), row.config], row.setting)
    return np.stack([p.mean, p.low, p.high])


def test_a_loaded_surrogate_answers_the_same(fitted, saved, corpus):
    loaded = Surrogate.load(saved)
    assert loaded.get_params() == fitted.get_params()
    for row in (corpus[3], corpus[-3]):
        np.testing.assert_array_equal(answers(loaded, row), answers(fitted, row))


def test_an_empty_surrogate_survives_too(corpus, tmp_path):
    empty = Surrogate().fit([])
    np.testing.assert_array_equal(answers(Surrogate.load(empty.save(tmp_path)), corpus[0]), answers(empty, corpus[0]))


def test_only_json_and_ubj_are_written(saved):
    assert {path.suffix for path in saved.iterdir()} == {".json", ".ubj"}
    manifest = json.loads((saved / "manifest.json").read_text())
    assert manifest["schema_version"] == 12
    assert manifest["versions"]["xgboost"]


def test_saving_twice_replaces(fitted, saved, corpus):
    fitted.save(saved)
    np.testing.assert_array_equal(answers(Surrogate.load(saved), corpus[0]), answers(fitted, corpus[0]))


def test_an_empty_folder_is_refused(tmp_path):
    with pytest.raises(StoreError, match="has no surrogate"):
        Surrogate.load(tmp_path)


@pytest.mark.parametrize("text", ["not json", "[]", '{"format": "other"}'])
def test_a_foreign_manifest_is_refused(tmp_path, text):
    (tmp_path / "manifest.json").write_text(text)
    with pytest.raises(StoreError, match="has no surrogate"):
        Surrogate.load(tmp_path)


def test_another_schema_version_is_refused(saved):
    manifest = json.loads((saved / "manifest.json").read_text()) | {"schema_version": 99}
    (saved / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(StoreError, match="schema version 12, got 99"):
        Surrogate.load(saved)


def test_other_features_are_refused(saved):
    manifest = json.loads((saved / "manifest.json").read_text())
    (saved / "manifest.json").write_text(json.dumps(manifest | {"feature_names": manifest["feature_names"][1:]}))
    with pytest.raises(StoreError, match="columns"):
        Surrogate.load(saved)


@pytest.mark.parametrize("damage", [lambda content: content[:95], lambda content: content[:-1] + b"?"])
def test_a_damaged_booster_is_refused_before_xgboost_reads_it(saved, damage):
    booster = min(saved.glob("*.ubj"))
    booster.write_bytes(damage(booster.read_bytes()))
    with pytest.raises(StoreError, match=rf"damaged .*{booster.name} must have the hash"):
        Surrogate.load(saved)


def test_a_folder_that_cannot_be_written_is_refused(fitted, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="can't be written"):
        fitted.save(tmp_path / "file" / "surrogate")


def test_baselines_and_unfitted_surrogates_are_not_saved(tmp_path):
    with pytest.raises(UsageError, match="baseline"):
        Surrogate(learner="tree").fit([]).save(tmp_path)
    with pytest.raises(NotFittedError):
        Surrogate().save(tmp_path)
