"""`Summary`: the answer of a tune. It is computed once; console, `repr`, notebook, report and page are views of it."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import NamedTuple

from a3gnn.config import TrainConfig
from a3gnn.figures import DISTURBED, LEAST_PAIRS, Spread
from a3gnn.measurement import Metrics
from a3gnn.metric import HEURISTICS, ROW_MODELS, Metric, nearly_as_good
from a3gnn.option_names import option, program
from a3gnn.report.front import Front
from a3gnn.report.ratios import show_percent, show_points, show_quality, show_ratio, show_seconds, show_speed, shown
from a3gnn.report.rows import FrontRow
from a3gnn.report.table import beside, html_table, labeled, noted
from a3gnn.report.text import Change, change_lines, changes_of, describe_config, wrapped
from a3gnn.task import MODEL_LABELS
from a3gnn.training.tuned import TunedConfig
from a3gnn.tuning.study.choice import STOPPED, NoGain
from a3gnn.tuning.study.comparison import SEEDS_OF_A_GAIN, Comparison
from a3gnn.units import count, format_duration, format_size

#: Points of accuracy from which the headline names a loss: less is within the spread of seeds, whose standard deviation
#: is .14 in the middle of five graphs (docs/design/seed_order.md).
_LOST_POINTS = 0.2
#: Warnings and other good configurations that the short form shows.
_WARNINGS, _OTHERS = 2, 2


class Line(NamedTuple):
    """A figure of the baseline and of the other configuration, and how they compare, as text."""

    label: str
    baseline: str
    other: str
    change: str


class Summary(NamedTuple):
    """The answer of a tune, as text.

    Attributes:
        headline: What was tuned, and the answer.
        verified: The trials, and how baseline and choice were measured in turns; "" if neither is known.
        other: Heading of the column beside the baseline: `tuned`, or `best other` where the baseline is the choice.
        table: A line per figure.
        changed: The knobs in which the choice differs from the baseline; empty if the baseline is the choice.
        others: Other good configurations, each with the priority that asks for it.
        warnings: Reasons to doubt the figures, each with its remedy, the most important first.
        notes: Further facts.
        model: The model and its training (`Task.describe`).
    """

    headline: str
    verified: str
    other: str
    table: tuple[Line, ...]
    changed: tuple[Change, ...]
    others: tuple[str, ...]
    warnings: tuple[str, ...]
    notes: tuple[str, ...]
    model: str


def summary(tuned: TunedConfig, front: Front, trials: int | None = None, seconds: float | None = None) -> Summary:
    """Returns the summary of a finished tune.

    Args:
        tuned: Its choice.
        front: Its measurements.
        trials: Number of its trials after the baseline; None leaves it out.
        seconds: Its seconds; None leaves them out.
    """
    lost = None if tuned.no_gain is None else NoGain.from_dict(tuned.no_gain)
    against = None if tuned.against_default is None else Comparison.from_dict(tuned.against_default)
    compared = against if lost is None else lost.against
    chosen = next((row for row in front.rows if "chosen" in row.labels), None)
    baseline = _baseline(front)
    other = chosen if lost is None else next((row for row in front.rows if row.config == lost.config), None)
    if other is baseline:
        other = None
    metric, task = front.metric, tuned.setting.task
    own_test = _tested(tuned.measured)
    is_baseline = lost is not None or other is None
    baseline_test = own_test if is_baseline else None if against is None else _tested(tuned.default)
    test = _test(metric, baseline_test, None if is_baseline else own_test)
    ends = list(_ends(tuned, metric, other is not None))
    table = [
        *_figures(tuned, front, baseline, other, compared),
        *(ends or test),
        *_best_after(tuned, other is not None),
        *_heuristics(tuned, metric, other is None),
    ]
    return Summary(
        headline=f"Tuned {MODEL_LABELS.get(tuned.task.model, tuned.task.model)} on {tuned.setting.graph.name}: "
        + _answer(tuned, front, against, lost, baseline, trials),
        verified=_verified(compared, baseline, trials, seconds),
        other="tuned" if lost is None else "best other",
        table=tuple(table),
        changed=changes_of(other.config, task) if lost is None and other is not None else (),
        others=tuple(_others(front, baseline, chosen)) if lost is None else (),
        warnings=tuple(_warnings(tuned, metric, chosen, compared)),
        notes=tuple(_notes(tuned, metric, lost, compared)),
        model=tuned.task.describe(),
    )


def summary_lines(
    found: Summary, folder: Path | None = None, everything: bool = False, more: Sequence[str] = ()
) -> Iterator[str]:
    """Yields the lines of the summary, each of at most 80 columns but for paths and commands.

    Args:
        found: The summary.
        folder: The tune's folder: ends with its files and the next commands.
        everything: Whether to yield the model, all warnings and notes.
        more: Further commands to end with.
    """
    yield from wrapped(found.headline)
    if found.verified:
        yield from wrapped(found.verified)
    yield ""
    yield from _table(found)
    yield ""
    if everything:
        yield from labeled("Model", found.model)
    for i, line in enumerate(change_lines(found.changed)):
        yield beside("" if i else "Changed", line)
    others = found.others if everything else found.others[:_OTHERS]
    if others:
        yield from labeled("See also", f"{'; '.join(others)} (a3gnn pick)")
    for warning in found.warnings if everything else found.warnings[:_WARNINGS]:
        yield from labeled("Note", warning)
    if everything:
        for note in found.notes:
            yield from labeled("", note)
    if folder is not None:
        picture = ", front.png" if (folder / "front.png").exists() else ""
        yield beside("Saved", f"{folder}/tuned.json, front.csv{picture}")
        path = shlex.quote(str(folder))
        for i, command in enumerate((f"{program()} train {path}", f"{program()} report {path}", *more)):
            yield beside("" if i else "Next", command)


def summary_html(found: Summary) -> str:
    """Returns the summary as HTML, with everything in it."""
    parts = [f"<p><b>{escape(found.headline)}</b><br>{escape(found.verified)}</p>"]
    parts.append(html_table(("", "baseline", found.other, "change"), found.table, range(1, 3)))
    changed = "; ".join(f"{one.name} {one.before} -> {one.now}" for one in found.changed)
    texts = [("Model", found.model), ("Changed", changed), ("See also", "; ".join(found.others))]
    texts += [("Note", text) for text in (*found.warnings, *found.notes)]
    parts += [f"<p><b>{label}</b> {escape(text)}</p>" for label, text in texts if text]
    return "\n".join(parts)


def _line(label: str, figures: Sequence[str], change: str) -> Line:
    baseline, other = figures
    return Line(label, baseline, other, change)


def _table(found: Summary) -> Iterator[str]:
    lines = [Line("", "baseline", found.other, ""), *found.table]
    if not any(line.other for line in found.table):
        lines = [line._replace(other="") for line in lines]
    return noted(lines)


def _baseline(front: Front) -> FrontRow | None:
    """Returns the row of the baseline, or of the same configuration with features on disk, which stands in for it."""
    stand_in = TrainConfig(feature_tier="disk").canonical()
    rows = [row for row in front.rows if "default" in row.labels or row.config == stand_in]
    return next((row for row in rows if "default" in row.labels), next(iter(rows), None))


def _answer(
    tuned: TunedConfig,
    front: Front,
    against: Comparison | None,
    lost: NoGain | None,
    baseline: FrontRow | None,
    trials: int | None,
) -> str:
    """Returns what was gained, in a few words."""
    if lost is not None:
        return "no measurable gain, the baseline stays"
    if against is None:
        if STOPPED in tuned.left_out:
            return "stopped, the best trial so far is the choice"
        if baseline is not None and tuned.config == baseline.config:
            return "no time for a trial, the baseline stays" if trials == 0 else "no trial beats the baseline"
        return "the best within the limits, where the baseline failed"
    if not against.differs:  # the baseline may not be chosen: it breaks a limit, or a knob is fixed
        late = ", later at the target than the baseline" if against.late else ""
        return f"the best of what may be chosen{late}"
    return ", ".join(_gains(tuned, front, against))


def _gains(tuned: TunedConfig, front: Front, against: Comparison) -> Iterator[str]:
    """Yields the speed and the memory over the baseline's, and the accuracy if it falls or does not compare.

    For another model without a target in seconds, accuracy comes first, and epochs per second do not compare.
    """
    metric, time = front.metric, against.time_again
    said: tuple[str, ...] = ()
    points, is_other = _points(tuned, against), bool(tuned.config.searched) and not front.by_seconds
    if is_other and points is not None:
        yield f"{show_points(points, metric)} of validation {metric.label}"
        time = None
    elif not front.by_seconds or time is None:
        yield _ratio(
            against.throughput_again, "x the epochs per second", said := against.doubts(against.throughput_again)
        )
    if time is not None:
        target = "the target" if tuned.target_accuracy is None else metric.show(tuned.target_accuracy)
        words = f"x {time.sooner_word} at {target}"
        doubts = tuple(doubt for doubt in against.doubts(time) if doubt not in said)
        yield _ratio(time, words, doubts, against.at_least, is_doubted=bool(said))
    yield f"{show_percent(against.memory)} memory"
    if points is None:
        yield f"{metric.label} not compared"
    elif points < -_LOST_POINTS and not is_other:
        yield f"{show_points(points, metric)} of validation {metric.label}"


def _points(tuned: TunedConfig, against: Comparison) -> float | None:
    """Returns the points of accuracy over the baseline's, at the ends of both if these are known; None if unknown."""
    if not _is_shown(tuned, against.accuracy) and tuned.final is not None:
        ends = [end["val_accuracy"] for name in ("default", "other") if (end := tuned.final.get(name))]
        return 100 * (ends[1] - ends[0]) if len(ends) == 2 else None
    return None if against.accuracy is None else against.accuracy.median


