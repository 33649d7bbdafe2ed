"""The answer of a study for its page: each gain over the baseline with its range."""

from __future__ import annotations

from typing import Any

from a3gnn.figures import DISTURBED, LEAST_PAIRS, Figures, Spread, doubts
from a3gnn.page.stored_study import Measured
from a3gnn.report.ratios import show_percent, show_ratio, show_seconds, show_speed
from a3gnn.tuning.study.choice import NoGain
from a3gnn.tuning.study.comparison import Comparison
from a3gnn.units import count

UNPROVEN = "gain not established"
SINGLE = "not verified"


def gain_views(measured: Measured) -> list[dict[str, Any]]:
    """Returns a dict per figure of the best, or of the best other than the baseline, over the baseline.

    Each has `name`; `label`, `text` and `range` in words; `ends`, the figures of the baseline and of the other one, or
    None; `unit` (x or points); `median`, `low` and `high`; `verdict` (better, worse or unclear); `settled`, whether the
    shown range leaves out 1 (0 for points); and `badges`, the reasons to doubt it. Numbers are turned so that more is
    better: memory is the baseline's over its own. Low and high are for one more training of both. They are None if it
    was measured once, or is a lower bound. The verdict is by the range of the median. The largest weight comes first.
    """
    tuned, other = measured.tune.tuned, measured.best
    if tuned is not None and tuned.no_gain is not None:
        lost = NoGain.from_dict(tuned.no_gain)
        other = next((i for i in measured.rows if measured.rows[i].config == lost.config), None)
        found = _compared(lost.against, measured)
        found = [one | {"verdict": "unclear"} for one in found]
    elif tuned is not None and tuned.against_default is not None:
        found = _compared(Comparison.from_dict(tuned.against_default), measured)
    else:
        found = _so_far(measured)
    priority = measured.history.objectives.priority
    weights = dict.fromkeys(("time", "throughput"), priority.throughput)
    weights |= {"memory": priority.memory, "accuracy": priority.accuracy}
    own = "time" if priority.time else "throughput"
    ends = _ends(measured, other)
    found = [one | {"ends": ends.get(one["name"]), "settled": _is_settled(one)} for one in found]
    return sorted(found, key=lambda one: (-weights[one["name"]], one["name"] != own))


def _is_settled(gain: dict[str, Any]) -> bool:
    """Returns whether the shown range of a gain leaves out "no change", so that the page may color it."""
    if gain["low"] is None:
        return True
    shown = Spread(gain["median"], gain["low"], gain["high"], 2)
    return not doubts(shown, LEAST_PAIRS, none=1.0 if gain["unit"] == "x" else 0.0)


def _ends(measured: Measured, other: int | None) -> dict[str, list[str]]:
    """Returns the figures of the baseline and of the trial `other` as text, by the name of the gain."""
    if measured.default is None or other is None:
        return {}
    front = measured.front

    def texts(figures: Figures) -> dict[str, str]:
        _, _, memory, quality = front.texts(figures)
        speed = show_speed(figures.throughput_epochs_per_s)
        return {"time": show_seconds(figures, " s"), "throughput": speed, "memory": memory, "accuracy": quality}

    before, after = (texts(measured.rows[index].measured) for index in (measured.default, other))
    return {name: [before[name], after[name]] for name in before}


def _compared(against: Comparison, measured: Measured) -> list[dict[str, Any]]:
    """Returns the gains of a verification."""
    front, found = measured.front, []
    badges = list(against.doubts())
    if against.missed:
        badges.append(f"target missed with {count(against.missed, 'seed')}")
    if against.time is not None and front.target is not None:
        label = f"{against.time.sooner_word} at {front.metric.show(front.target)}"
        found.append(_gain("time", label, against.time, badges, against.at_least, against.time_again))
    again = against.throughput_again
    found.append(_gain("throughput", "epochs per second", against.throughput, badges, again=again))
    found.append(_memory(against.memory, against.memory_most))
    if against.accuracy is not None:
        label = f"points of validation {front.metric.label}"
        found.append(_gain("accuracy", label, against.accuracy, [], unit="points"))
    return found


def _so_far(measured: Measured) -> list[dict[str, Any]]:
    """Returns the gains of the best trial so far over the baseline's; [] if they are one configuration."""
    if measured.default is None or measured.best is None:
        return []
    baseline, best = (measured.judged[index] for index in (measured.default, measured.best))
    if baseline.trial.measurement.config == best.trial.measurement.config:
        return []
    own, other = best.figures, baseline.figures
    badges = [SINGLE]
    if best.metrics.disturbed_windows or baseline.metrics.disturbed_windows:
        badges.append(DISTURBED)
    found, front = [], measured.front
    if own.seconds_to_accuracy is not None and other.seconds_to_accuracy is not None and front.target is not None:
        ratio = other.seconds_to_accuracy / own.seconds_to_accuracy
        spread = Spread(ratio, ratio, ratio, 1)
        found.append(_gain("time", f"{spread.sooner_word} at {front.metric.show(front.target)}", spread, badges))
    found.append(_gain("throughput", "epochs per second", own.throughput.over(other.throughput), badges))
    found.append(_memory(getattr(own, front.memory) / getattr(other, front.memory), None))
    return found


def _gain(
    name: str,
    label: str,
    spread: Spread,
    badges: list[str],
    before: str = "",
    again: Spread | None = None,
    unit: str = "x",
) -> dict[str, Any]:
    """Returns a gain: `spread` decides, and `again`, which has the range of one more training, is shown."""
    none, show = (1.0, show_ratio) if unit == "x" else (0.0, "{:+.2f}".format)
    repeated, verdict = spread.repeats > 1, "unclear"
    if repeated and (spread.low > none or spread.high < none):
        verdict = "better" if spread.low > none else "worse"
    spread = again or spread
    ranged = spread.repeats > 1
    low, high = (spread.low, spread.high) if ranged else (None, None)
    return {
        "name": name,
        "label": label,
        "text": before + show(spread.median),
        "range": f"{show(spread.low)} to {show(spread.high)}" if ranged else "",
        "unit": unit,
        "median": spread.median,
        "low": low,
        "high": high,
        "verdict": verdict,
        "badges": [*([UNPROVEN] if repeated and verdict == "unclear" else []), *badges],
    }


def _memory(ratio: float, most: float | None) -> dict[str, Any]:
    """Returns the gain in peak memory: `ratio` to the baseline's, and the upper bound of this ratio."""
    change = round(100 * (ratio - 1))
    worst = ratio if most is None else most
    verdict = "better" if worst < 1 else "worse" if ratio > 1 else "unclear"
    if not change:
        verdict = "unclear"
    at_most = f"at most {100 * (worst - 1):+.0f}%" if round(100 * (worst - ratio)) else ""
    return {
        "name": "memory",
        "label": "peak memory",
        "text": show_percent(ratio),
        "range": at_most,
        "unit": "x",
        "median": 1 / ratio,
        "low": 1 / worst if at_most else None,
        "high": 1 / ratio if at_most else None,
        "verdict": verdict,
        "badges": [UNPROVEN] if change < 0 and verdict == "unclear" else [],
    }
