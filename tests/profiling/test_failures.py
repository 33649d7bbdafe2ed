"""What kind of failure an exception is."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from a3gnn.errors import ConfigError, DeviceError, GraphError, MemoryLimitError
from a3gnn.measurement import FailureKind
from a3gnn.profiling.request import DETAIL_CHARACTERS, failure_of


def raised(function: object) -> Exception:
    assert callable(function)
    with pytest.raises(Exception) as caught:  # noqa: PT011
        function()
    return caught.value


@pytest.mark.parametrize("allocate", [lambda: torch.empty(1 << 50), lambda: np.empty(1 << 50)], ids=["torch", "numpy"])
def test_allocations_that_fail_are_out_of_memory(allocate: object) -> None:
    assert failure_of(raised(allocate)).kind is FailureKind.OUT_OF_MEMORY


def test_a_limit_is_out_of_memory() -> None:
    assert failure_of(MemoryLimitError("over")).kind is FailureKind.OUT_OF_MEMORY


@pytest.mark.parametrize("error", [ConfigError("no"), GraphError("no"), DeviceError("no")])
def test_refusals_are_invalid_and_say_why(error: Exception) -> None:
    failure = failure_of(error)
    assert (failure.kind, failure.detail) == (FailureKind.INVALID, "no")


def test_anything_else_is_a_crash_with_its_traceback() -> None:
    failure = failure_of(raised(lambda: {}["missing"]))
    assert failure.kind is FailureKind.CRASHED
    assert "test_failures.py" in failure.detail
    assert failure.detail.endswith("KeyError: 'missing'\n")
    assert len(failure_of(ValueError("x" * 10_000)).detail) == DETAIL_CHARACTERS
