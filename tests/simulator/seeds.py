"""Lives of simulated tunes: begun, broken, resumed and finished, with faults by a seed; and what must hold of each."""

from __future__ import annotations

import dataclasses
import hashlib
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import cache, lru_cache
from pathlib import Path
from random import Random
from typing import Any, NamedTuple
from unittest.mock import patch

from a3gnn.config import TrainConfig
from a3gnn.errors import A3GNNError, InfeasibleError, UsageError
from a3gnn.graphs.graph import Graph
from a3gnn.measurement import Failure, Metrics
from a3gnn.page.views import write_report
from a3gnn.profiling.request import TrialRequest
from a3gnn.storage.claim import writer_of
from a3gnn.task import Task
from a3gnn.tuning import tune as tune_module
from a3gnn.tuning.beliefs.beliefs import Beliefs
from a3gnn.tuning.beliefs.kept_surrogate import kept_surrogate
from a3gnn.tuning.outcome.pick import pick
from a3gnn.tuning.outcome.result import TuneResult, unfinished_front
from a3gnn.tuning.outcome.status import TuneStatus, stop_tune
from a3gnn.tuning.run import finish, rounds
from a3gnn.tuning.study import study
from a3gnn.tuning.study.budget import ask_to_stop
from a3gnn.tuning.study.choice import STOPPED
from a3gnn.tuning.study.folder import Journal, TuneState, holds_tune
from a3gnn.tuning.study.history import History
from a3gnn.tuning.study.quality import RUNGS
from a3gnn.tuning.study.study import TuneRequest
from a3gnn.tuning.study.trial import SpeedTiming, Trial
from a3gnn.tuning.tune import tune
from a3gnn_surrogate.surrogate import Surrogate
from tests.curves import TWO_CORES
from tests.simulator.disk import Crash
from tests.simulator.world import ENDINGS, ERRORS, FATES, Fault, Machine, World
from tests.training.test_links import LIKES, shop
from tests.tuning.formulas import SMALL_SPACE, MiB, by_quality, quick_changes
from tests.tuning.test_resume import PARTS

#: Options of the tunes. Their trials take about five simulated seconds each.
TUNES: Mapping[str, dict[str, Any]] = {
    "random": {"engine": "random", "budget": 4},
    "whole space": PARTS | {"engine": "exhaustive", "budget": 9},
    "memory": {"engine": "random", "budget": 3, "priority": "memory", "memory_limit": "default"},
    "limit": {"engine": "random", "budget": 4, "priority": "throughput", "memory_limit": 306 * MiB},
    "expected": PARTS | {"engine": "ei", "budget": 2},
    "enqueued": {"engine": "random", "budget": 3, "enqueue": [{"num_partitions": 4}, {"feature_tier": "disk"}]},
    "nothing fits": {"engine": "random", "budget": 2, "memory_limit": 258 * MiB},
    "seconds": {"engine": "random", "budget": 50.0},
    "quality": {"priority": "quality", "budget": 6, "max_accuracy_drop": 100.0},
    "search": {"engine": "random", "budget": 4, "enqueue": [{"hidden": 32}], "max_accuracy_drop": 100.0}
    | {"search": {"hidden": [8, 16, 32], "layers": [1, 2]}},
    "links": {"dataset": "links", "metric": "auto", "engine": "random", "budget": 3}
    | {"task": Task(model="rsage", hidden_channels=8, fanouts=(3, 3))},
}
#: Most processes until a tune must have finished without a fault: one that only obeys an old request to stop, and one.
_MOST_CLEAN = 2
#: Chances that a process meets an event. Guesses.
_CHANCES = {"back": 0.15, "forward": 0.15, "read": 0.5, "second": 0.15, "beside": 0.15, "stop": 0.05}
#: Changes of the disk of a process that only goes on to verify. Counted, roughly.
_LEAST_CHANGES = 120
#: Most characters that are shown of how a process ended.
_MOST_SHOWN = 200
#: Pure methods that take most of a tune without their caches, and most values that are kept of each.
_PURE = ((TrainConfig, "canonical"), (TrainConfig, "learning_key"), (TrainConfig, "key"), (TuneRequest, "_shape"))
_MOST_VALUES = 10_000
#: Most fits that are kept. Guess: more than all tunes without a fault have.
_MOST_FITS = 300


