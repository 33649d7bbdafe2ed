"""Where compiled kernels are kept, and the errors where there is no place for them, or where nothing is compiled."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import a3gnn
from a3gnn.errors import A3GNNError, GraphError
from a3gnn.graphs.graph import Graph
from a3gnn.storage.atomic import write_text
from a3gnn.storage.root import expanded

CODE = """
import sys, numpy as np
from a3gnn.storage.compiled import njit
import numba
from kernel import doubled
assert doubled(np.ones(3))[0] == 2
print(numba.config.CACHE_DIR)
print(doubled.stats.cache_path)
print(len(doubled.stats.cache_hits))
"""
KERNEL = """
from a3gnn.storage.compiled import njit

@njit(cache=True)
def doubled(x):
    return x * 2
"""


class Installation:
    """A copy of the package that may be read-only: what kernels need of it."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.home = folder / "site", folder / "home"
        shutil.copytree(Path(a3gnn.__file__).parent / "storage", self.folder / "a3gnn" / "storage")
        for path in Path(a3gnn.__file__).parent.glob("*.py"):
            shutil.copy(path, self.folder / "a3gnn")
        (self.folder / "kernel.py").write_text(KERNEL)
        self.home.mkdir()
        self.writable = False

    def run(self, code: str = CODE, **variables: str) -> subprocess.CompletedProcess[str]:
        """Runs code whose `os.access` takes the installation for read-only, since root may write everywhere."""
        fixed = (
            "import os; real = os.access\n"
            f"os.access = lambda path, mode: {self.writable!r} if str(path).startswith({str(self.folder)!r}) "
            "else real(path, mode)\n"
        )
        kept = {name: os.environ[name] for name in ("PATH", "TMPDIR") if name in os.environ}
        return subprocess.run(
            [sys.executable, "-c", fixed + code],
            cwd=self.home,
            env={**kept, "PYTHONPATH": str(self.folder), "HOME": str(self.home), **variables},
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )


@pytest.fixture
def installation(tmp_path: Path) -> Installation:
    return Installation(tmp_path)


def test_beside_the_sources_where_these_can_be_written(installation: Installation) -> None:
    installation.writable = True
    where, place, _ = installation.run().stdout.splitlines()
    assert (where, place) == ("", str(installation.folder / "__pycache__"))


def test_below_the_cache_folder_where_not(installation: Installation, tmp_path: Path) -> None:
    for variables, root in (
        ({"A3GNN_CACHE": str(tmp_path / "own")}, tmp_path / "own"),
        ({"XDG_CACHE_HOME": str(tmp_path / "xdg")}, tmp_path / "xdg" / "a3gnn"),
        ({}, installation.home / ".cache" / "a3gnn"),
    ):
        for hits in ("0", "1"):  # the second process loads what the first has compiled
            ran = installation.run(**variables)
            where, place, loaded = ran.stdout.splitlines()
            assert where == str(root / "kernels")
            assert place.startswith(where)
            assert (loaded, ran.stderr) == (hits, "")


def test_what_the_user_has_chosen_stays(installation: Installation, tmp_path: Path) -> None:
    ran = installation.run(NUMBA_CACHE_DIR=str(tmp_path / "mine"), A3GNN_CACHE=str(tmp_path / "own"))
    assert ran.stdout.splitlines()[0] == str(tmp_path / "mine")
    assert not (tmp_path / "own").exists()


def test_in_a_temporary_folder_where_nothing_else_can_be_written(installation: Installation, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "temporary").mkdir()
    ran = installation.run(
        CODE + "import os, subprocess; print(os.path.isdir(numba.config.CACHE_DIR))\n"
        "print(subprocess.check_output([sys.executable, '-c', 'import os; print(os.environ[\"NUMBA_CACHE_DIR\"])'])"
        ".decode().strip())",
        A3GNN_CACHE=str(tmp_path / "file" / "cache"),
        TMPDIR=str(tmp_path / "temporary"),
    )
    where, place, _, there, of_children = ran.stdout.splitlines()
    assert Path(where).parent == tmp_path / "temporary"
    assert (there, of_children) == ("True", where)
    assert place.startswith(where)
    assert not Path(where).exists()  # it ended with the process
    assert "RuntimeWarning: neither the package nor the cache folder can be written" in ran.stderr
    assert "set A3GNN_CACHE to a folder that can be written" in ran.stderr


