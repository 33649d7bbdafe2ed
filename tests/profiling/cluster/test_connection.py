"""What is refused before there is a cluster, with the remedy."""

from __future__ import annotations

import sys

import pytest

from a3gnn.errors import MissingDependencyError, UsageError
from a3gnn.profiling.cluster.executor import RayExecutor
from a3gnn.profiling.executor_choice import ExecutorChoice


def test_ray_that_is_not_installed_is_named_with_its_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(MissingDependencyError, match=r'executor=.ray. needs .* pip install "a3gnn\[ray\]"'):
        RayExecutor()
    with pytest.raises(MissingDependencyError), ExecutorChoice("ray").opened(print):
        pass


def test_a_client_outside_of_the_cluster_is_refused() -> None:
    with pytest.raises(UsageError, match="ray_address must be HOST:PORT of the cluster's head, got ray://head:10001"):
        RayExecutor("ray://head:10001")
