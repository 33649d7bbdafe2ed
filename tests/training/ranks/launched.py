"""Real ranks on the cores of a test, one thread each, a free port: of `torchrun`, or forks of one process."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import psutil

#: Seconds after which a launch has hung.
PATIENCE_S = 300
TORCHRUN = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node"]


def start(*arguments: str | Path, cwd: Path | None = None, processes: int = 2) -> subprocess.Popen[str]:
    """Starts `torchrun --nproc-per-node PROCESSES` with `arguments`, in a session of its own."""
    return _started([*TORCHRUN, str(processes), *map(str, arguments)], cwd)


def _started(command: list[str], cwd: Path | None = None) -> subprocess.Popen[str]:
    path = os.pathsep.join(os.path.abspath(entry) for entry in sys.path if entry)
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": path}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen(command, env=environment, cwd=cwd, start_new_session=True, **pipes)  # type: ignore[call-overload,no-any-return]


def ended(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    """Returns exit code, stdout and stderr of `process`, of whose descendants nothing is left."""
    try:
        out, err = process.communicate(timeout=PATIENCE_S)
    finally:
        end(process)
    return process.returncode, out, err


def end(process: subprocess.Popen[str]) -> None:
    """Kills what is left of a launch; torchrun itself ends its workers before it ends."""
    for member in _family(process):
        with suppress(psutil.NoSuchProcess):
            member.kill()
    with process:
        process.wait()


def run(*arguments: str | Path, processes: int = 2) -> str:
    """Returns the stdout of a launch that ends well."""
    return _well_ended(start(*arguments, processes=processes))


def _well_ended(process: subprocess.Popen[str]) -> str:
    code, out, err = ended(process)
    assert code == 0, err[-4000:]
    return out


def run_loop(script: str | Path, *arguments: str | Path, processes: int = 2) -> None:
    """Runs a script's ranks to a good end, as forks of one process (`forked`): each torchrun starts imports anew."""
    words = [Path(__file__).parent / "forked.py", processes, script, *arguments]
    _well_ended(_started([sys.executable, *map(str, words)]))


def says_why(err: str) -> bool:
    """Returns whether `err` says why ranks stopped one of which was killed.

    torchrun ends the others as soon as it sees that, which may be before they miss it: then they were interrupted.
    """
    return "lost another one" in err or "interrupted" in err


def kill_rank(process: subprocess.Popen[str], rank: int, when: Callable[[], bool]) -> None:
    """Kills the process of `rank`, by SIGKILL, as soon as `when` says."""
    wait(process, when)
    try:
        (victim,) = [member for member in _family(process) if member.environ().get("RANK") == str(rank)]
        victim.kill()
    except BaseException:
        end(process)
        raise


def wait(process: subprocess.Popen[str], when: Callable[[], bool]) -> None:
    """Returns as soon as `when` says, while `process` runs; ends what doesn't get there."""
    deadline = time.monotonic() + PATIENCE_S
    try:
        while not when():
            assert process.poll() is None, "it ended before it got there"
            assert time.monotonic() < deadline, "it never got there"
            time.sleep(0.02)
    except BaseException:
        end(process)
        raise


def _family(process: subprocess.Popen[str]) -> list[psutil.Process]:
    """Returns `process` and its descendants, which have sessions of their own."""
    try:
        first = psutil.Process(process.pid)
        return [first, *first.children(recursive=True)]
    except psutil.NoSuchProcess:
        return []