class BrokenError(AssertionError):
    """Something that must hold does not."""


class Straight(NamedTuple):
    """A tune without a fault.

    Attributes:
        trials: Its trials: reason, configuration and prediction of each.
        config: Its choice; None if nothing keeps the limits.
        changes: All changes of its disk, as text.
        children: How many processes it started.
    """

    trials: list[tuple[str, TrainConfig, Any]]
    config: TrainConfig | None
    changes: tuple[str, ...]
    children: int


@dataclass
class Told:
    """What a seed did, for whoever reads about it.

    Attributes:
        seed: The seed.
        tune: The name of its options.
        lines: A line per process: its faults, and how it ended.
        trace: A hash of all changes of the disk in their order.
    """

    seed: int
    tune: str
    lines: list[str] = field(default_factory=list)
    trace: str = ""

    def describe(self) -> str:
        """Returns all that as text."""
        return "\n".join([f"seed {self.seed}: {self.tune} {self.trace}", *(f"  {line}" for line in self.lines)])


@contextmanager
def simulator() -> Iterator[None]:
    """Makes tunes quick in its context, and has the main thread look for the file `stop` between trials alone."""
    with ExitStack() as stack:
        for change in quick_changes((0,)):
            stack.enter_context(patch.object(*change))
        stack.enter_context(patch.object(tune_module, "stopped_by_file", lambda folder: nullcontext()))
        for kind, name in _PURE:
            stack.enter_context(patch.object(kind, name, lru_cache(_MOST_VALUES)(getattr(kind, name))))
        for module, name in ((rounds, "fit_surrogate"), (rounds, "knob_importance"), (finish, "fit_surrogate")):
            stack.enter_context(patch.object(module, name, _once_per_trials(getattr(module, name))))
        first = _once_per_trials(kept_surrogate)
        for module in (tune_module, finish):
            stack.enter_context(patch.object(module, "kept_surrogate", first))
        stack.enter_context(patch.object(Surrogate, "predict", _once_per_question(Surrogate.predict)))
        stack.enter_context(patch.object(study, "checked_search", lru_cache(_MOST_VALUES)(study.checked_search)))
        # The cache, too: other tests would take surrogates of few trees.
        places = {"A3GNN_MACHINE_LOCK": str(_scratch() / "machine.lock"), "A3GNN_CACHE": str(_scratch() / "cache")}
        stack.enter_context(patch.dict("os.environ", places))
        yield


