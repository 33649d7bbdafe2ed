"""Fixtures of the profiling tests: measurements, and where they come from."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from a3gnn.profiling.executor import LocalExecutor


@pytest.fixture(scope="session")
def executor() -> Iterator[LocalExecutor]:
    """Real trials, one OpenMP thread each: teams of threads stall each other where the machine is busy with tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OMP_NUM_THREADS", "1")
        with LocalExecutor() as started:
            yield started
