"""The verification: measures the best configurations again beside the baseline before the tune promises anything."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Mapping, Sequence

from a3gnn.config import TrainConfig
from a3gnn.figures import LEAST_PAIRS, Figures, Reference
from a3gnn.limits import Breach
from a3gnn.measurement import Failure, Metrics
from a3gnn.notify import Message, detail
from a3gnn.report.front import NO_GAIN
from a3gnn.report.rows import REJECTED
from a3gnn.report.text import describe_breaches, describe_config
from a3gnn.tuning.beliefs.expectations import learning_differently
from a3gnn.tuning.run.blocks import CONTENDERS, MOST_BLOCKS, SEEDS, BlockCost, learning_decides
from a3gnn.tuning.run.plans import stopped_s
from a3gnn.tuning.run.runner import Runner
from a3gnn.tuning.study.choice import Choice, Final, NoGain, RateAlone
from a3gnn.tuning.study.comparison import best_accuracy
from a3gnn.tuning.study.history import History
from a3gnn.tuning.study.limits import memory_limits, nothing_fits
from a3gnn.tuning.study.measured_front import LATE
from a3gnn.tuning.study.trial import JudgedTrial, at_reference_pace
from a3gnn.tuning.tell.events import BeganEvent
from a3gnn.tuning.verify.judged import Beside, Contender
from a3gnn.units import count

#: The configurations that train in a block, each with its seed's distance from the task's own; others are only timed.
_Trains = Mapping[TrainConfig, int]


def verify(history: History, runner: Runner, ranked: Sequence[JudgedTrial] | None = None) -> Choice:
    """Measures the best configurations and the baseline in blocks, and returns the choice.

    In a block every remaining contender and the baseline run once, in an order that rotates. After it the worse half of
    the contenders leaves (sequential halving; Karnin, Koren and Somekh 2013). The last one trains whole under the
    memory limit. Then both train until they stop improving, if the budget covers it. If the contender fails, breaks a
    limit, or ends below the allowed drop, the next best takes its place, and after the last one the baseline.
    The baseline is also the choice if nothing gains measurably over it.

    Args:
        history: Of the tune.
        runner: Runs the trials, and knows the remaining budget.
        ranked: The trials of `History.ranked`, best first, as returned by `believed`. By default they are ordered by
            their single measurements.

    Raises:
        InfeasibleError: Nothing keeps the limits.
    """
    return _Verification(history, runner, ranked).choice()


class _Verification:
    def __init__(self, history: History, runner: Runner, ranked: Sequence[JudgedTrial] | None) -> None:
        self._history, self._runner, self._cost = history, runner, BlockCost(history, history.drift)
        self._reference = None if history.reference is None else history.reference.at(history.drift)
        trial = history.reference_trial
        self._baseline = trial.measurement.config if trial and history.has_default_reference else None
        self._baseline_whole: Metrics | None = None
        self._ends = Ends(history, runner, self._cost, self._baseline)
        measured = {one.trial.measurement.config: one for one in history.ranked()}
        order = measured if ranked is None else [one.trial.measurement.config for one in ranked]
        # They learn differently: if one misses the least accuracy, all that learn the same miss it too.
        others = (config for config in order if config != self._baseline)
        best = learning_differently(others, lambda config: config, CONTENDERS)
        self._waiting = [Contender.of(measured[config], history) for config in best]
        self._seen: dict[str, Contender] = {}
        self._refused: dict[str, Failure | tuple[Breach, ...]] = {}
        self._notes: dict[str, str] = {}
        self._left_out: list[str] = []
        # `_slower`: seconds of the last block over the expected ones, by whether it trained anything
        self._blocks, self._slower = 0, dict[bool, float]()

    def choice(self) -> Choice:
        """Runs blocks until one contender has all its measurements or the budget ends, and it keeps the limits."""
        contenders, self._waiting = self._waiting, []
        while True:
            contenders = contenders or [self._next()]
            trains = self._block(contenders)
            if not trains and self._may_train_on(contenders, trains):
                self._ends.train(contenders[0], self._beside(contenders[0]))
                contenders = contenders if self._keeps_drop(contenders[0]) else []
            elif trains is not None:
                if len(contenders) > 1 and not self._blocks:
                    beside = " and the baseline" * len(self._beside(contenders[0]))
                    self._runner.notify(f"comparing {count(len(contenders), 'candidate')}{beside} in turns")
                contenders = self._better_half(self._run(contenders, trains))
            elif len(contenders) > 1:  # the budget is too small to compare them
                if not self._blocks:
                    self._left_out.append(f"a comparison with {count(len(contenders) - 1, 'other candidate')}")
                contenders, self._waiting = contenders[:1], [*contenders[1:], *self._waiting]
            elif self._keeps_limits(contenders[0]):
                return self._chosen(contenders[0])
            else:
                contenders = []

    def _next(self) -> Contender:
        """Returns the best contender that left; else the baseline, or late trials if the baseline was refused."""
        if not self._waiting:
            late = self._baseline is not None and self._baseline.key() in self._refused
            rest = self._history.late() if late else self._history.eligible()
            found = [Contender.of(one, self._history) for one in rest]
            found = [one for one in found if late or one.config == self._baseline]
            self._waiting = list({one.key: one for one in found if one.key not in self._refused}.values())
        if not self._waiting:
            raise nothing_fits(self._history, self._refused)
        following = self._waiting.pop(0)
        if following.config == self._baseline:
            following.whole = self._baseline_whole or self._tested_trial()
        return following

    def _tested_trial(self) -> Metrics | None:
        """Returns the baseline's trial at the machine's present speed; None if it was not tested at its end."""
        trial = self._history.reference_metrics
        is_tested = trial is not None and trial.test_accuracy is not None
        return at_reference_pace(trial, 1 / self._history.drift) if trial is not None and is_tested else None

    def _block(self, contenders: Sequence[Contender]) -> _Trains | None:
        """Returns who trains in the next block; None if nothing is left to measure, or the budget is too small.

        * Several contenders train if learning decides between them, and else are only timed. The baseline never
          needs to train with the task's own seed, because its trial was that training; nor do contenders beside it
          where the final quality counts, and timings say nothing there.
        * The last contender trains whole with the task's seed, whatever the budget. Both then train with further seeds;
          the baseline trains whole for its test accuracy, if its trial has none; then both are only timed, until the
          seconds end.
        """
        leader, priority = contenders[0], self._history.study.request.priority
        own, beside = [one.config for one in contenders], self._beside(leader)
        further = [seed for seed in range(1, SEEDS) if beside and seed not in leader.seeds]
        seeded = dict.fromkeys([*own, *beside], further[0]) if further else None
        if len(contenders) > 1:
            if not priority.to_target and not (priority.final and further) and leader.whole is None:
                seeded = dict.fromkeys(own, 0)
            options = [seeded if learning_decides(priority) else None, None if priority.final else {}]
        elif leader.whole is None:
            what = self._name(leader)
            self._runner.notify(Message(f"verifying {what}", event=BeganEvent("verifying", what)))
            return {leader.config: 0}
        elif leader.missed(self._history):
            options = [seeded]
        else:
            few = self._runner.budget.in_trials or priority.final
            most = LEAST_PAIRS if few or not beside else MOST_BLOCKS
            is_tested = leader.baseline is not None and leader.baseline.test_accuracy is not None
            tested = None if is_tested or self._baseline_whole else dict.fromkeys(beside, 0) or None
            options = [seeded, tested, {} if len(leader.runs) < most else None]
        return next((one for one in options if one is not None and self._affords(contenders, one)), None)

    def _may_train_on(self, contenders: Sequence[Contender], trains: _Trains | None) -> bool:
        """Whether the last contender was not yet trained to the end, and has all runs that come first."""
        leader = contenders[0]
        if len(contenders) > 1 or not self._ends.is_due(leader) or leader.missed(self._history):
            return False
        return trains is None or len(leader.runs) >= LEAST_PAIRS

    def _keeps_drop(self, one: Contender) -> bool:
        """Whether `one` keeps the allowed drop where it and the baseline stop improving, as far as known."""
        breach = self._ends.breach(one)
        if breach is not None:
            self._refuse(one.config, (breach,), ", where both stop improving")
        return breach is None

    def _affords(self, contenders: Sequence[Contender], trains: _Trains) -> bool:
        """Whether the budget covers a block, and then the leader's whole training and what its gain needs to show.

        Fewer than `LEAST_PAIRS` pairs show only a large gain of speed, and one seed shows no gain of accuracy. The
        final trainings (`Ends`) get what is left, so they leave less for blocks that this refuses.
        """
        leader, priority = contenders[0], self._history.study.request.priority
        blocks = [self._due_s(contenders, trains)]
        if leader.whole is None and trains.get(leader.config) != 0:
            blocks.append(self._due_s([leader], {leader.config: 0}))
        if trains or len(contenders) > 1:
            if priority.accuracy_counts and SEEDS > 1 and not (leader.seeds or any(trains.values())):
                both = [leader.config, *self._beside(leader)]
                blocks.append(self._due_s([leader], dict.fromkeys(both, 1)))
            if priority.deciding[0]:
                missing = LEAST_PAIRS - len(leader.runs) - len(blocks)
                blocks += [self._due_s([leader], {})] * missing
        return self._runner.budget.left_s >= sum(blocks)

    def _due_s(self, contenders: Sequence[Contender], trains: _Trains) -> float:
        """Returns the expected seconds of a block; a first one is not expected to be faster than its estimate."""
        slower = self._slower.get(bool(trains), max([1.0, *self._slower.values()]))
        return self._block_s(contenders, trains) * slower

    def _block_s(self, contenders: Sequence[Contender], trains: _Trains) -> float:
        known = {one.config: self._history.figures(one.trial) for one in contenders}
        known |= dict.fromkeys(self._beside(contenders[0]), self._history.reference_figures)
        most_s = {config: stopped_s(self._history, config) for config in known}
        return sum(self._cost.run_s(trains.get(one), figures, most_s[one]) for one, figures in known.items())

    def _run(self, contenders: Sequence[Contender], trains: _Trains) -> list[Contender]:
        """Runs a block, and returns the contenders that neither failed nor broke a limit on memory in it."""
        beside = self._beside(contenders[0])
        configs = [*(one.config for one in contenders), *beside]
        first, expected_s, begin = self._blocks % len(configs), self._block_s(contenders, trains), time.monotonic()
        ran = {config: self._outcome(config, trains.get(config)) for config in configs[first:] + configs[:first]}
        self._blocks, self._slower[bool(trains)] = self._blocks + 1, (time.monotonic() - begin) / (expected_s or 1.0)
        default = next((ran[config] for config in beside), None)
        if any(trains.get(config) == 0 for config in beside):
            self._baseline_whole = default
            self._ends.of_baseline = default or self._ends.of_baseline
        for one in contenders:
            one.baseline = self._baseline_whole or one.baseline
            if (run := ran[one.config]) is not None:
                one.record(run, trains.get(one.config), default)
                self._seen[one.key] = one
                speed = self._judged(one).describe(self._history.objectives.priority)
                self._runner.notify(detail(f"    block {self._blocks}: {speed}  {self._name(one)}"))
        return [one for one in contenders if one.key not in self._refused]

    def _outcome(self, config: TrainConfig, seed: int | None) -> Metrics | None:
        """Runs `config`, and refuses it if it fails or takes too much memory; returns its metrics, None if it fails."""
        history = self._history
        if seed is None:
            outcome = self._runner.time(config, history)
        else:
            task_seed = history.study.setting.task.seed + seed if seed else None
            outcome = self._runner.train_whole(config, history, task_seed).outcome
        if isinstance(outcome, Failure):
            self._refuse(config, outcome)
            return None
        # Accuracy is judged over all seeds (`Contender.missed`).
        if breaches := memory_limits(history, config).broken_by(Figures.of(outcome, None, None)):
            self._refuse(config, breaches)
        return outcome

    def _better_half(self, contenders: list[Contender]) -> list[Contender]:
        """Returns the better half, best first by all blocks so far; whatever breaks a limit comes last."""
        if len(contenders) < 2:
            return contenders
        judged = {one.config: self._judged(one) for one in contenders}
        sides = [(one.trial, judged[one.config].choice) for one in contenders]
        scored = self._history.by_score([JudgedTrial(trial, own.metrics, own.figures) for trial, own in sides])
        order = [one.trial.measurement.config for one in scored]

        def rank(one: Contender) -> tuple[bool, int]:
            own, default, _ = judged[one.config]
            latest_s = default.figures.seconds_to_accuracy if default and self._history.latest_s else None
            late = own.figures.later_than(latest_s)
            return late or one.missed(self._history) is not None, order.index(one.config)

        contenders = sorted(contenders, key=rank)
        kept = (len(contenders) + 1) // 2
        self._notes |= {one.key: "not the best when measured again" for one in contenders[kept:]}
        self._waiting = [*contenders[kept:], *self._waiting]
        return contenders[:kept]

    def _keeps_limits(self, one: Contender) -> bool:
        """Whether `one` keeps the least accuracy, and is at the target in time or no other contender may be."""
        if missed := one.missed(self._history):
            self._refuse(one.config, missed[:1], missed[1])
            return False
        if not self._keeps_drop(one):
            return False
        against = self._judged(one).against
        others = [other for other in self._waiting if self._notes.get(other.key) != LATE]
        late = against is not None and against.late and self._history.reference_is_alternative
        if not (late and others and self._affords(others[:1], {others[0].config: 0})):
            return True
        self._runner.notify(f"    rejected: {LATE}")
        self._notes[one.key] = LATE
        self._waiting.append(one)
        return False

    def _refuse(self, config: TrainConfig, why: Failure | tuple[Breach, ...], where: str = "") -> None:
        """Records that `config` may not be chosen, and prints the reason the first time."""
        text = (why.describe() if isinstance(why, Failure) else describe_breaches(why)) + where
        if config.key() not in self._refused:
            self._runner.notify(f"    {'the baseline is ' * (config == self._baseline)}rejected: {text}")
        self._notes[config.key()] = f"{REJECTED}: {text}"
        self._refused[config.key()] = why

    def _beside(self, one: Contender) -> list[TrainConfig]:
        """Returns the baseline as the only item; nothing if it can't run beside `one`, or is `one`."""
        baseline = self._baseline
        refused = baseline is None or baseline.key() in self._refused
        return [] if baseline is None or refused or baseline == one.config else [baseline]

    def _name(self, one: Contender) -> str:
        return "the baseline" if one.config == self._baseline else describe_config(one.config)

    def _judged(self, one: Contender) -> Beside:
        return one.judged(self._history.objectives, self._reference)

    def _chosen(self, one: Contender) -> Choice:
        """Returns `one` as the choice, or the baseline if nothing is gained over it (`Comparison.differs`)."""
        judged, default, against = self._judged(one)
        figures = {key: self._judged(other).choice.figures for key, other in self._seen.items()}
        if default is not None and self._baseline is not None:
            figures[self._baseline.key()] = default.figures
        paces = {one.config: judged.metrics}
        if default is not None and self._baseline is not None:
            paces[self._baseline] = default.metrics
        choice = Choice(
            trial=one.trial,
            judged=judged,
            default=default,
            against=against,
            figures=figures,
            notes={key: note for key, note in self._notes.items() if key != one.key},
            left_out=(*self._left_out, *(one.left_out() if self._beside(one) else ())),
            reference=self._reference,
            final=self._ends.finals(one, paces),
            rate_alone=self._ends.rate_alone(one, self._reference),
        )
        eligible = (found.trial for found in self._history.eligible())
        trials = [trial for trial in eligible if trial.measurement.config in self._beside(one)]
        if not trials or default is None or against is None or against.differs:
            return choice
        notes = self._notes | {one.key: LATE if against.late else NO_GAIN}
        no_gain = NoGain(one.config, against)
        return dataclasses.replace(
            choice,
            trial=trials[-1],
            judged=default,
            default=None,
            against=None,
            no_gain=no_gain,
            notes=notes,
            rate_alone=None,
        )


