"""`tune_machines`: runs a tune on each kind of machines at once, ranks their choices, and formats the comparison."""

from __future__ import annotations

import dataclasses
import shlex
import threading
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from a3gnn.errors import A3GNNError, ExitCode
from a3gnn.notify import LOOK_S
from a3gnn.objectives import Objectives
from a3gnn.option_names import call, flags_are_used, option, options
from a3gnn.process.child import carry_out, described_status, interrupt_by_sigterm, said, start_program
from a3gnn.profiling.executor_choice import ExecutorChoice
from a3gnn.profiling.store.provenance import describe_machine
from a3gnn.report.table import aligned
from a3gnn.report.text import configuration, wrapped
from a3gnn.storage.claim import claimed, claimed_next
from a3gnn.task import Task
from a3gnn.tuning.outcome.kept_tune import ToldTune
from a3gnn.tuning.study.budget import ask_to_stop, forget_stop, stop_is_asked
from a3gnn.tuning.study.folder import check_folder, holds_tune, no_tune

#: Seconds from asking a process to end until it is killed. Guess.
_GRACE_S = 20.0
#: Error of a tune whose process ended without a result.
_LOST = "its process ended before the tune did"
#: Column headings of the comparison.
_HEADINGS = ("machine", "epochs/s", "seconds to target", "memory", "quality")


class TunedMachine(NamedTuple):
    """The outcome of the tune on one kind of machines."""

    machines: str  # the kind's name
    folder: Path  # the tune's folder
    tune: ToldTune | None  # the tune's result; None if it chose nothing
    error: str  # why it chose nothing

    def to_dict(self) -> dict[str, Any]:
        """Returns the fields as JSON types."""
        tune = None if self.tune is None else self.tune.to_dict()
        return {"machines": self.machines, "folder": str(self.folder), "error": self.error, "tune": tune}


def tune_machines(
    choice: ExecutorChoice,
    names: Sequence[str],
    out: Path | None,
    arguments: Mapping[str, Any],
    *,
    resume: bool = False,
    notify: Callable[[str], None] = lambda line: None,
) -> list[TunedMachine]:
    """Tunes on several kinds of machines at once, each in its own folder in `out`, and returns the results.

    A file named `stop` in `out` ends each tune with the best configuration that it has measured so far.

    Args:
        choice: Where the cluster is.
        names: The kinds of machines.
        out: A new or empty folder, or the folder of the tunes to resume; None for runs/machines.
        arguments: Further arguments of `tune`, as JSON types.
        resume: Whether to continue the tunes in `out`, at least one; kinds without a tune there start one.
        notify: Takes each line of a tune, after the name of its machines.

    Raises:
        A3GNNError: None of the tunes has chosen.
        KeyboardInterrupt: By Ctrl-C; all tunes have ended by then, and the message explains how to resume.
        UsageError: `out` is neither new nor, with `resume`, a folder of tunes, or another run writes there.
    """
    if out is None:
        with claimed_next("machines", notify) as folder:
            return _tuned(choice, names, folder, arguments, resume, notify)
    _check(out, names, resume)
    with claimed(out, notify):
        _check(out, names, resume)  # another run may have ended there meanwhile
        return _tuned(choice, names, out, arguments, resume, notify)


def _check(out: Path, names: Sequence[str], resume: bool) -> None:
    """Raises a `UsageError` if tunes on the machines `names` can't start in `out`, or be resumed there."""
    if not resume:
        check_folder(out, resume=False)
    elif not any(holds_tune(out / name) for name in names):
        raise no_tune(out, f"tune on {' or '.join(names)}")


def _tuned(
    choice: ExecutorChoice,
    names: Sequence[str],
    out: Path,
    arguments: Mapping[str, Any],
    resume: bool,
    notify: Callable[[str], None],
) -> list[TunedMachine]:
    """Does the work of `tune_machines` in a claimed folder."""
    lock, width = threading.Lock(), max(map(len, names))

    def started(name: str) -> MachineTune:
        def say(line: str) -> None:
            with lock:
                notify("\n".join(f"{name:<{width}} | {part}" for part in line.splitlines() or [""]))

        folder = out / name
        own = {**arguments, "out": str(folder), "resume": resume and holds_tune(folder)}
        return MachineTune(dataclasses.replace(choice, machines=name), folder, own, flags_are_used(), say)

    tunes: list[MachineTune] = []
    try:
        tunes.extend(map(started, names))  # if one can't start, the earlier ones are in the list, and end below
        _follow(tunes, out)
    except BaseException as error:
        for tune in tunes:
            tune.interrupt()
        for tune in tunes:
            tune.end()
        if isinstance(error, KeyboardInterrupt):
            again = options(out=out, resume=True)
            raise KeyboardInterrupt(f"what was measured is kept; the same {call()} with {again} goes on") from error
        raise
    finally:
        forget_stop(out)  # it came as the last tune ended, and would end a resumed one
    return _found(tunes)


