"""`compile_ahead`: kernels are compiled before anything is measured, and in a process that nothing is measured in.

Numba compiles a kernel at its first call on a machine, for tenths of a second to some seconds, and leaves 50 to 150 MB
behind in that process. From then on every process loads it from numba's cache.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from time import perf_counter

from numba.core.registry import cpu_target

from a3gnn.process.child import as_program
from a3gnn.process.machine_turn import machine_turn
from a3gnn.process.memory import described_status
from a3gnn.storage.compiled import KERNELS
from a3gnn.training.kernel_set import KernelSet
from a3gnn.units import format_duration
from a3gnn.version import __version__

#: Seconds after which compiling is given up. Guess: some five times what it takes on two slow cores.
_MOST_SECONDS = 300.0


def compile_ahead(wanted: KernelSet, notify: Callable[[str], None]) -> float:
    """Has numba compile `wanted` where this machine has not done so, and returns the seconds that this took.

    Where it was done the answer takes milliseconds: a note lies beside the kernels in numba's cache, so that whoever
    empties that empties both. Where it fails, that is noted too, and kernels are compiled at their first call.
    Trials of other processes on this machine wait meanwhile, and it waits for theirs, which counts in the seconds.

    Args:
        wanted: The kernels.
        notify: Takes each line for people.
    """
    if is_compiled(wanted):
        return 0.0
    called = perf_counter()
    with machine_turn(notify):
        begin = perf_counter()
        notify(f"compiling kernels, once on this machine, for {wanted.describe()}")
        failure = _compile(wanted)
    end = perf_counter()
    if failure:
        notify(f"kernels could not be compiled ahead, so each is compiled at its first call: {failure}")
    else:
        notify(f"kernels compiled in {format_duration(end - begin)}")
    return end - called


def is_compiled(wanted: KernelSet) -> bool:
    """Returns whether this machine has compiled `wanted`, or what holds it, from the present sources."""
    return _note(wanted).exists() or _note(wanted.of_a_tune).exists()


def _compile(wanted: KernelSet) -> str:
    """Returns why `wanted` could not be compiled, "" where it was; a try that began is noted, and not made again."""
    program = as_program("a3gnn.training.compile_kernels")
    try:
        ended = subprocess.run(
            program.command,
            input=json.dumps(wanted.to_dict()),
            env=program.environment | {"OMP_NUM_THREADS": "1"},  # hundreds of nodes gain nothing from threads
            capture_output=True,
            text=True,
            timeout=_MOST_SECONDS,
            start_new_session=True,  # an interrupt from the keyboard is for this process alone, which ends that one
            check=False,
        )
        _note(wanted).touch()
    except subprocess.TimeoutExpired as error:
        _note(wanted).touch()
        return str(error)
    except OSError as error:
        return str(error)
    if ended.returncode == 0:
        return ""
    lines = ended.stderr.strip().splitlines()
    return lines[-1] if lines else f"its process ended with {described_status(ended.returncode)}"


def _note(wanted: KernelSet) -> Path:
    """Returns the file that is there once `wanted` is compiled for this processor: it lies beside the kernels."""
    processor = cpu_target.target_context.codegen().magic_tuple()
    text = json.dumps([wanted.to_dict(), __version__, *processor])
    return KERNELS / f"{hashlib.blake2b(text.encode(), digest_size=16).hexdigest()}.compiled"
