"""A line per trial of a running tune."""

from __future__ import annotations

from collections.abc import Iterator

from a3gnn.config import TrainConfig
from a3gnn.figures import Figures
from a3gnn.learning_curve import CurveEnd
from a3gnn.measurement import Failure
from a3gnn.notify import Message
from a3gnn.report.ratios import describe_figures, show_ratio, show_seconds, show_speed
from a3gnn.report.text import WIDTH, describe_config
from a3gnn.tuning.study.budget import Budget
from a3gnn.tuning.study.history import History
from a3gnn.tuning.study.trial import BASELINE, JudgedTrial, Trial
from a3gnn.tuning.tell.events import BEST, GAIN, NAME, SIZE, SPEED, HeadingEvent, TrialEvent, TrialRow
from a3gnn.units import format_size

#: Why the training of a curve ended early.
_ENDED_EARLY = {CurveEnd.SLOWER: "late", CurveEnd.LOST: "too inaccurate"}
#: Trials after each of which a line says what is left.
_LEFT_EVERY = 10


def heading(history: History) -> Message:
    """Returns the headings of the columns of the trials after the baseline."""
    objectives, target = history.objectives, history.objectives.limits.least_accuracy
    if objectives.priority.mostly_accuracy:
        speed = objectives.metric.label[:SPEED]
    elif objectives.speed == "seconds_to_accuracy":
        speed = "to target" if target is None else f"to {objectives.metric.show(target)}"
    else:
        speed = "epochs/s"
    columns = f"{'trial':<{NAME}}  {speed:>{SPEED}}{'gain':>{GAIN}}  {'memory':>{SIZE}}"
    line = f"{columns}  changed from baseline; {BEST} best so far"
    return Message(line, event=HeadingEvent(line))


def trial_message(trial: Trial, history: History, budget: Budget) -> Message:
    """Returns the line of a trial that has just ended; its `more` has all figures and the best so far."""
    rows = tuple(_rows(history))
    row = next(row for row, one in zip(rows, history.trials, strict=True) if one is trial)
    left = f" · {budget.describe()}" if trial.counts and history.tried % _LEFT_EVERY == 0 else ""
    text = f"{row.within(WIDTH - len(left))}{left}"
    more = _more(trial, history.figures(trial), history)
    if row.columns not in text:
        more = f"    {row.changed}{f' ({row.ended})' if row.ended else ''}\n{more}"
    return Message(text, more=more, event=TrialEvent(rows))


def _rows(history: History) -> Iterator[TrialRow]:
    """Yields a row per trial as judged now; the star is on the best one alone, unless that is the baseline."""
    best, number = history.best(), 0
    for trial in history.trials:
        figures = history.figures(trial)
        number += trial.counts
        yield TrialRow(
            name=f"#{number}" if trial.counts else "baseline" if trial.reason in BASELINE else trial.reason,
            best=trial.counts and best is not None and best.trial is trial,
            speed=_speed(figures, history),
            gain=_gain(figures, history, trial),
            memory="" if figures is None else format_size(getattr(figures, history.objectives.memory)),
            changed=_changed(trial, history),
            ended=_ended(trial, history),
        )


def _changed(trial: Trial, history: History) -> str:
    """Returns how the configuration differs from the baseline; of the baseline, the most important values."""
    config = trial.measurement.config
    if config != TrainConfig().canonical():
        return describe_config(config)
    fanouts = ",".join(map(str, config.fanouts(history.study.setting.task)))
    return f"batch {config.batch_size}{f', fanouts {fanouts}' if fanouts else ''}"


def _speed(figures: Figures | None, history: History) -> str:
    if figures is None:
        return "failed"
    if history.objectives.priority.mostly_accuracy:
        return "" if figures.val_accuracy is None else history.objectives.metric.show(figures.val_accuracy)
    if history.objectives.speed == "seconds_to_accuracy":
        return show_seconds(figures, " s")
    return show_speed(figures.throughput_epochs_per_s)


def _gain(figures: Figures | None, history: History, trial: Trial) -> str:
    """Returns the ratio to the reference's speed, both measured once; if accuracy weighs most, the points above its."""
    reference = history.reference_figures
    if figures is None or reference is None or trial is history.reference_trial:
        return ""
    if history.objectives.priority.mostly_accuracy:
        own, other = figures.val_accuracy, reference.val_accuracy
        return "" if own is None or other is None else f"{100 * (own - other):+.2f}"
    if history.objectives.speed != "seconds_to_accuracy":
        return show_ratio(figures.throughput_epochs_per_s / reference.throughput_epochs_per_s)
    own, other = figures.seconds_to_accuracy, reference.seconds_to_accuracy
    return "" if own is None or other is None else show_ratio(other / own)


def _ended(trial: Trial, history: History) -> str:
    """Returns why the trial can't be the choice: its failure, a broken limit, or the early end of its training."""
    metrics, figures = trial.metrics, history.figures(trial)
    if metrics is None or figures is None:
        outcome = trial.measurement.outcome
        return outcome.describe() if isinstance(outcome, Failure) else ""
    target, curve = history.objectives.limits.least_accuracy, history.curve(trial.measurement.config)
    if target is not None and curve is not None and curve.fell_from(target):
        return "touched, fell back"
    ended = None if metrics.curve is None else metrics.curve.ended
    if ended in _ENDED_EARLY and figures.seconds_to_accuracy is None:
        untrained = ended is CurveEnd.SLOWER and metrics.curve is not None and not metrics.curve.batches
        return "not trained: too slow" if untrained else _ENDED_EARLY[ended]
    return ", ".join(breach.short() for breach in history.breaches(JudgedTrial(trial, metrics, figures)))


def _more(trial: Trial, figures: Figures | None, history: History) -> str:
    """Returns the trial's figures with their ranges, why it was tried, and the best so far."""
    objectives, best = history.objectives, history.best()

    def described(one: Figures) -> str:
        return describe_figures(
            one, objectives.memory, objectives.speed, objectives.metric, objectives.limits.least_accuracy
        )

    lines = [] if figures is None else [f"    {described(figures)}"]
    if trial.counts:
        lines.append(f"    tried as: {trial.reason}")
    if best is not None and best.trial is not trial:
        lines.append(f"    best so far: {described(best.figures)}")
    return "\n".join(lines)
