"""Opens everything that a tune needs, and closes it again."""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from a3gnn.evaluation.evaluate import unlearnt
from a3gnn.evaluation.link_evaluator import PARTS
from a3gnn.evaluation.references import references, row_references
from a3gnn.graphs.graph import Graph
from a3gnn.hardware import Hardware
from a3gnn.machine.probe import probe_hardware, within_peaks
from a3gnn.measurement import Failure, FailureKind, Measurement
from a3gnn.profiling.executor import LocalExecutor, MachineExecutor, TrialExecutor
from a3gnn.profiling.profiler import Profiler
from a3gnn.profiling.store.jsonl import shipped_measurements
from a3gnn.profiling.store.store import ProfileStore
from a3gnn.setting import Setting
from a3gnn.tuning.run.runner import Runner
from a3gnn.tuning.study import folder as study_folder
from a3gnn.tuning.study.budget import Budget
from a3gnn.tuning.study.history import History
from a3gnn.tuning.study.limits import refuse_too_wide
from a3gnn.tuning.study.study import Study, TuneRequest
from a3gnn.tuning.study.trial import Trial
from a3gnn.tuning.tell.intro import intro, model_lines
from a3gnn.units import count, format_duration, format_seconds


class OpenStudy(NamedTuple):
    """The history of earlier runs of the tune, possibly empty, and the runner of its trials."""

    history: History
    runner: Runner


@contextmanager
def open_study(
    request: TuneRequest,
    graph: Graph,
    folder: Path,
    *,
    resume: bool = False,
    store: str | Path | None = None,
    started: float | None = None,
    executor: TrialExecutor | None = None,
    hardware: Hardware | None = None,
    notify: Callable[[str], None] = lambda line: None,
) -> Iterator[OpenStudy]:
    """Yields the study of `request` in `folder`. Checks the whole request before it creates the folder.

    The seconds that the study took are written to `folder`, however it ends.

    Args:
        request: The options of the tune.
        graph: The graph to train on.
        folder: A new or empty folder, or the folder of the tune to resume.
        resume: Whether to continue with the trials and seconds of the tune in `folder`.
        store: Where measurements are stored; `folder`/profiles.sqlite by default.
        started: When the tune started, by `time.monotonic`, plus the seconds of compiling kernels. The seconds of
            sending the graph to another machine are added here.
        executor: Where trials run, as in `tune`.
        hardware: The machine that runs trials, as in `tune`.
        notify: Takes each line of output.

    Raises:
        UsageError: The request can't be satisfied, or `folder` holds the tune of another request.
        StoreError: The store can't be opened.
    """
    for note in graph.notes:
        notify(note)
    study_folder.check_folder(folder, resume)
    graph = graph.on_disk()
    characteristics = graph.characteristics()
    with ExitStack() as stack:
        # A named store is opened before the folder is made; the tune's own store lies in the folder.
        profiles = stack.enter_context(ProfileStore.open(store)) if store is not None else None
        done = study_folder.Journal(folder).read() if resume else []
        if executor is None:
            executor = stack.enter_context(LocalExecutor(notify))
        if isinstance(executor, MachineExecutor):
            ready_s = executor.make_ready(graph, request.task)
            started = None if started is None else started + ready_s
        if hardware is None:
            stored = profiles.rows() if profiles else []
            hardware = _machine(executor, [*stored, *(trial.measurement for trial in done)], notify)
        hardware = study_folder.with_kept_speeds(folder, hardware) if resume else hardware
        study = Study.of(request, Setting(request.task, characteristics, hardware))
        refuse_too_wide(study)
        for line in intro(study.setting, request):
            notify(line)
        for line in model_lines(study.setting, graph, request.evaluation_bytes):
            notify(line)
        study_folder.check_same(done, study.setting)
        journal = study_folder.open_folder(folder, request, resume)
        if not resume:
            study_folder.keep_product_speeds(folder, hardware)
        if profiles is None:
            profiles = stack.enter_context(ProfileStore.open(folder / "profiles.sqlite"))
        profiler = stack.enter_context(Profiler(profiles, graph, study.setting, study.plan, executor, notify))
        state, timings = _state(folder, done, resume), tuple(journal.timings())
        earlier = (*(trial.measurement.created for trial in done), *(timing.created for timing in timings))
        profiler.not_before = max((state.started, *earlier))
        shipped = shipped_measurements(typed=bool(characteristics.relations))
        corpus = (*shipped, *_stored_before(profiles.rows(), state.started))
        kept = state.heuristics if resume else None
        study = _with_references(dataclasses.replace(study, corpus=corpus), graph, kept, notify)
        budget = Budget(request.budget, started, state.elapsed_s)
        for trial in done:
            if trial.counts:
                budget.record()
        # Trials of an earlier run that failed by chance, or by a timeout that is longer now, are run again.
        history = History(study, tuple(trial for trial in done if not _is_due_again(trial, study)), timings)
        runner = Runner(profiler, journal, budget, notify)
        runner.state = dataclasses.replace(
            state, finished_budget=None, problem="", phase="", heuristics=dict(study.heuristics)
        )
        runner.continues = state.finished_budget is not None
        runner.report_unmade_parts(history)
        runner.keep_time()
        study_folder.write_request(folder, request)  # a resumed tune is judged by this run's budget
        stack.callback(runner.keep_time)
        if history.trials:
            notify(f"resuming after {count(budget.trials, 'trial')} and {format_duration(state.elapsed_s)}")
        yield OpenStudy(history, runner)


