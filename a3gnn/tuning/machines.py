"""`tune_machines`: which of several kinds of machines should train this, and how: a tune on each, at once."""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from a3gnn.errors import A3GNNError, ExitCode
from a3gnn.option_names import call, flags_are_used, options
from a3gnn.profiling.executor_choice import ExecutorChoice
from a3gnn.storage.claim import claimed, claimed_next
from a3gnn.tuning.folder import check_folder, holds_tune, no_tune
from a3gnn.tuning.machine_tune import MachineTune
from a3gnn.tuning.outcome.told_tune import ToldTune
from a3gnn.tuning.stop import ask_to_stop, forget_stop, stop_is_asked

#: Seconds between two looks at the tunes and for a file named stop. Guess.
_POLL_S = 0.2


class TunedMachine(NamedTuple):
    """What the tune on one kind of machines came to.

    Attributes:
        machines: The kind's name.
        folder: The tune's.
        tune: What it found; None where it has not chosen.
        error: Why not.
    """

    machines: str
    folder: Path
    tune: ToldTune | None
    error: str

    def to_dict(self) -> dict[str, Any]:
        """Returns it as JSON types."""
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
    """Returns what a tune on each of several kinds of machines found, each in its folder in `out`; all run at once.

    A file named `stop` in `out` ends each with the best that it has measured so far.

    Args:
        choice: Where the cluster is.
        names: The kinds.
        out: A new or empty folder, or the one of tunes that are resumed; None for runs/machines.
        arguments: What else `tune` takes, as JSON types.
        resume: Whether tunes in `out` go on, at least one; kinds that have none there begin one.
        notify: Takes each line of a tune, after the name of its machines.

    Raises:
        A3GNNError: None of the tunes has chosen.
        KeyboardInterrupt: By Ctrl-C; all tunes have ended by then, and the message says how to go on.
        UsageError: `out` is not what it must be, or another run writes there.
    """
    if out is None:
        with claimed_next("machines", notify) as folder:
            return _tuned(choice, names, folder, arguments, resume, notify)
    _check(out, names, resume)
    with claimed(out, notify):
        _check(out, names, resume)  # another run may have ended there meanwhile
        return _tuned(choice, names, out, arguments, resume, notify)


def _check(out: Path, names: Sequence[str], resume: bool) -> None:
    """Raises a `UsageError` where tunes on the machines `names` can't begin in `out`, or go on there."""
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
    """Returns what `tune_machines` does, in a folder that is claimed."""
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
        tunes.extend(map(started, names))  # those that are there when one can't start end, too
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
    return _found(tunes)


def _follow(tunes: Sequence[MachineTune], out: Path) -> None:
    """Waits until all have ended, and passes on that they are asked to stop: to each once it has its folder."""
    running, untold = list(tunes), list[MachineTune]()
    while running:
        if stop_is_asked(out):
            forget_stop(out)
            untold = running
        ready = [tune for tune in untold if holds_tune(tune.folder)]
        for tune in ready:
            ask_to_stop(tune.folder)
        untold = [tune for tune in untold if tune not in ready]
        running = [tune for tune in running if not tune.ended(_POLL_S / len(running))]
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
