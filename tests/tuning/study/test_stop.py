"""Tunes that are asked to stop: the best so far is chosen, and a resumed one has the rest of the budget."""

import json
import signal
import threading
import time
import weakref
from pathlib import Path

import pytest

from a3gnn.measurement import Metrics
from a3gnn.profiling.request import TrialRequest
from a3gnn.tuning.study.budget import StopAsked, ask_to_stop, stop_is_asked, stopped_by_file
from a3gnn.tuning.study.folder import Journal


def _asks(folder: Path, after: int, then_s: float = 0.0):
    """Asks for a stop in a trial, which then goes on for so many seconds, and is not to be waited for if there are."""
    trials = iter(range(1000))

    def alter(request: TrialRequest, metrics: Metrics, before: int) -> Metrics:
        if next(trials) == after:
            ask_to_stop(folder)
            time.sleep(then_s)
            assert not then_s, "the trial that was running was waited for"
        return metrics

    return alter


def test_a_stopped_tune_chooses_the_best_so_far_at_once(quick_tune, formulas, tmp_path: Path) -> None:
    folder, lines = tmp_path / "run", []
    executor = formulas(_asks(folder, 4, then_s=60.0))  # the default, two trials and a timing
    result = quick_tune(executor=executor, budget=50, notify=lines.append, priority="throughput")
    assert len(Journal(folder).read()) == 3
    assert not executor.whole
    assert any(line.startswith("stopped after 2 trials") for line in lines)
    assert "the tune was stopped" in result.tuned.left_out[0]
    assert "stopped, the best trial so far is the choice" in " ".join(repr(result).split())
    assert (folder / "tuned.json").exists()
    kept = [one for one in result.front.rows if one.feasible]
    assert result.config == max(kept, key=lambda row: row.measured.throughput_epochs_per_s).config
    assert not stop_is_asked(folder)
    assert json.loads((folder / "state.json").read_text())["finished_budget"] == 2


def test_a_stopped_tune_goes_on_with_the_same_budget(quick_tune, formulas, tmp_path: Path) -> None:
    quick_tune(executor=formulas(_asks(tmp_path / "run", 2, then_s=60.0)), budget=4)
    first = Journal(tmp_path / "run").read()
    executor = formulas()
    result = quick_tune(executor=executor, budget=4, resume=True)
    assert Journal(tmp_path / "run").read()[: len(first)] == first
    assert result.trials == 4
    assert executor.timed  # the verification
    assert not result.tuned.left_out or "stopped" not in result.tuned.left_out[0]


def test_a_tune_that_was_stopped_in_its_verification_has_one_when_it_goes_on(
    quick_tune, formulas, tmp_path: Path
) -> None:
    stopped = quick_tune(executor=formulas(_asks(tmp_path / "run", 8, then_s=60.0)), budget=4)
    assert stopped.trials == 4  # all that the budget has
    assert "stopped" in stopped.tuned.left_out[0]
    executor = formulas()
    result = quick_tune(executor=executor, budget=4, resume=True)
    assert result.trials == 4
    assert executor.timed
    assert not result.tuned.left_out or "stopped" not in result.tuned.left_out[0]


def test_a_tune_off_the_main_thread_stops_after_its_trial(quick_tune, formulas, tmp_path: Path) -> None:
    found = []
    executor = formulas(_asks(tmp_path / "run", 2))
    thread = threading.Thread(target=lambda: found.append(quick_tune(executor=executor, budget=50)))
    thread.start()
    thread.join()
    assert found[0].trials == 2
    assert len(executor.explored) == 3


def test_a_tune_that_is_stopped_before_its_first_trial_ends_has_nothing_to_choose(
    quick_tune, formulas, tmp_path: Path
) -> None:
    with pytest.raises(KeyboardInterrupt, match="resume=True goes on"):
        quick_tune(executor=formulas(_asks(tmp_path / "run", 0, then_s=60.0)))
    assert not stop_is_asked(tmp_path / "run")
    assert not (tmp_path / "run" / "tuned.json").exists()


def test_a_stop_that_a_library_turns_into_an_interrupt_is_one_all_the_same(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt) as interrupted, stopped_by_file(tmp_path):
        raise KeyboardInterrupt("by the user")
    assert not isinstance(interrupted.value, StopAsked)

    def waits_as_ray_does() -> None:
        try:
            time.sleep(60)
        except StopAsked:
            raise KeyboardInterrupt from None

    ask_to_stop(tmp_path)
    with pytest.raises(StopAsked), stopped_by_file(tmp_path):
        waits_as_ray_does()


def test_what_the_signal_did_before_is_restored(tmp_path: Path) -> None:
    before = signal.getsignal(signal.SIGUSR1)
    ask_to_stop(tmp_path)
    with pytest.raises(StopAsked), stopped_by_file(tmp_path):
        time.sleep(60)
    assert signal.getsignal(signal.SIGUSR1) == before


def test_a_stop_that_python_swallows_is_raised_again(tmp_path: Path) -> None:
    class Seen:
        pass

    def gone(_: object) -> None:
        ask_to_stop(tmp_path)
        time.sleep(0.5)  # the stop is raised here, in a callback of a weak reference

    def work() -> None:
        seen = Seen()
        reference = weakref.ref(seen, gone)
        del seen
        assert reference() is None
        time.sleep(60)

    with pytest.raises(StopAsked), stopped_by_file(tmp_path):
        work()


def test_a_stop_inside_a_finalizer_is_raised_after_it(tmp_path: Path) -> None:
    class Slow:
        def __del__(self) -> None:
            ask_to_stop(tmp_path)
            time.sleep(0.5)  # the file is seen meanwhile, and Python would swallow what is raised here

    def work() -> None:
        del [Slow()][0]
        time.sleep(60)

    with pytest.raises(StopAsked), stopped_by_file(tmp_path):
        work()