def _state(folder: Path, done: Sequence[Trial], resume: bool) -> study_folder.TuneState:
    """Returns the progress of the tune in `folder`; it begins now if no run of it was there when a state was due."""
    state = study_folder.TuneState.read(folder, done) if resume else study_folder.TuneState()
    if state.started or done:
        return state
    return dataclasses.replace(state, started=datetime.now(UTC).isoformat(timespec="milliseconds"))


def _with_references(
    study: Study,
    graph: Graph,
    kept: Mapping[str, Mapping[str, float]] | None,
    notify: Callable[[str], None],
) -> Study:
    """Returns `study` with the qualities of predictions without a network: those `kept` by an earlier run, if any.

    Popularity is the same for all sources.
    """
    request, begin, metric = study.request, time.monotonic(), study.setting.metric
    found = dict(kept or {})
    if kept is None:
        validation, test = (references(part, graph, request.task, request.evaluation_bytes) for part in PARTS)
        found = {name: {"validation": validation[name], "test": test[name]} for name in validation}
        if validation:
            shown = ", ".join(f"{name} {metric.show(quality)}" for name, quality in validation.items())
            took = format_seconds(time.monotonic() - begin)
            notify(f"without a network, validation {metric.label}: {shown} (took {took})")
        if request.references:
            found |= row_references(graph, request.task, request.evaluation_bytes, study.references_s, notify)
    same = found["popularity"]["validation"] if "popularity" in found else unlearnt(graph, request.task)
    return dataclasses.replace(study, unlearnt=same, heuristics=found)


def _stored_before(rows: Sequence[Measurement], started: str) -> Iterator[Measurement]:
    """Yields the `rows` measured before the time `started`, hence before the tune's trials; all if that is "".

    Otherwise a resumed tune would start from another corpus than its first run, and propose other trials.
    """
    at = datetime.fromisoformat(started).timestamp() if started else math.inf
    return (row for row in rows if datetime.fromisoformat(row.created).timestamp() < at)


def _is_due_again(trial: Trial, study: Study) -> bool:
    """Returns whether a failed trial of an earlier run may have another outcome in this run."""
    outcome = trial.measurement.outcome
    if isinstance(outcome, Failure) and outcome.kind is FailureKind.TIMEOUT:
        return outcome.limit < study.plan.timeout_s
    return trial.measurement.failed_by_chance


def _machine(executor: TrialExecutor, measured: Sequence[Measurement], notify: Callable[[str], None]) -> Hardware:
    """Returns the machine that runs trials, from its probe, with idle memory of at most the peaks `measured` on it."""
    probed = executor.probe() if isinstance(executor, MachineExecutor) else probe_hardware(notify=notify)
    return within_peaks(probed, measured, notify)