def _ratio(ratio: Spread, words: str, doubts: Sequence[str], at_least: str = "", is_doubted: bool = False) -> str:
    """Returns a gain: `5.48x sooner`, or if it is not settled `about 1.7x sooner (0.99 to 3.04, not settled)`.

    Args:
        ratio: As printed.
        words: The unit.
        doubts: Why it is not settled.
        at_least: Stands before a lower bound.
        is_doubted: Whether the gain before it has named its doubts, which hold for this one, too.
    """
    if not (doubts or is_doubted):
        return f"{at_least}{ratio.median:.2f}{words}"
    span = (f"{ratio.low:.2f} to {ratio.high:.2f}",) if ratio.repeats > 1 else ()
    rounded = f"{ratio.median:.1f}" if ratio.median < 10 else f"{ratio.median:.0f}"
    why = ", ".join((*span, *doubts))
    return f"{at_least or 'about '}{rounded}{words}{f' ({why})' if why else ''}"


def _verified(against: Comparison | None, baseline: FrontRow | None, trials: int | None, seconds: float | None) -> str:
    """Returns what was run: `25 trials, then 14 runs of both in turns with 2 seeds; 5 min in all`."""
    parts = [] if trials is None else [count(trials, "trial")]
    if against is not None:
        seeds = 1 if baseline is None else baseline.measured.seeds
        parts.append(f"{count(against.throughput.repeats, 'run')} of both in turns with {count(seeds, 'seed')}")
    return ", then ".join(parts) + ("" if seconds is None else f"; {format_duration(seconds)} in all")


