"""The errors that people see: each states the rule, the values and the remedy, and carries its exit code."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from enum import IntEnum
from typing import Any, TypedDict


class ExitCode(IntEnum):
    """Exit codes of `a3gnn`; part of the interface."""

    DONE = 0
    FAILED = 1
    USAGE = 2
    INFEASIBLE = 3
    INTERRUPTED = 130


class A3GNNError(Exception):
    """Base of every error that a3gnn raises on purpose.

    Attributes:
        exit_code: The exit code of the command that it ends.
        code: The kind of error in a word, for programs; part of the interface.
    """

    exit_code: ExitCode = ExitCode.FAILED
    code: str = "failed"


class UsageError(A3GNNError, ValueError):
    """An invalid option or argument."""

    exit_code = ExitCode.USAGE
    code = "usage"


class ConfigError(UsageError):
    """An invalid configuration, task or search space."""


class GraphError(A3GNNError, ValueError):
    """A graph that can't be read or is not valid."""

    code = "graph"


class TypedSetError(GraphError):
    """A data set of several types or of events, where a graph of one type is needed; `data` is its data object."""

    def __init__(self, message: str, data: Any = None) -> None:
        super().__init__(message)
        self.data = data


class UnknownGraphError(UsageError, GraphError):
    """A file or a data set that does not exist, or data of no known form."""

    code = "graph"


class StoreError(A3GNNError):
    """A profile store that can't be opened, read or written."""

    code = "store"


class DeviceError(A3GNNError, RuntimeError):
    """A requested device that does not exist."""

    code = "device"


class ModelError(A3GNNError):
    """A user's model that can't be imported, built or called as required; the message gives the reason."""


class GraphServerError(A3GNNError):
    """A graph server that is no longer reachable, or that refuses; the message says which one and since when."""


class MissingDependencyError(A3GNNError, ImportError):
    """An optional package that is not installed; the message contains the command that installs it."""

    code = "missing-package"


class MemoryLimitError(A3GNNError, MemoryError):
    """A run that would exceed, or has exceeded, its memory limit."""

    code = "memory-limit"


class PeerLostError(A3GNNError):
    """Another process of a distributed training has ended or does not answer."""


class TrainerError(A3GNNError):
    """A trainer of this process has failed; the message says which one and at what."""


class TrainerStalledError(TrainerError):
    """A trainer does not return, so its thread still exists; the message says which one and at what."""


class InfeasibleError(A3GNNError):
    """No configuration keeps the limits.

    Attributes:
        smallest_limit_bytes: The smallest memory limit that a measured configuration would keep, if one is known.
    """

    exit_code = ExitCode.INFEASIBLE
    code = "infeasible"

    def __init__(self, message: str, smallest_limit_bytes: int | None = None) -> None:
        super().__init__(message)
        self.smallest_limit_bytes = smallest_limit_bytes


class Problem(TypedDict):
    """An error, as `--json` prints it on stderr.

    Attributes:
        code: The kind of error: usage, graph, store, device, missing-package, memory-limit, infeasible, interrupted, or
            failed for all others.
        message: The rule and the values.
        remedy: What helps; "" if the message has no such part.
    """

    code: str
    message: str
    remedy: str


def problem(code: str, text: str) -> Problem:
    """Returns the parts of an error's text `RULE, got VALUE; REMEDY`."""
    message, _, remedy = text.rpartition("; ")
    return {"code": code, "message": message or remedy, "remedy": remedy if message else ""}


def nearest(name: object, choices: Iterable[str]) -> str:
    """Returns the end of a message about an unknown name: the nearest of `choices`, or "" if none is near."""
    near = difflib.get_close_matches(str(name), sorted(choices), n=1)
    return f"; did you mean {near[0]!r}?" if near else ""


def unknown_name(kind: str, name: object, choices: Iterable[str]) -> UsageError:
    """Returns the error for a name that is not among its choices, with the nearest one."""
    known = sorted(choices)
    return UsageError(f"{kind} must be one of {', '.join(known)}, got {name!r}{nearest(name, known)}")
