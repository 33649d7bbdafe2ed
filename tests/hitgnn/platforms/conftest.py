from __future__ import annotations

import pytest

from a3gnn.hitgnn.platforms.metadata import Platform, read_platform
from a3gnn.hitgnn.platforms.workload import Workload, paper_workloads
from a3gnn.task import Task


@pytest.fixture(scope="session")
def u250() -> Platform:
    return read_platform("u250")


@pytest.fixture(scope="session", params=["gcn", "sage"])
def workloads(request: pytest.FixtureRequest) -> tuple[Workload, ...]:
    """The paper's four graphs under its model sizes."""
    return paper_workloads(Task(model=request.param, hidden_channels=128), 1024)


@pytest.fixture(scope="session")
def tiny() -> Workload:
    """A workload of round figures."""
    return Workload(
        "tiny", "gcn", vertices=(4000.0, 500.0, 100.0), edges=(8000.0, 1000.0), widths=(20, 10, 5), num_batches=7
    )
