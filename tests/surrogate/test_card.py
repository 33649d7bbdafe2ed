"""The model card."""

from __future__ import annotations

import functools
import json
import math

import numpy as np
import pytest

from a3gnn.config import TrainConfig
from a3gnn.errors import UsageError
from a3gnn.measurement import METRICS
from a3gnn_surrogate import residual
from a3gnn_surrogate.evaluate import CONTENDERS, SPLITS, ModelCard, Score, _folds, _scores, evaluate, held_out
from a3gnn_surrogate.surrogate import Surrogate


@pytest.fixture(scope="module")
def few_rows(corpus):
    names = {}
    for row in corpus:
        names.setdefault(row.setting.graph.name, []).append(row)
    return [row for name in ("dense", "road", "words") for row in names[name][:16]]


#: Most trees, besides none: more take most of the time and change no order of errors.
FEW_TREES = (0, 20, 40)


@pytest.fixture(scope="module")
def memory_score(few_rows):
    """Returns the card's score of a contender's memory on a split; all contenders and splits take a minute."""

    @functools.cache
    def score(contender, split):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(residual, "_NUM_TREES", FEW_TREES)
            found = _scores(contender, split, few_rows, Surrogate(**CONTENDERS[contender]), lambda: None)
            return next(one for one in found if one.metric == "peak_host_bytes")

    return score


@pytest.fixture(scope="module")
def card(few_rows):
    """The card without trees, which take most of the time."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(residual, "_NUM_TREES", (0,))
        return evaluate(few_rows[::2])


@pytest.mark.weekly
def test_every_contender_is_scored_on_every_split(few_rows, monkeypatch):
    monkeypatch.setattr(residual, "_NUM_TREES", FEW_TREES)
    card = evaluate(few_rows)
    metrics = [name for name in METRICS if name not in ("peak_device_bytes", "seconds_to_accuracy")]
    for split in SPLITS:
        for contender in CONTENDERS:
            for metric in metrics:
                score = card.score(contender, split, metric)
                assert math.isfinite(score.r2)
                assert score.median_error >= 0
                assert 0 <= score.worst_coverage <= score.coverage <= 1


def test_physics_carries_over_to_an_unseen_graph_and_trees_do_not(memory_score):
    residual = memory_score("XGBoost on its residual", "unseen graph")
    for contender in ("XGBoost, no physics", "linear regression", "decision tree"):
        assert residual.r2 > memory_score(contender, "unseen graph").r2


def test_more_that_is_measured_of_a_graph_tells_more(memory_score):
    """The fewer rows that are left are predicted closer to the mark by ten of their graph than by none."""
    none, ten = (memory_score("XGBoost on its residual", split).median_error for split in (SPLITS[1], SPLITS[3]))
    assert ten < none


def test_ten_rows_of_each_graph_are_left_out_of_what_is_held(corpus):
    rows = [row for row in corpus if row.setting.graph.name in ("dense", "road")]
    default = [row.config == TrainConfig() for row in rows]
    held = np.sum(_folds(rows, "unseen graph, ten measured", seed=0), axis=0)
    assert not held[default].any()
    for name in ("dense", "road"):
        own = np.array([row.setting.graph.name == name for row in rows])
        assert held[own].tolist().count(1) == own.sum() - sum(default & own) - 9


def test_what_is_held_out_is_predicted_without_its_graph(corpus):
    rows = [row for row in corpus if row.setting.graph.name in ("dense", "road")]
    found = held_out(rows, "unseen graph", Surrogate(learner="none"))
    assert sorted(row.id for row in found.rows) == sorted(row.id for row in rows)
    assert found.truth.shape == found.prediction.mean.shape == (len(rows), len(METRICS))
    road = [i for i, row in enumerate(found.rows) if row.setting.graph.name == "road"]
    dense = Surrogate(learner="none").fit([row for row in rows if row.setting.graph.name == "dense"])
    own = [found.rows[i] for i in road]
    expected = dense.predict([row.config for row in own], own[0].setting).column("peak_host_bytes")
    np.testing.assert_allclose(found.prediction.take(np.array(road)).column("peak_host_bytes"), expected)


def test_an_unknown_split_is_refused(corpus):
    with pytest.raises(UsageError, match="the split must be one of"):
        held_out(corpus, "unseen machine", Surrogate())


def test_the_card_survives_json_and_reads_as_markdown(card):
    fields = json.loads(card.to_json())
    scores = tuple(Score(**score) for score in fields.pop("scores"))
    lists = {name: tuple(fields.pop(name)) for name in ("graphs", "notes")}
    assert ModelCard(**fields, **lists, scores=scores) == card
    text = card.to_markdown()
    assert all(name in text for name in (*CONTENDERS, *SPLITS, "dense, road, words"))


def test_one_graph_says_so(corpus):
    card = evaluate(corpus[:14])
    assert {score.split for score in card.scores} == {"random rows"}
    assert any("One graph only" in note for note in card.notes)


def test_too_few_measurements_are_refused(corpus):
    with pytest.raises(UsageError, match="at least 2"):
        evaluate(corpus[:1])


def test_an_unknown_score_is_refused(card):
    with pytest.raises(UsageError, match="no score"):
        card.score("oracle", "random rows", "val_accuracy")