def _figures(
    tuned: TunedConfig, front: Front, baseline: FrontRow | None, other: FrontRow | None, against: Comparison | None
) -> Iterator[Line]:
    """Yields the lines of speed, memory and validation quality."""
    both = [None if row is None else row.measured for row in (baseline, other)]
    metric, target = front.metric, tuned.target_accuracy
    is_for_time = front.by_seconds or not any(row.config.searched for row in front.rows)
    if target is not None and is_for_time:
        seconds = [shown(one, lambda one: show_seconds(one, " s")) for one in both]
        yield _line(f"time to {metric.show(target)}", seconds, _sooner(against, metric))
        if tuned.rate_alone is not None and baseline is not None:
            yield _rate_alone(tuned.rate_alone, baseline.measured.seconds_to_accuracy)
    speeds = [shown(one, lambda one: show_speed(one.throughput_epochs_per_s)) for one in both]
    change = "" if against is None else against.throughput_again.describe(unit="x")
    yield _line("epochs per second", speeds, change)
    sizes = [shown(one, lambda one: format_size(getattr(one, front.memory))) for one in both]
    yield _line("peak memory", sizes, shown(against, _memory))
    qualities = [shown(one, lambda one: show_quality(one, metric)) for one in both]
    accuracy = None if against is None else against.accuracy
    if tuned.final is not None and not _is_shown(tuned, accuracy):
        return  # `_ends` has both
    change = shown(accuracy, lambda points: show_points(points, metric))
    if change and tuned.default_budget_s is not None:
        change += f", each {'after' if is_for_time else 'within'} {tuned.default_budget_s:.3g} s"
    yield _line(f"validation {metric.label}", qualities, change)