def _once_per_trials(fit: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """Returns `fit`, which is called once for equal trials: a third of a tune's time goes into fits."""
    known: dict[str, Any] = {}

    def fitted(beliefs: History | Beliefs, first: Any) -> Any:
        history = beliefs if isinstance(beliefs, History) else beliefs.history
        corpus = [row.id for row in history.study.corpus]
        trials = [(one.reason, one.measurement.config, one.measurement.outcome, one.drift) for one in history.trials]
        key = repr((corpus, history.study.request, trials, history.drift))
        if len(known) == _MOST_FITS:
            known.clear()
        if key not in known:
            known[key] = fit(beliefs, first)
        return known[key]

    return fitted


def _once_per_question(predict: Callable[..., Any]) -> Callable[..., Any]:
    """Returns a surrogate's `predict`, which is called once for equal configurations: a sixth of a tune's time."""
    known: dict[Any, Any] = {}

    def predicted(surrogate: Surrogate, configs: Any, *about: Any) -> Any:
        if not isinstance(configs, list):
            return predict(surrogate, configs, *about)
        key = id(surrogate), tuple(configs), about
        if len(known) == _MOST_VALUES:
            known.clear()
        if key not in known:
            known[key] = surrogate, predict(surrogate, configs, *about)  # with the surrogate, its id stays its own
        return known[key][1]

    return predicted


def run_seed(seed: int) -> Told:
    """Lives a tune with the faults of `seed`, and returns what happened.

    Raises:
        BrokenError: Something did not hold; the message has all that happened before.
    """
    rng = Random(f"life {seed}")
    name = rng.choice(list(TUNES))
    told = Told(seed, name)
    with tempfile.TemporaryDirectory(dir=_scratch(), ignore_cleanup_errors=True) as scratch:
        life = Life(name, Path(scratch), rng, told, rng.choice((None, None, "store.db")))
        try:
            life.whole()
        except Exception as error:
            raise BrokenError(f"{told.describe()}\n{error}") from error
        finally:
            told.trace = hashlib.blake2b("\n".join(life.world.trace).encode(), digest_size=8).hexdigest()
    return told


def why_broken(seed: int) -> str:
    """Runs a seed in a process of a pool; returns what did not hold, "" if all did."""
    if not _PROCESS:
        _PROCESS.append(simulator())
        _PROCESS[0].__enter__()
    try:
        run_seed(seed)
    except BrokenError as error:
        return str(error)
    return ""


@cache
def straight(name: str, more: int = 0) -> Straight:
    """Returns the tune of that name without a fault, which went on under a budget of `more` trials if that is not 0."""
    with tempfile.TemporaryDirectory(dir=_scratch()) as scratch:
        life = Life(name, Path(scratch), Random(0), Told(0, name))
        result = life.process(())
        if more:
            life.go_on(more)
            result = life.process(())
        assert isinstance(result, TuneResult | InfeasibleError), result
        config = result.config if isinstance(result, TuneResult) else None
        return Straight(life.trials(), config, tuple(life.world.trace), life.world.children)


@cache
def _scratch() -> Path:
    """Returns a folder in memory, if the machine has one, that is removed with this process."""
    shared = Path("/dev/shm")
    folder = tempfile.TemporaryDirectory(prefix="a3gnn-", dir=shared if shared.is_dir() else None)
    _FOLDERS.append(folder)
    return Path(folder.name)


_FOLDERS: list[tempfile.TemporaryDirectory[str]] = []
_PROCESS: list[AbstractContextManager[None]] = []


@cache
def _graph(name: str) -> Graph:
    """Returns a graph on disk: `nodes`, 300 of one type with labels; or `links`, 480 between nodes of two types."""
    if name == "links":
        return Graph.load(f"target:{LIKES}:{shop(_scratch())}").on_disk()
    graph = Graph.load("synthetic:nodes=300,degree=8,classes=4,features=16")
    return graph.save(_scratch() / "tiny")


def _found(request: TrialRequest, metrics: Metrics, before: int) -> Metrics | Failure:
    return metrics


class Life:
    """One tune, from its first process to its result.

    Args:
        name: Of its options.
        scratch: An empty folder.
        rng: Decides the faults.
        told: Receives what happens.
        store: Name of its store of measurements; None for its own.

    Attributes:
        folder: The tune's folder.
        world: Its machine.
    """

    def __init__(self, name: str, scratch: Path, rng: Random, told: Told, store: str | None = None) -> None:
        root = scratch / "disk"
        root.mkdir()
        self.folder, self._options, self._name = root / "run", TUNES[name], name
        self._races = self._options.get("priority") == "quality"
        alter = by_quality if self._races or "search" in self._options else _found
        self.world = World(root, rng.getrandbits(32), alter)
        self.world.events |= {"read": self._read, "stop": self._stop}
        self.world.events |= {"second": self._begin_second, "beside": self._begin_beside}
        self._rng, self._told = rng, told
        self._written: list[Trial] = []  # of which `append` returned
        self._timed: list[SpeedTiming] = []
        self._refused_for_second = False
        self._is_like_straight, self._more = True, 0
        if store is not None:
            self._options = self._options | {"store": root / store}

    def whole(self) -> None:
        """Runs the processes with faults, and then without, until the tune has finished; checks all along."""
        like = straight(self._name)
        self._choose_fates(like)
        self._broken(len(like.changes))
        self.finish()
        if isinstance(self._options["budget"], int) and self._rng.random() < 0.1:
            self.go_on(2)
            self._broken(len(straight(self._name, 2).changes) - len(like.changes))
            self.finish()

    def _broken(self, changes: int) -> None:
        """Runs up to three processes with faults, of which the first has about so many changes of the disk."""
        for _ in range(self._rng.randint(1, 3)):
            faults = sorted(self._faults(changes), key=lambda fault: fault.at)
            if self._is_whole(self.checked(*faults)):
                break
            changes = max(_LEAST_CHANGES, changes + _LEAST_CHANGES - self.world.process.changes)

    def go_on(self, more: int) -> None:
        """Gives the tune a budget of so many more trials."""
        self._more += more
        self._options = self._options | {"budget": self._options["budget"] + more}

    def finish(self) -> None:
        """Runs processes without a fault until the tune has finished, and checks its result."""
        self.world.fates.clear()
        for _ in range(_MOST_CLEAN):
            result = self.checked()
            if self._is_whole(result):
                self._check_end(result, straight(self._name, self._more))
                return
        raise BrokenError(f"a process without a fault ended with {result!r}")

    def process(self, faults: tuple[Fault, ...]) -> TuneResult | BaseException:
        """Runs a process, which goes on with the tune if there is one; returns its result, or what it raised."""
        try:
            with ExitStack() as stack:
                for name, kept in (("append", self._written), ("append_timing", self._timed)):
                    stack.enter_context(patch.object(Journal, name, _noting(getattr(Journal, name), kept)))
                with self.world.run(faults):
                    return self._tune()
        except (Crash, KeyboardInterrupt, Exception) as error:
            return error

    def _is_whole(self, result: TuneResult | BaseException) -> bool:
        """Whether a process finished the tune, and was not asked to stop before that."""
        if isinstance(result, TuneResult):
            return STOPPED not in result.tuned.left_out
        return isinstance(result, InfeasibleError) and (
            straight(self._name).config is None or not self._is_like_straight
        )

    def trials(self) -> list[tuple[str, TrainConfig, Any]]:
        """Returns reason, configuration and prediction of each trial in the journal."""
        return [(one.reason, one.measurement.config, one.predicted) for one in Journal(self.folder).read(mend=False)]

    def _tune(self) -> TuneResult:
        options = {"fix": SMALL_SPACE, "task": Task(hidden_channels=16, fanouts=(3, 3))} | self._options
        return tune(
            _graph(options.pop("dataset", "nodes")),
            **options,
            references=False,
            out=self.folder,
            resume=holds_tune(self.folder),
            executor=Machine(lambda line: None),
            hardware=TWO_CORES,
            notify=lambda line: None,
        )

    # What happens.

    def _choose_fates(self, like: Straight) -> None:
        if self._rng.random() < 0.4:
            fates = self.world.fates
            for _ in range(self._rng.randint(1, 3)):
                fates[self._rng.randrange(2 * like.children)] = self._rng.choice(FATES)
            # What is lost once is run again; a trial has up to two processes.
            twice = any(0 < other - one < 4 for one in fates for other in fates)
            self._is_like_straight = not twice and "hangs" not in fates.values()

    def _faults(self, changes: int) -> Iterator[Fault]:
        yield Fault(self._rng.randrange(changes), self._rng.choice(ENDINGS))
        for kind, chance in _CHANCES.items():
            if self._rng.random() < chance:
                yield Fault(self._rng.randrange(changes), kind)

    def _begin_second(self) -> None:
        """Begins another process for the same folder, which must be refused while one writes it."""
        is_written = bool(writer_of(self.folder))
        try:
            self._tune()
        except UsageError as error:
            if is_written and "only one run at a time may write" not in str(error):
                raise BrokenError(f"a second run was refused by {error!r}") from error
            return
        if is_written:
            raise BrokenError("a second run wrote a folder that was written")
        self._refused_for_second = True  # the first one will find the folder used

    def _begin_beside(self) -> None:
        """Begins another process for the same folder, which takes turns with this one; one of them is refused."""
        self._refused_for_second = True
        self.world.begin_beside(self._tune)

    def _stop(self) -> None:
        """Asks the tune to stop: by a command, which is refused if none runs, or by a file, which stays until then."""
        if not holds_tune(self.folder):
            return
        if self._rng.random() < 0.5:
            ask_to_stop(self.folder)
        else:
            try:
                stop_tune(self.folder)
            except UsageError as error:
                if "only a running tune can be stopped" not in str(error):
                    raise BrokenError(f"stop raised {error!r}") from error
                return
        self._is_like_straight = False

    def _read(self) -> None:
        """Reads the folder as other processes do, and checks that this changes nothing."""
        before = len(self.world.trace)
        others = ((unfinished_front, 0.5), (pick, 0.3), (self._report, 0.1))
        reads: list[Callable[[Path], object]] = [TuneStatus.read]
        reads += [read for read, chance in others if self._rng.random() < chance]
        for read in reads:
            try:
                read(self.folder)
            except InfeasibleError:
                pass
            except UsageError as error:
                if type(error) is not UsageError or self._written:
                    raise BrokenError(f"{read.__qualname__} raised {error!r}") from error
        if changes := [change for change in self.world.trace[before:] if not change.startswith("read ")]:
            raise BrokenError(f"a reader changed the folder: {changes}")

    def _report(self, folder: Path) -> None:
        write_report(folder, self.world.disk.root.with_name("report.html"))

    # What must hold.

    def checked(self, *faults: Fault) -> TuneResult | BaseException:
        """Runs a process with `faults`, and checks how it ended and what it left; returns its result or its error."""
        measured = Counter(one.measurement.config.key() for one in self._kept() if one.measurement.metrics is not None)
        before = len(self.world.trials)
        self._refused_for_second = False
        result = self.process(faults)
        shown = ", ".join(f"{fault.kind} at {fault.at}" for fault in faults) or "no fault"
        ended = _shown(result).replace(str(self.world.disk.root), "DISK")
        self._told.lines.append(f"{shown}, of {self.world.process.changes} changes: {ended[:_MOST_SHOWN]}")
        kinds = {fault.kind for fault in faults}
        self._check_ending(result, kinds)
        if isinstance(beside := self.world.beside, TuneResult | BaseException):
            self._check_ending(beside, kinds)
        for request in self.world.trials[before:]:
            if _explores(request) and measured[request.config.key()] >= (RUNGS if self._races else 1):
                raise BrokenError(f"a trial in the journal was measured again: {request.config}")
        self._check_journal()
        self._read()
        return result

    def _kept(self) -> list[Trial]:
        path = self.folder / "probes.jsonl"
        return Journal(self.folder).read(mend=False) if path.exists() else []

    def _check_ending(self, result: TuneResult | BaseException, kinds: set[str]) -> None:
        """Checks that a process ended with a result, by its fault, or with an error for people."""
        if isinstance(result, TuneResult):
            return
        is_expected = (
            (isinstance(result, Crash) and kinds & {"kill", "power"})
            or (isinstance(result, KeyboardInterrupt) and kinds & {"interrupt", "stop"})
            or (type(result) is UsageError and self._refused_for_second)
            or (isinstance(result, A3GNNError) and kinds & {"full", *ERRORS})
            or (isinstance(result, InfeasibleError) and self._is_whole(result))
        )
        if not is_expected:
            raise BrokenError(f"a process ended with {result!r}") from result

    def _check_journal(self) -> None:
        """Checks that every trial and timing that was written is kept, once and as it was."""
        kept = self._kept()
        ids = Counter(trial.measurement.id for trial in kept)
        twice = [one for one, times in ids.items() if times > 1]
        as_written = list(map(_undrifted, kept))
        lost = [trial.reason for trial in self._written if _undrifted(trial) not in as_written]
        if twice or lost:
            raise BrokenError(f"trials in the journal twice: {twice}; lost or changed: {lost}")
        if not _contains(Journal(self.folder).timings(mend=False), self._timed):
            raise BrokenError("a timing was lost, or its place")
        times = [timing.created for timing in self._timed]
        if times != sorted(times):
            raise BrokenError(f"timings are not in the order of time: {times}")

    def _check_end(self, result: TuneResult | BaseException, like: Straight) -> None:
        """Checks a finished tune, against one without a fault where the faults leave that equal."""
        status = TuneStatus.read(self.folder)
        if isinstance(result, TuneResult):
            self._check_result(result)
        elif status.phase != "failed" or not status.problem:
            raise BrokenError(f"a tune without a choice says {status}")
        if self._rng.random() < 0.3:
            self._report(self.folder)
        if self._is_like_straight and isinstance(self._options["budget"], int):
            trials, others = self.trials(), like.trials
            if trials != others:
                raise BrokenError(f"the trials differ from an uninterrupted tune: {_named(trials)}, {_named(others)}")
            config = result.config if isinstance(result, TuneResult) else None
            if config != like.config:
                raise BrokenError(f"the choice differs from an uninterrupted tune: {config}, {like.config}")

    def _check_result(self, result: TuneResult) -> None:
        """Checks that a choice keeps the limits, and that its tune counts as finished."""
        limit, budget = result.tuned.limits.host_bytes, self._options["budget"]
        measured = result.tuned.measured
        if limit is not None and measured is not None and measured.peak_host_bytes > limit:
            raise BrokenError(f"the choice takes {measured.peak_host_bytes} bytes, above the limit of {limit}")
        if isinstance(budget, int) and result.trials > budget:
            raise BrokenError(f"{result.trials} trials, above the budget of {budget}")
        state = TuneState.read(self.folder, ())
        if state.finished_budget != budget or TuneStatus.read(self.folder).phase != "finished":
            raise BrokenError(f"a finished tune says {state}")


def _explores(request: TrialRequest) -> bool:
    """Whether a trial is a proposal's, not one of the verification."""
    return request.plan.curve is not None and not (request.plan.curve.whole or request.plan.curve.tests)


def _noting(append: Callable[[Journal, Any], None], kept: list[Any]) -> Callable[[Journal, Any], None]:
    """Returns `append`, which adds to `kept` when the journal says that a line is on the disk."""

    def noting(journal: Journal, line: Any) -> None:
        append(journal, line)
        kept.append(line)

    return noting


def _undrifted(trial: Trial) -> Trial:
    """Returns a trial without the drift, by which later timings judge it anew."""
    return dataclasses.replace(trial, drift=1.0)


def _contains(whole: list[SpeedTiming], part: list[SpeedTiming]) -> bool:
    """Whether `part` is in `whole`, in its order."""
    rest = iter(whole)
    return all(one in rest for one in part)


def _named(trials: list[tuple[str, TrainConfig, Any]]) -> list[str]:
    return [f"{reason} {config.key()[:6]}" for reason, config, _ in trials]


def _shown(result: TuneResult | BaseException) -> str:
    if isinstance(result, TuneResult):
        return f"finished after {result.trials} trials"
    return f"{type(result).__name__} {result}"
