"""`KeptTune`: reads a tune, finished or not, from its folder, which it never changes; `ToldTune`: a compared tune.

`candidates` are the configurations that a tune measured, judged by a new question at one machine speed.
"""

from __future__ import annotations

import dataclasses
import string
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Self

from a3gnn.config import KNOBS, TrainConfig
from a3gnn.errors import UsageError
from a3gnn.figures import Figures, Reference
from a3gnn.limits import Limits
from a3gnn.measurement import Metrics
from a3gnn.report.front import Front
from a3gnn.report.rows import FrontRow
from a3gnn.setting import Setting
from a3gnn.training.tuned import TunedConfig
from a3gnn.tuning.study.choice import STOPPED, NoGain
from a3gnn.tuning.study.comparison import Comparison
from a3gnn.tuning.study.folder import Journal, TuneState, no_tune, read_request, with_kept_speeds
from a3gnn.tuning.study.history import Compared, History
from a3gnn.tuning.study.limits import memory_limits
from a3gnn.tuning.study.measured_front import at_drift, measured_front, play_off_drift
from a3gnn.tuning.study.study import Study, TuneRequest
from a3gnn.tuning.study.trial import JudgedTrial, Trial, at_reference_pace

#: Figures that depend on the target.
_SECONDS = ("seconds_to_accuracy", "seconds_low", "seconds_high", "seconds_repeats")


@dataclass(frozen=True)
class KeptTune:
    """An existing tune."""

    folder: Path  # its --out
    history: History  # its trials before the verification, judged by its own request
    front: Front  # all measurements, including the verification; of an unfinished tune, the measurements so far
    tuned: TunedConfig | None  # its choice; None if it has not finished
    state: TuneState  # its elapsed seconds, and whether it has finished

    @classmethod
    def read(cls, folder: str | Path) -> Self:
        """Returns the tune in `folder`.

        Raises:
            UsageError: The folder holds no tune, or one without a trial.
            ConfigError: Its files are not in this version's format.
        """
        folder = Path(folder)
        request = read_request(folder)
        if not (folder / "probes.jsonl").is_file():
            raise no_tune(folder, "probes.jsonl")
        trials = tuple(Journal(folder).read(mend=False))
        if not trials:
            raise UsageError(f"the tune in {folder} has no trial yet; wait until it has measured the baseline")
        measured = trials[0].measurement.setting
        setting = Setting(measured.task, measured.graph, with_kept_speeds(folder, measured.hardware))
        timings = tuple(Journal(folder).timings(mend=False))
        state = TuneState.read(folder, trials)
        if state.finished_budget is None:
            history = History(Study.of(request, setting), trials, timings)
            return cls(folder, history, measured_front(history), None, state)
        tuned = TunedConfig.read(folder)
        if STOPPED not in tuned.left_out:  # request.json of older versions keeps the budget of the first run
            request = dataclasses.replace(request, budget=state.finished_budget)
        history = History(Study.of(request, setting), trials, timings, _compared(tuned))
        return cls(folder, history, Front.read(folder), tuned, state)

    @property
    def setting(self) -> Setting:
        """The task, the graph and the machine."""
        return self.history.study.setting

    @cached_property
    def played_off(self) -> dict[str, FrontRow]:
        """The rows of the front that were measured in the verification, by configuration key."""
        return {row.config.key(): row for row in self.front.rows if row.in_play_off}

    @cached_property
    def judged_last(self) -> dict[str, FrontRow]:
        """The rows at the machine's speed when the tune chose: those of the verification, and the choice's."""
        chosen = None if self.tuned is None else self.tuned.config
        return {row.config.key(): row for row in self.front.rows if row.in_play_off or row.config == chosen}

    @cached_property
    def rejected(self) -> dict[str, FrontRow]:
        """The rows of the front that failed or broke a limit in the verification, by configuration key."""
        return {row.config.key(): row for row in self.front.rows if row.rejected}

    @cached_property
    def timed_again(self) -> dict[str, Metrics]:
        """The metrics of the choice and the default in the verification, by configuration key."""
        reference, tuned = self.history.reference_trial, self.tuned
        if tuned is None or tuned.measured is None:
            return {}
        found = {tuned.config.key(): tuned.measured}
        if reference is not None and tuned.against_default is not None and isinstance(tuned.default, Metrics):
            found[reference.measurement.config.key()] = tuned.default
        return found

    @cached_property
    def play_off_drift(self) -> float:
        """The speed of the verification's rows over that of trials (`measured_front.play_off_drift`)."""
        return play_off_drift(self.history, {key: row.measured for key, row in self.judged_last.items()})

    @property
    def drift(self) -> float:
        """The machine's speed when the tune chose, over that in the reference's trial; 1 before, or if not known."""
        return 1.0 if self.tuned is None else self.tuned.drift or 1.0

    def reference(self, asked: History) -> Reference | None:
        """Returns the reference of `asked`, the tune's trials by any request, at the machine's speed of the choice."""
        return None if asked.reference is None else asked.reference.at(self.drift)

    def judged_by(self, request: TuneRequest) -> History:
        """Returns the tune's trials judged by another request, in its space, after the same seconds of training."""
        own, compared = self.history.study.request, self.history.compared
        if compared is not None and (request.max_drop, request.target_accuracy) != (own.max_drop, own.target_accuracy):
            compared = compared._replace(target=None)
        study = dataclasses.replace(Study.of(request, self.setting), space=self.history.study.space)
        return History(study, self.history.trials, compared=compared)


