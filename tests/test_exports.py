"""The names that `import a3gnn` gives."""

import importlib
import subprocess
import sys

import pytest

import a3gnn


@pytest.mark.parametrize("name", a3gnn.__all__)
def test_every_name_is_what_its_module_has(name: str) -> None:
    found = getattr(a3gnn, name)
    assert found is getattr(importlib.import_module(found.__module__), name)
    assert name in dir(a3gnn)


def test_an_unknown_name_is_refused_with_the_known_ones() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'Tuner'; it has Client, Graph, Loader, Task"):
        a3gnn.Tuner  # noqa: B018


def test_what_is_asked_for_is_all_that_is_imported() -> None:
    code = "import sys, a3gnn; a3gnn.Task; print(*sorted({n.split('.')[0] for n in sys.modules}))"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not {"torch", "numba", "xgboost", "optuna", "matplotlib", "pandas"} & set(run.stdout.split())