def _rate_alone(measured: Mapping[str, float | None], baseline_s: float | None) -> Line:
    """Returns the line of the baseline with the choice's learning rate, which one training measured."""
    scale, seconds = measured["scale"], measured["seconds"]
    change = "" if seconds is None or not baseline_s else f"{show_ratio(baseline_s / seconds)}, one training"
    return Line(f"  lr x{scale:g} alone", "", shown(seconds, "{:.3g} s".format, "not reached"), change)


def _ends(tuned: TunedConfig, metric: Metric, has_other: bool) -> Iterator[Line]:
    """Yields the lines of both trainings until accuracy stopped improving; none if the baseline was not trained so far.

    All figures are of the two trainings with the task's seed. Test accuracy decides nothing.
    """
    baseline, other = ((tuned.final or {}).get(name) for name in ("default", "other"))
    if baseline is None or (has_other and other is None):
        return
    other = other if has_other else None
    still = other is not None and not other["stopped"]
    at_least = "at least " if still else ""
    after = [f"{one['seconds']:.3g} s" if one else "" for one in (baseline, other)]
    yield _line("stops improving after", [after[0], f"> {after[1]}" if still else after[1]], "")
    for name, field, change in (("validation", "val_accuracy", at_least), ("test", "test_accuracy", "")):
        found = [None if one is None else one[field] for one in (baseline, other)]
        if found[0] is None and found[1] is None:
            continue
        show = [metric.show, metric.show_at_least if at_least and name == "validation" else metric.show]
        texts = [shown(value, show_one) for value, show_one in zip(found, show, strict=True)]
        if found[0] is not None and found[1] is not None:
            change += show_points(100 * (found[1] - found[0]), metric)
        unused = "not used to choose" if name == "test" else ""
        yield _line(f"final {name} {metric.label}", texts, ", ".join(filter(None, (change, unused))))


def _best_after(tuned: TunedConfig, has_other: bool) -> Iterator[Line]:
    """Yields the seconds of training to the best validation quality, if a search has changed the model."""
    if not (has_other and tuned.config.searched):
        return
    both = [one if isinstance(one, Metrics) and one.curve else None for one in (tuned.default, tuned.measured)]
    found = [None if one is None or one.curve is None else one.pace.seconds(one.curve.improved_at()) for one in both]
    change = "" if None in found or not found[0] else f"{(found[1] or 0) / found[0]:.2g}x as long"
    yield _line("at its best after", [shown(one, "{:.3g} s".format) for one in found], change)


def _test(metric: Metric, baseline: float | None, other: float | None) -> Iterator[Line]:
    """Yields the line of the test quality; it decides nothing."""
    if baseline is None and other is None:
        return
    texts = [shown(value, metric.show) for value in (baseline, other)]
    change = "not used to choose"
    if baseline is not None and other is not None:
        change = f"{show_points(100 * (other - baseline), metric)}, not used to choose"
    yield _line(f"test {metric.label}", texts, change)


