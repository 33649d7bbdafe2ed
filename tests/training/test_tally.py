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
from a3gnn.metric import METRIC_NAMES, Metric
from a3gnn.training.ranking import average_precision, roc_auc
from a3gnn.training.tally import check_defined, new_tally


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


@pytest.mark.parametrize("name", METRIC_NAMES)
@given(seed=st.integers(0, 10_000), classes=st.integers(2, 5), nodes=st.integers(2, 40), pieces=st.integers(1, 4))
def test_a_tally_in_pieces_equals_scikit_learn(name: str, seed: int, classes: int, nodes: int, pieces: int) -> None:
    rng = np.random.default_rng(seed)
    labels = np.concatenate([[0, 1], rng.integers(0, classes, nodes)])  # some classes may have no node
    logits = torch.from_numpy(rng.normal(size=(len(labels), classes)).round(1).astype(np.float32))
    metric = Metric(name)
    tally = new_tally(metric, classes)
    for some in np.array_split(np.arange(len(labels)), pieces):
        if len(some):
            tally.add(logits[some], labels[some])
    assert tally.quality() == pytest.approx(expected(name, labels, logits))


@pytest.mark.parametrize(("name", "defined"), [("accuracy", True), ("macro_f1", True), ("roc_auc", False)])
def test_nothing_ranks_above_the_only_class(name: str, defined: bool) -> None:
    labels = np.zeros(7, dtype=np.int64)
    if defined:
        check_defined(Metric(name), labels, "validation")
        return
    with pytest.raises(
        GraphError, match=r"ROC AUC must have validation nodes of two classes .* got 7 of class 0 alone"
    ):
        check_defined(Metric(name), labels, "validation")
