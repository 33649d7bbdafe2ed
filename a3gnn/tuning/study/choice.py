"""`Choice`: the configuration that a tune chooses, with its play-off results, and the lines that present it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from a3gnn.config import TrainConfig
from a3gnn.figures import Figures, Reference
from a3gnn.measurement import Metrics
from a3gnn.metric import Metric
from a3gnn.option_names import option
from a3gnn.report.front import Front
from a3gnn.report.text import describe_config, describe_figures
from a3gnn.training.tuned import TunedConfig
from a3gnn.tuning.study.comparison import ALTERNATIONS, SEEDS_OF_A_GAIN, Comparison
from a3gnn.tuning.study.trial import Trial
from a3gnn.units import count

#: The `left_out` entry of a choice that was made when the tune was stopped.
STOPPED = "the play-off, for the tune was stopped: what is promised of the choice was measured once"
#: Share of disturbed trials in the alternations above which a line calls their ratios doubtful. One disturbed trial of
#: the two disturbs an alternation, so beyond a quarter of the trials, half of the ratios and their median may be
#: disturbed.
_MANY_DISTURBED = 1 / 4


@dataclass(frozen=True, slots=True)
class Judged:
    """The results of a configuration in the play-off.

    Attributes:
        metrics: Throughput over its alternations, the largest peaks seen, and its whole curve.
        figures: The figures of these metrics.
    """

    metrics: Metrics
    figures: Figures


@dataclass(frozen=True, slots=True)
class NoGain:
    """The best other configuration, if it had no measurable gain and the default was chosen instead.

    Attributes:
        config: The configuration.
        against: Its comparison with the default.
    """

    config: TrainConfig
    against: Comparison

    def to_dict(self) -> dict[str, Any]:
        """Returns the fields as JSON types."""
        return {"config": self.config.to_dict(), "against_default": self.against.to_dict()}

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> Self:
        """Returns the object of `to_dict`."""
        return cls(TrainConfig.from_dict(fields["config"]), Comparison.from_dict(fields["against_default"]))


@dataclass(frozen=True, slots=True)
class Choice:
    """The chosen configuration.

    Attributes:
        trial: The trial that made it a finalist.
        judged: Its results in the play-off.
        default: The default's results in the play-off; None if it was not measured there.
        against: Comparison of choice and default; None if the default is the choice, or was not measured.
        no_gain: The configuration that the default was chosen over for lack of a measurable gain; else None.
        figures: Figures of all configurations measured in the play-off, by configuration key.
        notes: Why another finalist was not chosen, by configuration key.
        left_out: Measurements that the budget was too small for, in words; or `STOPPED`.
        reference: The play-off's reference, at the machine's speed then; None without a play-off.
    """

    trial: Trial
    judged: Judged
    default: Judged | None
    against: Comparison | None
    figures: Mapping[str, Figures] = field(default_factory=dict)
    notes: Mapping[str, str] = field(default_factory=dict)
    left_out: tuple[str, ...] = ()
    no_gain: NoGain | None = None
    reference: Reference | None = None


def choice_lines(tuned: TunedConfig, front: Front) -> Iterator[str]:
    """Yields the choice of a tune, its figures, and its comparison with the default.

    Args:
        tuned: The choice.
        front: The tune's measurements.
    """
    yield f"chosen   {describe_config(tuned.config)}"
    metric, target = front.metric, tuned.target_accuracy
    for row in front.rows:
        if "chosen" in row.labels:
            yield f"    -> {describe_figures(row.measured, front.memory, front.speed, metric, target)}"
            yield from _fell_short(row.measured, target, metric)
    if tuned.measured is not None and tuned.measured.test_accuracy is not None:
        found = metric.show(tuned.measured.test_accuracy)
        yield f"    test {metric.label} {found}, evaluated once{_default_test(tuned, metric)}"
    own = tuned.setting.task.own
    if own is not None and own.sampled != "none":
        which = "" if own.sampled == "all" else f"{own.sampled} "
        yield f"    {which}{metric.label} is computed from a fixed sample of in-neighbours, not from all"
    if tuned.against_default is not None:
        yield from _gained(Comparison.from_dict(tuned.against_default), tuned, metric)
    if tuned.no_gain is not None:
        yield from _not_gained(NoGain.from_dict(tuned.no_gain), tuned, metric)
    if _nothing_better(tuned):
        yield "    the default is the choice: nothing else that was measured keeps the limits and is better"
    if tuned.still_rising:
        yield (
            f"    the default's validation {metric.label} was still rising after the {_seconds(tuned)} that each was "
            f"given; a larger {option('budget')} compares them later"
        )
    if tuned.left_out:
        why = "" if STOPPED in tuned.left_out else ", for the budget is too small"
        yield f"    left out{why}: {'; '.join(tuned.left_out)}"


def _fell_short(measured: Figures, target: float | None, metric: Metric) -> Iterator[str]:
    """Yields a line if the choice reached the target in its own trial, but not when measured again."""
    found = measured.val_accuracy
    if target is not None and found is not None and measured.complete and found < target:
        yield (
            f"    its first training reached the target of {metric.show(target)}, and this one did not: equal "
            "trainings differ by as much"
        )


def _nothing_better(tuned: TunedConfig) -> bool:
    """Returns whether the default is the choice without a comparison."""
    compared = tuned.against_default is not None or tuned.no_gain is not None
    return tuned.config == TrainConfig().canonical() and not compared and STOPPED not in tuned.left_out


def _default_test(tuned: TunedConfig, metric: Metric) -> str:
    found = getattr(tuned.default, "test_accuracy", None)
    return "" if found is None or tuned.against_default is None else f"; the default's {metric.show(found)}"


def _gained(against: Comparison, tuned: TunedConfig, metric: Metric) -> Iterator[str]:
    # The choice is compared even with a default that may not be chosen, for instance because of --fix.
    verdict = "against the default" if against.differs else "no different from the default as far as can be told"
    yield f"    {verdict}: {', '.join(_ratios(against, tuned, metric))}"
    yield from _doubtful(against)


def _not_gained(found: NoGain, tuned: TunedConfig, metric: Metric) -> Iterator[str]:
    why = ""
    if found.against.late:
        why = "; it is later at the target"
    elif found.against.throughput.repeats < ALTERNATIONS:
        why = f"; a gain as small needs {ALTERNATIONS} alternations to be told"
    elif (more := found.against.accuracy) is not None and more.low > 0 and more.repeats < SEEDS_OF_A_GAIN:
        why = f"; a gain of {metric.label} needs {SEEDS_OF_A_GAIN} seeds to be told"
    yield (
        f"    no measurable gain over the default, which is the choice: the best other configuration has "
        f"{', '.join(_ratios(found.against, tuned, metric))}{why}"
    )
    yield f"    that is   {describe_config(found.config)}"
    yield from _doubtful(found.against)


def _ratios(against: Comparison, tuned: TunedConfig, metric: Metric) -> Iterator[str]:
    """Yields the ratios and differences to the default's figures."""
    yield f"{against.throughput.describe()} x its throughput"
    if tuned.target_accuracy is not None:
        target = metric.show(tuned.target_accuracy)
        if against.time is not None:
            yield f"at {target} {against.describe_time()} x as early"
        if against.missed:
            it = "which" if against.time is not None else target
            yield f"{it} {count(against.missed, 'seed')} missed"
    most = against.memory if against.memory_most is None else against.memory_most
    up_to = f" (up to {most:.2f})" if not against.differs and against.memory < 1 <= most else ""
    yield f"{against.memory:.2f}{up_to} x its memory"
    if against.accuracy is not None:
        within = "" if tuned.default_budget_s is None else f" in the same {_seconds(tuned)} of training"
        yield f"{metric.show_gain(against.accuracy.describe('+.2f'))}{within}"


def _doubtful(against: Comparison) -> Iterator[str]:
    """Yields a line if other work on the machine disturbed the ratios."""
    if against.left_out:
        yield f"    left out of these ratios: {count(against.left_out, 'alternation')} that other work disturbed"
    elif against.disturbed > _MANY_DISTURBED:
        yield (
            f"    other work took part of the machine in {against.disturbed:.0%} of these timings: the ratios may "
            f"differ on a quiet machine; when it is quiet, {option('resume', True)} with a larger {option('budget')} "
            "measures them again"
        )


def _seconds(tuned: TunedConfig) -> str:
    return f"{tuned.default_budget_s:.3g} s"