@dataclass(frozen=True, slots=True)
class ToldTune:
    """A tune, as a comparison shows it.

    Attributes:
        letter: Its name in the comparison: A, B, ...
        folder: Its --out.
        request: Its options.
        setting: The task, the graph and the machine.
        front: All its measurements.
        config: Its choice, or the best measured so far; None if nothing keeps the limits yet.
        against: The comparison of `config` with the default, from the verification's pairs; None without them.
        no_gain: The configuration that the default was chosen over for lack of a measurable gain, or None.
        finished: Whether it has chosen.
        trials: Number of trials after the default.
        seconds: Its elapsed seconds.
        versions: The versions of a3gnn, "" if unknown, and of the measurements.
    """

    letter: str
    folder: Path
    request: TuneRequest
    setting: Setting
    front: Front
    config: TrainConfig | None
    against: Comparison | None
    no_gain: NoGain | None
    finished: bool
    trials: int
    seconds: float
    versions: tuple[str, int]

    @classmethod
    def read(cls, folder: str | Path, place: int) -> Self:
        """Returns the tune in `folder`, the `place`th of a comparison, from 0.

        Raises:
            UsageError: The folder holds no tune.
            ConfigError: Its files are not in this version's format.
        """
        tune = KeptTune.read(folder)
        best = tune.history.best()
        config = None if best is None else best.trial.measurement.config
        if tune.tuned is not None:
            config = tune.tuned.config
        own = "" if tune.tuned is None else tune.tuned.versions.get("a3gnn", "")
        ratios, no_gain = (None, None) if tune.tuned is None else (tune.tuned.against_default, tune.tuned.no_gain)
        return cls(
            letter=_letter(place),
            folder=tune.folder,
            request=tune.history.study.request,
            setting=tune.setting,
            front=tune.front,
            config=config,
            against=None if ratios is None else Comparison.from_dict(ratios),
            no_gain=None if no_gain is None else NoGain.from_dict(no_gain),
            finished=tune.tuned is not None,
            trials=tune.history.tried,
            seconds=tune.state.elapsed_s,
            versions=(own, tune.history.trials[0].measurement.version),
        )

    @property
    def values(self) -> dict[str, Any] | None:
        """The choice's values of the knobs and of the names of the search; None without a choice."""
        if self.config is None:
            return None
        task, config = self.setting.task, self.config
        searched = {one.name: task.value(one.name) for one in self.request.search} | dict(config.searched)
        return {knob.name: getattr(config, knob.name) for knob in KNOBS} | searched

    @property
    def version(self) -> str:
        """The versions as text."""
        own, measured = self.versions
        return f"{f'a3gnn {own}, ' if own else ''}measurements of version {measured}"

    @property
    def trained(self) -> str:
        """The task as text: the model, its width, its fanouts, and the task's key."""
        task = self.setting.task
        fanouts = ",".join(map(str, task.fanouts))
        return f"{task.model}, {task.hidden_channels} wide, fanouts {fanouts}, task {task.key()[:8]}"

    @property
    def better_by(self) -> tuple[str, ...]:
        """Display names of the figures in which the choice is measurably better than the default."""
        if self.against is None:
            return ()
        speed = "seconds" if self.request.priority.time else "epochs/s"
        names = {"speed": speed, "memory": "memory", "accuracy": self.front.metric.label}
        return tuple(names[one] for one in self.against.better_by(self.request.priority))

    @property
    def differs(self) -> bool | None:
        """Whether the choice differs measurably from the default; None if they were not compared."""
        return None if self.against is None and self.no_gain is None else bool(self.better_by)

    @property
    def default(self) -> Figures | None:
        """The default's figures; None if it could not be measured."""
        return next((row.measured for row in self.front.rows if "default" in row.labels), None)

    @property
    def choice(self) -> Figures | None:
        """The choice's figures; None without a choice."""
        return next((row.measured for row in self.front.rows if row.config == self.config), None)

    def to_dict(self) -> dict[str, Any]:
        """Returns the fields and properties as JSON types."""
        request = self.request
        return {
            "letter": self.letter,
            "folder": str(self.folder),
            "finished": self.finished,
            "graph": self.setting.graph.name,
            "graph_fingerprint": self.setting.graph.fingerprint,
            "machine": self.setting.hardware.fingerprint,
            "trained": self.trained,
            "metric": self.setting.metric.name,
            "priority": request.priority.text,
            "memory_limit": request.memory_limit,
            "host_memory_limit": request.host_memory_limit,
            "max_accuracy_drop": request.max_accuracy_drop,
            "target": self.front.target,
            "budget": request.budget,
            "trials": self.trials,
            "seconds": self.seconds,
            "version": self.version,
            "config": None if self.config is None else self.config.to_dict(),
            "default": None if self.default is None else asdict(self.default),
            "choice": None if self.choice is None else asdict(self.choice),
            "over_default": None
            if self.against is None
            else self.against.to_dict() | {"differs": bool(self.better_by)},
            "no_gain": None if self.no_gain is None else self.no_gain.to_dict(),
            "differs": self.differs,
        }


