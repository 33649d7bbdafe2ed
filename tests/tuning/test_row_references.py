"""Models without a graph network in a tune: measured once, within a tenth of the budget, and named in its summary."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from typing import Any

import pytest

from a3gnn.apply.train import train
from a3gnn.errors import UsageError
from a3gnn.evaluation import references as module
from a3gnn.metric import ROW_MODELS
from a3gnn.training.trainer import Trainer
from a3gnn.tuning.outcome.result import TuneResult
from a3gnn.tuning.run import session
from a3gnn.tuning.tell.summary import summary, summary_lines

Tune = Callable[..., TuneResult]


@pytest.fixture(autouse=True)
def trained(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_TRAINED", True)


def test_they_are_measured_before_the_trials_and_kept_for_a_resumed_tune(
    quick_tune: Tune, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines: list[str] = []
    found = quick_tune(notify=lines.append)
    told = [line for line in lines if line.startswith("without a graph network")]
    assert sorted(line.split(", ")[1].partition(" has ")[0] for line in told) == sorted(ROW_MODELS)
    known = found.tuned.heuristics
    assert known is not None
    assert list(known) == ["label propagation", *ROW_MODELS]
    assert all(set(one) == {"validation", "test"} for one in known.values())
    assert json.loads((found.folder / "state.json").read_text())["heuristics"] == known
    monkeypatch.setattr(session, "row_references", None)  # a resumed tune calls neither
    monkeypatch.setattr(session, "references", None)
    again = quick_tune(budget=5, resume=True)
    assert again.tuned.heuristics == known


def test_a_training_after_the_tune_does_not_repeat_them(
    quick_tune: Tune, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = quick_tune()
    known = {name: one for name, one in (found.tuned.heuristics or {}).items() if name in ROW_MODELS}
    assert list(known) == list(ROW_MODELS)
    trained: list[str] = []
    monkeypatch.setattr(Trainer, "row_references", lambda *_: trained.append("again") or {})
    given: dict[str, Any] = {"epochs": 1, "progress": False, "notify": lambda _: None}
    result = train(found.folder / "tuned.json", out=tmp_path / "same", **given)
    assert result.heuristics_validation == {name: one["validation"] for name, one in known.items()}
    assert not trained
    for place, other in enumerate(({"split": "0.5,0.2,0.3"}, {"task": dataclasses.replace(found.tuned.task, seed=9)})):
        train(found.folder / "tuned.json", out=tmp_path / f"other-{place}", **given, **other)
        assert len(trained) == place + 1


def test_without_them_no_time_is_spent_and_the_trials_are_the_same(quick_tune: Tune, tmp_path: Any) -> None:
    lines: list[str] = []
    without = quick_tune(references=False, notify=lines.append, out=tmp_path / "without")
    assert list(without.tuned.heuristics or {}) == ["label propagation"]
    assert not [line for line in lines if "without a graph network" in line]
    beside = quick_tune(out=tmp_path / "with")
    assert [row.config for row in beside.front.rows] == [row.config for row in without.front.rows]
    with pytest.raises(UsageError, match="references must be True or False, got 'no'"):
        quick_tune(references="no", out=tmp_path / "none")


def test_they_may_take_a_tenth_of_the_budget(quick_tune: Tune, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[float] = []

    def measured(graph: Any, task: Any, budget_bytes: int, seconds: float, notify: Any) -> dict[str, Any]:
        asked.append(seconds)
        return {}

    monkeypatch.setattr(session, "row_references", measured)
    quick_tune(budget=4)
    assert asked == [48.0]  # trials count as 480 s


def test_the_summary_names_the_one_that_is_nearly_as_good_on_validation(quick_tune: Tune) -> None:
    found = quick_tune(references=False)
    tuned = found.tuned
    ends = [tuned.default.curve.val_accuracy, *([tuned.final["default"]["val_accuracy"]],) * bool(tuned.final)]
    end = max(ends[-1])
    for below, is_named in ((-0.01, True), (0.004, True), (0.006, False)):
        given = {"mlp": {"validation": end - below, "test": 0.0}, "linear": {"validation": end - 0.2, "test": 1.0}}
        shown = summary(dataclasses.replace(tuned, heuristics=given), found.front)
        lines = list(summary_lines(shown, everything=True))
        text = " ".join(" ".join(lines).split())
        assert ("mlp alone, without a network, has validation accuracy" in text) == is_named
        assert ("predict heuristic='mlp' takes it" in text) == is_named
        assert ("better than the baseline's" in text) == (below < 0)
        assert "linear alone, without a network, has" not in text
        assert all(len(line) <= 80 for line in lines)


def test_the_summary_says_how_good_the_choice_is_beside_it(quick_tune: Tune) -> None:
    """A tuned network may be far above the baseline, to which they are compared, and still below them."""
    found = quick_tune(references=False)
    ends = {"val_accuracy": 0.5, "test_accuracy": 0.5, "seconds": 1.0, "stopped": True}
    for final, is_said in (
        ({"default": ends, "other": {**ends, "val_accuracy": 0.6}}, True),
        ({"default": ends}, False),
    ):
        given = {"mlp": {"validation": 0.7, "test": 0.0}}
        tuned = dataclasses.replace(found.tuned, heuristics=given, final=final, no_gain=None)
        text = " ".join(" ".join(summary_lines(summary(tuned, found.front), everything=True)).split())
        said = f"better than the baseline's 50.00%{' (the choice has 60.00%)' * is_said}; "
        assert said in text
