"""`Runner`: the side effects of a tune: runs trials, writes them to disk, prints lines, reads the clock."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path

from a3gnn.config import TrainConfig
from a3gnn.figures import differs
from a3gnn.measurement import Failure, Measurement, Metrics
from a3gnn.notify import Message, detail
from a3gnn.profiling.profiler import Profiler
from a3gnn.profiling.request import TrialPlan
from a3gnn.profiling.timing import MOST_REPEATS
from a3gnn.report.text import describe_config
from a3gnn.tuning.beliefs.beliefs import Beliefs
from a3gnn.tuning.run.plans import end_plan, seed_plan, timing_plan, trial_plan, whole_plan
from a3gnn.tuning.study.budget import Budget, StopAsked, stop_is_asked
from a3gnn.tuning.study.folder import Journal, TuneState
from a3gnn.tuning.study.foresight import curve_ends
from a3gnn.tuning.study.history import History
from a3gnn.tuning.study.limits import beyond_limits, within_limits
from a3gnn.tuning.study.trial import BASELINE, Predicted, Proposal, SpeedTiming, Trial, predicted_row
from a3gnn.tuning.tell.events import BeganEvent, PhaseEvent
from a3gnn.tuning.tell.trial_lines import trial_message
from a3gnn.tuning.tell.tried_trial import TriedTrial
from a3gnn.units import format_size


class Runner:
    """Runs the trials of a tune, and records each in the journal, the budget and the output.

    Args:
        profiler: Measures configurations of the tune's setting under its plan.
        journal: Stores the trials.
        budget: The tune's budget.
        notify: Takes each line of output.

    Attributes:
        state: The progress of the tune; `keep_time` adds the seconds and writes it.
        continues: Whether a finished tune goes on, under a larger budget.
        callback: Called with each trial of the search (`TriedTrial`); the search ends if it returns True.
    """

    def __init__(self, profiler: Profiler, journal: Journal, budget: Budget, notify: Callable[[str], None]) -> None:
        self.budget, self.notify = budget, notify
        self.state = TuneState()
        self.continues = False
        self.callback: Callable[[TriedTrial], object] | None = None
        self._timed_since = False  # whether the reference was timed after the last trial
        self._profiler, self._journal = profiler, journal

    @property
    def folder(self) -> Path:
        """The tune's folder."""
        return self._journal.folder

    def measure(self, proposal: Proposal, beliefs: Beliefs) -> History:
        """Runs a trial of `proposal`, writes it to disk, prints its result, and returns the history with it.

        A trial for the priority ends early if it can no longer win. A stored measurement is used if there is one. The
        current drift does not apply to it, because it was measured at another time.
        """
        history, predicted = beliefs.history, _predicted(proposal, beliefs)
        slowest = beliefs.slowest(proposal.config.canonical()) if proposal.for_priority else None
        ends = None if history.reference is None or proposal.reason in BASELINE else curve_ends()
        stored = self._profiler.stored(proposal.config, trial_plan(proposal, history, slowest, ends=ends))
        if stored is not None:
            return self._keep(Trial(proposal.reason, predicted, stored), history)
        self._begin(proposal)
        plan = self.budget.bounded(trial_plan(proposal, history, slowest, history.drift, ends))
        made = self._profiler.measure_anew(proposal.config, plan)
        return self._keep_made(Trial(proposal.reason, predicted, made, history.drift), history)

    def measure_beyond(self, proposal: Proposal, beliefs: Beliefs) -> History:
        """As `measure`, but with limits above the tune's, to find the needed memory if nothing fits."""
        history = beliefs.history
        plan = beyond_limits(trial_plan(proposal, history, drift=history.drift), _predicted(proposal, beliefs))
        most = plan.device_limit_bytes if history.objectives.has_device else plan.host_limit_bytes
        self.notify(
            "nothing fits: measuring the configuration with the least predicted memory"
            f"{'' if most is None else f', with a limit of {format_size(most)} for this trial'}, to find the smallest "
            "limit that would do"
        )
        return self._repeated(proposal, self.budget.bounded(plan), beliefs)

    def measure_again(self, proposal: Proposal, beliefs: Beliefs) -> History:
        """As `measure`, but always runs a new trial, trained whole as in the verification."""
        history = beliefs.history
        plan = within_limits(history, whole_plan(history, proposal.config, history.drift), proposal.config)
        return self._repeated(proposal, plan, beliefs)

    def _repeated(self, proposal: Proposal, plan: TrialPlan, beliefs: Beliefs) -> History:
        self._begin(proposal)
        made = self._profiler.repeat(proposal.config, plan)
        trial = Trial(proposal.reason, _predicted(proposal, beliefs), made, beliefs.history.drift)
        return self._keep_made(trial, beliefs.history)

    def time(self, config: TrainConfig, history: History) -> Metrics | Failure:
        """Times mini-batches of `config` again, without training a curve, and returns the outcome."""
        return self._timed(config, history).outcome

    def _timed(self, config: TrainConfig, history: History) -> Measurement:
        self._notify_began("timing", config)
        return self._profiler.repeat(config, within_limits(history, timing_plan(history), config))

    def timing_is_due(self, history: History) -> bool:
        """Whether there is a reference, and it was not timed since the last trial of this run.

        Never if the final quality counts, because trials are then compared by what they learn. On amazon_computers, the
        timings took a third of the search's seconds.
        """
        is_late = history.reference_trial is not None and not self._timed_since
        return is_late and not history.study.request.priority.final

    def time_reference(self, history: History) -> History:
        """Times the reference's configuration, writes the timing to disk, and returns `history` with it.

        The trial between two timings is judged by both, a later one by the last timing. If the timing fails, a warning
        is printed, and the previous timing stays in force.
        """
        reference = history.reference_trial
        assert reference is not None, "it is due"
        assert reference.metrics is not None, "it was measured"
        made = self._timed(reference.measurement.config, history)
        if MOST_REPEATS and made.metrics is not None and made.metrics.disturbed_windows:
            made = self._timed(reference.measurement.config, history)  # a burst of other work is shorter than that
        self._timed_since = True
        if isinstance(made.outcome, Failure):
            why = made.outcome.describe()
            self.notify(detail(f"the baseline could not be timed again, so its last timing counts: {why}"))
            return history
        drift, before = made.outcome.throughput_epochs_per_s / reference.metrics.throughput_epochs_per_s, history.drift
        history = self._keep_timing(SpeedTiming(made.created, drift), history)  # on disk before it is printed
        if differs(drift):
            now = f"{drift:.2g} of the speed"
            self.notify(detail(f"the machine runs at {now} of the baseline's trial; trials are corrected by that"))
        elif differs(before):
            self.notify(detail("the machine is as fast again as in the baseline's trial"))
        return history

    def train_whole(self, config: TrainConfig, history: History, task_seed: int | None = None) -> Measurement:
        """Runs a new trial of `config` that trains from the start under the limits, and tests at its end.

        Args:
            config: The configuration.
            history: Its reference decides how long to train.
            task_seed: Seed of weights and mini-batches, trained as far as `seed_plan` says. None for the task's own
                seed, with which the whole curve is trained.
        """
        plan = (whole_plan if task_seed is None else seed_plan)(history, config, history.drift)
        plan = within_limits(history, plan, config)
        self._notify_began("training", config)
        return self._profiler.repeat(config, plan, task_seed)

    def train_on(self, config: TrainConfig, history: History, most_seconds: float) -> Measurement:
        """Trains the known curve of `config` on until it stops improving, or can't in `most_seconds`, and tests it."""
        self._notify_began("training on", config)
        return self._profiler.repeat(config, within_limits(history, end_plan(history, most_seconds), config))

    def is_stopped_by(self, history: History) -> bool:
        """Calls the callback with the last trial of `history`; returns whether it ends the search."""
        return self.callback is not None and self.callback(TriedTrial.of(history)) is True

    def keep_time(self) -> None:
        """Writes the elapsed seconds and the rest of the state into the folder."""
        dataclasses.replace(self.state, elapsed_s=self.budget.elapsed_s).write(self.folder)

    def report_unmade_parts(self, history: History, before: int = 0) -> None:
        """Prints the partitions that the space of `history` leaves out, except the first `before`, printed earlier."""
        for partitioner, parts in history.space.unmade_parts[before:]:
            self.notify(f"{partitioner} can't make {parts} parts of this graph, so the search skips {parts} and more")

    def _keep_made(self, trial: Trial, history: History) -> History:
        """Records a trial that did not come from the store; the reference's trial also serves as the first timing."""
        longer = self._keep(trial, history)
        if longer.reference_trial is trial and not longer.timings:
            self._timed_since = True
            return self._keep_timing(SpeedTiming(trial.measurement.created, 1.0), longer)
        self._timed_since = False
        return longer

    def _begin(self, proposal: Proposal) -> None:
        name = "baseline" if proposal.reason in BASELINE else f"#{self.budget.trials + 1}"
        self._notify_began(name, proposal.config)

    def _notify_began(self, name: str, config: TrainConfig) -> None:
        self.notify(Message(event=BeganEvent(name, describe_config(config))))

    def begin_phase(self, phase: str) -> None:
        """Writes a phase, `baseline`, `search` or `verify`, to the folder, and notifies a live display of it."""
        self.state = dataclasses.replace(self.state, phase=phase)
        self.keep_time()
        budget = self.budget
        total_s, left_s = (None, None) if budget.in_trials else (float(budget.total), budget.left_s)
        self.notify(Message(event=PhaseEvent(phase, total_s, left_s)))

    def _keep_timing(self, timing: SpeedTiming, history: History) -> History:
        self._journal.append_timing(timing)
        return history.with_timing(timing)

    def _keep(self, trial: Trial, history: History) -> History:
        self._journal.append(trial)
        longer = history.with_trial(trial)
        if trial.counts:
            self.budget.record()
        self.keep_time()
        self.notify(trial_message(trial, longer, self.budget))
        self.report_unmade_parts(longer, len(history.space.unmade_parts))
        if stop_is_asked(self.folder):
            raise StopAsked
        return longer


def _predicted(proposal: Proposal, beliefs: Beliefs) -> Predicted:
    return predicted_row(beliefs.predict_configs([proposal.config.canonical()]), 0)