def test_numba_that_was_imported_before_is_told(installation: Installation, tmp_path: Path) -> None:
    ran = installation.run("import numba\n" + CODE, A3GNN_CACHE=str(tmp_path / "own"))
    assert ran.stdout.splitlines()[0] == str(tmp_path / "own" / "kernels")


def test_a_user_without_a_home_has_to_name_the_cache_folder(installation: Installation) -> None:
    code = (
        "import pathlib, a3gnn.storage.root as root\n"
        "def none(): raise RuntimeError('Could not determine home directory.')\n"
        "pathlib.Path.home = none\n"
        "try: print(root.cache_root())\n"
        "except root.A3GNNError as error: print(error)"
    )
    assert "has none, and HOME is not set; set A3GNN_CACHE to a folder that can be written" in (
        installation.run(code).stdout
    )
    assert installation.run(code, A3GNN_CACHE="/there").stdout == "/there\n"


def test_a_path_in_a_home_that_is_not_known_is_refused() -> None:
    with pytest.raises(A3GNNError, match=r"~nobody-of-that-name/g.npz is in a home folder that is not known .*in full"):
        expanded("~nobody-of-that-name/g.npz")


def test_what_can_not_be_written_in_the_cache_folder_names_its_variable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("A3GNN_CACHE", str(tmp_path / "file" / "cache"))
    remedy = "the cache folder can't be written; set A3GNN_CACHE to one that can"
    with pytest.raises(NotADirectoryError, match=remedy):
        write_text(tmp_path / "file" / "cache" / "hardware" / "a.json", "{}")
    with pytest.raises(GraphError, match=remedy):
        Graph.load("synthetic:nodes=300").on_disk()
    with pytest.raises(NotADirectoryError) as elsewhere:
        write_text(tmp_path / "file" / "other" / "a.json", "{}")
    assert "A3GNN_CACHE" not in str(elsewhere.value)


ROOT = Path(a3gnn.__file__).parents[1]


@pytest.mark.parametrize(
    "arguments",
    [
        ["train", "--model", "sage", "--dataset", "synthetic:nodes=300", "--out", "o"],
        ["tune", "--dataset", "synthetic:nodes=300", "--out", "o"],
        ["recommend", "--dataset", "synthetic:nodes=300"],
        ["profile", "--dataset", "synthetic:nodes=300", "--configs", "1"],
        ["predict", ".", "--dataset", "synthetic:nodes=300", "--out", "o.npy"],
        ["graph", "convert", "synthetic:nodes=300", "folder"],
        ["parts", "make", "synthetic:nodes=300", "folder", "--num-parts", "2"],
        ["explore", "--platform", "u250", "--dataset", "synthetic:nodes=300"],
    ],
    ids=lambda arguments: arguments[0],
)
def test_kernels_that_are_not_compiled_are_refused_by_every_command(arguments: list[str], tmp_path: Path) -> None:
    path = os.pathsep.join(str(ROOT / folder) for folder in ("", "surrogate", "envs"))
    ran = subprocess.run(
        [sys.executable, "-m", "a3gnn", *arguments],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": path, "NUMBA_DISABLE_JIT": "1"},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert ran.returncode == 2
    assert "NUMBA_DISABLE_JIT must be 0 or not set" in ran.stderr
    assert "Traceback" not in ran.stderr


def test_so_does_the_loader(tmp_path: Path) -> None:
    code = (
        "import a3gnn\ntry: a3gnn.Loader\n"
        "except a3gnn.errors.UsageError as error: print(error)\n"
        "print(a3gnn.Task().model)"
    )
    ran = subprocess.run(
        [sys.executable, "-c", "import a3gnn.errors\n" + code],
        env={**os.environ, "PYTHONPATH": str(ROOT), "NUMBA_DISABLE_JIT": "1"},
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    said, model = ran.stdout.splitlines()
    assert said.startswith("NUMBA_DISABLE_JIT must be 0 or not set")
    assert model == "sage"
