"""`KeptTune`: a tune as its folder holds it, finished or not; nothing in the folder is changed."""

from __future__ import annotations

import string
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Self

from a3gnn.config import TrainConfig
from a3gnn.errors import UsageError
from a3gnn.figures import Figures
from a3gnn.measurement import Metrics
from a3gnn.report.front import Front, FrontRow
from a3gnn.setting import Setting
from a3gnn.training.tuned import TunedConfig
from a3gnn.tuning.study.choice import NoGain
from a3gnn.tuning.study.comparison import Comparison
from a3gnn.tuning.study.folder import no_tune, read_request, with_kept_speeds
from a3gnn.tuning.study.history import History
from a3gnn.tuning.study.journal import Journal
from a3gnn.tuning.study.measured_front import measured_front
from a3gnn.tuning.study.request import TuneRequest
from a3gnn.tuning.study.state import TuneState
from a3gnn.tuning.study.study import Study


@dataclass(frozen=True)
class KeptTune:
    """A tune that is there.

    Attributes:
        folder: Its --out.
        history: Its trials before the play-off, judged by what it was asked for.
        front: What it measured, the play-off included; of one that has not chosen yet, so far.
        tuned: What it chose; None while it has not.
        state: How long it took, and whether it has finished.
    """

    folder: Path
    history: History
    front: Front
    tuned: TunedConfig | None
    state: TuneState

    @classmethod
    def read(cls, folder: str | Path) -> Self:
        """Returns the tune in `folder`.

        Raises:
            UsageError: There is none, or it has measured nothing yet.
            ConfigError: Its files are not those of this version.
        """
        folder = Path(folder)
        request = read_request(folder)
        if not (folder / "probes.jsonl").is_file():
            raise no_tune(folder, "probes.jsonl")
        trials = tuple(Journal(folder).read(mend=False))
        if not trials:
            raise UsageError(f"the tune in {folder} has no trial yet; wait until it has measured the default")
        measured = trials[0].measurement.setting
        setting = Setting(measured.task, measured.graph, with_kept_speeds(folder, measured.hardware))
        timings = tuple(Journal(folder).timings(mend=False))
        history, state = History(Study.of(request, setting), trials, timings), TuneState.read(folder, trials)
        if state.finished_budget is None:
            return cls(folder, history, measured_front(history), None, state)
        return cls(folder, history, Front.read(folder), TunedConfig.read(folder), state)

    @property
    def setting(self) -> Setting:
        """What was trained, on which graph and machine."""
        return self.history.study.setting

    @cached_property
    def played_off(self) -> dict[str, FrontRow]:
        """The rows that were measured in the play-off, by the keys of their configurations."""
        return {row.config.key(): row for row in self.front.rows if row.in_play_off}

    @cached_property
    def rejected(self) -> dict[str, FrontRow]:
        """The rows that failed or broke a limit in the play-off, by the keys of their configurations."""
        return {row.config.key(): row for row in self.front.rows if row.rejected}

    @cached_property
    def timed_again(self) -> dict[str, Metrics]:
        """What the choice and the default came to in the play-off, by the keys of their configurations."""
        reference, tuned = self.history.reference_trial, self.tuned
        if tuned is None or tuned.measured is None:
            return {}
        found = {tuned.config.key(): tuned.measured}
        if reference is not None and tuned.against_default is not None and isinstance(tuned.default, Metrics):
            found[reference.measurement.config.key()] = tuned.default
        return found

    @cached_property
    def play_off_drift(self) -> float:
        """The machine's speed in the play-off, over that at which the reference was measured.

        The play-off's rows are at the former, all others at the latter. 1 where the default was not timed again.
        """
        reference = self.history.reference_trial
        if reference is None or reference.metrics is None:
            return 1.0
        again = self.timed_again.get(reference.measurement.config.key())
        return 1.0 if again is None else again.throughput_epochs_per_s / reference.metrics.throughput_epochs_per_s


@dataclass(frozen=True, slots=True)
class ToldTune:
    """A tune, as a comparison tells it.

    Attributes:
        letter: By which it is called: A, B, ...
        folder: Its --out.
        request: What it was asked for.
        setting: What was trained, on which graph and machine.
        front: What it measured.
        config: What it chose, or the best measured so far; None where nothing keeps the limits yet.
        against: That against the default, from the play-off's alternations; None without.
        no_gain: What the default was chosen over for want of a measurable gain; None where it was not.
        finished: Whether it has chosen.
        trials: Trials after the default.
        seconds: What it took, in seconds.
        version: Of a3gnn, where that is known, and of how measurements are made.
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
    version: str

    @classmethod
    def read(cls, folder: str | Path, place: int) -> Self:
        """Returns the tune in `folder`, the `place`th of a comparison, from 0.

        Raises:
            UsageError: There is none.
            ConfigError: Its files are not those of this version.
        """
        tune = KeptTune.read(folder)
        best = tune.history.best()
        config = None if best is None else best.trial.measurement.config
        measured = f"measurements of version {tune.history.trials[0].measurement.version}"
        if tune.tuned is not None:
            config = tune.tuned.config
            measured = f"a3gnn {tune.tuned.versions.get('a3gnn', 'of an unknown version')}, {measured}"
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
            trials=sum(trial.counts for trial in tune.history.trials),
            seconds=tune.state.elapsed_s,
            version=measured,
        )

    @property
    def trained(self) -> str:
        """What is trained: the model, its width and its fanouts, and the task's key."""
        task = self.setting.task
        fanouts = ",".join(map(str, task.fanouts))
        return f"{task.model}, {task.hidden_channels} wide, fanouts {fanouts}, task {task.key()[:8]}"

    @property
    def better_by(self) -> tuple[str, ...]:
        """In which figures the choice is measurably better than the default, as people call them."""
        if self.against is None:
            return ()
        speed = "seconds" if self.request.priority.time else "epochs/s"
        names = {"speed": speed, "memory": "memory", "accuracy": self.front.metric.label}
        return tuple(names[one] for one in self.against.better_by(self.request.priority))

    @property
    def differs(self) -> bool | None:
        """Whether the tune could tell its choice from the default; None where it did not compare them."""
        return None if self.against is None and self.no_gain is None else bool(self.better_by)

    @property
    def default(self) -> Figures | None:
        """What the default reached; None where it could not be measured."""
        return next((row.measured for row in self.front.rows if "default" in row.labels), None)

    @property
    def choice(self) -> Figures | None:
        """What the choice reached."""
        return next((row.measured for row in self.front.rows if row.config == self.config), None)

    def to_dict(self) -> dict[str, Any]:
        """Returns it as JSON types."""
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


def _letter(place: int) -> str:
    """Returns A to Z, then A2 to Z2, and so on."""
    round_, letter = divmod(place, len(string.ascii_uppercase))
    return string.ascii_uppercase[letter] + (str(round_ + 1) if round_ else "")
