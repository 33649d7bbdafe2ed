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


def test_what_a_command_imported_is_not_searched_for_garbage() -> None:
    gc.unfreeze()
    with importing(freeze=False):
        pass
    assert gc.get_freeze_count() == 0
    with importing():
        pass
    assert gc.get_freeze_count() > 0
