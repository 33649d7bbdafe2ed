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
    with pytest.raises(
        AttributeError, match="has no attribute 'Tuner'; it has Client, Front, Graph, LinkNeighborLoader, Loader, Task"
    ):
        a3gnn.Tuner  # noqa: B018


@pytest.mark.parametrize(
    "names", [{"platform.system": "Windows"}, {"platform.system": "Darwin"}, {"sys.platform": "win32"}]
)
def test_another_system_is_refused_in_one_line_before_anything_is_imported(names: dict[str, str]) -> None:
    changed = "".join(
        f"{name} = lambda: {system!r}\n" if name == "platform.system" else f"{name} = {system!r}\n"
        for name, system in names.items()
    )
    code = f"""
import platform, sys
import a3gnn
sys.modules["fcntl"] = None
{changed}
before = set(sys.modules)
try:
    a3gnn.tune
except a3gnn._imports.A3GNNError as error:
    print(error, set(sys.modules) - before)
"""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "a3gnn runs on Linux only, this system is " in run.stdout
    assert run.stdout.endswith(" set()\n")


def test_what_is_asked_for_is_all_that_is_imported() -> None:
    code = "import sys, a3gnn; a3gnn.Task; print(*sorted({n.split('.')[0] for n in sys.modules}))"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not {"torch", "numba", "xgboost", "optuna", "matplotlib", "pandas"} & set(run.stdout.split())
