"""Failed trials that are forgotten: kept aside, no longer counted, and made again."""

import json
import signal
from pathlib import Path

import pytest

from a3gnn.measurement import Failure, FailureKind, Metrics
from a3gnn.profiling.request import TrialRequest
from a3gnn.profiling.store.store import ProfileStore
from a3gnn.tuning.study.folder import FORGOTTEN, Journal, forget_failures
from a3gnn.tuning.study.trial import Trial
from tests.tuning.test_resume import PARTS


def _fails(after: int):
    trials = iter(range(1000))

    def alter(request: TrialRequest, metrics: Metrics, before: int) -> Metrics | Failure:
        return Failure(FailureKind.INVALID, "by mistake") if next(trials) == after else metrics

    return alter


def test_what_failed_is_made_again(quick_tune, formulas, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    quick_tune(**PARTS, executor=formulas(_fails(1)), budget=2)
    before = Journal(folder).read()
    failed = [trial for trial in before if trial.measurement.metrics is None]
    assert len(failed) == 1
    with ProfileStore.open(folder / "profiles.sqlite") as store:
        rows = len(store)
        assert forget_failures(folder, store) == 1
        assert len(store) == rows - 1
        assert forget_failures(folder, store) == 0
    assert [json.loads(line)["reason"] for line in (folder / FORGOTTEN).read_text().splitlines()] == [failed[0].reason]
    executor = formulas()
    result = quick_tune(**PARTS, executor=executor, budget=3, resume=True)
    after = Journal(folder).read()
    assert after[: len(before) - 1] == [trial for trial in before if trial not in failed]
    assert result.trials == 3  # of all four configurations, the default aside
    again = [trial for trial in after if trial.measurement.config == failed[0].measurement.config]
    assert [trial.measurement.metrics is not None for trial in again] == [True]
    assert not any(trial.measurement.metrics is None for trial in after)


def test_a_call_that_was_killed_is_repeated_without_a_trace(quick_tune, formulas, tmp_path: Path, monkeypatch) -> None:
    folder = tmp_path / "run"
    quick_tune(**PARTS, executor=formulas(_fails(1)), budget=2)
    (failed,) = (trial for trial in Journal(folder).read() if trial.measurement.metrics is None)
    with ProfileStore.open(folder / "profiles.sqlite") as store:
        with monkeypatch.context() as patch:
            patch.setattr(ProfileStore, "remove", lambda self, measurement: signal.raise_signal(signal.SIGINT))
            with pytest.raises(KeyboardInterrupt):
                forget_failures(folder, store)
        assert forget_failures(folder, store) == 1
    assert [Trial.from_dict(json.loads(line)) for line in (folder / FORGOTTEN).read_text().splitlines()] == [failed]