class Ends:
    """The longest trainings of the baseline and of contenders with the task's seed.

    Args:
        history: Of the tune.
        runner: Runs the trainings, and knows the remaining budget.
        cost: The expected cost of trainings.
        baseline: The baseline's configuration; None without one.

    Attributes:
        of_baseline: The baseline's training.
    """

    def __init__(self, history: History, runner: Runner, cost: BlockCost, baseline: TrainConfig | None) -> None:
        self.of_baseline = None if baseline is None else history.reference_metrics
        self._history, self._runner, self._cost, self._baseline = history, runner, cost, baseline
        self._longer: dict[str, Metrics] = {}
        self._rates: dict[float, Metrics] = {}
        self._tried: set[str] = set()

    def is_due(self, one: Contender) -> bool:
        """Whether `one` was trained whole, and `train` was not called for it."""
        return one.whole is not None and one.key not in self._tried

    def train(self, one: Contender, beside: Sequence[TrainConfig]) -> None:
        """Trains the baseline with the learning rate of `one`, then `beside` and `one` on until they stop improving.

        It ends when one can't within the budget. It trains nothing if the request says how far the baseline trains: a
        number of epochs, or to a target.
        """
        self._tried.add(one.key)
        self._train_rate_alone(one)
        request = self._history.study.request
        if request.default_epochs is not None or request.target_accuracy is not None:
            return
        for config in dict.fromkeys([*beside, one.config]):
            if has_stopped(self._end(config, one)):
                continue
            most_s = self._most_seconds(config, one)
            outcome = None if most_s is None else self._runner.train_on(config, self._history, most_s).outcome
            if outcome is None or isinstance(outcome, Failure):
                return
            self._longer[config.key()] = outcome
            if not has_stopped(outcome):
                return

    def _train_rate_alone(self, one: Contender) -> None:
        """Trains the baseline with the learning rate of `one` to the target, if seconds count and the budget covers it.

        No stored row and no trial changes the rate alone, so a gain does not say by itself what the rate gave.
        """
        scale, baseline, history = one.config.learning_rate_scale, self._baseline, self._history
        if baseline is None or scale in (baseline.learning_rate_scale, *self._rates):
            return
        if not history.study.request.priority.time:
            return
        config = dataclasses.replace(baseline, learning_rate_scale=scale)
        if config == one.config and one.whole is not None:
            self._rates[scale] = one.whole
        elif self._runner.budget.left_s >= self._cost.run_s(1, history.reference_figures):
            outcome = self._runner.train_whole(config, history, history.study.setting.task.seed + 1).outcome
            if isinstance(outcome, Metrics):
                self._rates[scale] = outcome

    def rate_alone(self, one: Contender, reference: Reference | None) -> RateAlone | None:
        """Returns what the learning rate of `one` alone gives the baseline, as far as it was trained.

        Args:
            one: A contender.
            reference: The reference, at the machine's speed in the verification.
        """
        trained = self._rates.get(one.config.learning_rate_scale)
        if trained is None:
            return None
        figures = Figures.of(trained, trained.curve, reference)
        return RateAlone(one.config.learning_rate_scale, figures.seconds_to_accuracy)

    def breach(self, one: Contender) -> Breach | None:
        """Returns by how much `one` exceeds the allowed drop where it and the baseline stop improving, if it does."""
        request = self._history.study.request
        if self._baseline is None or one.config == self._baseline or request.target_accuracy is not None:
            return None
        own, default = (self._end(config, one) for config in (one.config, self._baseline))
        if own is None or default is None or default.curve is None or not (has_stopped(own) and has_stopped(default)):
            return None
        least, found = default.curve.best_held() - request.max_drop, best_accuracy(own)
        return None if found >= least else Breach("least_accuracy", least, found, self._history.objectives.metric)

    def finals(self, one: Contender, paces: Mapping[TrainConfig, Metrics]) -> dict[str, Final]:
        """Returns the end of the baseline as `default` and of `one` as `other`, unless that is the baseline.

        Nothing if the baseline has not stopped improving, or has no pace.
        """
        named = {"default": self._baseline, "other": None if one.config == self._baseline else one.config}
        ends = {
            name: Final.of(self._end(config, one), paces[config].pace)
            for name, config in named.items()
            if config is not None and config in paces
        }
        found = {name: end for name, end in ends.items() if end is not None}
        return found if "default" in found and found["default"].stopped else {}

    def _end(self, config: TrainConfig, one: Contender) -> Metrics | None:
        """Returns the longest training of `config`, which is the baseline's or that of `one`; None if not trained."""
        trained = self.of_baseline if config == self._baseline else one.whole
        return self._longer.get(config.key(), trained)

    def _most_seconds(self, config: TrainConfig, one: Contender) -> float | None:
        """Returns the seconds of training that the budget affords; None if it can't stop improving within them."""
        known, trained = self._end(config, one), self._history.curve(config)
        if known is None or known.curve is None:
            return None
        kept_s = known.pace.seconds(0 if trained is None else trained.trained)  # it goes on from the trial's state
        most_s = kept_s + self._cost.training_within(self._runner.budget.left_s)
        most_s = min(most_s, self._history.study.longest_s)
        return most_s if known.pace.seconds(known.curve.soonest_stop()) <= most_s else None


def has_stopped(trained: Metrics | None) -> bool:
    """Whether the validation accuracy of `trained` had stopped improving."""
    return trained is not None and trained.curve is not None and trained.curve.has_stopped_improving()