def _heuristics(tuned: TunedConfig, metric: Metric, is_alone: bool) -> Iterator[Line]:
    """Yields the qualities of predictions without a network, by what the choice is judged on; one column `is_alone`."""
    part = _judged(tuned)[0]
    for name, found in (tuned.heuristics or {}).items():
        shown = metric.show(found[part])
        yield _line(f"{part}, {name} alone", (shown, "") if is_alone else ("", shown), "without a network")


def _judged(tuned: TunedConfig) -> tuple[str, float | None]:
    """Returns the links by which the choice is compared with scores without a model, and its quality on them."""
    end = (tuned.final or {}).get("default" if tuned.no_gain is not None else "other")
    for part in ("test", "validation"):
        name = "test_accuracy" if part == "test" else "val_accuracy"
        found = end[name] if end and end[name] is not None else getattr(tuned.measured, name, None)
        if found is not None:
            return part, found
    curve = None if tuned.measured is None else tuned.measured.curve
    return "validation", max(curve.val_accuracy, default=None) if curve else None


def _as_good(tuned: TunedConfig, metric: Metric) -> Iterator[str]:
    """Yields that a prediction without a model does, and how to use it.

    For links, a score must be at least as good as the choice; for nodes, at most half a point below the baseline on
    validation.
    """
    part, own = _judged(tuned)
    known = tuned.heuristics or {}
    if tuned.setting.graph.ends:
        good = {name: found[part] for name, found in known.items() if own and found[part] >= own}
        name = max(good, key=good.__getitem__, default="")
        rule = "at least as good as the choice"
    else:
        part, end = "validation", _end_of_baseline(tuned)
        name = nearly_as_good({name: found[part] for name, found in known.items()}, end)
        is_better = bool(name) and end is not None and known[name][part] > end
        by = "better than" if is_better else "at most half a point below"
        chosen = (tuned.final or {}).get("other") if tuned.no_gain is None else None
        end_of_choice = chosen["val_accuracy"] if chosen else None
        beside = "" if end_of_choice is None else f" (the choice has {metric.show(end_of_choice)})"
        rule = f"{by} the baseline's {metric.show(end or 0.0)}{beside}"
    if name:
        word = option("heuristic", name.replace(" ", "-"))
        use = f"; {program()} predict {word} takes it" if name in (*HEURISTICS, *ROW_MODELS) else ""
        shown = metric.show(known[name][part])
        yield f"{name} alone, without a network, has {part} {metric.label} {shown}, {rule}{use}"


def _end_of_baseline(tuned: TunedConfig) -> float | None:
    """Returns the baseline's validation quality when it stopped improving, or the best of its curve; None without."""
    end = (tuned.final or {}).get("default")
    if end and end["val_accuracy"] is not None:
        return float(end["val_accuracy"])
    curve = tuned.default.curve if isinstance(tuned.default, Metrics) else None
    return max(curve.val_accuracy, default=None) if curve else None


def _tested(outcome: object) -> float | None:
    return outcome.test_accuracy if isinstance(outcome, Metrics) else None


def _sooner(against: Comparison | None, metric: Metric) -> str:
    if against is None:
        return ""
    missed = f", missed with {count(against.missed, 'seed')}" if against.missed else ""
    return f"{against.sooner()}{missed}".removeprefix(", ")


def _memory(against: Comparison) -> str:
    most = against.memory if against.memory_most is None else against.memory_most
    up_to = f" (up to {show_percent(most)})" if not against.differs and against.memory < 1 <= most else ""
    return f"{show_percent(against.memory)}{up_to}"