def _follow(tunes: Sequence[MachineTune], out: Path) -> None:
    """Waits until all have ended, and passes a stop request on to each tune as soon as its folder exists."""
    running, untold = list(tunes), list[MachineTune]()
    while running:
        if stop_is_asked(out):
            forget_stop(out)
            untold = running
        ready = [tune for tune in untold if holds_tune(tune.folder)]
        for tune in ready:
            ask_to_stop(tune.folder)
        untold = [tune for tune in untold if tune not in ready]
        running = [tune for tune in running if not tune.ended(LOOK_S / len(running))]
    for tune in tunes:
        tune.end()


def _found(tunes: Sequence[MachineTune]) -> list[TunedMachine]:
    found = [
        TunedMachine(
            tune.machines,
            tune.folder,
            None if tune.code != ExitCode.DONE else ToldTune.read(tune.folder, place),
            tune.error,
        )
        for place, tune in enumerate(tunes)
    ]
    if all(one.tune is None for one in found):
        error = A3GNNError("; ".join(f"on {one.machines}: {one.error}" for one in found))
        error.exit_code = tunes[0].code
        raise error
    return found


class MachineTune:
    """Starts a tune in its own process, which ends with the thread that started it.

    Args:
        choice: Where the tune's trials run.
        folder: The tune's folder.
        arguments: Further arguments of `tune`, as JSON types.
        flags: Whether messages name options as the command line does.
        notify: Takes each line, in this object's own thread.

    Attributes:
        machines: The name of the kind of machines.
        folder: The tune's folder.
        error: Once the process has ended: why the tune chose nothing; "" if it chose.
        code: The exit code of that error.
    """

    def __init__(
        self,
        choice: ExecutorChoice,
        folder: Path,
        arguments: Mapping[str, Any],
        flags: bool,
        notify: Callable[[str], None],
    ) -> None:
        assert choice.machines is not None
        self.machines, self.folder = choice.machines, folder
        self.error, self.code = _LOST, ExitCode.FAILED
        order = {"flags": flags, "choice": choice.to_dict(), "arguments": dict(arguments)}
        self._process = start_program("a3gnn.tuning.machines", order)
        self._thread = threading.Thread(target=self._listen, args=(notify,), name=f"tune-{self.machines}", daemon=True)
        self._thread.start()

    def ended(self, patience_s: float) -> bool:
        """Waits up to `patience_s` seconds, and returns whether it has ended; then `error` and `code` are known."""
        self._thread.join(patience_s)
        return not self._thread.is_alive()

    def interrupt(self) -> None:
        """Asks the process to end, as by Ctrl-C."""
        self._process.terminate()

    def end(self) -> None:
        """Waits for the process to end, and kills it after `_GRACE_S` seconds."""
        if not self.ended(_GRACE_S):
            self._process.kill()
        self._thread.join()
        status = self._process.wait()
        if self.error == _LOST:
            self.error += f", with {described_status(status)}"

    def _listen(self, notify: Callable[[str], None]) -> None:
        assert self._process.stdout is not None
        with self._process.stdout:
            for one in said(self._process):
                if isinstance(one, str):
                    notify(one)
                else:
                    self.error, self.code = one["error"], ExitCode(one["code"])


def ranked(found: Sequence[TunedMachine]) -> list[TunedMachine]:
    """Returns `found` in the order that the priority prefers, best first; machines without a choice come last.

    All are judged by the highest of their targets. Memory does not count if some measure device memory and others
    host memory. The order means nothing if `why_no_best` returns a reason.
    """
    tunes = _chosen(found)
    highest, mixed = _highest_target(tunes), _memory_is_mixed(tunes)
    return sorted(found, key=lambda one: -_score(one.tune, highest, mixed) if one.tune is not None else float("inf"))