def _compared(tuned: TunedConfig) -> Compared | None:
    """Returns how the tune of `tuned` compared; None if the file does not say, as those of older versions."""
    if not (tuned.default_budget_s and tuned.drift):
        return None
    return Compared(tuned.default_budget_s * tuned.drift, tuned.target_accuracy)


def _letter(place: int) -> str:
    """Returns A to Z, then A2 to Z2, and so on."""
    round_, letter = divmod(place, len(string.ascii_uppercase))
    return string.ascii_uppercase[letter] + (str(round_ + 1) if round_ else "")


def candidates(tune: KeptTune, asked: History) -> list[JudgedTrial]:
    """Returns the configurations that `tune` measured, each with its best known figures, in order of first trials.

    A configuration of the verification has its figures from there. For others the last trial counts, converted to the
    machine's speed in the verification, so that all figures compare.

    Args:
        tune: The tune.
        asked: The tune's trials, judged by the new request.
    """
    last = {one.trial.measurement.config.key(): one.trial for one in asked.measured()}
    return [_played_off(tune, asked, trial) or at_drift(asked, trial, tune.play_off_drift) for trial in last.values()]


def limits_of(asked: History, candidate: JudgedTrial) -> Limits:
    """Returns the limits of `candidate`, which may be the default that sets the memory limit."""
    config = candidate.trial.measurement.config
    memory, limits = memory_limits(asked, config), asked.limits(config)
    return dataclasses.replace(memory, least_accuracy=limits.least_accuracy, metric=limits.metric)


def reference_among(tune: KeptTune, asked: History, found: Sequence[JudgedTrial]) -> JudgedTrial | None:
    """Returns the reference among `found` if it may be picked, limits aside; else None.

    It must have the default's learning key, lie inside the space, and not be rejected in the verification.
    """
    reference = asked.reference_trial
    if reference is None or not asked.has_default_reference:
        return None
    config = reference.measurement.config
    if asked.row(config) is None or config.key() in tune.rejected:
        return None
    return next((one for one in found if one.trial.measurement.config == config), None)


def latest_seconds(tune: KeptTune, asked: History, found: Sequence[JudgedTrial]) -> float | None:
    """Returns the seconds until the reference among `found` reaches the target; None if it may not be picked."""
    own = reference_among(tune, asked, found)
    return None if own is None or limits_of(asked, own).broken_by(own.figures) else own.figures.seconds_to_accuracy


def no_gain_of(tune: KeptTune) -> TrainConfig | None:
    """Returns the configuration that the default was chosen over for lack of a measurable gain, or None."""
    kept = None if tune.tuned is None else tune.tuned.no_gain
    return None if kept is None else NoGain.from_dict(kept).config


def _played_off(tune: KeptTune, asked: History, trial: Trial) -> JudgedTrial | None:
    row, target = tune.judged_last.get(trial.measurement.config.key()), asked.objectives.limits.least_accuracy
    if row is None or (target != tune.front.target and not row.in_play_off):
        return None
    metrics = tune.timed_again.get(row.config.key()) or _of_contender(tune, trial, row)
    figures = row.measured
    if target != tune.front.target and asked.reference is not None:  # only the seconds depend on it
        curve = asked.curve(row.config) if metrics.curve is None else metrics.curve
        anew = Figures.of(metrics, curve, asked.reference)
        figures = dataclasses.replace(figures, **{name: getattr(anew, name) for name in _SECONDS})
    return JudgedTrial(trial, metrics, figures)


def _of_contender(tune: KeptTune, trial: Trial, row: FrontRow) -> Metrics:
    """Returns the metrics of a contender that was not chosen: its trial, with throughput and peaks from its blocks."""
    assert trial.metrics is not None, "it was measured"
    figures, metrics = row.measured, at_reference_pace(trial.metrics, 1 / tune.play_off_drift)
    return dataclasses.replace(
        metrics,
        throughput_epochs_per_s=figures.throughput_epochs_per_s,
        throughput_replicates=(figures.throughput_low, figures.throughput_high),
        peak_host_bytes=figures.peak_host_bytes,
        peak_device_bytes=figures.peak_device_bytes,
        curve=tune.history.curve(row.config),
    )
