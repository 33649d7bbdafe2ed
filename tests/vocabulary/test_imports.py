"""Imports without the garbage collector."""

import gc

import pytest

from a3gnn._imports import importing


def test_the_collector_runs_again_after_imports_as_before() -> None:
    with importing():
        with importing():
            assert not gc.isenabled()
        assert not gc.isenabled()
    assert gc.isenabled()
    with pytest.raises(ImportError), importing():
        import a3gnn.nothing  # noqa: F401
    assert gc.isenabled()