def why_no_best(found: Sequence[TunedMachine]) -> str:
    """Returns why the measurements name no best machine in `found`, and what to do; "" if there is a best one."""
    tunes = _chosen(found)
    if not tunes:
        return "nothing was chosen"
    priority, metric = tunes[0].request.priority, tunes[0].front.metric
    if priority.deciding[1] and _memory_is_mixed(tunes):
        return (
            f"memory is the device's on some and the host's on others, and the priority {priority.text} goes by it; "
            f"name machines of one sort by {option('machines')}, or tune by another {option('priority')}"
        )
    highest = _highest_target(tunes)
    first = ranked(found)[0].tune
    # The others measured the time to lower targets, so they would take even longer to the highest one.
    if not priority.time or highest is None or (first is not None and first.front.target == highest):
        return ""
    return (
        f"the {metric.label} whose seconds are compared is another on each, for it is what the machine's own default "
        f"reached, less what may be lost; tune again with {option('target_accuracy', float(metric.as_option(highest)))}"
    )


def _chosen(found: Sequence[TunedMachine]) -> list[ToldTune]:
    return [one.tune for one in found if one.tune is not None and one.tune.choice is not None]


def _highest_target(tunes: Sequence[ToldTune]) -> float | None:
    return max((tune.front.target for tune in tunes if tune.front.target is not None), default=None)


def _memory_is_mixed(tunes: Sequence[ToldTune]) -> bool:
    return len({tune.front.memory for tune in tunes}) > 1


def _score(tune: ToldTune, target: float | None, without_memory: bool) -> float:
    """Returns the priority's score of the choice; minus infinity without a choice, or if it misses the target."""
    figures = tune.choice
    if figures is None:
        return -float("inf")
    if without_memory:
        figures = dataclasses.replace(figures, peak_host_bytes=1, peak_device_bytes=1)
    request, hardware = tune.request, tune.setting.hardware
    limits = request.limits(hardware, target)
    return float(Objectives(limits, request.priority, hardware.has_device).measured_score([figures])[0])


def machines_lines(found: Sequence[TunedMachine]) -> Iterator[str]:
    """Yields a row per machine with the figures of its choice, best machine first, then each machine and its choice.

    Without a best machine, a line explains why, and what to do.
    """
    order = ranked(found)
    rows = [(one, one.tune, one.tune.choice) for one in order if one.tune is not None and one.tune.choice is not None]
    first, why_none = rows[0][1], why_no_best(found)
    best = f"none is called the best: {why_none}" if why_none else f"best on {rows[0][0].machines}"
    yield from wrapped(
        f"{first.setting.task.model} on {first.setting.graph.name}, by the priority {first.request.priority.text}: "
        f"{best}"
    )
    yield ""
    yield from aligned([_HEADINGS, *((one.machines, *tune.front.texts(figures)) for one, tune, figures in rows)])
    for one, tune, _ in rows:
        yield ""
        yield from _told(one, tune)
    for one in order:
        if one.tune is None:
            yield ""
            yield from wrapped(f"{one.machines}: nothing was chosen: {one.error}", "", "  ")


def _told(one: TunedMachine, tune: ToldTune) -> Iterator[str]:
    yield from wrapped(f"{one.machines}: {describe_machine(tune.setting.hardware)}", "", "  ")
    if tune.front.target is not None:
        yield f"  target     {tune.front.metric.show(tune.front.target)}"
    if tune.config is not None:
        yield from configuration("  chosen", tune.config)
    yield f"  a3gnn train {shlex.quote(str(one.folder))}"


def main() -> None:
    """Runs one of the tunes, in a process of its own: `python -m a3gnn.tuning.machines`.

    It reads one JSON object from stdin, and calls `tune` with the arguments:

        {"parent": PID, "flags": whether messages name options as the command line does, "choice": an `ExecutorChoice`,
         "arguments": {...}}

    It writes a JSON value per line to stdout: strings for people, and at the end an object, {"error": MESSAGE, "code":
    EXIT CODE}, whose message is empty if the tune has chosen. The process and its running trial end when the parent
    ends. SIGTERM ends it as Ctrl-C ends a tune.
    """
    interrupt_by_sigterm()
    carry_out(lambda order, say: say(_outcome(order, say)))


def _outcome(order: Mapping[str, Any], say: Callable[[str], None]) -> dict[str, Any]:
    from a3gnn.tuning.tune import tune

    arguments = dict(order["arguments"])
    task = Task.from_dict(arguments.pop("task"))
    try:
        with ExecutorChoice(**order["choice"]).opened(say) as executor:
            tune(task=task, executor=executor, notify=say, **arguments)
    except KeyboardInterrupt as interrupt:
        return {"error": f"interrupted: {interrupt}", "code": ExitCode.INTERRUPTED}
    except A3GNNError as error:
        return {"error": str(error), "code": error.exit_code}
    except Exception:
        return {"error": traceback.format_exc(), "code": ExitCode.FAILED}
    return {"error": "", "code": ExitCode.DONE}


if __name__ == "__main__":
    main()
