"""The server process that forks trials: `python -m a3gnn.process.fork_server PID`, started by `a3gnn.process.worker`.

It imports what trials need once, stays single-threaded, touches no device, and forks a child for each line on stdin:

    {"entry": "package.module:function", "argument": {...}, "imports": ["package.module", ...],
     "result": PATH, "log": PATH, "compiled": PATH or ""}

Modules in `imports` are imported first, once, for this child and all later ones. The child calls the function with the
argument, writes the JSON object that it returns to `result` and exits. If numba compiles anything in the child, it
makes the file `compiled`; with an empty path it makes none.

Compiling leaves memory behind, which would show in every child. A server that had to compile a kernel during its start
therefore starts again as a new program, which finds all kernels in numba's cache.

On stdout the server answers {"ready": THREADS} once, and {"pid": PID} and {"exit": STATUS} for each child (a negative
status is the signal that ended it). When its stdin is closed, it ends and kills a running child. Until it
is ready it ends with the process PID.
"""

from __future__ import annotations

import faulthandler
import gc
import importlib
import json
import os
import select
import signal
import sys
import traceback
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:
    from a3gnn.process.compilations import Compilations

from a3gnn.process.child import die_with_parent
from a3gnn.threads import wait_policy

#: Imports of every trial.
PRELOADED = ("numpy", "torch", "a3gnn.profiling.trial", "a3gnn.machine.host_constants")
COMPILED = (
    "a3gnn.sampling.sampler",
    "a3gnn.features.opening",
    "a3gnn.models.adam",
    "a3gnn.models.layers.norm_kernels",
    "a3gnn.kernels.warm_up",
    "a3gnn.machine.host_constants",
)
_STDIN = 0
#: Makes a child write the stack of its main thread to its log, even while that thread waits.
WHERE_SIGNAL = signal.SIGUSR1
#: Argument of a server that has started again: it serves even if it had to compile.
_AGAIN = "--again"
_NUMPY_THREADS = "OPENBLAS_NUM_THREADS"


def main() -> NoReturn:
    """Serves until stdin is closed."""
    die_with_parent()  # nothing reads stdin while modules are imported
    gc.disable()  # `a3gnn._imports.importing`; a child enables it
    if os.getppid() != int(sys.argv[1]):
        os._exit(0)
    wait_policy.adopt()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    compilations = _preload()
    if compilations.happened and _AGAIN not in sys.argv:
        os.execv(sys.executable, [sys.executable, "-P", "-m", "a3gnn.process.fork_server", sys.argv[1], _AGAIN])
    wake, wake_write = os.pipe()
    os.set_blocking(wake_write, False)
    signal.set_wakeup_fd(wake_write)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    gc.freeze()  # a child's garbage collections would copy the shared pages
    die_with_parent(False)  # the thread that started this process may end before the process does
    _say({"ready": _threads()})
    for line in iter(sys.stdin.buffer.readline, b""):
        order = json.loads(line)
        _import(order["imports"])
        pid = os.fork()
        if pid == 0:
            _child(order, compilations)
        _become_leader(pid)
        _say({"pid": pid})
        _say({"exit": _wait(pid, wake)})
    os._exit(0)  # nothing to clean up, and torch takes its time to unload


def _import(names: Sequence[str]) -> None:
    """Imports modules that are not imported yet; a failing import fails again in the child, which reports it."""
    missing = [name for name in names if name not in sys.modules]
    for name in missing:
        with suppress(Exception):
            importlib.import_module(name)
    if missing:
        gc.freeze()


def _preload() -> Compilations:
    """Imports the modules of trials and loads the compiled kernels, without starting a thread; returns the listener."""
    chosen = os.environ.get(_NUMPY_THREADS)
    os.environ[_NUMPY_THREADS] = "1"  # numpy's OpenBLAS starts its threads when it is imported
    compilations: Compilations = importlib.import_module("a3gnn.process.compilations").compilations
    for name in PRELOADED:
        importlib.import_module(name)
    for name in COMPILED:
        importlib.import_module(name).warm_up()
    if chosen is None:
        del os.environ[_NUMPY_THREADS]
    else:
        os.environ[_NUMPY_THREADS] = chosen
    return compilations


def _wait(pid: int, wake: int) -> int:
    """Returns the exit status of `pid`; if stdin is closed first, kills it and ends this process."""
    while True:
        ready, _, _ = select.select([wake, _STDIN], [], [])
        # Orders come one at a time, so stdin can be readable while a child runs only because it was closed.
        if _STDIN in ready:
            os.killpg(pid, signal.SIGKILL)
            os._exit(0)
        if wake in ready:
            os.read(wake, 64)
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)


def _child(order: dict[str, Any], compilations: Compilations) -> NoReturn:
    """Executes one order and ends the process."""
    status = 1
    try:
        die_with_parent()
        _become_leader(0)
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        gc.enable()
        _redirect(order["log"])
        faulthandler.register(WHERE_SIGNAL, file=2, all_threads=False)
        compilations.start_anew(Path(order["compiled"]) if order["compiled"] else None)
        module, name = order["entry"].split(":")
        result = getattr(importlib.import_module(module), name)(order["argument"])
        target = Path(order["result"])
        partial = target.with_suffix(".partial")
        partial.write_text(json.dumps(result), encoding="utf-8")
        partial.replace(target)
        status = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(status)


def _become_leader(pid: int) -> None:
    """Makes `pid` (0 is this process) lead a process group; parent and child both call it, so neither is too late."""
    with suppress(ProcessLookupError, PermissionError):  # it has ended, or has done so itself
        os.setpgid(pid, pid)


def _redirect(log: str) -> None:
    """Redirects stdin to nothing, and stdout and stderr to the file `log`; stdout belongs to the server's answers."""
    nothing = os.open(os.devnull, os.O_RDONLY)
    file = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    os.dup2(nothing, 0)
    os.dup2(file, 1)
    os.dup2(file, 2)


def _threads() -> int:
    """Returns the number of threads of this process, or 1 if the system does not list them."""
    tasks = Path("/proc/self/task")
    return len(list(tasks.iterdir())) if tasks.exists() else 1


def _say(message: dict[str, int]) -> None:
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