def _others(front: Front, baseline: FrontRow | None, chosen: FrontRow | None) -> Iterator[str]:
    """Yields the best of other priorities, as long as they are neither the baseline nor the choice."""
    for row in front.rows:
        names = [label for label in row.labels if label not in ("default", "chosen")]
        if not names or row is baseline or row is chosen or not row.on_front:
            continue
        timed = front.by_seconds and row.measured.seconds_to_accuracy is not None
        speed = f"{show_seconds(row.measured, ' s')} to target" if timed else ""
        speed = speed or f"{show_speed(row.measured.throughput_epochs_per_s)} epochs/s"
        size = format_size(getattr(row.measured, front.memory))
        once = "" if row.in_play_off else ", measured once"
        yield f"{', '.join(names)}: {speed}, {size}, {show_quality(row.measured, front.metric)}{once}"


def _warnings(tuned: TunedConfig, metric: Metric, chosen: FrontRow | None, against: Comparison | None) -> Iterator[str]:
    """Yields reasons to doubt the figures, with their remedies, the most important first."""
    yield from _as_good(tuned, metric)
    more = f"{option('resume', True)} with a larger {option('budget')}"
    target, measured = tuned.target_accuracy, None if chosen is None else chosen.measured
    reached = None if measured is None or not measured.complete else measured.val_accuracy
    if target is not None and reached is not None and reached < target:
        yield "the first training reached the target, this one did not: equal trainings differ by as much"
    if against is not None and DISTURBED in against.doubts():
        yield (
            f"other programs disturbed {against.disturbed:.0%} of these timings; on a quiet machine, {more} "
            "measures them again"
        )
    if tuned.unsettled:
        yield tuned.unsettled
    if against is not None and against.differs and _is_later(against):
        label = "the target" if target is None else metric.show(target)
        yield f"the choice reaches {label} later than the baseline, which this priority allows"
    if STOPPED in tuned.left_out:
        yield f"the tune was stopped, so the choice was measured once; {option('resume', True)} verifies it"
    missing = [what for what in tuned.left_out if not _decides_nothing(what)]
    if missing:
        beside = "beside the final trainings " if tuned.final or tuned.rate_alone else ""
        yield f"{beside}the budget was too small for {', '.join(missing)}; {more} measures more"
    if tuned.setting.graph.relations:
        yield (
            "few of the measurements that ship with a3gnn are of graphs with node types, so the first predictions of "
            f"this tune had wide intervals; {more} narrows them"
        )


def _is_shown(tuned: TunedConfig, accuracy: Spread | None) -> bool:
    """Whether accuracy at equal training time is shown: one seed has final accuracies instead, if they are known."""
    return accuracy is not None and (tuned.final is None or accuracy.repeats > 1)


def _is_later(against: Comparison) -> bool:
    """Whether the configuration reaches the target later than the baseline, or misses it with half of the seeds."""
    if against.time is None:
        return against.missed > 0
    return against.time.median < 1 and not against.time_at_least


def _decides_nothing(left_out: str) -> bool:
    """Whether a measurement that was left out changes no figure that is compared."""
    return left_out == STOPPED or "test" in left_out


def _notes(tuned: TunedConfig, metric: Metric, lost: NoGain | None, against: Comparison | None) -> Iterator[str]:
    """Yields further facts about the choice."""
    if lost is not None:
        found = lost.against
        yield f"the best other is {describe_config(lost.config)}"
        if found.late:
            yield "the other configuration reaches the target later"
        elif found.throughput.repeats < LEAST_PAIRS:
            yield f"a gain as small shows in {LEAST_PAIRS} runs in turns"
        elif (more := found.accuracy) is not None and more.low > 0 and more.repeats < SEEDS_OF_A_GAIN:
            yield f"a gain of {metric.label} shows with {SEEDS_OF_A_GAIN} seeds"
    own = tuned.setting.task.own
    if own is not None and own.sampled != "none":
        which = "" if own.sampled == "all" else f"{own.sampled} "
        yield f"{which}{metric.label} is computed from a fixed sample of in-neighbors, not from all"
    yield from (f"not measured: {what}" for what in tuned.left_out if _decides_nothing(what) and what != STOPPED)
    if against is not None and against.left_out:
        yield f"{count(against.left_out, 'run')} that other programs disturbed do not count in the ratios"
