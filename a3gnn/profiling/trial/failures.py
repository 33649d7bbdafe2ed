"""What kind of failure an exception is."""

from __future__ import annotations

import traceback

from a3gnn.errors import ConfigError, DeviceError, GraphError, MissingDependencyError
from a3gnn.measurement import Failure, FailureKind

#: What torch says when an allocation fails; on the CPU it raises a plain RuntimeError.
_OUT_OF_MEMORY = ("can't allocate memory", "not enough memory", "out of memory", "Cannot allocate memory")
_INVALID = (ConfigError, GraphError, DeviceError, MissingDependencyError)
#: Characters of a traceback that are kept: its end says what happened.
DETAIL_CHARACTERS = 2000


def failure_of(error: BaseException) -> Failure:
    """Returns `error` as a failure: out of memory, an impossible configuration, or a crash with its traceback."""
    text = f"{type(error).__name__}: {error}"
    if isinstance(error, MemoryError) or any(phrase in text for phrase in _OUT_OF_MEMORY):
        return Failure(FailureKind.OUT_OF_MEMORY, text[-DETAIL_CHARACTERS:])
    if isinstance(error, _INVALID):
        return Failure(FailureKind.INVALID, str(error))
    trace = "".join(traceback.format_exception(error))
    return Failure(FailureKind.CRASHED, trace[-DETAIL_CHARACTERS:])
