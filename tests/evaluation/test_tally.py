"""Every metric equals scikit-learn's, however the outputs come in pieces."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from sklearn import metrics as reference

from a3gnn.errors import GraphError
from a3gnn.evaluation.tally import average_precision, check_defined, new_tally, roc_auc
from a3gnn.metric import ERRORS, METRIC_NAMES, RANK_METRICS, Metric, Target

SHARES = [name for name in METRIC_NAMES if name not in (*ERRORS, *RANK_METRICS, "r2")]


@st.composite
def scored(draw: st.DrawFn) -> tuple[NDArray[np.bool_], NDArray[np.float32]]:
    """Nodes of both kinds, and their scores, of which many are tied."""
    kinds = draw(st.lists(st.booleans(), min_size=1, max_size=30))
    positive = np.array([True, False, *kinds])
    scores = draw(
        st.lists(st.sampled_from([-2.0, 0.0, 0.5, 0.75, 3.0]), min_size=len(positive), max_size=len(positive))
    )
    return positive, np.array(scores, dtype=np.float32)


@given(scored())
def test_rankings_equal_those_of_scikit_learn(case: tuple[NDArray[np.bool_], NDArray[np.float32]]) -> None:
    positive, scores = case
    assert roc_auc(positive, scores) == pytest.approx(reference.roc_auc_score(positive, scores))
    assert average_precision(positive, scores) == pytest.approx(reference.average_precision_score(positive, scores))


def expected(name: str, labels: NDArray[np.int64], logits: torch.Tensor) -> float:
    """Returns what scikit-learn finds; of the classes that a node has."""
    predicted, found = logits.argmax(dim=1).numpy(), np.unique(labels)
    if name == "accuracy":
        return float(reference.accuracy_score(labels, predicted))
    if name in ("macro_f1", "micro_f1"):
        average = name.removesuffix("_f1")
        kinds = found if average == "macro" else None
        return float(reference.f1_score(labels, predicted, average=average, labels=kinds, zero_division=0.0))
    score = reference.roc_auc_score if name == "roc_auc" else reference.average_precision_score
    shares = torch.log_softmax(logits, dim=1).numpy()
    kinds = [1] if logits.shape[1] == 2 else found
    return float(np.mean([score(labels == one, shares[:, one]) for one in kinds]))


@pytest.mark.parametrize("name", SHARES)
@given(seed=st.integers(0, 10_000), classes=st.integers(2, 5), nodes=st.integers(2, 40), pieces=st.integers(1, 4))
def test_a_tally_in_pieces_equals_scikit_learn(name: str, seed: int, classes: int, nodes: int, pieces: int) -> None:
    rng = np.random.default_rng(seed)
    labels = np.concatenate([[0, 1], rng.integers(0, classes, nodes)])  # some classes may have no node
    logits = torch.from_numpy(rng.normal(size=(len(labels), classes)).round(1).astype(np.float32))
    metric = Metric(name)
    tally = new_tally(metric, "classes", classes)
    for some in np.array_split(np.arange(len(labels)), pieces):
        if len(some):
            tally.add(logits[some], labels[some])
    assert tally.quality() == pytest.approx(expected(name, labels, logits))


def expected_of_labels(name: str, labels: NDArray[np.int8], logits: torch.Tensor) -> float:
    """Returns what scikit-learn finds; of the labels that some nodes have, and others don't where they are ranked."""
    predicted, scores = (logits > 0).numpy(), logits.numpy()
    if name == "accuracy":
        return float(reference.accuracy_score(labels, predicted))
    if name == "micro_f1":
        return float(reference.f1_score(labels, predicted, average="micro", zero_division=0.0))
    if name == "macro_f1":
        each = reference.f1_score(labels, predicted, average=None, zero_division=0.0)
        return float(each[labels.any(axis=0)].mean())
    score = reference.roc_auc_score if name == "roc_auc" else reference.average_precision_score
    both = np.flatnonzero(labels.any(axis=0) & ~labels.all(axis=0))
    return float(np.mean([score(labels[:, one], scores[:, one]) for one in both]))


@pytest.mark.parametrize("name", SHARES)
@given(seed=st.integers(0, 10_000), width=st.integers(2, 5), nodes=st.integers(0, 30), pieces=st.integers(1, 4))
def test_a_tally_of_several_labels_equals_scikit_learn(
    name: str, seed: int, width: int, nodes: int, pieces: int
) -> None:
    rng = np.random.default_rng(seed)
    labels = (rng.random((nodes + 2, width)) < 0.3).astype(np.int8)
    labels[:2, 0] = 0, 1
    logits = torch.from_numpy(rng.normal(size=labels.shape).round(1).astype(np.float32))
    tally = new_tally(Metric(name), "labels", width)
    for some in np.array_split(np.arange(len(labels)), pieces):
        if len(some):
            tally.add(logits[some], labels[some])
    assert tally.quality() == pytest.approx(expected_of_labels(name, labels, logits))


@pytest.mark.parametrize("name", ["mae", "rmse", "r2"])
@given(seed=st.integers(0, 10_000), nodes=st.integers(2, 30), scale=st.floats(0.1, 100))
def test_the_quality_of_values_shows_as_that_of_scikit_learn(name: str, seed: int, nodes: int, scale: float) -> None:
    rng = np.random.default_rng(seed)
    values, outputs = rng.normal(size=(2, nodes)).astype(np.float32)
    metric = Metric(name, scale if name in ERRORS else None)  # type: ignore[arg-type]
    tally = new_tally(metric, "values", 1)
    for piece in np.array_split(np.arange(nodes), 2):
        tally.add(torch.from_numpy(outputs[piece, None]), values[piece])
    expected = {
        "mae": reference.mean_absolute_error,
        "rmse": reference.root_mean_squared_error,
        "r2": reference.r2_score,
    }[name](values, outputs)
    found = metric.number(tally.quality()) if name in ERRORS else tally.quality()
    assert found == pytest.approx(expected, abs=1e-5, rel=1e-4)


def test_r2_needs_values_that_differ() -> None:
    with pytest.raises(GraphError, match="r2 needs test examples of different values, got 2 only"):
        check_defined("r2", np.full(4, 2, dtype=np.float32), "test")


@pytest.mark.parametrize(
    ("target", "labels", "metric"),
    [
        ("values", np.zeros(3, np.float32), "accuracy"),
        ("labels", np.zeros((3, 2), np.int8), "mae"),
        ("classes", np.zeros(3, np.int64), "mae"),
    ],
)
def test_a_metric_of_other_labels_is_refused(target: Target, labels: NDArray[np.generic], metric: str) -> None:
    with pytest.raises(GraphError, match=rf"must be one of .* if {target} are predicted, got {metric}; auto chooses"):
        check_defined(metric, labels, "validation")


@pytest.mark.parametrize(("name", "defined"), [("accuracy", True), ("macro_f1", True), ("roc_auc", False)])
def test_nothing_ranks_above_the_only_class(name: str, defined: bool) -> None:
    labels = np.zeros(7, dtype=np.int64)
    if defined:
        check_defined(name, labels, "validation")
        return
    with pytest.raises(
        GraphError, match=r"roc_auc needs validation nodes of at least two classes, got 7 of class 0 only"
    ):
        check_defined(name, labels, "validation")
