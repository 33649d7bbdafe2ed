"""The play-off: what is chosen is measured again beside the default, interleaved, before anything is promised of it."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence

from a3gnn.config import TrainConfig
from a3gnn.figures import Figures
from a3gnn.measurement import Metrics
from a3gnn.report.front import NO_GAIN
from a3gnn.report.text import describe_config
from a3gnn.spread import Spread
from a3gnn.tuning.against_default import AgainstDefault
from a3gnn.tuning.choice import Choice, NoGain
from a3gnn.tuning.history import History
from a3gnn.tuning.infeasible import nothing_fits
from a3gnn.tuning.learning_differently import learning_differently
from a3gnn.tuning.measured_front import LATE
from a3gnn.tuning.play_off_plan import ALTERNATIONS, FINALISTS, MARGIN, ROUNDS
from a3gnn.tuning.play_off_trials import PlayOffTrials
from a3gnn.tuning.remeasured import with_timing
from a3gnn.tuning.runner import Runner
from a3gnn.tuning.trial import JudgedTrial
from a3gnn.units import count


def play_off(history: History, runner: Runner, ranked: Sequence[JudgedTrial] | None = None) -> Choice:
    """Returns the finalist that wins when all are measured again, and keeps the limits over its whole training.

    First rounds of timed trials, the finalists and the default in an order that rotates, decide by their medians. The
    winner is then measured against the default (`AgainstDefault`); one that breaks a limit hands over to the next,
    and the last to the default.

    Args:
        history: Of the tune.
        runner: Measures.
        ranked: The trials of `History.ranked` in the order in which finalists are taken: as `believed`. By default it
            is that of single measurements.

    Raises:
        InfeasibleError: Nothing keeps the limits.
    """
    return _PlayOff(history, PlayOffTrials(history, runner), ranked).choice()


class _PlayOff:
    def __init__(self, history: History, trials: PlayOffTrials, ranked: Sequence[JudgedTrial] | None) -> None:
        self._history, self._trials = history, trials
        # What learns the same as one that missed the least accuracy would miss it too.
        measured = {one.trial.measurement.config: one for one in history.ranked()}
        order = [*measured] if ranked is None else [one.trial.measurement.config for one in ranked]
        finalists = learning_differently(order, lambda config: config, FINALISTS)
        self._finalists = [measured[config] for config in finalists]
        self._default = _default(history)
        self._left_out: list[str] = []
        self._figures: dict[str, Figures] = {}

    def choice(self) -> Choice:
        late: Choice | None = None
        for finalist in self._in_turn():
            against = AgainstDefault(finalist, self._default, self._history, self._trials)
            if late is not None and (against.is_default or not self._trials.affords(2 * ALTERNATIONS, whole=1)):
                break
            if not against.keeps_limits():
                continue
            choice = against.choice()
            if choice.against is None or not (choice.against.late and self._history.reference_is_alternative):
                return self._or_default(self._completed(choice))
            self._trials.say(f"    {LATE}")
            self._trials.notes[choice.trial.measurement.config.key()] = LATE
            self._figures |= choice.figures
            late = late or choice
        if late is not None:
            return self._or_default(self._completed(late))
        raise nothing_fits(self._history, self._trials.refused)

    def _in_turn(self) -> Iterator[JudgedTrial]:
        """Yields the finalists, best first, and the default, where it keeps the limits and is none of them.

        Where the default turns out to break a limit, what is later than it at the target may be chosen after all.
        """
        yield from self._ordered()
        finalists = {one.trial.measurement.config for one in self._finalists}
        for one in self._history.eligible():
            config = one.trial.measurement.config
            if config == self._default and config not in finalists and config.key() not in self._trials.refused:
                yield one
        if self._default is not None and self._default.key() in self._trials.refused:
            yield from self._history.late()

    def _ordered(self) -> list[JudgedTrial]:
        """Returns the finalists, best first, as the rounds find them."""
        trials, configs = self._trials, [one.trial.measurement.config for one in self._finalists]
        if len(configs) < 2:
            return self._finalists
        turns = configs if self._default is None or self._default in configs else [*configs, self._default]
        # The winner's whole training and the alternations come before them: fewer tell no gain.
        fitting = (
            rounds
            for rounds in range(ROUNDS, 0, -1)
            if trials.affords(rounds * len(turns) + 2 * ALTERNATIONS, whole=1, margin=MARGIN)
        )
        rounds = next(fitting, 0)
        if rounds < ROUNDS:
            self._left_out.append(f"{count(ROUNDS - rounds, 'round')} among {len(configs)} finalists")
        if not rounds:
            return self._finalists
        trials.say(f"play-off {count(len(configs), 'finalist')}, {count(rounds, 'round')}")
        return self._ranked(trials.timed(turns, rounds))

    def _ranked(self, found: dict[str, list[Metrics]]) -> list[JudgedTrial]:
        """Returns the finalists that kept the limits in the rounds, best first, by what they `found`."""
        judged = [self._rejudged(one, found[one.trial.measurement.config.key()]) for one in self._finalists]
        keyed = ((one.trial.measurement.config.key(), one.figures) for one in judged)
        self._figures |= {key: figures for key, figures in keyed if found[key]}
        judged = [one for one in judged if one.trial.measurement.config.key() not in self._trials.refused]
        for one in judged:
            throughput = Spread.of(m.throughput_epochs_per_s for m in found[one.trial.measurement.config.key()])
            assert throughput is not None
            self._trials.say(
                f"    {throughput.describe('.3g')} epochs/s  {describe_config(one.trial.measurement.config)}"
            )
        judged = self._history.by_score(judged)
        for config in (one.trial.measurement.config for one in judged[1:]):
            if config != self._default:  # which nobody expects to be the best
                self._trials.notes.setdefault(config.key(), "not the best when measured again")
        return judged

    def _rejudged(self, one: JudgedTrial, timed: Sequence[Metrics]) -> JudgedTrial:
        """Returns `one` with the throughput and the peaks of `timed` as well."""
        if not timed:
            return one
        metrics = with_timing(one.metrics, timed)
        curve = self._history.curve(one.trial.measurement.config)
        return JudgedTrial(one.trial, metrics, Figures.of(metrics, curve, self._trials.reference))

    def _completed(self, choice: Choice) -> Choice:
        """Returns `choice` with what the whole play-off found and left out."""
        choice = dataclasses.replace(choice, reference=self._trials.reference)
        key = choice.trial.measurement.config.key()
        notes = {other: note for other, note in self._trials.notes.items() if other != key}
        figures, left_out = {**self._figures, **choice.figures}, (*self._left_out, *choice.left_out)
        return dataclasses.replace(choice, figures=figures, notes=notes, left_out=left_out)

    def _or_default(self, choice: Choice) -> Choice:
        """Returns the default instead of a `choice` whose gain can't be told from none (`Comparison.differs`)."""
        refused = self._trials.refused
        kept = {one.trial.measurement.config: one.trial for one in self._history.eligible()}
        trial = None if self._default is None or self._default.key() in refused else kept.get(self._default)
        if trial is None or choice.default is None or choice.against is None or choice.against.differs:
            return choice
        config = choice.trial.measurement.config
        notes = {**choice.notes, config.key(): LATE if choice.against.late else NO_GAIN}
        return dataclasses.replace(
            choice,
            trial=trial,
            judged=choice.default,
            default=None,
            against=None,
            no_gain=NoGain(config, choice.against),
            notes=notes,
        )


def _default(history: History) -> TrainConfig | None:
    """Returns the configuration that stands for the default: the one that the reference was measured with."""
    reference = history.reference_trial
    return reference.measurement.config if reference and history.has_default_reference else None
